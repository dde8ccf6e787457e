/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/plan/isq.h"

#include <errno.h>
#include <stddef.h>
#include <strings.h>

/* A block of weights and the bytes it takes; no bytes: the factor is fixed. */
static const struct {
	const char *name;
	uint16_t block;
	uint16_t bytes;
	uint16_t factor;
} types[GM_ISQ_N] = {
	[GM_ISQ_Q4_0] = { "Q4_0", 32, 18, 0 },
	[GM_ISQ_Q4_1] = { "Q4_1", 32, 20, 0 },
	[GM_ISQ_Q5_0] = { "Q5_0", 32, 22, 0 },
	[GM_ISQ_Q5_1] = { "Q5_1", 32, 24, 0 },
	[GM_ISQ_Q8_0] = { "Q8_0", 32, 34, 0 },
	[GM_ISQ_Q8_1] = { "Q8_1", 32, 36, 0 },
	[GM_ISQ_Q2K] = { "Q2K", 256, 84, 0 },
	[GM_ISQ_Q3K] = { "Q3K", 256, 110, 0 },
	[GM_ISQ_Q4K] = { "Q4K", 256, 144, 0 },
	[GM_ISQ_Q5K] = { "Q5K", 256, 176, 0 },
	[GM_ISQ_Q6K] = { "Q6K", 256, 210, 0 },
	[GM_ISQ_Q8K] = { "Q8K", 256, 292, 0 },
	[GM_ISQ_HQQ8] = { "HQQ8", 0, 0, 2 },
	[GM_ISQ_HQQ4] = { "HQQ4", 0, 0, 4 },
	[GM_ISQ_FP8] = { "FP8", 0, 0, 2 },
	[GM_ISQ_AFQ8] = { "AFQ8", 32, 34, 0 },
	[GM_ISQ_AFQ6] = { "AFQ6", 256, 210, 0 },
	[GM_ISQ_AFQ4] = { "AFQ4", 32, 18, 0 },
	[GM_ISQ_AFQ3] = { "AFQ3", 256, 110, 0 },
	[GM_ISQ_AFQ2] = { "AFQ2", 256, 84, 0 },
	[GM_ISQ_F8Q8] = { "F8Q8", 32, 33, 0 },
	[GM_ISQ_MXFP4] = { "MXFP4", 0, 0, 3 },
};

static const struct {
	char digit;
	uint8_t isq;
} short_forms[] = {
	{ '2', GM_ISQ_Q2K }, { '3', GM_ISQ_Q3K }, { '4', GM_ISQ_Q4K },
	{ '5', GM_ISQ_Q5K }, { '6', GM_ISQ_Q6K }, { '8', GM_ISQ_Q8_0 },
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

int gm_isq_parse(const char *name, enum gm_isq *ret_isq,
		 struct gm_plan_error *ret_err)
{
	for (size_t i = 0; i < COUNT(types); i++) {
		if (strcasecmp(name, types[i].name) == 0) {
			*ret_isq = (enum gm_isq)i;
			return 0;
		}
	}
	for (size_t i = 0; i < COUNT(short_forms); i++) {
		if (name[0] == short_forms[i].digit && name[1] == '\0') {
			*ret_isq = (enum gm_isq)short_forms[i].isq;
			return 0;
		}
	}
	return gm_error_set(
		ret_err, -EINVAL, NULL,
		"ISQ type %.128s unknown, choose one of `2`, `3`, `4`, `5`, "
		"`6`, `8`, `Q4_0`, `Q4_1`, `Q5_0`, `Q5_1`, `Q8_0`, `Q8_1`, "
		"`Q2K`, `Q3K`, `Q4K`, `Q5K`, `Q6K`, `Q8K`, `HQQ8`, `HQQ4`, "
		"`FP8`, `AFQ8`, `AFQ6`, `AFQ4`, `AFQ3`, `AFQ2`, `F8Q8`, "
		"`MXFP4`.",
		name);
}

bool gm_isq_runs_on_cuda(enum gm_isq isq)
{
	return isq != GM_ISQ_Q8_1 && isq != GM_ISQ_Q8K;
}

int gm_isq_not_on_cuda(struct gm_plan_error *ret_err)
{
	return gm_error_set(
		ret_err, -EINVAL, "name another type, or the cpu",
		"ISQ type on CUDA must be one of `Q4_0`, `Q4_1`, `Q5_0`, "
		"`Q5_1`, `Q8_0`, `Q2K`, `Q3K`, `Q4K`, `Q5K`, `Q6K`, `HQQ8`, "
		"`HQQ4`, `FP8`, `AFQ8`, `AFQ6`, `AFQ4`, `AFQ3`, `AFQ2`, "
		"`F8Q8`, `MXFP4`");
}

const char *gm_isq_name(enum gm_isq isq)
{
	return types[isq].name;
}

uint32_t gm_isq_pack_factor(enum gm_isq isq, uint32_t dtype_bytes)
{
	if (types[isq].bytes == 0)
		return types[isq].factor;
	return (dtype_bytes * types[isq].block + types[isq].bytes - 1) /
	       types[isq].bytes;
}
