/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <string.h>

#include "gpumap.h"
#include "lib/model/checkpoint/checkpoint.h"

/* The types by the names that the formats use.  Some of safetensors' are
 * smaller than a byte; GGUF's types without bits come in blocks.  Those of
 * GGUF have its number, and the elements and bytes of a block. */
static const struct {
	const char *name;
	uint32_t bits;
	uint32_t dtype; /* enum gpumap_dtype */
	uint16_t gguf;
	uint16_t block; /* 0: it is none of GGUF's */
	uint16_t bytes;
} types[] = {
	{ "BF16", 16, GPUMAP_DTYPE_BF16, 30, 1, 2 },
	{ "F16", 16, GPUMAP_DTYPE_F16, 1, 1, 2 },
	{ "F32", 32, GPUMAP_DTYPE_F32, 0, 1, 4 },
	{ "F64", 64, GPUMAP_DTYPE_F64, 28, 1, 8 },
	{ "U8", 8, GPUMAP_DTYPE_U8, 0, 0, 0 },
	{ "U16", 16, GPUMAP_DTYPE_U16, 0, 0, 0 },
	{ "U32", 32, GPUMAP_DTYPE_U32, 0, 0, 0 },
	{ "U64", 64, GPUMAP_DTYPE_U64, 0, 0, 0 },
	{ "I32", 32, GPUMAP_DTYPE_I32, 26, 1, 4 },
	{ "I64", 64, GPUMAP_DTYPE_I64, 27, 1, 8 },
	{ "BOOL", 8, GPUMAP_DTYPE_BOOL, 0, 0, 0 },
	{ "I8", 8, GPUMAP_DTYPE_I8, 24, 1, 1 },
	{ "I16", 16, GPUMAP_DTYPE_I16, 25, 1, 2 },
	{ "C64", 64, GPUMAP_DTYPE_U8, 0, 0, 0 },
	{ "F8_E4M3", 8, GPUMAP_DTYPE_F8_E4M3, 0, 0, 0 },
	{ "F8_E5M2", 8, GPUMAP_DTYPE_F8_E5M2, 0, 0, 0 },
	{ "F8_E8M0", 8, GPUMAP_DTYPE_U8, 0, 0, 0 },
	{ "F8_E4M3FNUZ", 8, GPUMAP_DTYPE_U8, 0, 0, 0 },
	{ "F8_E5M2FNUZ", 8, GPUMAP_DTYPE_U8, 0, 0, 0 },
	{ "F6_E2M3", 6, GPUMAP_DTYPE_U8, 0, 0, 0 },
	{ "F6_E3M2", 6, GPUMAP_DTYPE_U8, 0, 0, 0 },
	{ "F4", 4, GPUMAP_DTYPE_U8, 0, 0, 0 },
	{ "Q4_0", 0, GPUMAP_DTYPE_U8, 2, 32, 18 },
	{ "Q4_1", 0, GPUMAP_DTYPE_U8, 3, 32, 20 },
	{ "Q5_0", 0, GPUMAP_DTYPE_U8, 6, 32, 22 },
	{ "Q5_1", 0, GPUMAP_DTYPE_U8, 7, 32, 24 },
	{ "Q8_0", 0, GPUMAP_DTYPE_U8, 8, 32, 34 },
	{ "Q8_1", 0, GPUMAP_DTYPE_U8, 9, 32, 36 },
	{ "Q2_K", 0, GPUMAP_DTYPE_U8, 10, 256, 84 },
	{ "Q3_K", 0, GPUMAP_DTYPE_U8, 11, 256, 110 },
	{ "Q4_K", 0, GPUMAP_DTYPE_U8, 12, 256, 144 },
	{ "Q5_K", 0, GPUMAP_DTYPE_U8, 13, 256, 176 },
	{ "Q6_K", 0, GPUMAP_DTYPE_U8, 14, 256, 210 },
	{ "Q8_K", 0, GPUMAP_DTYPE_U8, 15, 256, 292 },
	{ "IQ2_XXS", 0, GPUMAP_DTYPE_U8, 16, 256, 66 },
	{ "IQ2_XS", 0, GPUMAP_DTYPE_U8, 17, 256, 74 },
	{ "IQ3_XXS", 0, GPUMAP_DTYPE_U8, 18, 256, 98 },
	{ "IQ1_S", 0, GPUMAP_DTYPE_U8, 19, 256, 50 },
	{ "IQ4_NL", 0, GPUMAP_DTYPE_U8, 20, 32, 18 },
	{ "IQ3_S", 0, GPUMAP_DTYPE_U8, 21, 256, 110 },
	{ "IQ2_S", 0, GPUMAP_DTYPE_U8, 22, 256, 82 },
	{ "IQ4_XS", 0, GPUMAP_DTYPE_U8, 23, 256, 136 },
	{ "IQ1_M", 0, GPUMAP_DTYPE_U8, 29, 256, 56 },
	{ "TQ1_0", 0, GPUMAP_DTYPE_U8, 34, 256, 54 },
	{ "TQ2_0", 0, GPUMAP_DTYPE_U8, 35, 256, 66 },
	{ "MXFP4", 0, GPUMAP_DTYPE_U8, 39, 32, 17 },
	{ "NVFP4", 0, GPUMAP_DTYPE_U8, 40, 64, 36 },
	{ "Q1_0", 0, GPUMAP_DTYPE_U8, 41, 128, 18 },
	{ GM_WEIGHTS_OTHER, 0, GPUMAP_DTYPE_U8, 0, 0, 0 },
};

#define N_TYPES (sizeof(types) / sizeof(types[0]))

_Static_assert(N_TYPES == GM_WEIGHTS_TYPES, "callers count by it");

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
	for (uint32_t i = 0; i < N_TYPES; i++) {
		if (types[i].block == 0 || types[i].gguf != number)
			continue;
		*ret_block = (struct gm_weights_block){ i, types[i].block,
							types[i].bytes };
		return true;
	}
	return false;
}
