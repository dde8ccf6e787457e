/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * plan - place a model on this node's rows, by any setting, with the charges.
 *
 * gpumapd and gpumapctl plan by this one call, with and without an agent: the
 * caller passes the rows and the memory left on each, and gets every layer's
 * row, the type to compute in, and each row's charge.
 *
 *	manual		a spec, entries in order, the rest on the first host
 *	auto		by strategy (auto.h)
 *	topology	a file; layers that it places nowhere go to the base
 *			row, and one that places no layer at all leaves the
 *			map to the strategy
 *	dummy		everything on the base row
 *	nccl		every rank holds its part of all layers, and all weights
 *			of no layer; the map names the base row, rank 0
 *	pipeline	a contiguous range for each rank, by counts, by
 *			weights, or evenly (pipeline.h)
 *
 * Ranks are the rows in the order given; hosts are ranks only if the request
 * names the rows, or there are no others.  A rank of nccl is charged for its
 * part of each layer, rounded up by heads and bytes.
 *
 * A row is charged for the weights of its layers, what they keep (cache.h), the
 * largest activation of a layer, and the memory that is kept free on it
 * (gm_place_capacity()).  Weights of no layer are charged to the base row.
 * Weights are charged as they are stored: quantisation by a topology is left to
 * the loader.
 *
 * If the request has no type, the rows that hold a part of the model decide on
 * it (gm_dtype_of_row()).  An automatic map in turn depends on that type's
 * size: it is made for the smallest type first, then for the type of the rows
 * that it took, and if that does not fit for the smallest type on the rows that
 * support it.
 */
#ifndef GM_PLAN_H
#define GM_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/model/plan/auto.h"
#include "lib/model/plan/dtype.h"
#include "lib/model/plan/error.h"
#include "lib/model/plan/isq.h"
#include "lib/model/plan/place.h"

struct gm_plan_request {
	/* The request as clients make it.  Its rows are @devices, each of which
	 * may be a rank if it names any.  Name, owner and times are not read;
	 * without layers a manual map has as many as its spec. */
	struct gpumap_plan_request ask;
	const struct gm_plan_device *devices; /* each row once, in order */
	uint32_t n_devices;
	const uint32_t *drained; /* rows that were left out */
	uint32_t n_drained;
	uint32_t n_dummies;             /* dummy rows that were left out */
	uint32_t weight_bytes;          /* of one weight as it is stored; 0: is
				* quantised, or not known */
	const struct gm_kv_shape *like; /* charge every layer as mistral.rs does
					 * for this shape; NULL: do not */
	const struct gm_topology *topology; /* what its file says, or NULL */
	bool must_fit; /* also refuse a manual map that takes more of a row than
		        * is left; an automatic one always fits */
};

struct gm_plan {
	uint32_t n_layers;
	uint32_t *rows; /* of each layer */
	uint32_t base_row;
	uint32_t compute_dtype; /* enum gpumap_dtype */
	bool is_paged;
	uint64_t kv_bytes; /* of a layer's cache, the mean of all, rounded up;
			    * with nccl of a rank's part */
	uint32_t n_charges;
	struct gpumap_charge *charges; /* in the order of first use; a base
					     * row without layers comes last */
	/* the most bytes that a row is charged beyond what is left of it, and
	 * that row; 0: the plan fits */
	uint64_t missing_bytes;
	uint32_t missing_row;
	char *spec;     /* an equivalent spec, or NULL: a row occurs twice */
	char *warnings; /* one to a line, or NULL */
};

/* Changes with which a plan that did not fit would fit.  0, GM_ROW_FIRST,
 * GM_ISQ_N: no such change suffices, or none is looked for. */
struct gm_plan_advice {
	uint64_t missing_bytes; /* the least memory which, added to one row, */
	uint32_t missing_row;   /* makes it fit, and that row */
	uint32_t more_rows; /* of an automatic map: the least number of rows */
	uint32_t like_row;  /* like this one, the largest that is no host */
	uint64_t max_seq_len;
	uint64_t max_batch_size;
	enum gm_isq isq; /* of least packing; sizes are estimates */
};

/*
 * gm_plan_make - place a model
 *
 * ret_plan	give it back with gm_plan_free()
 * ret_advice	filled in on -ENOSPC: each change alone, all else as requested,
 *		makes the model fit.  NULL: no advice.
 *
 * Returns	0
 *		-EINVAL, -E2BIG	a text or number that cannot be
 *		-ENODEV		a row or device that does not exist
 *		-ENOSPC		does not fit
 *		-EOVERFLOW	a sum or product of 2^64 or more
 *		-ENOMEM
 * Cost		80 layers on 8 rows: less than a millisecond; with advice
 *		some hundred times that, on every row a few
 * Threads	any
 */
int gm_plan_make(const struct gm_plan_request *request,
		 struct gm_plan *ret_plan, struct gm_plan_advice *ret_advice,
		 struct gm_plan_error *ret_err);

/* Free what gm_plan_make() gave.  NULL is allowed. */
void gm_plan_free(struct gm_plan *plan);

/* The bytes that a charge takes of its row. */
static inline uint64_t gm_plan_charge_bytes(const struct gpumap_charge *c)
{
	return c->weight_bytes + c->kv_bytes + c->activation_bytes +
	       c->reserve_bytes;
}

/*
 * gm_plan_speed - the speed of a row, for strategies that use it
 *
 * units	multiprocessors, or a host's CPUs
 *
 * Returns	gm_score() in 1/1024, at least 1; for a host of its CPUs only,
 *		since a large memory does not make a host fast
 * Threads	any
 */
uint64_t gm_plan_speed(bool is_host, uint32_t units, uint64_t free_bytes,
		       uint32_t cc_major);

/* Number CUDA devices in their order, as "cuda[N]" in topologies names them. */
void gm_plan_number(struct gm_plan_device *devices, uint32_t n);

/*
 * gm_plan_choose - give a request its devices
 *
 * They are those that the request names, in its order; or all, but dummies only
 * if @takes_dummies or there are no others.  A drained one is left out.
 *
 * request	its ask is complete
 * devices	all @n; they become the request's, and are numbered first, so
 *		that the numbers that topologies use stay the same
 * drained	room for @n, which becomes the request's
 *
 * Returns	0; -ENODEV: there is no device of *@ret_row, or it is drained
 * Threads	any
 */
int gm_plan_choose(struct gm_plan_request *request,
		   struct gm_plan_device *devices, uint32_t n,
		   uint32_t *drained, bool takes_dummies, uint32_t *ret_row);

/* List the devices that are ranks, by their indices in the request.  Returns
 * how many. */
uint32_t gm_plan_ranks(const struct gm_plan_request *request,
		       uint32_t ret_ranks[GPUMAP_ROWS_MAX]);

/* Is the row one of those that were left out as drained? */
bool gm_plan_is_drained(const struct gm_plan_request *request, uint32_t row);

struct gm_weights_sizes;

/* Describe the model of a checkpoint (lib/model/checkpoint), which has to
 * outlive it.  Returns the bytes of one weight, as weight_bytes above. */
uint32_t gm_plan_of_sizes(const struct gm_weights_sizes *sizes,
			  struct gpumap_plan_request *ret_ask);

#endif
