/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * plan - a model on this node's rows, by any setting, and what it takes.
 *
 * The one call behind gpumapd's and gpumapctl's planning, with an agent and
 * without: the caller says which rows there are and what is left on each, and
 * gets every layer's row, the type to compute in, and each row's charge.
 *
 *	manual		a spec, entries in order, the rest on the first host
 *	auto		by strategy (auto.h)
 *	topology	a file; layers that it places nowhere go to the base
 *			row, and one that places no layer at all leaves the
 *			map to the strategy
 *	dummy		everything on the base row
 *	nccl		every rank holds its part of all layers, and all that
 *			is no layer's; the map names the base row, rank 0
 *	pipeline	a contiguous range for each rank, by counts, by
 *			weights, or evenly (pipeline.h)
 *
 * Ranks are the rows in the order given; hosts among them only if the rows
 * were chosen by somebody, or there are no others.  Of a rank of nccl's, what
 * is charged for a layer is its part, rounded up by heads and bytes.
 *
 * A row is charged for the weights of its layers, their KV cache, the largest
 * activation of a layer, and what is kept back of it (gm_sizes_capacity()).
 * What is no layer's is charged to the base row.  Weights are charged as they
 * are: what a topology quantises is left to the loader.
 *
 * The type, where none is asked for, is chosen by the rows that hold a part
 * of the model (gm_dtype_choose()).  An automatic map depends on that type's
 * size in turn: it is made for the smallest first, then for that of the rows
 * it took, and where that does not fit for the smallest on the rows that can
 * do it.
 */
#ifndef GM_PLAN_H
#define GM_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/plan/auto.h"
#include "agent/plan/dtype.h"
#include "agent/plan/error.h"
#include "agent/plan/isq.h"
#include "agent/plan/kv.h"
#include "agent/plan/placement.h"

#define GM_PLAN_ROWS       256u
#define GM_PLAN_SEQ_LEN    4096u /* where nobody says */
#define GM_PLAN_BATCH_SIZE 1u

/* The numbers of enum gpumap_setting. */
enum gm_setting {
	GM_SETTING_MANUAL = 1,
	GM_SETTING_AUTO,
	GM_SETTING_TOPOLOGY,
	GM_SETTING_DUMMY,
	GM_SETTING_NCCL,
	GM_SETTING_PIPELINE
};

struct gm_plan_device {
	uint32_t row;
	bool is_host;
	bool is_cuda;
	bool is_integrated;          /* its memory is the host's */
	bool is_drained;             /* gm_plan_leave_out() */
	uint32_t cc_major, cc_minor; /* of a CUDA row */
	uint64_t avail;              /* free bytes less what is promised */
	uint64_t total;
	double score;     /* gm_plan_score() */
	int cuda_ordinal; /* of "cuda[N]", gm_plan_number(); -1: has none */
};

struct gm_plan_model {
	uint32_t n_layers;           /* 0: as many as a spec places */
	const uint64_t *layer_bytes; /* NULL: not known */
	uint64_t other_bytes;        /* of what is no layer's */
	uint32_t weight_bytes;       /* of one weight as it is stored; 0: is
					quantised, or not known */
	uint64_t n_heads;            /* of attention, 0: not known */
	bool has_kv;                 /* @kv is known */
	struct gm_kv_shape kv;
};

struct gm_plan_request {
	const struct gm_plan_device *devices; /* each row once, in order */
	uint32_t n_devices;
	const uint32_t *drained; /* rows that were left out */
	uint32_t n_drained;
	bool is_chosen; /* somebody named these rows: each may be a rank */
	struct gm_plan_model model;
	enum gm_setting setting;
	enum gm_strategy strategy;
	const char *text;    /* MANUAL: spec, TOPOLOGY: YAML, PIPELINE:
				counts "a,b" or NULL */
	const char *weights; /* PIPELINE without counts: "a,b" or NULL */
	uint32_t base_row;   /* or GM_ROW_FIRST: of layer 0; rank 0; the first
				that is no host for TOPOLOGY and DUMMY */
	bool has_dtype;
	enum gm_dtype dtype;
	uint64_t max_seq_len;            /* 0: GM_PLAN_SEQ_LEN */
	uint64_t max_batch_size;         /* 0: GM_PLAN_BATCH_SIZE */
	const struct gm_kv_paged *paged; /* NULL: an unpaged cache */
	bool must_fit; /* refuse also a map by hand that takes more of a row
			  than is left; an automatic one always fits */
};

struct gm_plan_charge {
	uint32_t row;
	uint32_t n_layers; /* 0: it holds only what is no layer's */
	uint64_t weight_bytes;
	uint64_t kv_bytes;
	uint64_t act_bytes;
	uint64_t reserve_bytes; /* kept back */
	uint64_t left_bytes;
	uint64_t missing_bytes; /* more than is left; one of them is 0 */
};

struct gm_plan {
	uint32_t n_layers;
	uint32_t *rows; /* of each layer */
	uint32_t base_row;
	enum gm_dtype dtype;
	bool is_paged;
	uint64_t kv_bytes; /* of one layer; with nccl of a rank's part */
	uint32_t n_charges;
	struct gm_plan_charge *charges; /* in the order of first use; a base
					   row without layers comes last */
	char *spec; /* that says the same, or NULL: a row comes up twice */
	uint32_t n_warnings;
	char **warnings;
};

/* Of a plan that did not fit.  0, GM_ROW_FIRST, GM_ISQ_N: nothing would do. */
struct gm_plan_advice {
	uint64_t missing_bytes; /* the least memory which, added to one row, */
	uint32_t missing_row;   /* makes it fit, and that row */
	uint64_t max_seq_len;
	uint64_t max_batch_size;
	enum gm_isq isq; /* of least packing; sizes are estimates */
};

/*
 * gm_plan_make - place a model
 *
 * ret_plan	give it back with gm_plan_free()
 * ret_advice	filled in on -ENOSPC: each of it alone, all else as asked,
 *		makes the model fit.  NULL: nobody wants to know.
 *
 * Returns	0
 *		-EINVAL, -E2BIG	a text or number that cannot be
 *		-ENODEV		a row or device that is not there
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

/* All that a charge takes of its row. */
static inline uint64_t gm_plan_charge_bytes(const struct gm_plan_charge *c)
{
	return c->weight_bytes + c->kv_bytes + c->act_bytes + c->reserve_bytes;
}

/*
 * gm_plan_score - how fast a row is, for strategies that look at it
 *
 * units	multiprocessors, or a host's CPUs
 *
 * Returns	gm_score(); for a host its CPUs alone, since a large memory
 *		makes no fast host
 * Threads	any
 */
double gm_plan_score(bool is_host, uint32_t units, uint64_t free_bytes,
		     uint32_t cc_major);

/* Number CUDA devices in their order, as "cuda[N]" in topologies names them. */
void gm_plan_number(struct gm_plan_device *devices, uint32_t n);

/*
 * gm_plan_leave_out - take out those that are drained
 *
 * devices	@n, numbered already: what a topology names keeps its number
 * ret_drained	room for as many; receives the rows that are taken out
 *
 * Returns	how many of @devices are left, in their order
 * Threads	any
 */
uint32_t gm_plan_leave_out(struct gm_plan_device *devices, uint32_t n,
			   uint32_t *ret_drained);

struct gm_nodefile;

/* The devices of a node file, numbered; as many as it has rows. */
void gm_plan_of_node(const struct gm_nodefile *node,
		     struct gm_plan_device ret_devices[GM_PLAN_ROWS]);

#endif
