/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <string.h>

#include "agent/plan/size_text.h"
#include "agent/reader/device_text.h"
#include "agent/topo/topo.h"

#define BAR 40 /* columns */

void gm_topo_bar(FILE *to, const struct gpumap_device *d)
{
	struct gm_topo_memory m = gm_topo_memory(d);
	double total = d->total_bytes > 0 ? (double)d->total_bytes : 1;
	int used = (int)((double)m.used / total * BAR + 0.5);
	int taken = (int)((double)(m.used + m.promised) / total * BAR + 0.5);

	putc('[', to);
	for (int i = 0; i < BAR; i++)
		putc(i < used ? '#' : i < taken ? '=' : '.', to);
	putc(']', to);
}

static void put_row(FILE *to, const struct gm_topo_row *row)
{
	const struct gpumap_device *d = &row->device;
	struct gm_topo_memory m = gm_topo_memory(d);
	char pci[GM_DEVICE_PCI], used[32], promised[32], left[32], all[32];

	fprintf(to, "  row %u  %s  %s", d->row, gm_device_kind(d->kind),
		d->name);
	if (gm_device_pci(d, pci))
		fprintf(to, "  %s", pci);
	if (d->state != GPUMAP_DEVICE_READY)
		fprintf(to, "  %s%s%s", gm_device_state(d->state),
			d->reason[0] != '\0' ? ": " : "", d->reason);
	fputs("\n    ", to);
	gm_topo_bar(to, d);
	fprintf(to, " %s used, %s promised, %s free of %s\n",
		gm_size_text(m.used, used), gm_size_text(m.promised, promised),
		gm_size_text(m.left, left), gm_size_text(d->total_bytes, all));
	for (uint32_t i = 0; i < row->n_parts; i++) {
		const struct gm_topo_part *p = &row->parts[i];
		char bytes[32] = "";

		if (p->bytes > 0)
			gm_size_text(p->bytes, bytes);
		fprintf(to, "    %s: %s%s%s%s%s\n", p->map,
			gm_topo_part_word(p), p->layers,
			p->bytes > 0 ? ", " : "", bytes,
			p->is_committed ? ", reserved" : "");
	}
	for (uint32_t i = 0; i < row->n_ranks; i++)
		fprintf(to, "    %s: rank %u%s%s\n", row->ranks[i].mesh,
			row->ranks[i].rank,
			row->ranks[i].groups[0] != '\0' ? " in " : "",
			row->ranks[i].groups);
}

static const char *text_between(const struct gm_topo *t, uint32_t a, uint32_t b)
{
	const struct gm_topo_link *link = gm_topo_between(t, a, b);

	if (a == b)
		return "X";
	return link != NULL ? link->text : "-";
}

static bool has_link(const struct gm_topo *t, uint32_t row)
{
	for (uint32_t i = 0; i < t->n_links; i++)
		if (t->links[i].a == row || t->links[i].b == row)
			return true;
	return false;
}

static void put_matrix(FILE *to, const struct gm_topo *t)
{
	fputs("\nLinks between cards: NVn so many NVLinks; over PCIe: PIX one "
	      "switch,\nPXB several, PHB a host bridge, NODE one NUMA node, "
	      "SYS "
	      "several\n\n      ",
	      to);
	for (uint32_t b = 0; b < t->n_rows; b++)
		if (has_link(t, b))
			fprintf(to, " %4u", b);
	putc('\n', to);
	for (uint32_t a = 0; a < t->n_rows; a++) {
		if (!has_link(t, a))
			continue;
		fprintf(to, "  %4u", a);
		for (uint32_t b = 0; b < t->n_rows; b++)
			if (has_link(t, b))
				fprintf(to, " %4s", text_between(t, a, b));
		putc('\n', to);
	}
}

void gm_topo_text(FILE *to, const struct gm_topo *t)
{
	fprintf(to, "%s: %u row%s\n", t->name, t->n_rows,
		t->n_rows == 1 ? "" : "s");
	for (uint32_t n = 0; n < t->n_nodes; n++) {
		const struct gm_topo_node *node = &t->nodes[n];

		if (node->id < 0)
			fputs("\nno NUMA node\n", to);
		else
			fprintf(to, "\nNUMA node %d%s%s\n", node->id,
				node->cpus[0] != '\0' ? ", CPUs " : "",
				node->cpus);
		for (uint32_t i = 0; i < t->n_rows; i++)
			if (t->rows[i].device.numa_node == node->id)
				put_row(to, &t->rows[i]);
	}
	if (t->n_links > 0)
		put_matrix(to, t);
}
