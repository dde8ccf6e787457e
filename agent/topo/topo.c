/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/topo/topo.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/read_file.h"
#include "agent/plan/nodefile.h"

struct gm_topo_memory gm_topo_memory(const struct gpumap_device *d)
{
	uint64_t owed = d->reserved_bytes - d->used_by_holders;
	struct gm_topo_memory memory = { .used = d->total_bytes -
						 d->free_bytes };

	memory.promised = owed < d->free_bytes ? owed : d->free_bytes;
	memory.left = d->free_bytes - memory.promised;
	return memory;
}

/* Append with a blank before it, or "..." once there is no room. */
static void append(char *text, size_t bytes, const char *separator,
		   const char *more)
{
	size_t n = strlen(text), end = bytes - sizeof(" ...");

	if (n > 3 && strcmp(text + n - 3, "...") == 0)
		return;
	if (n + strlen(separator) + strlen(more) > end)
		snprintf(text + n, bytes - n, "%s...", n > 0 ? separator : "");
	else
		snprintf(text + n, bytes - n, "%s%s", n > 0 ? separator : "",
			 more);
}

/* ---- NUMA nodes ---------------------------------------------------------- */

static void add_node(struct gm_topo *t, int32_t id, const char *root)
{
	struct gm_topo_node *node;
	char path[256];
	uint32_t at = 0;

	while (at < t->n_nodes && t->nodes[at].id != id &&
	       (id < 0 || (t->nodes[at].id >= 0 && t->nodes[at].id < id)))
		at++;
	if (at < t->n_nodes && t->nodes[at].id == id)
		return;
	memmove(&t->nodes[at + 1], &t->nodes[at],
		(t->n_nodes - at) * sizeof(t->nodes[0]));
	t->n_nodes++;
	node = &t->nodes[at];
	*node = (struct gm_topo_node){ .id = id };
	if (root == NULL || id < 0 ||
	    gm_read_file_path(path, sizeof(path), root,
			      "/sys/devices/system/node/node%d/cpulist",
			      id) != 0 ||
	    gm_read_file(path, node->cpus, sizeof(node->cpus)) < 0)
		node->cpus[0] = '\0';
	node->cpus[strcspn(node->cpus, "\n")] = '\0';
}

/* ---- maps ---------------------------------------------------------------- */

/* The layers that @row holds, as ranges. */
static void write_ranges(const uint32_t *rows, uint32_t n, uint32_t row,
			 struct gm_topo_part *part)
{
	for (uint32_t i = 0, end; i < n; i = end) {
		char range[32];

		end = i + 1;
		if (rows[i] != row)
			continue;
		while (end < n && rows[end] == row)
			end++;
		part->n_layers += end - i;
		if (end - i == 1)
			snprintf(range, sizeof(range), "%u", i);
		else
			snprintf(range, sizeof(range), "%u-%u", i, end - 1);
		append(part->layers, sizeof(part->layers), ",", range);
	}
}

const char *gm_topo_part_word(const struct gm_topo_part *part)
{
	if (part->n_layers == 0)
		return "no layer";
	return part->n_layers == 1 ? "layer " : "layers ";
}

static int add_part(struct gm_topo_row *row, const struct gm_topo_part *part)
{
	struct gm_topo_part *v = realloc(
		row->parts, ((size_t)row->n_parts + 1) * sizeof(*row->parts));

	if (v == NULL)
		return -ENOMEM;
	row->parts = v;
	v[row->n_parts++] = *part;
	return 0;
}

static int read_map(const struct gpumap *map, const char *name, uint32_t color,
		    struct gm_topo *t)
{
	struct gpumap_layers layers = { .size = sizeof(layers) };
	struct gpumap_charge charges[GPUMAP_ROWS_MAX];
	uint32_t *rows = NULL;
	int ret =
		gpumap_layers_read(map, name, &layers, NULL, NULL, 0, NULL, 0);

	if (ret == 0)
		rows = calloc((size_t)layers.n_layers + 1, sizeof(*rows));
	/* One that is gone meanwhile, or larger, is left out. */
	if (rows == NULL ||
	    gpumap_layers_read(map, name, &layers, rows, NULL, layers.n_layers,
			       charges, GPUMAP_ROWS_MAX) != 0) {
		free(rows);
		return 0;
	}
	for (uint32_t i = 0; i < layers.n_rows && ret == 0; i++) {
		const struct gpumap_charge *c = &charges[i];
		struct gm_topo_part part = {
			.color = color,
			.bytes = c->weight_bytes + c->kv_bytes +
				 c->activation_bytes + c->reserve_bytes,
			.is_committed =
				(layers.flags & GPUMAP_LAYERS_COMMITTED) != 0,
		};

		memcpy(part.map, layers.name, sizeof(part.map));
		write_ranges(rows, layers.n_layers, c->row, &part);
		if (c->row < t->n_rows && (part.n_layers > 0 || part.bytes > 0))
			ret = add_part(&t->rows[c->row], &part);
	}
	free(rows);
	return ret;
}

