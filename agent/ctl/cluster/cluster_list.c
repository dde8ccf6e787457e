/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* List nodes, devices and models. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ctl/cluster/cluster.h"
#include "agent/reader/device_text.h"

/* Add the list to the head, print it, and return the command's status. */
static int print_list(const struct gm_ctl_cluster *cluster, const char *name,
		      json_t *list)
{
	json_t *object = gm_ctl_cluster_head(cluster);
	int ret;

	json_object_set_new(object, name, list);
	ret = gm_ctl_print(object);
	return ret == GM_EXIT_OK ? gm_ctl_cluster_status(cluster) : ret;
}

static int unknown_node(const char *name)
{
	return gm_ctl_unknown("node", name, "cluster nodes");
}

/* ---- nodes --------------------------------------------------------------- */

struct sums {
	uint64_t total, avail;
};

/* The memory of the devices that are in service. */
static struct sums sums_of(const struct gm_ctl_cluster_node *node)
{
	struct sums sums = { 0 };

	for (uint32_t i = 0; i < node->info.n_devices; i++) {
		const struct gpumap_cluster_device *d = &node->devices[i];

		if (gm_ctl_cluster_device_why(d) != NULL ||
		    d->kind == GPUMAP_DEVICE_DUMMY)
			continue;
		sums.total += d->total_bytes;
		sums.avail += gm_ctl_cluster_avail(d);
	}
	return sums;
}

static json_t *node_json(const struct gm_ctl_cluster_node *node)
{
	const struct gpumap_cluster_node *n = &node->info;
	struct sums sums = sums_of(node);

	return json_pack(
		"{s:s, s:s, s:s, s:b, s:b, s:b, s:I, s:I, s:o, s:I, s:I, s:I, "
		"s:I, s:I, s:I}",
		"name", n->name, "address", n->address, "state",
		gm_ctl_cluster_state(n->state), "self",
		(n->flags & GPUMAP_CLUSTER_SELF) != 0, "gangs",
		(n->flags & GPUMAP_CLUSTER_NO_GANGS) == 0, "draining",
		(n->flags & GPUMAP_CLUSTER_DRAINING) != 0, "age_ns",
		(json_int_t)n->age_ns, "epoch", (json_int_t)n->epoch,
		"agent_version",
		json_sprintf("%u.%u.%u", n->agent_version / 10000,
			     n->agent_version / 100 % 100,
			     n->agent_version % 100),
		"devices", (json_int_t)n->n_devices, "more_devices",
		(json_int_t)n->more_devices, "shares", (json_int_t)n->n_shares,
		"more_shares", (json_int_t)n->more_shares, "total_bytes",
		(json_int_t)sums.total, "free_bytes", (json_int_t)sums.avail);
}

static void node_line(const struct gm_ctl_cluster *cluster,
		      const struct gm_ctl_cluster_node *node)
{
	const struct gpumap_cluster_node *n = &node->info;
	struct sums sums = sums_of(node);
	char age[32], total[32], avail[32], rows[24], shares[24];

	snprintf(rows, sizeof(rows), "%u", n->n_devices + n->more_devices);
	snprintf(shares, sizeof(shares), "%u", n->n_shares + n->more_shares);
	printf("%-*s %-*s %-8s %8s %5s %10s %10s %7s%s%s%s\n",
	       cluster->node_width, n->name, cluster->address_width, n->address,
	       gm_ctl_cluster_state(n->state),
	       gm_ctl_cluster_age(n->age_ns, age), rows,
	       gm_size_text(sums.total, total), gm_size_text(sums.avail, avail),
	       shares,
	       (n->flags & GPUMAP_CLUSTER_SELF) != 0 ? "  this node" : "",
	       (n->flags & GPUMAP_CLUSTER_NO_GANGS) != 0 ? "  no gangs" : "",
	       (n->flags & GPUMAP_CLUSTER_DRAINING) != 0 ? "  draining" : "");
}

