/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * plan - gpumapctl plan: make the request, list the rows, and show the answer.
 *
 *	plan.c		the command, and the same request to the agent
 *	plan_read.c	options, the model and the rows, of a node file or of
 *			the agent's table, to a request
 *	plan_show.c	the table, the JSON, and the reasons of failures
 */
#ifndef GM_CTL_PLAN_H
#define GM_CTL_PLAN_H

#include <gpumap/plan.h>

#include "agent/ctl/ctl.h"
#include "lib/model/checkpoint/checkpoint.h"
#include "lib/model/plan/plan.h"

/* The rows to plan on. */
struct gm_ctl_node {
	char name[GPUMAP_NAME_MAX + 1]; /* name in a node file, or empty */
	uint32_t n;
	struct gm_plan_device devices[GPUMAP_ROWS_MAX];
	char names[GPUMAP_ROWS_MAX][GPUMAP_NAME_MAX + 1]; /* by row */
	uint32_t drained[GPUMAP_ROWS_MAX];                /* the request's */
};

struct gm_ctl_planning {
	struct gm_ctl *ctl;
	struct gm_ctl_node node;
	struct gm_weights_sizes model;
	enum gm_isq isq; /* what the weights are quantised to, or GM_ISQ_N */
	char *text;      /* the topology's */
	struct gm_topology topology;
	struct gm_kv_shape like; /* with --like */
	struct gm_plan_request q;
	struct gm_plan plan;
	uint64_t version; /* of the map that was committed, or 0 */
};

/* Print what is wrong with the options of plan, or plan --nodes. */
_Noreturn void gm_ctl_plan_wrong(const struct gm_ctl *ctl, const char *what);

/* The type of --dtype, or 0 for "auto". */
uint32_t gm_ctl_plan_dtype(const struct gm_ctl *ctl);

/* Measure the model of --model, and show how far that is. */
void gm_ctl_measure(const struct gm_ctl *ctl,
		    struct gm_weights_sizes *ret_sizes);

/* The same as the model of a request, with --isq.  @ret_sizes keeps what the
 * model points to.  Returns the bytes of a weight. */
uint32_t gm_ctl_plan_model(const struct gm_ctl *ctl,
			   struct gm_weights_sizes *ret_sizes,
			   struct gpumap_plan_request *ret_ask,
			   enum gm_isq *ret_isq);

/* Read the options, the model and the rows. */
struct gm_ctl_planning *gm_ctl_plan_read(struct gm_ctl *ctl);

void gm_ctl_plan_show(const struct gm_ctl_planning *p);
_Noreturn void gm_ctl_plan_refused(const struct gm_ctl_planning *p,
				   const struct gm_plan_error *error,
				   const struct gm_plan_advice *advice);

/* The request to the agent to commit what was read, as ctl->plan.commit. */
struct gpumap_plan_request
gm_ctl_plan_to_agent(const struct gm_ctl_planning *p);

/* The name of an enum gm_isq; NULL for GM_ISQ_N. */
const char *gm_ctl_isq(uint32_t isq);

/* Free what was read, and @p. */
void gm_ctl_plan_free(struct gm_ctl_planning *p);

/* Run plan with --nodes. */
void gm_ctl_plan_nodes(struct gm_ctl *ctl);

#endif
