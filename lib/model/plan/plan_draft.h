/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * plan_draft - the state of a plan that is being made; only for plan*.c.
 *
 *	plan_place.c	gives the layers their rows, except automatic maps
 *	plan_charge.c	charges each row
 *	plan_advice.c	finds changes that would fit
 *	plan.c		the rest
 *
 * Each function returns 0 or a negative errno with the error set, and leaves
 * what it made in @plan for gm_plan_free().
 */
#ifndef GM_PLAN_DRAFT_H
#define GM_PLAN_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/model/plan/plan.h"

struct gm_plan_draft {
	const struct gm_plan_request *q;
	const struct gpumap_plan_request *ask; /* of it */
	uint32_t base_row;                     /* or GM_ROW_FIRST */
	struct gm_cache_request cache; /* all but the type's bytes and ranks */
	uint64_t *kv_sums;             /* [i]: bytes of the layers before i */
	/* only whether it fits: there may be no rows at the end */
	bool only_asks;
	bool is_auto;   /* the strategy chooses the rows */
	bool is_narrow; /* without rows that need a wider type */
	bool lacks_warning;
	uint32_t ranks
		[GPUMAP_ROWS_MAX]; /* nccl: indices of devices, base first */
	uint32_t n_ranks;          /* 0 with any other setting */
	uint64_t layer_bytes;      /* of all layers */
	uint64_t act_elems;        /* largest activation */
	struct gm_plan plan;
	struct gm_plan_error *err;
};

/* Is it known what the layers keep? */
static inline bool gm_plan_has_cache(const struct gm_plan_draft *draft)
{
	const struct gm_kv_shape *like = draft->q->like;

	return like != NULL ? like->k_dim > 0 || like->kv_lora_rank > 0
			    : draft->ask->n_caches > 0;
}

/* The device that is @row, or NULL. */
const struct gm_plan_device *gm_plan_find(const struct gm_plan_request *request,
					  uint32_t row);

/* Set the rows and the base row; or is_auto. */
int gm_plan_place(struct gm_plan_draft *draft);

/* Compute what does not depend on rows or dtype, and check that no sum
 * overflows. */
int gm_plan_measure(struct gm_plan_draft *draft);

/* Compute what each layer keeps: unpaged, or as requested if @first is its
 * first device.  A strategy computes it itself. */
int gm_plan_measure_kv(struct gm_plan_draft *draft,
		       const struct gm_plan_device *first);

/* The first device of the placed rows; NULL if one of them is a host. */
const struct gm_plan_device *
gm_plan_first_device(const struct gm_plan_draft *draft);

/* Charge all rows again, for the plan's dtype and KV cache. */
int gm_plan_charge_rows(struct gm_plan_draft *draft);

/* Returns -ENOSPC if a row is charged more than is left of it. */
int gm_plan_check_rows(const struct gm_plan_draft *draft);

/* Without memory for it the draft @lacks_warning. */
void gm_plan_warn(struct gm_plan_draft *draft, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* gm_plan_make() without advice; @ret_plan NULL: does it fit? */
int gm_plan_try(const struct gm_plan_request *request, struct gm_plan *ret_plan,
		struct gm_plan_error *ret_err);

/* Compute the advice for a request that fails with -ENOSPC. */
int gm_plan_advise(const struct gm_plan_request *request,
		   struct gm_plan_advice *ret_advice,
		   struct gm_plan_error *ret_err);

#endif