int gm_ctl_cluster_nodes(struct gm_ctl *ctl)
{
	struct gm_ctl_cluster cluster;
	json_t *list = NULL;
	int ret = gm_ctl_cluster_read(ctl, false, &cluster);

	if (ret != GM_EXIT_OK)
		return ret;
	if (ctl->json)
		list = json_array();
	else
		printf("%-*s %-*s %-8s %8s %5s %10s %10s %7s\n",
		       cluster.node_width, "node", cluster.address_width,
		       "address", "state", "since", "rows", "total", "free",
		       "shares");
	for (uint32_t i = 0; i < cluster.head.n_nodes; i++) {
		if (ctl->json)
			json_array_append_new(list,
					      node_json(&cluster.nodes[i]));
		else
			node_line(&cluster, &cluster.nodes[i]);
	}
	ret = ctl->json ? print_list(&cluster, "nodes", list)
			: gm_ctl_cluster_status(&cluster);
	gm_ctl_cluster_free(&cluster);
	return ret;
}

/* ---- devices ------------------------------------------------------------- */

/* A device with its node. */
struct item {
	const struct gm_ctl_cluster_node *node;
	const struct gpumap_cluster_device *device;
	size_t at; /* its place in the list of the cluster */
};

static json_t *device_json(const struct item *item)
{
	const struct gpumap_cluster_device *d = item->device;
	char uuid[48];
	json_t *cc = d->cc_major != 0
			     ? json_sprintf("%u.%u", d->cc_major, d->cc_minor)
			     : json_null();

	return json_pack(
		"{s:s, s:s, s:I, s:s, s:s, s:s, s:s, s:b, s:b, s:i, s:o, s:I, "
		"s:I, s:I, s:I, s:I, s:I}",
		"node", item->node->info.name, "node_state",
		gm_ctl_cluster_state(item->node->info.state), "row",
		(json_int_t)d->row, "uuid",
		gm_ctl_cluster_uuid(d->uuid, uuid) + 4, "name", d->name, "kind",
		gm_device_kind(d->kind), "state", gm_device_state(d->state),
		"cordoned", (d->flags & GPUMAP_DEVICE_CORDONED) != 0, "split",
		(d->flags & GPUMAP_DEVICE_MIG) != 0, "numa_node",
		(int)d->numa_node, "compute_capability", cc, "total_bytes",
		(json_int_t)d->total_bytes, "free_bytes",
		(json_int_t)d->free_bytes, "reserved_bytes",
		(json_int_t)d->reserved_bytes, "used_by_holders",
		(json_int_t)d->used_by_holders, "available_bytes",
		(json_int_t)gm_ctl_cluster_avail(d), "nvlinks",
		(json_int_t)d->links);
}

static void device_line(const struct gm_ctl_cluster *cluster,
			const struct item *item)
{
	const struct gpumap_cluster_device *d = item->device;
	char total[32], avail[32], reserved[32];
	uint32_t state = item->node->info.state;

	printf("%-*s %3u  %-5s %-10s %10s %10s %10s %5u  %s%s%s%s\n",
	       cluster->node_width, item->node->info.name, d->row,
	       gm_device_kind(d->kind), gm_device_state(d->state),
	       gm_size_text(d->total_bytes, total),
	       gm_size_text(gm_ctl_cluster_avail(d), avail),
	       gm_size_text(d->reserved_bytes, reserved), d->links, d->name,
	       (d->flags & GPUMAP_DEVICE_CORDONED) != 0 ? ", cordoned" : "",
	       state != GPUMAP_CLUSTER_LIVE ? ", node " : "",
	       state != GPUMAP_CLUSTER_LIVE ? gm_ctl_cluster_state(state) : "");
}

/* --free lists what a plan may take now. */
static bool is_shown(const struct gm_ctl *ctl, const struct item *item)
{
	char text[GM_CTL_CLUSTER_WHY];

	if (ctl->plan.node != NULL &&
	    strcmp(ctl->plan.node, item->node->info.name) != 0)
		return false;
	return (ctl->given & GM_OPT_FREE) == 0 ||
	       (gm_ctl_cluster_node_why(item->node, text) == NULL &&
		gm_ctl_cluster_device_why(item->device) == NULL &&
		gm_ctl_cluster_avail(item->device) >= ctl->choose.free);
}

static int by_place(const struct item *a, const struct item *b)
{
	return a->at < b->at ? -1 : a->at > b->at;
}

