/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * placement - decide which row holds each layer of a model.
 *
 * Entries of a spec take their layers in order, first entry first layer.
 * Layers that no entry names go to the first host row and come last, so that
 * activations pass to the host once. mistral.rs does the same; where it
 * guesses, this module refuses or follows the text exactly:
 *
 *   - an entry's number is a row, also when it is the only entry, and never a
 *     CUDA ordinal;
 *   - entries that sum to more than the model has, a row that does not exist
 *     (even for no layers) and a model without layers are errors;
 *   - the host is a row like any other, and may be named.
 */
#ifndef GM_PLACEMENT_H
#define GM_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/plan/error.h"
#include "agent/plan/spec.h"

#define GM_PLACEMENT_LAYERS 65536u /* most layers of one model */

/* A row that may take layers. */
struct gm_plan_row {
	uint32_t row;
	bool is_host;
};

#define GM_LAYERS_UNKNOWN UINT64_MAX /* as many as the spec places */
#define GM_ROW_FIRST      UINT32_MAX /* the row of layer 0 */

struct gm_placement_request {
	const struct gm_plan_row *rows; /* each row once */
	size_t n_rows;
	uint64_t n_layers;    /* of the model, or GM_LAYERS_UNKNOWN */
	uint64_t host_layers; /* for the host row, or GM_LAYERS_REST */
	/* for the weights of no layer, or GM_ROW_FIRST */
	uint32_t base_row;
	const uint32_t *drained; /* rows on which nothing may be placed now */
	size_t n_drained;
};

struct gm_placement {
	uint32_t n_layers; /* at least 1 */
	uint32_t n_unique;
	uint32_t *rows;    /* n_layers of them: the row of each layer */
	uint32_t *unique;  /* the rows in use, in the order of first use */
	uint32_t base_row; /* the row of embeddings, head and the like */
};

/*
 * gm_placement_make - give each layer its row
 *
 * spec		not automatic: such a spec has no rows yet
 * ret_place	give it back with gm_placement_free()
 *
 * Returns	0
 *		-EINVAL	the numbers do not fit the model; or an automatic spec
 *		-ENODEV	a row that does not exist, or no host row for the rest
 *		-E2BIG	more than GM_PLACEMENT_LAYERS layers
 *		-ENOMEM
 * Threads	any
 */
int gm_placement_make(const struct gm_spec *spec,
		      const struct gm_placement_request *request,
		      struct gm_placement *ret_place,
		      struct gm_plan_error *ret_err);

/*
 * gm_placement_no_row - refuse a row that is not among those to use
 *
 * drained	@n_drained rows that exist, and are drained
 * rows		the rows to use, such as " 0, 1 and 2"; NULL: not given
 *
 * Returns	-ENODEV, with the reason
 * Threads	any
 */
int gm_placement_no_row(uint64_t row, const uint32_t *drained, size_t n_drained,
			const char *rows, struct gm_plan_error *ret_err);

/* Free what gm_placement_make() gave.  NULL is allowed. */
void gm_placement_free(struct gm_placement *place);

#endif
