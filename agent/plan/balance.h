/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * balance - make maps whose rows finish together, or maps on the fewest rows.
 *
 * Layers pass through the rows in the rows' order, a contiguous range each; a
 * row may be left out.  A row's time is the bytes of its layers over its speed.
 * Its memory must hold their bytes, their KV cache and the largest activation;
 * the first row in use also holds the weights of no layer.
 *
 *   GM_BALANCE	the slowest row is as fast as possible
 *   GM_FEWEST	as few rows as can hold the model, and on that number of rows
 *		the slowest is as fast as possible
 *
 * Both are exact.  Among equally fast maps the one with fewest ranges is taken,
 * among those the one on the lowest rows, in which lower rows take as many
 * layers as they may.
 *
 * The method: with a bound on the time, a row that begins at layer a can end at
 * most at some layer b, which grows with a: so the furthest that k of the first
 * r rows reach follows from the furthest of k - 1 of r - 1, and it never pays
 * to give an earlier row less than it can take.  Where any number of rows may
 * be in use, each takes all that it can.  The least bound is found by
 * bisection, and proved by searching for a map strictly below it; times are
 * compared as fractions of whole numbers.
 */
#ifndef GM_BALANCE_H
#define GM_BALANCE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/plan/error.h"

#define GM_BALANCE_ROWS 256u /* most rows: the device table's size */

enum gm_balance_goal { GM_BALANCE, GM_FEWEST };

struct gm_balance_row {
	uint64_t capacity; /* usable bytes */
	uint64_t speed;    /* in any unit; 0 takes no layer */
};

struct gm_balance_request {
	enum gm_balance_goal goal;
	const struct gm_balance_row *rows;
	uint32_t n_rows;
	const uint64_t *layer_bytes;
	uint32_t n_layers;
	uint64_t kv_bytes; /* of one layer */
	uint64_t mapped_act_bytes;
	uint64_t non_mapped_act_bytes;
	uint64_t non_mapped_bytes;
};

struct gm_balance_range {
	uint32_t row; /* position in the request */
	uint32_t first;
	uint32_t n; /* layers, at least 1 */
	uint64_t bytes;
};

struct gm_balance {
	struct gm_balance_range *ranges; /* in order, all layers once */
	uint32_t n_ranges;
};

/*
 * gm_balance_make - map a model
 *
 * ret_balance	give it back with gm_balance_free()
 *
 * Returns	0
 *		-EINVAL	no layers
 *		-ENOSPC	the rows do not hold the model
 *		-E2BIG	more rows or layers than can be
 *		-EOVERFLOW	the model comes to 2^64 bytes or more
 *		-ENOMEM
 * Cost		for l layers and r rows, less than (64 + r) r log l steps as a
 *		rule; GM_FEWEST on k rows: 64 k r log l
 * Threads	any
 */
int gm_balance_make(const struct gm_balance_request *request,
		    struct gm_balance *ret_balance,
		    struct gm_plan_error *ret_err);

/*
 * gm_balance_fits - is there any map at all?
 *
 * Returns	as gm_balance_make()
 * Cost		less than r log l steps
 * Threads	any
 */
int gm_balance_fits(const struct gm_balance_request *request,
		    struct gm_plan_error *ret_err);

/* Free what gm_balance_make() gave.  NULL is allowed. */
void gm_balance_free(struct gm_balance *balance);

#endif
