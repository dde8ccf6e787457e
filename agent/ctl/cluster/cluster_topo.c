/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Draw the nodes with their devices and models, as topo draws one node. */

#include <stdio.h>

#include "agent/ctl/cluster/cluster.h"
#include "agent/reader/device_text.h"

#define BAR 40 /* columns */

/* The figures of a device as of a row of this node. */
static struct gpumap_device row_of(const struct gpumap_cluster_device *d)
{
	return (struct gpumap_device){
		.size = sizeof(struct gpumap_device),
		.total_bytes = d->total_bytes,
		.free_bytes = d->free_bytes < d->total_bytes ? d->free_bytes
							     : d->total_bytes,
		.reserved_bytes = d->reserved_bytes,
		.used_by_holders = d->used_by_holders < d->reserved_bytes
					   ? d->used_by_holders
					   : d->reserved_bytes,
	};
}

/* The row's memory: used by processes, promised to holders and not used by
 * them yet, and what is left of it. */
struct room {
	uint64_t used, promised, left;
};

static struct room room_of(const struct gpumap_device *d)
{
	uint64_t owed = d->reserved_bytes - d->used_by_holders;
	struct room memory = { .used = d->total_bytes - d->free_bytes };

	memory.promised = owed < d->free_bytes ? owed : d->free_bytes;
	memory.left = d->free_bytes - memory.promised;
	return memory;
}

/* As a bar: '#' used, '=' promised, '.' free. */
static void put_bar(const struct gpumap_device *d)
{
	struct room m = room_of(d);
	double total = d->total_bytes > 0 ? (double)d->total_bytes : 1;
	int used = (int)((double)m.used / total * BAR + 0.5);
	int taken = (int)((double)(m.used + m.promised) / total * BAR + 0.5);

	putchar('[');
	for (int i = 0; i < BAR; i++)
		putchar(i < used ? '#' : i < taken ? '=' : '.');
	putchar(']');
}

static void put_device(const struct gpumap_cluster_device *d)
{
	struct gpumap_device row = row_of(d);
	struct room m = room_of(&row);
	const char *why = gm_ctl_cluster_device_why(d);
	char used[32], promised[32], left[32], all[32];

	printf("  row %u  %s  %s", d->row, gm_device_kind(d->kind), d->name);
	if (d->links > 0)
		printf("  %u NVLinks", d->links);
	if (why != NULL)
		printf("  %s", why);
	fputs("\n    ", stdout);
	put_bar(&row);
	printf(" %s used, %s promised, %s free of %s\n",
	       gm_size_text(m.used, used), gm_size_text(m.promised, promised),
	       gm_size_text(m.left, left), gm_size_text(d->total_bytes, all));
}

static void put_node(const struct gm_ctl_cluster_node *node)
{
	const struct gpumap_cluster_node *n = &node->info;
	char text[GM_CTL_CLUSTER_WHY], size[32];
	const char *why = gm_ctl_cluster_node_why(node, text);

	printf("\nnode %s  %s%s%s%s\n", n->name, n->address,
	       (n->flags & GPUMAP_CLUSTER_SELF) != 0 ? "  this node" : "",
	       why != NULL ? "  " : "", why != NULL ? why : "");
	for (uint32_t i = 0; i < n->n_devices; i++)
		put_device(&node->devices[i]);
	if (n->more_devices > 0)
		printf("  %u more rows\n", n->more_devices);
	for (uint32_t i = 0; i < n->n_shares; i++) {
		const struct gpumap_cluster_share *s = &node->shares[i];
		uint32_t shown = 0;

		printf("  %s: %s on row", s->name,
		       gm_size_text(s->bytes, size));
		for (uint32_t row = 0; row < GPUMAP_ROWS_MAX; row++)
			if (gm_ctl_has_row(s->rows, row))
				printf("%s%u", shown++ > 0 ? "," : " ", row);
		putchar('\n');
	}
	if (n->more_shares > 0)
		printf("  %u more models\n", n->more_shares);
}

static json_t *devices_json(const struct gm_ctl_cluster_node *node)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < node->info.n_devices; i++) {
		const struct gpumap_cluster_device *d = &node->devices[i];
		struct gpumap_device row = row_of(d);
		struct room m = room_of(&row);

		json_array_append_new(
			list,
			json_pack("{s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:I, "
				  "s:I}",
				  "row", (json_int_t)d->row, "kind",
				  gm_device_kind(d->kind), "name", d->name,
				  "state", gm_device_state(d->state), "nvlinks",
				  (json_int_t)d->links, "total_bytes",
				  (json_int_t)d->total_bytes, "used_bytes",
				  (json_int_t)m.used, "promised_bytes",
				  (json_int_t)m.promised, "free_bytes",
				  (json_int_t)m.left));
	}
	return list;
}

static json_t *models_json(const struct gm_ctl_cluster_node *node)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < node->info.n_shares; i++) {
		const struct gpumap_cluster_share *s = &node->shares[i];

		json_array_append_new(
			list, json_pack("{s:s, s:I, s:o}", "name", s->name,
					"bytes", (json_int_t)s->bytes, "rows",
					gm_ctl_rows_json(s->rows)));
	}
	return list;
}

static int print_json(const struct gm_ctl_cluster *cluster)
{
	json_t *object = gm_ctl_cluster_head(cluster), *list = json_array();
	int ret;

	for (uint32_t i = 0; i < cluster->head.n_nodes; i++) {
		const struct gm_ctl_cluster_node *node = &cluster->nodes[i];

		json_array_append_new(
			list, json_pack("{s:s, s:s, s:s, s:o, s:o}", "name",
					node->info.name, "address",
					node->info.address, "state",
					gm_ctl_cluster_state(node->info.state),
					"rows", devices_json(node), "models",
					models_json(node)));
	}
	json_object_set_new(object, "nodes", list);
	ret = gm_ctl_print(object);
	return ret == GM_EXIT_OK ? gm_ctl_cluster_status(cluster) : ret;
}

int gm_ctl_cluster_topo(struct gm_ctl *ctl)
{
	struct gm_ctl_cluster cluster;
	int ret = gm_ctl_cluster_read(ctl, false, &cluster);

	if (ret != GM_EXIT_OK)
		return ret;
	if (ctl->json) {
		ret = print_json(&cluster);
	} else {
		printf("%s: %u nodes, %u of them gone, %u rows\n",
		       cluster.head.name, cluster.head.n_nodes,
		       cluster.head.n_gone, cluster.head.n_devices);
		for (uint32_t i = 0; i < cluster.head.n_nodes; i++)
			put_node(&cluster.nodes[i]);
		ret = gm_ctl_cluster_status(&cluster);
	}
	gm_ctl_cluster_free(&cluster);
	return ret;
}