static int by_free(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	uint64_t m = gm_ctl_cluster_avail(x->device),
		 n = gm_ctl_cluster_avail(y->device);

	return m > n ? -1 : m < n ? 1 : by_place(x, y);
}

static int by_total(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	uint64_t m = x->device->total_bytes, n = y->device->total_bytes;

	return m > n ? -1 : m < n ? 1 : by_place(x, y);
}

static int by_name(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	int order = strcmp(x->device->name, y->device->name);

	return order != 0 ? order : by_place(x, y);
}

/* The devices to show, in order.  Returns how many. */
static size_t collect(const struct gm_ctl *ctl,
		      const struct gm_ctl_cluster *cluster, struct item *items,
		      int (*order)(const void *a, const void *b))
{
	size_t n = 0, at = 0;

	for (uint32_t i = 0; i < cluster->head.n_nodes; i++) {
		const struct gm_ctl_cluster_node *node = &cluster->nodes[i];

		for (uint32_t k = 0; k < node->info.n_devices; k++) {
			items[n] =
				(struct item){ node, &node->devices[k], at++ };
			n += is_shown(ctl, &items[n]);
		}
	}
	if (order != NULL)
		qsort(items, n, sizeof(*items), order);
	return n;
}

static int show_devices(const struct gm_ctl *ctl,
			const struct gm_ctl_cluster *cluster,
			int (*order)(const void *a, const void *b))
{
	struct item *items =
		calloc((size_t)cluster->head.n_devices + 1, sizeof(*items));
	json_t *list = ctl->json ? json_array() : NULL;
	size_t n;

	if (items == NULL)
		return gm_ctl_fail(ctl, -ENOMEM, "cluster devices");
	n = collect(ctl, cluster, items, order);
	if (!ctl->json)
		printf("%-*s row  kind  state      %10s %10s %10s links  "
		       "name\n",
		       cluster->node_width, "node", "total", "free",
		       "reserved");
	for (size_t i = 0; i < n; i++) {
		if (ctl->json)
			json_array_append_new(list, device_json(&items[i]));
		else
			device_line(cluster, &items[i]);
	}
	free(items);
	return ctl->json ? print_list(cluster, "devices", list)
			 : gm_ctl_cluster_status(cluster);
}

int gm_ctl_cluster_devices(struct gm_ctl *ctl)
{
	static const struct {
		const char *name;
		int (*order)(const void *a, const void *b);
	} orders[] = {
		{ "node", NULL },
		{ "free", by_free },
		{ "total", by_total },
		{ "name", by_name },
	};
	const char *word =
		ctl->cluster.sort != NULL ? ctl->cluster.sort : "node";
	int at = gm_ctl_find_word("--sort", word, orders, sizeof(orders[0]),
				  sizeof(orders) / sizeof(orders[0]));
	struct gm_ctl_cluster cluster;
	int ret;

	if (at < 0)
		return GM_EXIT_USAGE;
	ret = gm_ctl_cluster_read(ctl, false, &cluster);
	if (ret != GM_EXIT_OK)
		return ret;
	if (ctl->plan.node != NULL &&
	    gm_ctl_cluster_find(&cluster, ctl->plan.node) == NULL)
		ret = unknown_node(ctl->plan.node);
	else
		ret = show_devices(ctl, &cluster, orders[at].order);
	gm_ctl_cluster_free(&cluster);
	return ret;
}

/* ---- models -------------------------------------------------------------- */

/* A share with its node. */
struct copy {
	const struct gm_ctl_cluster_node *node;
	const struct gpumap_cluster_share *share;
};

/* Copies of one model follow one another. */
static int compare_models(const struct copy *x, const struct copy *y)
{
	int order = strcmp(x->share->name, y->share->name);

	if (order == 0)
		order = memcmp(x->share->fingerprint, y->share->fingerprint,
			       sizeof(x->share->fingerprint));
	if (order == 0 && x->share->bytes != y->share->bytes)
		order = x->share->bytes < y->share->bytes ? -1 : 1;
	return order;
}

static int by_model(const void *a, const void *b)
{
	const struct copy *x = a, *y = b;
	int order = compare_models(x, y);

	return order != 0 ? order
			  : strcmp(x->node->info.name, y->node->info.name);
}

