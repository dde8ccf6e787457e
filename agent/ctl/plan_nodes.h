/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * plan_nodes - gpumapctl plan --nodes: a model on several nodes of the cluster
 * that gpumap-sync knows of, and what launchers are told of that.
 *
 *	plan_nodes.c		the command: options and the cluster to a plan
 *	plan_nodes_show.c	the plan as a table and as JSON
 *	plan_nodes_ranks.c	the plan in the words of launchers and engines
 *
 * The nodes are those that the agent publishes: no process is asked.  Texts
 * come from other nodes, so each byte that a terminal would obey is replaced.
 */
#ifndef GM_CTL_PLAN_NODES_H
#define GM_CTL_PLAN_NODES_H

#include "agent/ctl/ctl.h"
#include "lib/model/checkpoint/checkpoint.h"
#include "lib/model/plan/cluster.h"

struct gm_ctl_cluster_node {
	struct gpumap_cluster_node info;
	struct gpumap_cluster_device *devices; /* info.n_devices */
	struct gpumap_cluster_share *shares;   /* info.n_shares */
};

/* A whole cluster, of one publication. */
struct gm_ctl_cluster {
	struct gpumap_cluster head;
	struct gm_ctl_cluster_node *nodes; /* by their names */
	uint32_t n;     /* of them that are read: head.n_nodes */
	int node_width; /* of a table's column: 20, or the longest name's */
};

enum gm_ctl_launcher {
	GM_LAUNCHER_NONE,
	GM_LAUNCHER_TORCHRUN,
	GM_LAUNCHER_MPIRUN,
	GM_LAUNCHER_VLLM,
	GM_LAUNCHER_SGLANG,
	GM_LAUNCHER_LLAMA_CPP,
	GM_LAUNCHER_ENV
};

#define GM_CTL_NODES_WHY 96

/* Why a node, or one of its rows, is not in the plan. */
struct gm_ctl_left_out {
	const char *node;
	int64_t row; /* -1: the node */
	char why[GM_CTL_NODES_WHY];
};

struct gm_ctl_nodes_job {
	struct gm_ctl *ctl;
	enum gm_ctl_launcher launcher;
	struct gm_ctl_cluster cluster;
	struct gm_weights_sizes model;
	uint64_t *layer_bytes; /* of --layers */
	uint64_t model_bytes;
	enum gm_isq isq;
	uint32_t class; /* of the devices, of GM_DEVICE_CLASS */
	struct gm_cluster_plan_request q;
	struct gm_cluster_plan_node *candidates;
	/* of each candidate, its node */
	const struct gm_ctl_cluster_node **of;
	struct gm_cluster_plan plan;
	struct gm_ctl_left_out *left_out;
	uint32_t n_left_out;
	uint8_t hash[32]; /* of --fingerprint */
};

/* The @i-th node of the plan. */
static inline const struct gm_ctl_cluster_node *
gm_ctl_nodes_taken(const struct gm_ctl_nodes_job *job, uint32_t i)
{
	return job->of[job->plan.nodes[i]];
}

/* ---- plan_nodes_show.c --------------------------------------------------- */

void gm_ctl_nodes_table(const struct gm_ctl_nodes_job *job);
void gm_ctl_nodes_json(const struct gm_ctl_nodes_job *job);

/* The same where there is no plan, because of @error. */
void gm_ctl_nodes_refusal_json(const struct gm_ctl_nodes_job *job,
			       const struct gm_plan_error *error);

/* ---- plan_nodes_ranks.c -------------------------------------------------- */

#define GM_CTL_UUID 48

/* As gm_device_uuid(), behind "GPU-" as CUDA_VISIBLE_DEVICES has it. */
const char *gm_ctl_nodes_uuid(const uint8_t uuid[16],
			      char ret_text[GM_CTL_UUID]);

/* The device of a rank, and how many ranks before it are of its node. */
const struct gpumap_cluster_device *
gm_ctl_nodes_rank(const struct gm_ctl_nodes_job *job, uint32_t rank);

uint32_t gm_ctl_nodes_count_ranks(const struct gm_ctl_nodes_job *job,
				  uint32_t node);

/* The word in a command that stands for the words of the caller's. */
#define GM_CTL_NODES_COMMAND "$@"

/* The words of one node: variables, and a command.  A launcher that starts
 * all ranks from one node has a command there alone. */
struct gm_ctl_nodes_words {
	const char *node;
	struct gm_words env; /* "NAME=VALUE" */
	struct gm_words argv;
};

/* The words of the plan's @i-th node.  Behind the last of them are those of
 * this node, where it is not in the plan and starts the others.  Returns false
 * where there are none. */
bool gm_ctl_nodes_words(const struct gm_ctl_nodes_job *job, uint32_t i,
			struct gm_ctl_nodes_words *ret);
void gm_ctl_nodes_words_free(struct gm_ctl_nodes_words *words);

/* Write what is run on each node, as a script's text. */
void gm_ctl_nodes_script(const struct gm_ctl_nodes_job *job);

#endif
