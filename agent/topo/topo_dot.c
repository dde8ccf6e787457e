/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/size_text.h"
#include "agent/reader/device_text.h"
#include "agent/topo/topo.h"

/* Text within double quotes. */
static void put_quoted(FILE *to, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			putc('\\', to);
		putc(*text, to);
	}
}

static void put_row(FILE *to, const struct gm_topo_row *row)
{
	const struct gpumap_device *d = &row->device;
	struct gm_topo_memory m = gm_topo_memory(d);
	char left[32], all[32];

	fprintf(to, "    row%u [label=\"row %u, %s", d->row, d->row,
		gm_device_kind(d->kind));
	if (d->state != GPUMAP_DEVICE_READY)
		fprintf(to, ", %s", gm_device_state(d->state));
	fputs("\\n", to);
	put_quoted(to, d->name);
	fprintf(to, "\\n%s free of %s", gm_size_text(m.left, left),
		gm_size_text(d->total_bytes, all));
	for (uint32_t i = 0; i < row->n_parts; i++) {
		const struct gm_topo_part *p = &row->parts[i];

		fputs("\\n", to);
		put_quoted(to, p->map);
		fprintf(to, ": %s%s", gm_topo_part_word(p), p->layers);
	}
	for (uint32_t i = 0; i < row->n_ranks; i++) {
		fputs("\\n", to);
		put_quoted(to, row->ranks[i].mesh);
		fprintf(to, ": rank %u", row->ranks[i].rank);
	}
	fputs("\"];\n", to);
}

void gm_topo_dot(FILE *to, const struct gm_topo *t)
{
	fputs("graph \"", to);
	put_quoted(to, t->name);
	fputs("\" {\n  node [shape=box, fontname=monospace];\n", to);
	for (uint32_t n = 0; n < t->n_nodes; n++) {
		const struct gm_topo_node *node = &t->nodes[n];

		fprintf(to, "  subgraph cluster_%u {\n    label=\"", n);
		if (node->id < 0)
			fputs("no NUMA node", to);
		else
			fprintf(to, "NUMA node %d%s%s", node->id,
				node->cpus[0] != '\0' ? ", CPUs " : "",
				node->cpus);
		fputs("\";\n", to);
		for (uint32_t i = 0; i < t->n_rows; i++)
			if (t->rows[i].device.numa_node == node->id)
				put_row(to, &t->rows[i]);
		fputs("  }\n", to);
	}
	for (uint32_t i = 0; i < t->n_links; i++)
		fprintf(to, "  row%u -- row%u [label=\"%s\"];\n", t->links[i].a,
			t->links[i].b, t->links[i].text);
	fputs("}\n", to);
}
