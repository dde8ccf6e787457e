/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mask - generate attention masks by rule.
 *
 * Row i of a mask is query i, at position past_kv_len + i; column j is the key
 * at position j.  An element that the query may not see is one (u8) or minus
 * infinity (f16, bf16, f32), the others are zero: the form that
 * GPUMAP_OP_MASK_BOOL and GPUMAP_OP_MASK_ADD take.
 *
 *	causal			masked where j > past + i
 *	sliding			and where j + window < past + i: a query sees
 *				itself and @sliding_window keys before it
 *	chunked			of the keys past the cache, masked where j is
 *				after the query or in another chunk; chunks are
 *				counted from the first query.  The cache is seen
 *				by all
 *	bidirectional_sliding	masked where |i - j| >= window; there is no
 *				cache, the mask is square
 *
 * No function here allocates, reads or writes anything but its arguments.
 */
#ifndef GM_MASK_H
#define GM_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/model/plan/error.h"

enum gm_mask_form {
	GM_MASK_CAUSAL,
	GM_MASK_SLIDING,
	GM_MASK_CHUNKED,
	GM_MASK_BIDIRECTIONAL_SLIDING
};

#define GM_MASK_FORMS 4u

struct gm_mask_spec {
	enum gm_mask_form form;
	uint64_t tgt_len;        /* queries */
	uint64_t past_kv_len;    /* keys in the cache before the first query;
				  * ignored where bidirectional */
	uint64_t sliding_window; /* where gm_mask_has_window() */
	uint64_t chunk_size;     /* where gm_mask_has_chunk(): at least 1 */
};

struct gm_mask_size {
	uint64_t rows, cols; /* elements; row by row, without gaps */
	uint64_t bytes;      /* of them all */
};

/*
 * One row: columns [@head, @begin) and [@end, cols) are masked, the others
 * seen; head <= begin <= end <= cols.  Equal rows have equal values.
 */
struct gm_mask_row {
	uint64_t head, begin, end;
};

/* The form's name, such as "causal"; NULL from GM_MASK_FORMS on. */
const char *gm_mask_form_name(enum gm_mask_form form);

/* Does @form use sliding_window, or chunk_size? */
bool gm_mask_has_window(enum gm_mask_form form);
bool gm_mask_has_chunk(enum gm_mask_form form);

/*
 * gm_mask_dtype_parse - parse "bool", "u8", "f16", "bf16" or "f32", in any case
 *
 * ret_dtype	receives an enum gpumap_dtype: bool is GPUMAP_DTYPE_U8
 *
 * Returns	0, -EINVAL
 * Threads	any
 */
int gm_mask_dtype_parse(const char *name, uint32_t *ret_dtype,
			struct gm_plan_error *ret_err);

/* Bytes of one element, or 0 if no mask can have the enum gpumap_dtype
 * @dtype. */
uint32_t gm_mask_dtype_bytes(uint32_t dtype);

/*
 * gm_mask_check - check that such a mask can exist, and compute its size
 *
 * dtype	enum gpumap_dtype
 * limit	most bytes that it may have
 * ret_size	without queries it has no rows and 0 bytes
 *
 * Returns	0
 *		-EINVAL	no such form, no mask of that dtype, or a chunk_size of
 *			0 where it is used
 *		-EOVERFLOW	it would have 2^64 columns, elements or bytes
 *		-EFBIG	it has more bytes than @limit
 * Threads	any
 */
int gm_mask_check(const struct gm_mask_spec *spec, uint32_t dtype,
		  uint64_t limit, struct gm_mask_size *ret_size,
		  struct gm_plan_error *ret_err);

/*
 * gm_mask_row - row @i of a mask that gm_mask_check() accepted
 *
 * i		below its rows
 *
 * Threads	any
 */
struct gm_mask_row gm_mask_row(const struct gm_mask_spec *spec, uint64_t i);

/*
 * gm_mask_fill - write rows [@first, @first + @n) of a mask
 *
 * spec, dtype	as gm_mask_check() accepted them; first + n <= rows
 * to		room for n * cols elements; of any alignment
 *
 * Cost		each byte is written once, in runs of memset() and memcpy()
 *		from a block in the first-level cache: as fast as the memory
 * Threads	any, one per @to: threads may divide the rows among them
 */
void gm_mask_fill(const struct gm_mask_spec *spec, uint32_t dtype,
		  uint64_t first, uint64_t n, void *to);

#endif
