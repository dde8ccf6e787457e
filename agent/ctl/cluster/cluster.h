/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cluster - gpumapctl cluster: the nodes that gpumap-sync knows of, and plans
 * over several of them.
 *
 *	cluster.c	read the cluster, and say that it is stale
 *	cluster_list.c	nodes, devices, models
 *	cluster_topo.c	nodes with their devices and models
 *	cluster_plan.c	a model on several nodes: options to a plan
 *	cluster_show.c	the plan as a table and as JSON
 *	cluster_ranks.c	the plan in the words of launchers and engines
 *	cluster_leave.c	have the agent forget the cluster
 *
 * All but leave read what the agent publishes: no process is asked.
 * Texts come from other nodes, so each byte that a terminal would obey is
 * replaced.
 */
#ifndef GM_CTL_CLUSTER_H
#define GM_CTL_CLUSTER_H

#include "agent/ctl/ctl.h"
#include "agent/plan/checkpoint.h"
#include "agent/plan/cluster.h"

struct gm_ctl_cluster_node {
	struct gpumap_cluster_node info;
	struct gpumap_cluster_device *devices; /* info.n_devices */
	struct gpumap_cluster_share *shares;   /* info.n_shares */
};

/* A whole cluster, of one publication. */
struct gm_ctl_cluster {
	struct gpumap_cluster head;
	struct gm_ctl_cluster_node *nodes; /* head.n_nodes, by their names */
	/* of the columns of a table: 20, 24 and 24, or the longest text's */
	int node_width;
	int address_width;
	int share_width;
};

/* ---- cluster.c ----------------------------------------------------------- */

/* Read the cluster.  A stale one is said on standard error before anything
 * else, unless @quiet.  Returns an exit status, after printing what was wrong;
 * give it back with gm_ctl_cluster_free(), also then. */
int gm_ctl_cluster_read(const struct gm_ctl *ctl, bool quiet,
			struct gm_ctl_cluster *ret_cluster);
void gm_ctl_cluster_free(struct gm_ctl_cluster *cluster);

/* The exit status of a command that has shown it. */
int gm_ctl_cluster_status(const struct gm_ctl_cluster *cluster);

/* {"cluster", "node", "version", "age_ns", "limit_ns", "stale"}. */
json_t *gm_ctl_cluster_head(const struct gm_ctl_cluster *cluster);

/* "live", "gone" or "refused". */
const char *gm_ctl_cluster_state(uint32_t state);

/* The node of this name, or NULL. */
const struct gm_ctl_cluster_node *
gm_ctl_cluster_find(const struct gm_ctl_cluster *cluster, const char *name);

/* The bytes that a plan may take. */
uint64_t gm_ctl_cluster_avail(const struct gpumap_cluster_device *device);

#define GM_CTL_CLUSTER_WHY 96

/* Why a plan cannot have the node, or the device of a node that it can have.
 * NULL: it can.  Else @text, or a constant. */
const char *gm_ctl_cluster_node_why(const struct gm_ctl_cluster_node *node,
				    char text[GM_CTL_CLUSTER_WHY]);
const char *
gm_ctl_cluster_device_why(const struct gpumap_cluster_device *device);

/* As gm_device_uuid(), and as "GPU-..." for CUDA_VISIBLE_DEVICES. */
const char *gm_ctl_cluster_uuid(const uint8_t uuid[16], char ret_text[48]);

/* 64 digits; NULL: it has none. */
const char *gm_ctl_cluster_print(const uint8_t fingerprint[32],
				 char ret_text[65]);

/* "5 s", "3 min", "2 h". */
const char *gm_ctl_cluster_age(uint64_t ns, char ret_text[32]);

/* ---- commands ------------------------------------------------------------ */

int gm_ctl_cluster_nodes(struct gm_ctl *ctl);
int gm_ctl_cluster_devices(struct gm_ctl *ctl);
int gm_ctl_cluster_models(struct gm_ctl *ctl);
int gm_ctl_cluster_topo(struct gm_ctl *ctl);
int gm_ctl_cluster_plan(struct gm_ctl *ctl);
int gm_ctl_cluster_leave(struct gm_ctl *ctl);

#endif
