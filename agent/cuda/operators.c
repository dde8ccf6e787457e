/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/cuda/operators.h"

#include <errno.h>
#include <stdio.h>

#include "shm/ops.h"

/* Made from operators.ptx when building: a literal for each line. */
const char gm_operators_ptx[] =
#include "agent/cuda/operators_ptx.h"
	;
const size_t gm_operators_ptx_bytes = sizeof(gm_operators_ptx);

#define THREADS    256u
#define WARP       32u
#define LINE_BYTES 16u /* what a thread of FILL writes at once */
/* Resident on a multiprocessor of any card: 2048 threads, 1024 on some. */
#define BLOCKS_PER_UNIT 8u

static const uint8_t ops[GM_OPERATORS] = {
	[GM_OPERATOR_FILL] = GPUMAP_OP_FILL,
	[GM_OPERATOR_SCALE] = GPUMAP_OP_SCALE,
	[GM_OPERATOR_AXPY] = GPUMAP_OP_AXPY,
	[GM_OPERATOR_CAST] = GPUMAP_OP_CAST,
	[GM_OPERATOR_MASK_ADD] = GPUMAP_OP_MASK_ADD,
	[GM_OPERATOR_MASK_BOOL] = GPUMAP_OP_MASK_BOOL,
	[GM_OPERATOR_SUM] = GPUMAP_OP_SUM,
	[GM_OPERATOR_MIN] = GPUMAP_OP_MIN,
	[GM_OPERATOR_MAX] = GPUMAP_OP_MAX,
};

uint32_t gm_operators_of(uint32_t op)
{
	uint32_t i = 0;

	while (i < GM_OPERATORS && ops[i] != op)
		i++;
	return i;
}

int gm_operators_name(uint32_t op, uint32_t dtype, uint32_t to, char *ret_name)
{
	int ret = op < GM_OPERATORS ? gm_ops_takes(ops[op], dtype, to)
				    : -EOPNOTSUPP;

	if (ret != 0)
		return ret;
	snprintf(ret_name, GM_OPERATOR_NAME_BYTES, "gm_%s%s%s%s%s",
		 gm_ops_name(ops[op]), op == GM_OPERATOR_FILL ? "" : "_",
		 op == GM_OPERATOR_FILL ? "" : gm_ops_dtype_name(dtype),
		 op == GM_OPERATOR_CAST ? "_" : "",
		 op == GM_OPERATOR_CAST ? gm_ops_dtype_name(to) : "");
	return 0;
}

uint64_t gm_operators_chunks(uint64_t n)
{
	return n / GM_OPERATOR_CHUNK + (n % GM_OPERATOR_CHUNK != 0);
}

struct gm_worker_exec gm_operators_launch(uint32_t op, uint64_t n,
					  uint32_t units)
{
	uint64_t threads = n, blocks, most = (uint64_t)units * BLOCKS_PER_UNIT;

	if (op == GM_OPERATOR_FILL)
		threads = n / LINE_BYTES + 1;
	else if (op >= GM_OPERATOR_SUM)
		threads = gm_operators_chunks(n) * WARP;
	blocks = threads / THREADS + (threads % THREADS != 0);
	if (blocks > most)
		blocks = most;
	return (struct gm_worker_exec){
		.blocks = blocks ? (uint32_t)blocks : 1,
		.threads = THREADS,
	};
}
