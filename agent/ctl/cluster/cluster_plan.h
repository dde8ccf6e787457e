/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cluster_plan - a model on several nodes, and what launchers are told of it.
 */
#ifndef GM_CTL_CLUSTER_PLAN_H
#define GM_CTL_CLUSTER_PLAN_H

#include "agent/ctl/cluster/cluster.h"
#include "agent/ctl/run/run.h"

enum gm_ctl_launcher {
	GM_LAUNCHER_NONE,
	GM_LAUNCHER_TORCHRUN,
	GM_LAUNCHER_MPIRUN,
	GM_LAUNCHER_VLLM,
	GM_LAUNCHER_SGLANG,
	GM_LAUNCHER_LLAMA_CPP,
	GM_LAUNCHER_ENV
};

/* Why a node, or one of its rows, is not in the plan. */
struct gm_ctl_left_out {
	const char *node;
	int64_t row; /* -1: the node */
	char why[GM_CTL_CLUSTER_WHY];
};

struct gm_ctl_cluster_job {
	struct gm_ctl *ctl;
	enum gm_ctl_launcher launcher;
	struct gm_ctl_cluster cluster;
	struct gm_checkpoint model;
	uint64_t *layer_bytes; /* of --layers */
	uint64_t model_bytes;
	enum gm_isq isq;
	enum gm_dtype dtype;
	uint32_t kind; /* of the devices, enum gpumap_device_kind */
	struct gm_cluster_plan_request q;
	struct gm_cluster_plan_node *candidates;
	/* of each candidate, its node */
	const struct gm_ctl_cluster_node **of;
	struct gm_cluster_plan plan;
	int refusal; /* why there is no plan, or 0: negative errno */
	bool quiet;  /* do not say why */
	struct gm_ctl_left_out *left_out;
	size_t n_left_out;
};

/* Each function returns an exit status, after printing what was wrong, unless
 * it says otherwise. */

/* ---- cluster_plan.c ------------------------------------------------------ */

/* Read the options and the model; and read the cluster, and make the plan. */
int gm_ctl_cluster_job_read(struct gm_ctl_cluster_job *job);
int gm_ctl_cluster_job_plan(struct gm_ctl_cluster_job *job);

/* Forget the cluster and the plan; or everything. */
void gm_ctl_cluster_job_reset(struct gm_ctl_cluster_job *job);
void gm_ctl_cluster_job_free(struct gm_ctl_cluster_job *job);

/* The @i-th node of the plan. */
static inline const struct gm_ctl_cluster_node *
gm_ctl_cluster_taken(const struct gm_ctl_cluster_job *job, uint32_t i)
{
	return job->of[job->plan.nodes[i]];
}

/* The device of a rank. */
const struct gpumap_cluster_device *
gm_ctl_cluster_rank(const struct gm_ctl_cluster_job *job, uint32_t rank);

/* This node's place in the plan; UINT32_MAX: it has none. */
uint32_t gm_ctl_cluster_self(const struct gm_ctl_cluster_job *job);

/* ---- cluster_show.c ------------------------------------------------------ */

void gm_ctl_cluster_table(const struct gm_ctl_cluster_job *job);

/* NULL: no memory.  @name is of the map, or NULL. */
json_t *gm_ctl_cluster_plan_json(const struct gm_ctl_cluster_job *job,
				 const char *name);

/* ---- cluster_ranks.c ----------------------------------------------------- */

/* The word in a command that stands for the words of the caller's. */
#define GM_CTL_CLUSTER_COMMAND "$@"

/* The words of one node: variables, and a command.  A launcher that starts
 * all ranks from one node has a command there alone. */
struct gm_ctl_cluster_words {
	struct gm_run_words env; /* "NAME=VALUE" */
	struct gm_run_words argv;
};

/* The words of the plan's @i-th node; @name is of the map, or NULL. */
void gm_ctl_cluster_words(const struct gm_ctl_cluster_job *job, uint32_t i,
			  const char *name, struct gm_ctl_cluster_words *ret);

/* Those of this node where it is not in the plan: it starts the others. */
void gm_ctl_cluster_head_words(const struct gm_ctl_cluster_job *job,
			       const char *name,
			       struct gm_ctl_cluster_words *ret);

/* Does a command start on this node although it is not in the plan? */
bool gm_ctl_cluster_has_head(const struct gm_ctl_cluster_job *job);

void gm_ctl_cluster_words_free(struct gm_ctl_cluster_words *words);

/* Write what is run on each node, as a script's text. */
void gm_ctl_cluster_script(const struct gm_ctl_cluster_job *job,
			   const char *name);

/* A line for each node: its address, and how many ranks it has. */
void gm_ctl_cluster_hosts(const struct gm_ctl_cluster_job *job, FILE *to);

#endif
