/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Show the status and the sessions. */

#include "agent/ctl/ctl.h"
#include "agent/reader/list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t count_maps(const struct gm_ctl *ctl)
{
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t cursor = 0, n = 0;

	while (gpumap_layers_next(ctl->map, &cursor, name) == 1)
		n++;
	return n;
}

/* NULL: this node is in none. */
static json_t *cluster_json(const struct gpumap_cluster *cluster)
{
	if (cluster->size == 0)
		return json_null();
	return json_pack("{s:s, s:s, s:I, s:I, s:I, s:b}", "name",
			 cluster->name, "node", cluster->node, "nodes",
			 (json_int_t)cluster->n_nodes, "gone",
			 (json_int_t)cluster->n_gone, "refused",
			 (json_int_t)cluster->n_refused, "stale",
			 (int)cluster->stale);
}

static void cluster_line(const struct gpumap_cluster *cluster)
{
	if (cluster->size == 0)
		return;
	printf("cluster     %s, this node is %s; %u nodes, %u gone, %u "
	       "refused%s\n",
	       cluster->name, cluster->node, cluster->n_nodes, cluster->n_gone,
	       cluster->n_refused,
	       cluster->stale ? "; STALE: what they have now is not known; is "
				"gpumap-sync running?"
			      : "");
}

static int status_of(const struct gpumap_health *health)
{
	return health->state == GPUMAP_READY && !health->stale ? GM_EXIT_OK
							       : GM_EXIT_UNWELL;
}

int gm_ctl_status(struct gm_ctl *ctl)
{
	struct gpumap_health health = { .size = sizeof(health) };
	uint32_t rows = gpumap_device_count(ctl->map);
	uint32_t maps = count_maps(ctl);
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };
	char size[32];
	int ret;

	ret = gpumap_health(ctl->map, &health);
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "status");
	if (gpumap_cluster_read(ctl->map, &cluster) != 0)
		cluster.size = 0;
	if (ctl->json) {
		ret = gm_ctl_print(json_pack(
			"{s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
			"s:I, s:o}",
			"instance", ctl->instance, "state",
			gm_ctl_state(health.state), "stale", (int)health.stale,
			"age_ns", (json_int_t)health.age_ns, "epoch",
			(json_int_t)health.epoch, "generation",
			(json_int_t)health.generation, "tick",
			(json_int_t)health.tick, "agent_pid",
			(json_int_t)health.agent_pid, "bytes",
			(json_int_t)health.bytes, "rows", (json_int_t)rows,
			"maps", (json_int_t)maps, "cluster",
			cluster_json(&cluster)));
		return ret != GM_EXIT_OK ? ret : status_of(&health);
	}
	printf("instance    %s\n", ctl->instance);
	printf("state       %s%s\n", gm_ctl_state(health.state),
	       health.stale
		       ? ", STALE: the agent has not been seen; is gpumapd "
			 "running?"
		       : "");
	printf("heartbeat   %.1f s ago\n", (double)health.age_ns / 1e9);
	printf("agent       pid %u, epoch %llu\n", health.agent_pid,
	       (unsigned long long)health.epoch);
	printf("generation  %u\n", health.generation);
	printf("segment     %s\n", gm_size_text(health.bytes, size));
	printf("devices     %u\n", rows);
	printf("layer maps  %u\n", maps);
	cluster_line(&cluster);
	return status_of(&health);
}

static json_t *session_json(const struct gm_ctl *ctl,
			    const struct gpumap_session_info *info)
{
	json_t *object =
		json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "id",
			  (json_int_t)info->id, "pid", (json_int_t)info->pid,
			  "uid", (json_int_t)info->uid, "queues",
			  (json_int_t)info->n_queues, "depth",
			  (json_int_t)info->depth, "arena_bytes",
			  (json_int_t)info->arena_bytes, "age_ns",
			  (json_int_t)info->age_ns, "load_bytes",
			  (json_int_t)info->load_bytes, "load_total_bytes",
			  (json_int_t)info->load_total_bytes);

	json_object_set_new(object, "rows", gm_ctl_rows_json(info->rows));
	gm_ctl_name_json(ctl, object, info->uid, info->pid);
	return object;
}

static void session_line(const struct gm_ctl *ctl,
			 const struct gpumap_session_info *info)
{
	char user[GM_CTL_NAME], command[GM_CTL_NAME], size[32];

	printf("%8llu %8u %-15s %-12.12s %6u %6u %10s %7.1f s\n",
	       (unsigned long long)info->id, info->pid,
	       gm_ctl_command(ctl, info->pid, info->uid, command),
	       gm_ctl_user(info->uid, user), info->n_queues, info->depth,
	       gm_size_text(info->arena_bytes, size),
	       (double)info->age_ns / 1e9);
}

int gm_ctl_sessions(struct gm_ctl *ctl)
{
	struct gpumap_session_info *info;
	json_t *list = NULL;
	int n = gm_list_session(ctl->map, &info);

	if (n < 0)
		return gm_ctl_fail(ctl, n, "sessions");
	if (ctl->json)
		list = json_array();
	else
		printf("%8s %8s %-15s %-12s %6s %6s %10s %9s\n", "session",
		       "pid", "command", "user", "queues", "depth", "arena",
		       "age");
	for (int i = 0; i < n; i++) {
		if (ctl->json)
			json_array_append_new(list,
					      session_json(ctl, &info[i]));
		else
			session_line(ctl, &info[i]);
	}
	free(info);
	if (!ctl->json)
		return GM_EXIT_OK;
	return gm_ctl_print(json_pack("{s:o}", "sessions", list));
}
