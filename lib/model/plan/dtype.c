/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/plan/dtype.h"

#include <errno.h>
#include <strings.h>

/* By enum gpumap_dtype; those without a name are none of a model's. */
static const struct {
	const char *name;
	const char *torch; /* the same in a config.json, or NULL */
} dtypes[] = {
	[GPUMAP_DTYPE_BF16] = { "bf16", "bfloat16" },
	[GPUMAP_DTYPE_F16] = { "f16", "float16" },
	[GPUMAP_DTYPE_F32] = { "f32", "float32" },
	[GPUMAP_DTYPE_F64] = { "f64", "float64" },
	[GPUMAP_DTYPE_F8_E4M3] = { "f8e4m3", "float8_e4m3fn" },
	[GPUMAP_DTYPE_U8] = { "u8", "uint8" },
	[GPUMAP_DTYPE_I16] = { "i16", "int16" },
	[GPUMAP_DTYPE_I32] = { "i32", "int32" },
	[GPUMAP_DTYPE_U32] = { "u32", NULL },
	[GPUMAP_DTYPE_I64] = { "i64", "int64" },
};

#define N_DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

bool gm_dtype_computes(uint32_t dtype)
{
	return dtype == GPUMAP_DTYPE_BF16 || dtype == GPUMAP_DTYPE_F16 ||
	       dtype == GPUMAP_DTYPE_F32 || dtype == GPUMAP_DTYPE_F64;
}

int gm_dtype_parse(const char *name, uint32_t *ret_dtype,
		   struct gm_plan_error *ret_err)
{
	for (uint32_t i = 0; i < N_DTYPES; i++) {
		if ((dtypes[i].name && strcasecmp(name, dtypes[i].name) == 0) ||
		    (dtypes[i].torch &&
		     strcasecmp(name, dtypes[i].torch) == 0)) {
			*ret_dtype = i;
			return 0;
		}
	}
	return gm_error_set(ret_err, -EINVAL, "use bf16, f16 or f32",
			    "Model DType `%.64s` is not supported.", name);
}

uint32_t gm_dtype_of_row(bool is_cuda, uint32_t cc_major, uint32_t cc_minor)
{
	if (!is_cuda || cc_major >= 8)
		return GPUMAP_DTYPE_BF16;
	return cc_major > 5 || (cc_major == 5 && cc_minor >= 3)
		       ? GPUMAP_DTYPE_F16
		       : GPUMAP_DTYPE_F32;
}

uint32_t gm_dtype_weaker(uint32_t a, uint32_t b)
{
	return a == GPUMAP_DTYPE_F32 || b == GPUMAP_DTYPE_BF16 ? a : b;
}
