/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * ptx_case - one run of an operator's PTX, by ptx.c, against its definition.
 */
#ifndef GM_TEST_SUPPORT_PTX_CASE_H
#define GM_TEST_SUPPORT_PTX_CASE_H

#include <errno.h>

#include "tests/support/operators/operators_case.h"
#include "tests/support/ptx.h"
#include "tests/support/tap.h"

#define N_MAX 2100u /* elements of a trial */
#define GUARD 64u
#define ROOM  (N_MAX * 8u + 2 * GUARD + 16)

/* A buffer that the test can put at any offset, with guards around it. */
static _Alignas(64) unsigned char src[ROOM], mask[ROOM], got[ROOM], want[ROOM];

static inline int run_text(const struct trial *t, const struct ref_args *a,
			   char *why)
{
	char name[GM_OPERATOR_NAME_BYTES];
	uint64_t params[6];
	uint32_t mask_dtype =
		t->op == GM_OPERATOR_MASK_BOOL ? GPUMAP_DTYPE_U8 : t->dtype;
	const struct ptx_span spans[] = {
		{ a->dst, out_n(t) * ref_bytes(out_dtype(t)), true },
		{ a->src, t->n * ref_bytes(t->dtype), false },
		{ a->mask, a->m * ref_bytes(mask_dtype), false },
	};
	struct ptx_launch launch = {
		.text = gm_operators_ptx,
		.kernel = name,
		.params = params,
		.n_params = parameters(t, a, params),
		.blocks = t->blocks,
		.threads = t->threads,
		.spans = spans,
		.n_spans = 3,
	};

	if (gm_operators_name(t->op, t->dtype, t->to, name) < 0)
		return -EINVAL;
	return ptx_run(&launch, why);
}

/* dst has what it had before outside of the elements, and what the definition
 * says in them. */
static inline bool agree(const struct trial *t)
{
	uint32_t dtype = out_dtype(t);
	uint64_t n = out_n(t), bytes = n * ref_bytes(dtype);
	const unsigned char *g = got + GUARD + t->shift;
	const unsigned char *w = want + GUARD + t->shift;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t a = ref_load(g, i, dtype), b = ref_load(w, i, dtype);

		if (!ref_same(dtype, a, b)) {
			NOTE("element %" PRIu64 " of %" PRIu64 ": got %" PRIx64
			     ", want %" PRIx64,
			     i, n, a, b);
			return false;
		}
	}
	return memcmp(got, want, GUARD + t->shift) == 0 &&
	       memcmp(g + bytes, w + bytes, ROOM - GUARD - t->shift - bytes) ==
		       0;
}

static inline bool holds(const struct trial *t)
{
	char why[PTX_WHY_BYTES] = "";
	struct ref_args a = {
		.src = src + GUARD + t->src_shift,
		.mask = mask + GUARD + t->mask_shift,
		.n = t->n,
		.alpha = (float[]){ 1.5f, -0.1f, 3e38f, 1e-40f }[dice(4)],
		.pattern = any_bits(),
		.m = 1 + dice(100),
	};
	int rc;

	a.at = dice(a.m);
	throw_numbers(src + GUARD + t->src_shift, t->n, t->dtype, t->numbers);
	throw_numbers(mask + GUARD + t->mask_shift, a.m, t->dtype, t->numbers);
	if (t->op == GM_OPERATOR_MASK_BOOL) {
		for (uint64_t i = 0; i < a.m; i++)
			mask[GUARD + t->mask_shift + i] =
				(unsigned char)(dice(2) * dice(256));
	}
	memset(got, (int)dice(256), ROOM);
	throw_numbers(got + GUARD + t->shift, out_n(t), out_dtype(t),
		      t->numbers);
	if (t->in_place)
		memcpy(got, src, ROOM);
	memcpy(want, got, ROOM);

	a.dst = want + GUARD + t->shift;
	if (t->in_place)
		a.src = a.dst;
	ref_run(t->op, t->dtype, t->to, &a);
	a.dst = got + GUARD + t->shift;
	if (t->in_place)
		a.src = a.dst;
	rc = run_text(t, &a, why);
	if (rc < 0)
		NOTE("%s", why);
	return rc == 0 && agree(t);
}

static inline bool may_be_in_place(uint32_t op)
{
	return op == GM_OPERATOR_SCALE || op == GM_OPERATOR_AXPY ||
	       op == GM_OPERATOR_MASK_ADD || op == GM_OPERATOR_MASK_BOOL;
}

#endif