/* ---- meshes -------------------------------------------------------------- */

static int add_rank(const struct gpumap *map, const char *mesh, uint32_t rank,
		    struct gm_topo_row *row)
{
	struct gpumap_mesh_group group = { .size = sizeof(group) };
	struct gm_topo_rank *v = realloc(
		row->ranks, ((size_t)row->n_ranks + 1) * sizeof(*row->ranks));
	uint32_t cursor = 0;

	if (v == NULL)
		return -ENOMEM;
	row->ranks = v;
	v = &v[row->n_ranks++];
	*v = (struct gm_topo_rank){ .rank = rank };
	snprintf(v->mesh, sizeof(v->mesh), "%s", mesh);
	while (gpumap_mesh_next_group(map, mesh, rank, &cursor, &group) == 1)
		if (strcmp(group.name, "world") != 0)
			append(v->groups, sizeof(v->groups), " ", group.name);
	return 0;
}

static int read_mesh(const struct gpumap *map, const char *name,
		     struct gm_topo *t)
{
	struct gpumap_mesh mesh = { .size = sizeof(mesh) };
	uint32_t rows[GPUMAP_ROWS_MAX];
	int ret = 0;

	if (gpumap_mesh_read(map, name, &mesh, rows, GPUMAP_ROWS_MAX) != 0)
		return 0;
	for (uint32_t rank = 0; rank < mesh.world && ret == 0; rank++)
		if (rows[rank] < t->n_rows)
			ret = add_rank(map, name, rank, &t->rows[rows[rank]]);
	return ret;
}

/* ---- links --------------------------------------------------------------- */

static bool is_on_bus(const struct gpumap_device *d)
{
	return (d->known & GPUMAP_KNOWN_PCI) != 0 && d->mig_gi < 0;
}

/* The NVLinks of two rows, as either reports them. */
static uint32_t nvlinks_of(const struct gpumap *map, uint32_t a, uint32_t b)
{
	struct gpumap_device_path one = { .size = sizeof(one) }, two = one;

	if (gpumap_device_path_read(map, a, b, &one) != 0 ||
	    gpumap_device_path_read(map, b, a, &two) != 0)
		return 0;
	return one.nvlinks > two.nvlinks ? one.nvlinks : two.nvlinks;
}

static void add_link(struct gm_topo *t, const struct gm_topo_link *link)
{
	struct gm_topo_link *to = &t->links[t->n_links];

	if (link->path == NULL && link->nvlinks == 0)
		return;
	*to = *link;
	if (link->nvlinks != 0)
		snprintf(to->text, sizeof(to->text), "NV%u", link->nvlinks);
	else
		snprintf(to->text, sizeof(to->text), "%s", link->path);
	t->n_links++;
}

const struct gm_topo_link *gm_topo_between(const struct gm_topo *topo,
					   uint32_t a, uint32_t b)
{
	for (uint32_t i = 0; i < topo->n_links; i++) {
		const struct gm_topo_link *link = &topo->links[i];

		if ((link->a == a && link->b == b) ||
		    (link->a == b && link->b == a))
			return link;
	}
	return NULL;
}

/* The cards that a row has the link of this text with, as a list. */
static void add_others(struct gm_topo *t, uint32_t row, const char *text)
{
	char *to = t->rows[row].links;
	size_t bytes = sizeof(t->rows[row].links);
	const char *separator = " ";

	append(to, bytes, "; ", text);
	for (uint32_t other = 0; other < t->n_rows; other++) {
		const struct gm_topo_link *link =
			gm_topo_between(t, row, other);
		char number[12];

		if (link == NULL || strcmp(link->text, text) != 0)
			continue;
		snprintf(number, sizeof(number), "%u", other);
		append(to, bytes, separator, number);
		separator = ",";
	}
}

