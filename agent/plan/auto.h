/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * auto - make a map by a strategy, with the charges to each row.
 *
 *	fill		as mistral.rs does (fill.h)
 *	balance		the slowest row as fast as possible (balance.h)
 *	fewest		as few rows as possible, those balanced
 *
 * Rows are used in the order given, hosts after all others and only if those do
 * not hold the model; if a row is integrated the hosts are left out, since its
 * memory is theirs.  A map that needs a host has no paged cache: pages are for
 * GPUs only.
 */
#ifndef GM_AUTO_H
#define GM_AUTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/plan/error.h"
#include "agent/plan/kv.h"

#define GM_AUTO_ROWS 256u

enum gm_strategy { GM_STRATEGY_FILL, GM_STRATEGY_BALANCE, GM_STRATEGY_FEWEST };

/* Returns 0, -EINVAL. */
int gm_auto_strategy_parse(const char *name, enum gm_strategy *ret_strategy,
			   struct gm_plan_error *ret_err);

struct gm_auto_row {
	uint32_t row;
	bool is_host;
	bool is_integrated;
	uint64_t avail; /* free bytes less the reservations */
	uint64_t speed; /* in any unit, the same for all; a row with 0 takes no
			 * layer if the strategy uses speeds */
};

struct gm_auto_request {
	enum gm_strategy strategy;
	const struct gm_auto_row *rows;
	uint32_t n_rows;
	const uint64_t *layer_bytes;
	uint32_t n_layers;
	uint64_t non_mapped_bytes;
	uint64_t mapped_act_elems; /* largest activation, a layer's */
	uint64_t non_mapped_act_elems;
	uint32_t dtype_bytes; /* of activations and KV cache */
	uint64_t max_seq_len;
	uint64_t max_batch_size;
	struct gm_kv_shape kv;           /* its n_layers too */
	const struct gm_kv_paged *paged; /* NULL for an unpaged cache */
};

/* The charge to one row. */
struct gm_auto_charge {
	uint32_t row;
	uint32_t first, n_layers;
	bool has_non_mapped;
	uint64_t weight_bytes;
	uint64_t kv_bytes;
	uint64_t act_bytes;
	uint64_t reserve_bytes; /* kept free */
	uint64_t left_bytes;
};

struct gm_auto {
	struct gm_auto_charge *charges; /* in the order of layers */
	uint32_t n_charges;
	bool is_paged;     /* the cache */
	uint64_t kv_bytes; /* of one layer */
};

/*
 * gm_auto_make - map a model
 *
 * ret_auto	give it back with gm_auto_free()
 *
 * Returns	0
 *		-EINVAL, -E2BIG	numbers that cannot be
 *		-ENOSPC		the model does not fit
 *		-EOVERFLOW	a sum or product of 2^64 or more
 *		-ENOMEM
 * Threads	any
 */
int gm_auto_make(const struct gm_auto_request *request,
		 struct gm_auto *ret_auto, struct gm_plan_error *ret_err);

/* Would gm_auto_make() return 0?  Faster than calling it. */
bool gm_auto_fits(const struct gm_auto_request *request);

/* Free what gm_auto_make() gave.  NULL is allowed. */
void gm_auto_free(struct gm_auto *plan);

#endif
