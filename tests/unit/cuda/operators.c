/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* operators: every kernel has a name and every name a kernel, and launches are
 * neither empty nor larger than needed. */

#include <errno.h>

#include "agent/cuda/operators.h"
#include "gpumap.h"
#include "shm/ops.h"
#include "tests/support/tap.h"

#define N_DTYPES (GPUMAP_DTYPE_U64 + 1)

static int times(const char *word)
{
	int n = 0;

	for (const char *at = gm_operators_ptx; (at = strstr(at, word)); at++)
		n++;
	return n;
}

static bool is_kernel(const char *name)
{
	char entry[64];

	snprintf(entry, sizeof(entry), ".visible .entry %s(\n", name);
	return times(entry) == 1;
}

static void the_text_is_whole(void)
{
	static const char end[] = "end:\n\tret;\n}\n\n";

	EQ(gm_operators_ptx_bytes, strlen(gm_operators_ptx) + 1);
	OK(strstr(gm_operators_ptx, "\n.version 6.4\n.target sm_50\n") != NULL);
	STR(gm_operators_ptx + gm_operators_ptx_bytes - sizeof(end), end);
}

static void names_and_kernels_are_one_list(void)
{
	char name[GM_OPERATOR_NAME_BYTES], last[GM_OPERATOR_NAME_BYTES] = "";
	int found = 0;

	for (uint32_t op = 0; op < GM_OPERATORS; op++) {
		for (uint32_t d = 0; d < N_DTYPES * N_DTYPES; d++) {
			if (gm_operators_name(op, d % N_DTYPES, d / N_DTYPES,
					      name) < 0 ||
			    strcmp(name, last) == 0)
				continue;
			if (op != GM_OPERATOR_CAST && d >= N_DTYPES)
				continue;
			strcpy(last, name);
			if (!is_kernel(name))
				NOTE("no kernel %s", name);
			else
				found++;
		}
	}
	EQ(found, 53);
	EQ(times(".entry "), found);
}

static void what_there_is_not(void)
{
	char name[GM_OPERATOR_NAME_BYTES] = "before";

	EQ(gm_operators_name(GM_OPERATORS, GPUMAP_DTYPE_F32, 0, name),
	   -EOPNOTSUPP);
	EQ(gm_operators_name(GM_OPERATOR_SCALE, GPUMAP_DTYPE_I32, 0, name),
	   -EINVAL);
	EQ(gm_operators_name(GM_OPERATOR_CAST, GPUMAP_DTYPE_F32,
			     GPUMAP_DTYPE_F32, name),
	   -EINVAL);
	EQ(gm_operators_name(GM_OPERATOR_CAST, GPUMAP_DTYPE_F32,
			     GPUMAP_DTYPE_F64, name),
	   -EINVAL);
	EQ(gm_operators_name(GM_OPERATOR_SUM, N_DTYPES, 0, name), -EINVAL);
	EQ(gm_operators_name(GM_OPERATOR_SUM, UINT32_MAX, 0, name), -EINVAL);
	STR(name, "before");
}

static void results_of_reductions(void)
{
	EQ(gm_operators_of(GPUMAP_OP_FILL), GM_OPERATOR_FILL);
	EQ(gm_operators_of(GPUMAP_OP_MAX), GM_OPERATOR_MAX);
	EQ(gm_operators_of(GPUMAP_OP_COPY), GM_OPERATORS);
	EQ(gm_ops_result(GPUMAP_OP_SUM, GPUMAP_DTYPE_U8, 0), GPUMAP_DTYPE_U64);
	EQ(gm_ops_result(GPUMAP_OP_SUM, GPUMAP_DTYPE_I32, 0), GPUMAP_DTYPE_I64);
	EQ(gm_ops_result(GPUMAP_OP_SUM, GPUMAP_DTYPE_BF16, 0),
	   GPUMAP_DTYPE_F32);
	EQ(gm_ops_result(GPUMAP_OP_SUM, GPUMAP_DTYPE_F64, 0), GPUMAP_DTYPE_F64);
	EQ(gm_ops_result(GPUMAP_OP_MAX, GPUMAP_DTYPE_BF16, 0),
	   GPUMAP_DTYPE_BF16);
	/* so that a reduction can go on over its own results */
	for (uint32_t d = 0; d < N_DTYPES; d++) {
		uint32_t sum = gm_ops_result(GPUMAP_OP_SUM, d, 0);

		EQ(gm_ops_result(GPUMAP_OP_SUM, sum, 0), sum);
	}
	EQ(gm_operators_chunks(0), 0);
	EQ(gm_operators_chunks(1), 1);
	EQ(gm_operators_chunks(1024), 1);
	EQ(gm_operators_chunks(1025), 2);
	EQ(gm_operators_chunks(UINT64_MAX), UINT64_C(1) << 54);
}

static void launches(void)
{
	static const struct {
		uint32_t op;
		uint64_t n;
		uint32_t units, blocks;
	} table[] = {
		{ GM_OPERATOR_SCALE, 0, 1, 1 },
		{ GM_OPERATOR_SCALE, 1, 132, 1 },
		{ GM_OPERATOR_SCALE, 256, 132, 1 },
		{ GM_OPERATOR_SCALE, 257, 132, 2 },
		{ GM_OPERATOR_SCALE, UINT64_MAX, 132, 1056 },
		{ GM_OPERATOR_SCALE, UINT64_MAX, 1, 8 },
		{ GM_OPERATOR_FILL, 4000, 132, 1 },
		{ GM_OPERATOR_FILL, 4096, 132, 2 },
		{ GM_OPERATOR_FILL, UINT64_MAX, 132, 1056 },
		{ GM_OPERATOR_SUM, 8 * 1024, 132, 1 },
		{ GM_OPERATOR_SUM, 8 * 1024 + 1, 132, 2 },
		{ GM_OPERATOR_MAX, 1, 132, 1 },
		{ GM_OPERATOR_MAX, UINT64_MAX, 132, 1056 },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct gm_worker_exec l = gm_operators_launch(
			table[i].op, table[i].n, table[i].units);

		if (!EQ(l.blocks, table[i].blocks))
			NOTE("launch %zu", i);
		EQ(l.threads % 32, 0);
	}
}

TAP_CASE()
{
	the_text_is_whole();
	names_and_kernels_are_one_list();
	what_there_is_not();
	results_of_reductions();
	launches();
	return tap_done();
}
