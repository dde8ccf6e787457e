/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/reader/device_text.h"
#include "agent/topo/topo.h"

static json_t *part_json(const struct gm_topo_part *p)
{
	return json_pack("{s:s, s:s, s:I, s:I, s:b}", "map", p->map, "layers",
			 p->layers, "n_layers", (json_int_t)p->n_layers,
			 "bytes", (json_int_t)p->bytes, "committed",
			 (int)p->is_committed);
}

static json_t *row_json(const struct gm_topo_row *row)
{
	const struct gpumap_device *d = &row->device;
	struct gm_topo_memory m = gm_topo_memory(d);
	json_t *parts = json_array(), *ranks = json_array();
	char pci[GM_DEVICE_PCI];

	for (uint32_t i = 0; i < row->n_parts; i++)
		json_array_append_new(parts, part_json(&row->parts[i]));
	for (uint32_t i = 0; i < row->n_ranks; i++)
		json_array_append_new(
			ranks,
			json_pack("{s:s, s:I, s:s}", "mesh", row->ranks[i].mesh,
				  "rank", (json_int_t)row->ranks[i].rank,
				  "groups", row->ranks[i].groups));
	return json_pack("{s:I, s:s, s:s, s:s, s:i, s:o, s:I, s:I, s:I, s:I, "
			 "s:o, s:o}",
			 "row", (json_int_t)d->row, "kind",
			 gm_device_kind(d->kind), "name", d->name, "state",
			 gm_device_state(d->state), "numa_node",
			 (int)d->numa_node, "pci",
			 gm_device_pci(d, pci) ? json_string(pci) : json_null(),
			 "total_bytes", (json_int_t)d->total_bytes,
			 "used_bytes", (json_int_t)m.used, "promised_bytes",
			 (json_int_t)m.promised, "free_bytes",
			 (json_int_t)m.left, "maps", parts, "ranks", ranks);
}

json_t *gm_topo_json(const struct gm_topo *t)
{
	json_t *nodes = json_array(), *rows = json_array();
	json_t *links = json_array();

	for (uint32_t i = 0; i < t->n_nodes; i++)
		json_array_append_new(nodes,
				      json_pack("{s:i, s:s}", "numa_node",
						(int)t->nodes[i].id, "cpus",
						t->nodes[i].cpus));
	for (uint32_t i = 0; i < t->n_rows; i++)
		json_array_append_new(rows, row_json(&t->rows[i]));
	for (uint32_t i = 0; i < t->n_links; i++)
		json_array_append_new(
			links, json_pack("{s:I, s:I, s:s?, s:I}", "a",
					 (json_int_t)t->links[i].a, "b",
					 (json_int_t)t->links[i].b, "path",
					 t->links[i].path, "nvlinks",
					 (json_int_t)t->links[i].nvlinks));
	return json_pack("{s:s, s:o, s:o, s:o}", "name", t->name, "numa_nodes",
			 nodes, "rows", rows, "links", links);
}