/* Each text once, in the order of the first card that it links with. */
static void write_links(struct gm_topo *t, uint32_t row)
{
	for (uint32_t other = 0; other < t->n_rows; other++) {
		const struct gm_topo_link *link =
			gm_topo_between(t, row, other);
		bool is_first = link != NULL;

		for (uint32_t i = 0; is_first && i < other; i++) {
			const struct gm_topo_link *before =
				gm_topo_between(t, row, i);

			is_first = before == NULL ||
				   strcmp(before->text, link->text) != 0;
		}
		if (is_first)
			add_others(t, row, link->text);
	}
}

static int read_links(const struct gpumap *map, struct gm_topo *t,
		      const char *root)
{
	size_t most = (size_t)t->n_rows * t->n_rows / 2 + 1;

	t->links = calloc(most, sizeof(*t->links));
	if (t->links == NULL)
		return -ENOMEM;
	for (uint32_t a = 0; a < t->n_rows; a++)
		for (uint32_t b = a + 1; b < t->n_rows; b++) {
			const struct gpumap_device *one = &t->rows[a].device;
			const struct gpumap_device *two = &t->rows[b].device;
			struct gm_topo_link link = { .a = a, .b = b };

			if (is_on_bus(one) && is_on_bus(two))
				link.path = gm_pci_path(root, one, two);
			link.nvlinks = nvlinks_of(map, a, b);
			add_link(t, &link);
		}
	for (uint32_t row = 0; t->n_links > 0 && row < t->n_rows; row++)
		write_links(t, row);
	return 0;
}

/* ---- all ----------------------------------------------------------------- */

static int read_rows(const struct gpumap *map, const char *root,
		     struct gm_topo *t)
{
	int ret = 0;

	t->n_rows = gpumap_device_count(map);
	t->rows = calloc((size_t)t->n_rows + 1, sizeof(*t->rows));
	if (t->rows == NULL)
		return -ENOMEM;
	for (uint32_t row = 0; row < t->n_rows && ret == 0; row++) {
		struct gpumap_device *d = &t->rows[row].device;

		d->size = sizeof(*d);
		ret = gpumap_device_read(map, row, d);
		add_node(t, d->numa_node, root);
	}
	return ret;
}

int gm_topo_read(const struct gpumap *map, const char *root,
		 struct gm_topo *ret_topo)
{
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t cursor = 0, color = 0;
	int ret;

	memset(ret_topo, 0, sizeof(*ret_topo));
	ret = read_rows(map, root, ret_topo);
	while (ret == 0 && gpumap_layers_next(map, &cursor, name) == 1)
		ret = read_map(map, name, color++, ret_topo);
	cursor = 0;
	while (ret == 0 && gpumap_mesh_next(map, &cursor, name) == 1)
		ret = read_mesh(map, name, ret_topo);
	return ret == 0 ? read_links(map, ret_topo, root) : ret;
}

int gm_topo_of_node(const struct gm_nodefile *node, struct gm_topo *ret_topo)
{
	memset(ret_topo, 0, sizeof(*ret_topo));
	snprintf(ret_topo->name, sizeof(ret_topo->name), "%s", node->name);
	ret_topo->rows =
		calloc((size_t)node->n_rows + 1, sizeof(*ret_topo->rows));
	if (ret_topo->rows == NULL)
		return -ENOMEM;
	ret_topo->n_rows = node->n_rows;
	for (uint32_t row = 0; row < node->n_rows; row++) {
		const struct gm_nodefile_row *from = &node->rows[row];
		struct gpumap_device *d = &ret_topo->rows[row].device;

		*d = (struct gpumap_device){
			.row = row,
			.kind = from->kind,
			.state = GPUMAP_DEVICE_READY,
			.numa_node = from->numa_node,
			.units = from->units,
			.total_bytes = from->total_bytes,
			.free_bytes = from->free_bytes,
			.mig_gi = -1,
			.flags = from->is_split ? GPUMAP_DEVICE_MIG : 0,
		};

		if (from->kind == GPUMAP_DEVICE_HOST || from->is_integrated)
			d->flags |= GPUMAP_DEVICE_MAIN_MEMORY;
		snprintf(d->name, sizeof(d->name), "%s", from->name);
		add_node(ret_topo, d->numa_node, NULL);
	}
	return 0;
}

void gm_topo_free(struct gm_topo *topo)
{
	for (uint32_t i = 0; topo->rows != NULL && i < topo->n_rows; i++) {
		free(topo->rows[i].parts);
		free(topo->rows[i].ranks);
	}
	free(topo->rows);
	free(topo->links);
}
