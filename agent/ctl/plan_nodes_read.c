/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Read the cluster as the agent publishes it. */

#include "agent/ctl/plan_nodes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/text.h"
#include "agent/reader/device_text.h"

#define SECOND   UINT64_C(1000000000)
#define ATTEMPTS 100u /* at a whole cluster of one publication */

/* ---- reading ------------------------------------------------------------- */

static void make_plain(char *text, size_t bytes)
{
	text[bytes - 1] = '\0';
	gm_text_make_plain(text, strlen(text));
}

static void forget(struct gm_ctl_cluster *cluster, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		free(cluster->nodes[i].devices);
		free(cluster->nodes[i].shares);
	}
	free(cluster->nodes);
	cluster->nodes = NULL;
}

void gm_ctl_nodes_free(struct gm_ctl_cluster *cluster)
{
	if (cluster->nodes != NULL)
		forget(cluster, cluster->head.n_nodes);
}

/* The list calls return 1 with an item: anything else is none of this
 * publication. */
static int one_of(int ret, uint64_t version, uint64_t wanted)
{
	if (ret < 0)
		return ret;
	return ret == 0 || version != wanted ? -EAGAIN : 0;
}

static int read_devices(const struct gpumap *map, uint64_t version,
			struct gm_ctl_cluster_node *node)
{
	uint32_t cursor = 0, n = node->info.n_devices;
	int ret = 0;

	node->devices = calloc((size_t)n + 1, sizeof(*node->devices));
	if (node->devices == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; ret == 0 && i < n; i++) {
		struct gpumap_cluster_device *d = &node->devices[i];

		d->size = sizeof(*d);
		ret = gpumap_cluster_next_device(map, node->info.index, &cursor,
						 d);
		ret = one_of(ret, d->version, version);
		make_plain(d->name, sizeof(d->name));
	}
	return ret;
}

static int read_shares(const struct gpumap *map, uint64_t version,
		       struct gm_ctl_cluster_node *node)
{
	uint32_t cursor = 0, n = node->info.n_shares;
	int ret = 0;

	node->shares = calloc((size_t)n + 1, sizeof(*node->shares));
	if (node->shares == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; ret == 0 && i < n; i++) {
		struct gpumap_cluster_share *s = &node->shares[i];

		s->size = sizeof(*s);
		ret = gpumap_cluster_next_share(map, node->info.index, NULL,
						&cursor, s);
		ret = one_of(ret, s->version, version);
		make_plain(s->name, sizeof(s->name));
	}
	return ret;
}

static int read_nodes(const struct gpumap *map, struct gm_ctl_cluster *cluster)
{
	uint32_t n = cluster->head.n_nodes, cursor = 0, i = 0;
	int ret = 0;

	cluster->nodes = calloc((size_t)n + 1, sizeof(*cluster->nodes));
	if (cluster->nodes == NULL)
		return -ENOMEM;
	for (; ret == 0 && i < n; i++) {
		struct gm_ctl_cluster_node *node = &cluster->nodes[i];

		node->info.size = sizeof(node->info);
		ret = gpumap_cluster_next_node(map, &cursor, &node->info);
		ret = one_of(ret, node->info.version, cluster->head.version);
		make_plain(node->info.name, sizeof(node->info.name));
		make_plain(node->info.address, sizeof(node->info.address));
		if (ret == 0)
			ret = read_devices(map, cluster->head.version, node);
		if (ret == 0)
			ret = read_shares(map, cluster->head.version, node);
	}
	if (ret != 0)
		forget(cluster, i);
	return ret;
}

/* "5 s", "3 min", "2 h". */
static const char *print_age(uint64_t ns, char ret_text[32])
{
	uint64_t s = ns / SECOND;

	if (s < 10)
		snprintf(ret_text, 32, "%.1f s", (double)ns / 1e9);
	else if (s < 600)
		snprintf(ret_text, 32, "%llu s", (unsigned long long)s);
	else if (s < 36000)
		snprintf(ret_text, 32, "%llu min", (unsigned long long)s / 60);
	else
		snprintf(ret_text, 32, "%llu h", (unsigned long long)s / 3600);
	return ret_text;
}

/* Other nodes may have changed. */
static int refuse_stale(const struct gm_ctl_cluster *cluster)
{
	char since[32] = "this agent's start";

	if (cluster->head.age_ns != UINT64_MAX)
		print_age(cluster->head.age_ns, since);
	fprintf(stderr,
		"gpumapctl: cluster %s is stale: for %s gpumap-sync has not "
		"known that it sees every change, and other nodes may have "
		"changed; is gpumap-sync running, and can it reach its "
		"store?\n",
		cluster->head.name, since);
	return GM_EXIT_STALE;
}

int gm_ctl_nodes_read(const struct gm_ctl *ctl,
		      struct gm_ctl_cluster *ret_cluster)
{
	struct gm_ctl_cluster cluster = { .nodes = NULL };
	int ret = -EAGAIN;