static size_t collect_copies(const struct gm_ctl_cluster *cluster,
			     const char *name, struct copy *copies)
{
	size_t n = 0;

	for (uint32_t i = 0; i < cluster->head.n_nodes; i++) {
		const struct gm_ctl_cluster_node *node = &cluster->nodes[i];

		for (uint32_t k = 0; k < node->info.n_shares; k++)
			if (name == NULL ||
			    strcmp(node->shares[k].name, name) == 0)
				copies[n++] =
					(struct copy){ node, &node->shares[k] };
	}
	qsort(copies, n, sizeof(*copies), by_model);
	return n;
}

static json_t *copy_json(const struct copy *copy)
{
	return json_pack("{s:s, s:s, s:o, s:I, s:b}", "node",
			 copy->node->info.name, "state",
			 gm_ctl_cluster_state(copy->node->info.state), "rows",
			 gm_ctl_rows_json(copy->share->rows), "uid",
			 (json_int_t)copy->share->uid, "kept",
			 (copy->share->flags & GPUMAP_SHARE_KEEP) != 0);
}

static json_t *model_json(const struct copy *copies, size_t n)
{
	const struct gpumap_cluster_share *share = copies->share;
	json_t *nodes = json_array();
	char text[65];

	for (size_t i = 0; i < n; i++)
		json_array_append_new(nodes, copy_json(&copies[i]));
	return json_pack("{s:s, s:s?, s:I, s:o}", "name", share->name,
			 "fingerprint",
			 gm_ctl_cluster_print(share->fingerprint, text),
			 "bytes", (json_int_t)share->bytes, "nodes", nodes);
}

static void model_line(const struct gm_ctl_cluster *cluster,
		       const struct copy *copies, size_t n)
{
	const struct gpumap_cluster_share *share = copies->share;
	const char *print;
	char text[65], size[32];

	print = gm_ctl_cluster_print(share->fingerprint, text);
	printf("%-*s %10s  %-12.12s  ", cluster->share_width, share->name,
	       gm_size_text(share->bytes, size), print != NULL ? print : "-");
	for (size_t i = 0; i < n; i++) {
		uint32_t state = copies[i].node->info.state;

		printf("%s%s", i > 0 ? ", " : "", copies[i].node->info.name);
		if (state != GPUMAP_CLUSTER_LIVE)
			printf(" (%s)", gm_ctl_cluster_state(state));
	}
	putchar('\n');
}

static int show_models(const struct gm_ctl *ctl,
		       const struct gm_ctl_cluster *cluster,
		       const struct copy *copies, size_t n_copies)
{
	json_t *list = ctl->json ? json_array() : NULL;
	size_t n;

	if (!ctl->json)
		printf("%-*s %10s  %-12s  nodes\n", cluster->share_width,
		       "model", "size", "fingerprint");
	for (size_t i = 0; i < n_copies; i += n) {
		for (n = 1; i + n < n_copies; n++)
			if (compare_models(&copies[i], &copies[i + n]) != 0)
				break;
		if (ctl->json)
			json_array_append_new(list, model_json(&copies[i], n));
		else
			model_line(cluster, &copies[i], n);
	}
	return ctl->json ? print_list(cluster, "models", list)
			 : gm_ctl_cluster_status(cluster);
}

int gm_ctl_cluster_models(struct gm_ctl *ctl)
{
	const char *name = ctl->n_args > 0 ? ctl->args[0] : NULL;
	struct gm_ctl_cluster cluster;
	struct copy *copies;
	size_t n = 0;
	int ret = gm_ctl_cluster_read(ctl, false, &cluster);

	if (ret != GM_EXIT_OK)
		return ret;
	copies = calloc((size_t)cluster.head.n_shares + 1, sizeof(*copies));
	if (copies != NULL)
		n = collect_copies(&cluster, name, copies);
	if (copies == NULL)
		ret = gm_ctl_fail(ctl, -ENOMEM, "cluster models");
	else if (name != NULL && n == 0)
		ret = gm_ctl_unknown("model", name, "cluster models");
	else
		ret = show_models(ctl, &cluster, copies, n);
	free(copies);
	gm_ctl_cluster_free(&cluster);
	return ret;
}
