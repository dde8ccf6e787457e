/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cluster - place a model on the devices of several nodes.
 *
 * The layers are divided into contiguous stages.  A stage is on @tp devices of
 * one node, each of which holds its part of every layer of the stage; all nodes
 * have the same number of stages.  With @is_free each device is a stage of its
 * own instead, and a node has as many as it has devices.
 *
 * A device is charged as a rank of GM_SETTING_NCCL (plan.h), for the layers of
 * its stage.  Weights of no layer are charged to each device of the first stage
 * and of the last.
 *
 * The plan that is made has, of those that fit and in this order,
 *   1. the fewest nodes that are not warm,
 *   2. the fewest nodes,
 *   3. the fewest stages on each node, and of those the fewest devices,
 *   4. the fullest nodes: the emptiest node of the plan is the fullest that it
 *	can be, then the next, first of the warm nodes and then of the others.
 * A node is as full as the fullest of the devices that the plan may take there.
 *
 * Stages go in the order of the nodes in the request.  Where the layers fit in
 * another order only, the emptiest node is the first, the next is the last, and
 * the others follow the first by their room.  Each stage has layers by its
 * room, at least one.  In a node the devices with most NVLinks are taken, then
 * the fullest, then those of the lowest rows.
 */
#ifndef GM_PLAN_CLUSTER_H
#define GM_PLAN_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/model/plan/error.h"
#include "lib/model/plan/plan.h"

#define GM_CLUSTER_PLAN_NODES   1024u /* most in a request */
#define GM_CLUSTER_PLAN_TAKEN   64u   /* most in a plan, as of a gang */
#define GM_CLUSTER_PLAN_DEVICES 64u   /* most of a node */
#define GM_CLUSTER_PLAN_STAGES  256u
#define GM_CLUSTER_PLAN_LAYERS  4096u

struct gm_cluster_plan_node {
	const char *name;
	bool is_warm; /* it has the model already */
	uint32_t n_devices;
	/* Those to use, each row once, in order; row, links, is_host
	 * and avail are read. */
	const struct gm_plan_device *devices;
};

struct gm_cluster_plan_request {
	const struct gm_cluster_plan_node *nodes;
	uint32_t n_nodes;
	/* The model, whose layers and their bytes are known, compute_dtype,
	 * max_seq_len and max_batch_size; nothing else is read. */
	struct gpumap_plan_request ask;
	/* 0: as many as it takes */
	uint32_t take_nodes;
	uint32_t take_devices; /* of each node; with @is_free at most */
	uint32_t tp;           /* without @is_free; else a power of two */
	uint32_t pp;           /* stages in all, likewise */
	bool is_free;
	uint32_t max_stages; /* 0: GM_CLUSTER_PLAN_STAGES */
};

struct gm_cluster_plan_stage {
	uint32_t node; /* index in the plan */
	uint32_t first_layer;
	uint32_t n_layers;
};

/* A device, and what it is charged. */
struct gm_cluster_plan_rank {
	uint32_t node; /* index in the plan */
	uint32_t stage;
	struct gpumap_charge charge;
};

struct gm_cluster_plan {
	uint32_t n_nodes;
	uint32_t nodes[GM_CLUSTER_PLAN_TAKEN]; /* indices in the request, in the
					   * order of the stages */
	uint32_t tp;
	uint32_t n_stages;
	struct gm_cluster_plan_stage stages[GM_CLUSTER_PLAN_STAGES];
	uint32_t n_ranks; /* n_stages * tp: rank r is of stage r / tp */
	struct gm_cluster_plan_rank *ranks;
};

/*
 * gm_cluster_plan_make - place a model on several nodes
 *
 * ret_plan	give it back with gm_cluster_plan_free()
 *
 * Returns	0
 *		-EINVAL		numbers that contradict each other, or the model
 *		-E2BIG		more nodes, devices or layers than there may be
 *		-ENODEV		there are not so many nodes, or devices of one
 *		-ENOSPC		does not fit: the text says what is missing, and
 *				where
 *		-EOVERFLOW	a sum or product of 2^64 or more
 *		-ENOMEM
 * Threads	any
 */
int gm_cluster_plan_make(const struct gm_cluster_plan_request *request,
			 struct gm_cluster_plan *ret_plan,
			 struct gm_plan_error *ret_err);

/* Free what gm_cluster_plan_make() gave.  NULL is allowed. */
void gm_cluster_plan_free(struct gm_cluster_plan *plan);

#endif
