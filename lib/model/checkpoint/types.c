/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <string.h>

#include "gpumap.h"
#include "lib/model/checkpoint/checkpoint.h"

/* The types by the names that the formats use.  Some of safetensors' are
 * smaller than a byte; GGUF's types without bits come in blocks. */
static const struct {
	const char *name;
	uint32_t bits;
	uint32_t dtype; /* enum gpumap_dtype */
} types[] = {
	{ "BF16", 16, GPUMAP_DTYPE_BF16 },
	{ "F16", 16, GPUMAP_DTYPE_F16 },
	{ "F32", 32, GPUMAP_DTYPE_F32 },
	{ "F64", 64, GPUMAP_DTYPE_F64 },
	{ "U8", 8, GPUMAP_DTYPE_U8 },
	{ "U16", 16, GPUMAP_DTYPE_U16 },
	{ "U32", 32, GPUMAP_DTYPE_U32 },
	{ "U64", 64, GPUMAP_DTYPE_U64 },
	{ "I32", 32, GPUMAP_DTYPE_I32 },
	{ "I64", 64, GPUMAP_DTYPE_I64 },
	{ "BOOL", 8, GPUMAP_DTYPE_BOOL },
	{ "I8", 8, GPUMAP_DTYPE_I8 },
	{ "I16", 16, GPUMAP_DTYPE_I16 },
	{ "C64", 64, GPUMAP_DTYPE_U8 },
	{ "F8_E4M3", 8, GPUMAP_DTYPE_F8_E4M3 },
	{ "F8_E5M2", 8, GPUMAP_DTYPE_F8_E5M2 },
	{ "F8_E8M0", 8, GPUMAP_DTYPE_U8 },
	{ "F8_E4M3FNUZ", 8, GPUMAP_DTYPE_U8 },
	{ "F8_E5M2FNUZ", 8, GPUMAP_DTYPE_U8 },
	{ "F6_E2M3", 6, GPUMAP_DTYPE_U8 },
	{ "F6_E3M2", 6, GPUMAP_DTYPE_U8 },
	{ "F4", 4, GPUMAP_DTYPE_U8 },
	{ "Q4_0", 0, GPUMAP_DTYPE_U8 },
	{ "Q4_1", 0, GPUMAP_DTYPE_U8 },
	{ "Q5_0", 0, GPUMAP_DTYPE_U8 },
	{ "Q5_1", 0, GPUMAP_DTYPE_U8 },
	{ "Q8_0", 0, GPUMAP_DTYPE_U8 },
	{ "Q8_1", 0, GPUMAP_DTYPE_U8 },
	{ "Q2_K", 0, GPUMAP_DTYPE_U8 },
	{ "Q3_K", 0, GPUMAP_DTYPE_U8 },
	{ "Q4_K", 0, GPUMAP_DTYPE_U8 },
	{ "Q5_K", 0, GPUMAP_DTYPE_U8 },
	{ "Q6_K", 0, GPUMAP_DTYPE_U8 },
	{ "Q8_K", 0, GPUMAP_DTYPE_U8 },
	{ "IQ2_XXS", 0, GPUMAP_DTYPE_U8 },
	{ "IQ2_XS", 0, GPUMAP_DTYPE_U8 },
	{ "IQ3_XXS", 0, GPUMAP_DTYPE_U8 },
	{ "IQ1_S", 0, GPUMAP_DTYPE_U8 },
	{ "IQ4_NL", 0, GPUMAP_DTYPE_U8 },
	{ "IQ3_S", 0, GPUMAP_DTYPE_U8 },
	{ "IQ2_S", 0, GPUMAP_DTYPE_U8 },
	{ "IQ4_XS", 0, GPUMAP_DTYPE_U8 },
	{ "IQ1_M", 0, GPUMAP_DTYPE_U8 },
	{ "TQ1_0", 0, GPUMAP_DTYPE_U8 },
	{ "TQ2_0", 0, GPUMAP_DTYPE_U8 },
	{ "MXFP4", 0, GPUMAP_DTYPE_U8 },
	{ "NVFP4", 0, GPUMAP_DTYPE_U8 },
	{ "Q1_0", 0, GPUMAP_DTYPE_U8 },
	{ GM_WEIGHTS_OTHER, 0, GPUMAP_DTYPE_U8 },
};

#define N_TYPES (sizeof(types) / sizeof(types[0]))

_Static_assert(N_TYPES == GM_WEIGHTS_TYPES, "callers count by it");

/* GGUF's types, by its numbers. */
static const struct {
	const char *name;
	uint16_t block; /* elements */
	uint16_t bytes; /* of a block */
} gguf[] = {
	[0] = { "F32", 1, 4 },         [1] = { "F16", 1, 2 },
	[2] = { "Q4_0", 32, 18 },      [3] = { "Q4_1", 32, 20 },
	[6] = { "Q5_0", 32, 22 },      [7] = { "Q5_1", 32, 24 },
	[8] = { "Q8_0", 32, 34 },      [9] = { "Q8_1", 32, 36 },
	[10] = { "Q2_K", 256, 84 },    [11] = { "Q3_K", 256, 110 },
	[12] = { "Q4_K", 256, 144 },   [13] = { "Q5_K", 256, 176 },
	[14] = { "Q6_K", 256, 210 },   [15] = { "Q8_K", 256, 292 },
	[16] = { "IQ2_XXS", 256, 66 }, [17] = { "IQ2_XS", 256, 74 },
	[18] = { "IQ3_XXS", 256, 98 }, [19] = { "IQ1_S", 256, 50 },
	[20] = { "IQ4_NL", 32, 18 },   [21] = { "IQ3_S", 256, 110 },
	[22] = { "IQ2_S", 256, 82 },   [23] = { "IQ4_XS", 256, 136 },
	[24] = { "I8", 1, 1 },         [25] = { "I16", 1, 2 },
	[26] = { "I32", 1, 4 },        [27] = { "I64", 1, 8 },
	[28] = { "F64", 1, 8 },        [29] = { "IQ1_M", 256, 56 },
	[30] = { "BF16", 1, 2 },       [34] = { "TQ1_0", 256, 54 },
	[35] = { "TQ2_0", 256, 66 },   [39] = { "MXFP4", 32, 17 },
	[40] = { "NVFP4", 64, 36 },    [41] = { "Q1_0", 128, 18 },
};

const char *gm_weights_type(uint32_t type)
{
	return types[type].name;
}

bool gm_weights_type_find(const char *name, uint32_t *ret_type)
{
	for (uint32_t i = 0; i < N_TYPES; i++) {
		if (strcmp(types[i].name, name) != 0)
			continue;
		*ret_type = i;
		return true;
	}
	return false;
}

uint32_t gm_weights_bits(uint32_t type)
{
	return types[type].bits;
}

uint32_t gm_weights_dtype(uint32_t type)
{
	return types[type].dtype;
}

bool gm_weights_gguf_type(uint32_t number, struct gm_weights_block *ret_block)
{
	if (number >= sizeof(gguf) / sizeof(gguf[0]) ||
	    gguf[number].name == NULL ||
	    !gm_weights_type_find(gguf[number].name, &ret_block->type))
		return false;
	ret_block->elements = gguf[number].block;
	ret_block->bytes = gguf[number].bytes;
	return true;
}
