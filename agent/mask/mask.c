/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/mask/mask.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "gpumap.h"
#include "lib/model/plan/checked.h"

#define SMALLER "ask for fewer queries or a shorter cache"

static const char *const forms[] = {
	[GM_MASK_CAUSAL] = "causal",
	[GM_MASK_SLIDING] = "sliding",
	[GM_MASK_CHUNKED] = "chunked",
	[GM_MASK_BIDIRECTIONAL_SLIDING] = "bidirectional_sliding",
};

_Static_assert(sizeof(forms) / sizeof(forms[0]) == GM_MASK_FORMS,
	       "a name for each");

static const struct {
	const char *name;
	uint32_t dtype; /* enum gpumap_dtype */
} dtypes[] = {
	{ "u8", GPUMAP_DTYPE_U8 },   { "bool", GPUMAP_DTYPE_U8 },
	{ "f16", GPUMAP_DTYPE_F16 }, { "bf16", GPUMAP_DTYPE_BF16 },
	{ "f32", GPUMAP_DTYPE_F32 },
};

#define N_DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

const char *gm_mask_form_name(enum gm_mask_form form)
{
	return (size_t)form < GM_MASK_FORMS ? forms[form] : NULL;
}

bool gm_mask_has_window(enum gm_mask_form form)
{
	return form == GM_MASK_SLIDING || form == GM_MASK_BIDIRECTIONAL_SLIDING;
}

bool gm_mask_has_chunk(enum gm_mask_form form)
{
	return form == GM_MASK_CHUNKED;
}

int gm_mask_dtype_parse(const char *name, uint32_t *ret_dtype,
			struct gm_plan_error *ret_err)
{
	for (size_t i = 0; i < N_DTYPES; i++) {
		if (strcasecmp(name, dtypes[i].name) == 0) {
			*ret_dtype = dtypes[i].dtype;
			return 0;
		}
	}
	return gm_error_set(ret_err, -EINVAL, "use one of those",
			    "mask dtype \"%.64s\" is not u8, bool, f16, bf16 "
			    "or f32",
			    name);
}

uint32_t gm_mask_dtype_bytes(uint32_t dtype)
{
	switch (dtype) {
	case GPUMAP_DTYPE_U8:
		return 1;
	case GPUMAP_DTYPE_F16:
	case GPUMAP_DTYPE_BF16:
		return 2;
	case GPUMAP_DTYPE_F32:
		return 4;
	default:
		return 0;
	}
}

static int check_kind(const struct gm_mask_spec *spec, uint32_t dtype,
		      struct gm_plan_error *ret_err)
{
	if (!gm_mask_form_name(spec->form))
		return gm_error_set(ret_err, -EINVAL,
				    "is this release too old?",
				    "there is no mask kind %u",
				    (unsigned int)spec->form);
	if (gm_mask_dtype_bytes(dtype) == 0)
		return gm_error_set(ret_err, -EINVAL,
				    "use u8, f16, bf16 or f32",
				    "no mask can be of dtype %" PRIu32, dtype);
	if (gm_mask_has_chunk(spec->form) && spec->chunk_size == 0)
		return gm_error_set(ret_err, -EINVAL, "use 1 or more",
				    "chunk_size is 0: a chunk has at least one "
				    "position");
	return 0;
}

int gm_mask_check(const struct gm_mask_spec *spec, uint32_t dtype,
		  uint64_t limit, struct gm_mask_size *ret_size,
		  struct gm_plan_error *ret_err)
{
	bool square = spec->form == GM_MASK_BIDIRECTIONAL_SLIDING;
	struct gm_mask_size size = { .rows = spec->tgt_len };
	bool over = false;
	int r = check_kind(spec, dtype, ret_err);

	if (r)
		return r;
	size.cols = gm_checked_add(&over, spec->tgt_len,
				   square ? 0 : spec->past_kv_len);
	if (over)
		return gm_error_set(ret_err, -EOVERFLOW, SMALLER,
				    "a mask over %" PRIu64
				    " cached and %" PRIu64
				    " new positions has 2^64 columns or more",
				    spec->past_kv_len, spec->tgt_len);
	size.bytes = GM_CHECKED_PRODUCT(&over, size.rows, size.cols,
					gm_mask_dtype_bytes(dtype));
	if (over)
		return gm_error_set(ret_err, -EOVERFLOW, SMALLER,
				    "a mask of %" PRIu64 " x %" PRIu64
				    " elements has 2^64 bytes or more",
				    size.rows, size.cols);
	if (size.bytes > limit)
		return gm_error_set(ret_err, -EFBIG, SMALLER,
				    "a mask of %" PRIu64 " x %" PRIu64
				    " elements has %" PRIu64
				    " bytes, more than the %" PRIu64 " allowed",
				    size.rows, size.cols, size.bytes, limit);
	*ret_size = size;
	return 0;
}
