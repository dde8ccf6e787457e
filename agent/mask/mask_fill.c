/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Write the elements of a mask, a run at a time. */

#include "agent/mask/mask.h"

#include <string.h>

#include "gpumap.h"
#include "lib/model/plan/checked.h"

/* The block that is copied from stays in the first-level cache. */
#define BLOCK 4096u

/* Writes one row after another, from @at on. */
struct writer {
	unsigned char *at;
	size_t element;              /* bytes */
	unsigned char masked[BLOCK]; /* masked elements, as many as fit */
};

struct gm_mask_row gm_mask_row(const struct gm_mask_spec *spec, uint64_t i)
{
	const uint64_t past = spec->past_kv_len, window = spec->sliding_window;
	struct gm_mask_row row = { .end = past + i + 1 };

	switch (spec->form) {
	case GM_MASK_CAUSAL:
		break;
	case GM_MASK_SLIDING:
		row.begin = gm_minus(past + i, window);
		break;
	case GM_MASK_CHUNKED:
		row.head = past;
		row.begin = past + i - i % spec->chunk_size;
		break;
	case GM_MASK_BIDIRECTIONAL_SLIDING:
		/* [i - window + 1, i + window), as far as the mask goes; a
		 * window of 0 leaves nothing, the same in each row. */
		row.begin = window ? gm_minus(i + 1, window) : 0;
		row.end = window ? i + gm_min(window, spec->tgt_len - i) : 0;
		break;
	}
	return row;
}

/* The bits of a masked element: minus infinity, or one. */
static uint32_t masked_bits(uint32_t dtype)
{
	switch (dtype) {
	case GPUMAP_DTYPE_F16:
		return 0xfc00;
	case GPUMAP_DTYPE_BF16:
		return 0xff80;
	case GPUMAP_DTYPE_F32:
		return 0xff800000;
	default:
		return 1;
	}
}

static void prepare(struct writer *w, uint32_t dtype)
{
	const uint32_t bits = masked_bits(dtype);
	const uint16_t half = (uint16_t)bits;
	const uint8_t byte = (uint8_t)bits;
	const void *one = &bits;

	w->element = gm_mask_dtype_bytes(dtype);
	if (w->element == sizeof(half))
		one = &half;
	else if (w->element == sizeof(byte))
		one = &byte;
	for (size_t i = 0; i < BLOCK; i += w->element)
		memcpy(w->masked + i, one, w->element);
}

static void put_seen(struct writer *w, uint64_t n)
{
	memset(w->at, 0, n * w->element);
	w->at += n * w->element;
}

static void put_masked(struct writer *w, uint64_t n)
{
	size_t left = n * w->element;

	while (left > 0) {
		size_t step = left < BLOCK ? left : BLOCK;

		memcpy(w->at, w->masked, step);
		w->at += step;
		left -= step;
	}
}

void gm_mask_fill(const struct gm_mask_spec *spec, uint32_t dtype,
		  uint64_t first, uint64_t n, void *to)
{
	uint64_t cols = spec->tgt_len;
	struct writer w = { .at = to };

	if (spec->form != GM_MASK_BIDIRECTIONAL_SLIDING)
		cols += spec->past_kv_len;
	prepare(&w, dtype);
	for (uint64_t i = first; i < first + n; i++) {
		const struct gm_mask_row row = gm_mask_row(spec, i);

		put_seen(&w, row.head);
		put_masked(&w, row.begin - row.head);
		put_seen(&w, row.end - row.begin);
		put_masked(&w, cols - row.end);
	}
}
