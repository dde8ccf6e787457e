/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <string.h>

#include "agent/plan/size_text.h"
#include "agent/reader/device_text.h"
#include "agent/top/top.h"

#define LABEL 7 /* columns before a graph */

static void put_title(struct gm_top_view *view, const struct gm_top_row *row)
{
	const struct gpumap_device *d = &row->device;
	struct gm_page *page = &view->page;
	char pci[GM_DEVICE_PCI], size[GM_SIZE_TEXT];
	int x = gm_page_printf(page, 2, GM_STYLE_TITLE, "row %u", d->row);

	gm_page_fill(page, 0, 1, GM_STYLE_DIM, gm_page_sign(page, L'─', '-'));
	x = gm_page_printf(page, x + 2, GM_STYLE_STRONG, "%s", d->name);
	if (gm_device_pci(d, pci))
		x = gm_page_printf(page, x + 2, GM_STYLE_PLAIN, "%s", pci);
	x = gm_page_printf(page, x + 2, GM_STYLE_PLAIN, "%s free",
			   gm_size_text(row->left, size));
	if (d->worker_pid != 0)
		x = gm_page_printf(page, x + 2, GM_STYLE_PLAIN, "worker %u",
				   d->worker_pid);
	if (d->restarts > 0)
		x = gm_page_printf(page, x + 2, GM_STYLE_WARN, "died %u time%s",
				   d->restarts, d->restarts == 1 ? "" : "s");
	if (d->reason[0] != '\0')
		x = gm_page_printf(page, x + 2, GM_STYLE_BAD, "%s", d->reason);
	gm_page_fill(page, x + 1, page->width, GM_STYLE_DIM,
		     gm_page_sign(page, L'─', '-'));
}

/* The part of a column of @height cells that is in its cell @line. */
static wchar_t part_of(const struct gm_page *page, uint32_t per_mille, int line,
		       int height)
{
	static const char ascii[] = " ..::||##";
	int level = (int)per_mille * height * 8 / 1000;

	if (per_mille > 0 && level == 0)
		level = 1;
	level -= (height - 1 - line) * 8;
	level = level < 0 ? 0 : level > 8 ? 8 : level;
	if (level == 0)
		return L' ';
	return gm_page_sign(page, L'▁' + level - 1, ascii[level]);
}

struct graph {
	const char *what;
	const uint16_t *samples;
	enum gm_page_style style;
	int x, end;
};

/* The newest sample is at the right end. */
static void put_graph(struct gm_top_view *view, const struct graph *graph,
		      int line, int height)
{
	uint32_t n = view->history->n, most = GM_TOP_SAMPLES;
	struct gm_page *page = &view->page;
	char text[16];

	if (line == height - 1)
		gm_page_put(page, graph->x, graph->x + LABEL - 1, GM_STYLE_DIM,
			    graph->what);
	else if (line == 0 && n > 0) {
		snprintf(text, sizeof(text), "%u %%",
			 graph->samples[(n - 1) % most] / 10u);
		gm_page_right(page, graph->x, graph->x + LABEL - 1,
			      GM_STYLE_PLAIN, text);
	}
	for (uint32_t ago = 0; ago < n && ago < most; ago++) {
		int x = graph->end - 1 - (int)ago;

		if (x < graph->x + LABEL)
			break;
		gm_page_fill(page, x, x + 1, graph->style,
			     part_of(page, graph->samples[(n - 1 - ago) % most],
				     line, height));
	}
}

void gm_top_layout_detail(struct gm_top_view *view,
			  const struct gm_top_facts *f, int line, int height)
{
	const struct gm_top_row *row;
	int middle = view->width / 2;
	bool is_busy;

	if (view->row >= f->n_rows || view->history == NULL)
		return;
	row = &f->rows[view->row];
	is_busy = (row->device.known & GPUMAP_KNOWN_UTILISATION) != 0;
	if (line == 0) {
		put_title(view, row);
		return;
	}
	put_graph(view,
		  &(struct graph){ "used", view->history->used[view->row],
				   GM_STYLE_OURS, 1,
				   is_busy ? middle : view->width - 1 },
		  line - 1, height - 1);
	if (is_busy)
		put_graph(view,
			  &(struct graph){
				  "busy", view->history->busy[view->row],
				  GM_STYLE_GOOD, middle + 1, view->width - 1 },
			  line - 1, height - 1);
}
