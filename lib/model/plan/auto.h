/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * auto - make a map by a strategy, with the charges to each row.
 *
 *	fill	as mistral.rs does: rows are filled in the order given, each
 *		with as many layers as fit beside the largest activation and
 *		what those layers keep (cache.h)
 *	balance	the slowest row is as fast as possible
 *	fewest	as few rows as can hold the model, and on that number of rows
 *		the slowest is as fast as possible
 *
 * Layers pass through the rows in the rows' order, a contiguous range each; a
 * row may be left out.  Weights that are no layer's (embeddings, head) are
 * charged to the first row that takes a layer.
 *
 * The maps of fill, and the rows that it leaves empty, are those of mistral.rs,
 * with these differences: there the first row is charged for the weights of no
 * layer even if it takes no layer, and then no row is; a host among the rows is
 * offered twice; and a model without layers, a division by zero and overflows
 * of 64 bits panic or wrap.  Layers and total need not agree, as in mistral.rs:
 * with a total that is too small filling stops early, and layers are left over.
 *
 * balance and fewest are exact.  A row's time is the bytes of its layers over
 * its speed.  Among equally fast maps the one with fewest ranges is taken,
 * among those the one on the lowest rows, in which lower rows take as many
 * layers as they may.  They use hosts only if the other rows do not hold the
 * model.  A map that needs a host has no paged cache: pages are for GPUs only.
 */
#ifndef GM_AUTO_H
#define GM_AUTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpumap/plan.h"
#include "lib/model/plan/cache.h"
#include "lib/model/plan/error.h"
#include "lib/model/plan/place.h"

/* Returns 0, -EINVAL. */
int gm_auto_strategy_parse(const char *name, uint32_t *ret_strategy,
			   struct gm_plan_error *ret_err);

/* "balance"; fill for 0. */
const char *gm_auto_strategy_name(uint32_t strategy);

struct gm_auto_request {
	uint32_t strategy; /* enum gpumap_strategy; 0: fill */
	/* balance and fewest: those that are no hosts come first */
	const struct gm_plan_device *rows;
	uint32_t n_rows;
	const uint64_t *layer_bytes;
	uint32_t n_layers;
	uint64_t non_mapped_bytes;
	uint64_t tied_bytes; /* of these, which are with the last layer as well,
			      * unless the first is on its row */
	uint64_t total_bytes;      /* of the whole model, for fill alone */
	uint64_t mapped_act_elems; /* largest activation, a layer's */
	uint64_t non_mapped_act_elems;
	struct gm_cache_request cache; /* its n_layers, dtype and sizes too */
};

struct gm_auto {
	/* in the order of layers; fill may charge a row for no layer if the
	 * total is too large */
	struct gpumap_charge *charges;
	uint32_t n_charges;
	uint32_t n_left;   /* layers that have no row */
	bool is_paged;     /* the cache */
	uint64_t *kv_sums; /* [i]: bytes that the layers before i keep */
	/* of fill: the rows, by their places in the request, that had room for
	 * no layer, in each of at most two walks over them */
	uint32_t *empty;
	uint32_t n_empty;
};

/*
 * gm_auto_make - map a model
 *
 * ret_auto	give it back with gm_auto_free(); after -ENOSPC as well: it has
 *		what does fit
 *
 * Returns	0
 *		-EINVAL, -E2BIG	numbers that cannot be
 *		-ENOSPC		the model does not fit, which needs no text; or
 *				not even a page of its cache, which has one
 *		-EOVERFLOW	a sum or product of 2^64 or more
 *		-ENOMEM
 * Cost		for l layers and r rows: fill l + r steps; balance 64 r log l
 *		and r^2; fewest, on k rows, 64 k r
 * Threads	any
 */
int gm_auto_make(const struct gm_auto_request *request,
		 struct gm_auto *ret_auto, struct gm_plan_error *ret_err);

/* Would gm_auto_make() place all layers?  Faster than calling it. */
bool gm_auto_fits(const struct gm_auto_request *request);

/* Free what gm_auto_make() gave.  NULL is allowed. */
void gm_auto_free(struct gm_auto *plan);

#endif