	*ret_cluster = cluster;
	for (uint32_t i = 0; ret == -EAGAIN && i < ATTEMPTS; i++) {
		cluster.head.size = sizeof(cluster.head);
		ret = gpumap_cluster_read(ctl->map, &cluster.head);
		if (ret == 0)
			ret = read_nodes(ctl->map, &cluster);
	}
	if (ret == -ENOENT)
		return gm_ctl_failed("cluster: this node is in none: start "
				     "gpumap-sync, see gpumap-sync(8)");
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "cluster");
	make_plain(cluster.head.name, sizeof(cluster.head.name));
	make_plain(cluster.head.node, sizeof(cluster.head.node));
	cluster.node_width = 20;
	for (uint32_t i = 0; i < cluster.head.n_nodes; i++) {
		int n = (int)strlen(cluster.nodes[i].info.name);

		if (n > cluster.node_width)
			cluster.node_width = n;
	}
	*ret_cluster = cluster;
	return cluster.head.stale != 0 ? refuse_stale(&cluster) : GM_EXIT_OK;
}

const struct gm_ctl_cluster_node *
gm_ctl_nodes_find(const struct gm_ctl_cluster *cluster, const char *name)
{
	for (uint32_t i = 0; i < cluster->head.n_nodes; i++)
		if (strcmp(cluster->nodes[i].info.name, name) == 0)
			return &cluster->nodes[i];
	return NULL;
}

/* ---- what a plan can have ------------------------------------------------ */

uint64_t gm_ctl_nodes_avail(const struct gpumap_cluster_device *device)
{
	uint64_t kept =
		device->reserved_bytes > device->used_by_holders
			? device->reserved_bytes - device->used_by_holders
			: 0;

	return device->free_bytes > kept ? device->free_bytes - kept : 0;
}

const char *gm_ctl_nodes_node_why(const struct gm_ctl_cluster_node *node,
				  char text[GM_CTL_NODES_WHY])
{
	char age[32];

	switch (node->info.state) {
	case GPUMAP_CLUSTER_LIVE:
		break;
	case GPUMAP_CLUSTER_GONE:
		snprintf(text, GM_CTL_NODES_WHY, "gone for %s",
			 print_age(node->info.age_ns, age));
		return text;
	default:
		return "its summary was refused: the log of gpumap-sync says "
		       "why";
	}
	if ((node->info.flags & GPUMAP_CLUSTER_DRAINING) != 0)
		return "its agent is ending";
	if ((node->info.flags & GPUMAP_CLUSTER_NO_GANGS) != 0)
		return "it takes no gangs";
	return NULL;
}

const char *gm_ctl_nodes_device_why(const struct gpumap_cluster_device *device)
{
	if (device->state != GPUMAP_DEVICE_READY)
		return gm_device_state(device->state);
	if ((device->flags & GPUMAP_DEVICE_CORDONED) != 0)
		return "cordoned";
	if ((device->flags & GPUMAP_DEVICE_MIG) != 0)
		return "split into MIG instances";
	if ((device->flags & GPUMAP_DEVICE_CARD) != 0 &&
	    strstr(device->name, " MIG ") != NULL)
		return "a MIG instance, and ranks need whole cards";
	return NULL;
}

/* ---- texts --------------------------------------------------------------- */

json_t *gm_ctl_nodes_head(const struct gm_ctl_cluster *cluster)
{
	const struct gpumap_cluster *head = &cluster->head;

	return json_pack("{s:s, s:s, s:I, s:o, s:I, s:b}", "cluster",
			 head->name, "node", head->node, "version",
			 (json_int_t)head->version, "age_ns",
			 head->age_ns != UINT64_MAX
				 ? json_integer((json_int_t)head->age_ns)
				 : json_null(),
			 "limit_ns", (json_int_t)head->limit_ns, "stale",
			 head->stale != 0);
}

const char *gm_ctl_nodes_uuid(const uint8_t uuid[16], char ret_text[48])
{
	struct gpumap_device device = { .size = sizeof(device) };
	char digits[GM_DEVICE_UUID];

	memcpy(device.uuid, uuid, sizeof(device.uuid));
	gm_device_uuid(&device, digits);
	snprintf(ret_text, 48, "GPU-%s", digits);
	return ret_text;
}

/* ---- of a plan ----------------------------------------------------------- */

const struct gpumap_cluster_device *
gm_ctl_nodes_rank(const struct gm_ctl_nodes_job *job, uint32_t rank)
{
	const struct gm_cluster_plan_rank *r = &job->plan.ranks[rank];
	const struct gm_ctl_cluster_node *node =
		gm_ctl_nodes_taken(job, r->node);
	const struct gpumap_cluster_device *d = node->devices;

	while (d->row != r->charge.row)
		d++;
	return d;
}

uint32_t gm_ctl_nodes_self(const struct gm_ctl_nodes_job *job)
{
	for (uint32_t i = 0; i < job->plan.n_nodes; i++)
		if ((gm_ctl_nodes_taken(job, i)->info.flags &
		     GPUMAP_CLUSTER_SELF) != 0)
			return i;
	return UINT32_MAX;
}
