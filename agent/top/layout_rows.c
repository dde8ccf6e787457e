/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <stdlib.h>
#include <string.h>

#include "agent/plan/size_text.h"
#include "agent/reader/device_text.h"
#include "agent/top/top.h"

/* Columns: where each begins.  0: it is not shown, as no row knows it, or there
 * is no room. */
struct columns {
	int bar, bar_end;
	int memory;
	int busy, heat, power, jobs, died;
	int name;
};

enum {
	ROW = 1,
	KIND = 5,
	STATE = 11,
	BAR = 22,
	MEMORY = 18, /* width, with the blank before it; likewise below */
	LEAST_BAR = 12,
	LEAST_NAME = 8,
	MOST_BAR = 96
};

static bool any_knows(const struct gm_top_facts *f, uint32_t bit)
{
	for (uint32_t i = 0; i < f->n_rows; i++)
		if ((f->rows[i].device.known & bit) != 0)
			return true;
	return false;
}

static bool any_died(const struct gm_top_facts *f)
{
	for (uint32_t i = 0; i < f->n_rows; i++)
		if (f->rows[i].device.restarts > 0)
			return true;
	return false;
}

static bool any_did_jobs(const struct gm_top_facts *f)
{
	for (uint32_t i = 0; i < f->n_rows; i++)
		if (f->rows[i].jobs > 0)
			return true;
	return false;
}

static struct columns columns_of(const struct gm_top_facts *f, int width,
				 bool has_rates)
{
	struct columns c = { .bar = BAR };
	int rest = width - BAR - MEMORY - 1;
	const struct {
		int *column;
		int width;
		bool is_known;
	} more[] = {
		{ &c.busy, 6, any_knows(f, GPUMAP_KNOWN_UTILISATION) },
		{ &c.heat, 6, any_knows(f, GPUMAP_KNOWN_TEMPERATURE) },
		{ &c.power, 7, any_knows(f, GPUMAP_KNOWN_POWER) },
		{ &c.jobs, 7, has_rates && any_did_jobs(f) },
		{ &c.died, 5, any_died(f) },
	};
	int bar, at;

	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		if (more[i].is_known && rest - more[i].width >= LEAST_BAR) {
			*more[i].column = more[i].width;
			rest -= more[i].width;
		}
	bar = rest * 9 / 20 < LEAST_BAR ? LEAST_BAR : rest * 9 / 20;
	if (rest - bar - 2 < LEAST_NAME)
		bar = rest;
	if (bar > MOST_BAR)
		bar = MOST_BAR;
	c.bar_end = at = BAR + bar;
	c.memory = at;
	at += MEMORY;
	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		if (*more[i].column > 0) {
			int columns = *more[i].column;

			*more[i].column = at;
			at += columns;
		}
	c.name = bar < rest ? at + 2 : 0;
	return c;
}

/* ---- a row --------------------------------------------------------------- */

static void put_bar(struct gm_page *page, const struct columns *c,
		    const struct gm_top_row *row)
{
	double total = row->device.total_bytes > 0
			       ? (double)row->device.total_bytes
			       : 1;
	double width = c->bar_end - c->bar;
	int ours = c->bar + (int)((double)row->ours / total * width + 0.5);
	int used = c->bar + (int)((double)row->used / total * width + 0.5);
	int taken = c->bar +
		    (int)((double)(row->used + row->promised) / total * width +
			  0.5);

	gm_page_fill(page, c->bar, c->bar_end, GM_STYLE_FREE,
		     gm_page_sign(page, L'·', '.'));
	gm_page_fill(page, c->bar, taken < c->bar_end ? taken : c->bar_end,
		     GM_STYLE_PROMISED, gm_page_sign(page, L'▒', '='));
	gm_page_fill(page, c->bar, used < c->bar_end ? used : c->bar_end,
		     GM_STYLE_OTHERS, gm_page_sign(page, L'▓', '+'));
	gm_page_fill(page, c->bar, ours < c->bar_end ? ours : c->bar_end,
		     GM_STYLE_OURS, gm_page_sign(page, L'█', '#'));
}

static void put_memory(struct gm_page *page, const struct columns *c,
		       const struct gm_top_row *row)
{
	char used[GM_SIZE_TEXT], all[GM_SIZE_TEXT], text[64];

	snprintf(text, sizeof(text), "%s/%s",
		 gm_size_text(row->used + row->promised, used),
		 gm_size_text(row->device.total_bytes, all));
	gm_page_right(page, c->memory, c->memory + MEMORY, GM_STYLE_PLAIN,
		      text);
}

static void put_number(struct gm_page *page, int column, int width,
		       long long number, const char *unit)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld%s", number, unit);
	gm_page_right(page, column, column + width, GM_STYLE_PLAIN, text);
}

/* "12", "3400", "56 k". */
static void put_rate(struct gm_page *page, int column, double rate)
{
	if (rate < 9999.5)
		put_number(page, column, 7, (long long)(rate + 0.5), "");
	else
		put_number(page, column, 7, (long long)(rate / 1000 + 0.5),
			   " k");
}

static void put_facts(struct gm_page *page, const struct columns *c,
		      const struct gm_top_row *row)
{
	const struct gpumap_device *d = &row->device;

	if (c->busy > 0 && (d->known & GPUMAP_KNOWN_UTILISATION) != 0)
		put_number(page, c->busy, 6, d->utilisation / 10, " %");
	if (c->heat > 0 && (d->known & GPUMAP_KNOWN_TEMPERATURE) != 0)
		put_number(page, c->heat, 6, d->temperature / 1000, " C");
	if (c->power > 0 && (d->known & GPUMAP_KNOWN_POWER) != 0)
		put_number(page, c->power, 7, d->power / 1000, " W");
	if (c->jobs > 0 && d->kind != GPUMAP_DEVICE_DUMMY)
		put_rate(page, c->jobs, row->rate);
	if (c->died > 0)
		put_number(page, c->died, 5, d->restarts, "");
}

static enum gm_page_style style_of(const struct gpumap_device *d)
{
	switch (d->state) {
	case GPUMAP_DEVICE_READY:
		return (d->flags & GPUMAP_DEVICE_CORDONED) != 0 ? GM_STYLE_WARN
								: GM_STYLE_GOOD;
	case GPUMAP_DEVICE_FAILED:
	case GPUMAP_DEVICE_LOST:
		return GM_STYLE_BAD;
	default:
		return GM_STYLE_WARN;
	}
}

static const char *state_of(const struct gpumap_device *d)
{
	return d->state == GPUMAP_DEVICE_READY &&
			       (d->flags & GPUMAP_DEVICE_CORDONED) != 0
		       ? "CORDONED"
		       : gm_device_state(d->state);
}

static void put_row(struct gm_page *page, const struct columns *c,
		    const struct gm_top_row *row)
{
	const struct gpumap_device *d = &row->device;
	char text[16];
	int x;

	gm_page_line(page, (int32_t)d->row);
	snprintf(text, sizeof(text), "%u", d->row);
	gm_page_right(page, ROW, ROW + 3, GM_STYLE_STRONG, text);
	gm_page_put(page, KIND, STATE - 1, GM_STYLE_PLAIN,
		    gm_device_kind(d->kind));
	gm_page_put(page, STATE, BAR - 1, style_of(d), state_of(d));
	put_bar(page, c, row);
	put_memory(page, c, row);
	put_facts(page, c, row);
	if (c->name == 0)
		return;
	x = gm_page_put(page, c->name, page->width, GM_STYLE_PLAIN, d->name);
	if (d->reason[0] != '\0')
		gm_page_printf(page, x, GM_STYLE_BAD, ": %s", d->reason);
}

/* ---- NUMA nodes ---------------------------------------------------------- */

static void put_node(struct gm_page *page, int32_t node,
		     const struct gm_top_facts *f)
{
	char used[GM_SIZE_TEXT], promised[GM_SIZE_TEXT], left[GM_SIZE_TEXT];
	struct gm_top_row sum = { .used = 0 };
	uint32_t n = 0;
	int x;

	for (uint32_t i = 0; i < f->n_rows; i++) {
		if (f->rows[i].device.numa_node != node)
			continue;
		sum.used += f->rows[i].used;
		sum.promised += f->rows[i].promised;
		sum.left += f->rows[i].left;
		n++;
	}
	gm_page_line(page, -1);
	x = node >= 0 ? gm_page_printf(page, 1, GM_STYLE_STRONG, "NUMA node %d",
				       node)
		      : gm_page_put(page, 1, page->width, GM_STYLE_STRONG,
				    "no NUMA node");
	gm_page_printf(page, x + 2, GM_STYLE_DIM,
		       "%u row%s, %s used, %s promised, %s free", n,
		       n == 1 ? "" : "s", gm_size_text(sum.used, used),
		       gm_size_text(sum.promised, promised),
		       gm_size_text(sum.left, left));
}

/* ---- all, in their order ------------------------------------------------- */

/* Higher comes first; rows of the same stay in their order. */
static double key_of(const struct gm_top_row *row, enum gm_top_sort sort)
{
	const struct gpumap_device *d = &row->device;

	switch (sort) {
	case GM_TOP_BY_USED:
		return (double)row->used;
	case GM_TOP_BY_PROMISED:
		return (double)row->promised;
	case GM_TOP_BY_FREE:
		return (double)row->left;
	case GM_TOP_BY_BUSY:
		return d->utilisation;
	case GM_TOP_BY_HEAT:
		return d->temperature;
	case GM_TOP_BY_STATE:
		return d->state == GPUMAP_DEVICE_READY ? 0 : d->state;
	default:
		return 0;
	}
}

struct order {
	const struct gm_top_row *row;
	double key;
};

static int compare(const void *a, const void *b)
{
	const struct order *one = a, *two = b;

	if (one->key != two->key)
		return one->key > two->key ? -1 : 1;
	return one->row->device.row < two->row->device.row ? -1 : 1;
}

/* The NUMA node after @node, ascending, with rows of none at the end. */
static bool next_node(const struct order *v, size_t n, int64_t *node)
{
	int64_t best = INT64_MAX;

	for (size_t i = 0; i < n; i++) {
		int64_t id = v[i].row->device.numa_node;

		if (id < 0)
			id = INT32_MAX;
		if (id > *node && id < best)
			best = id;
	}
	*node = best;
	return best != INT64_MAX;
}

void gm_top_layout_rows(struct gm_top_view *view, const struct gm_top_facts *f)
{
	struct gm_page *page = &view->places[GM_TOP_ROWS].page;
	struct columns c = columns_of(f, page->width, view->history != NULL);
	struct order v[GPUMAP_ROWS_MAX];
	int64_t node = -1;
	size_t n = 0;

	for (uint32_t i = 0; i < f->n_rows; i++) {
		const struct gpumap_device *d = &f->rows[i].device;

		if (gm_top_matches(view, d->name, gm_device_kind(d->kind),
				   state_of(d), d->reason, NULL))
			v[n++] = (struct order){
				&f->rows[i], key_of(&f->rows[i], view->sort)
			};
	}
	qsort(v, n, sizeof(v[0]), compare);
	for (size_t i = 0; view->is_flat && i < n; i++)
		put_row(page, &c, v[i].row);
	while (!view->is_flat && next_node(v, n, &node)) {
		int32_t id = node == INT32_MAX ? -1 : (int32_t)node;

		put_node(page, id, f);
		for (size_t i = 0; i < n; i++)
			if (v[i].row->device.numa_node == id)
				put_row(page, &c, v[i].row);
	}
	gm_top_layout_none(view, page, "no row");
}

void gm_top_layout_headings(struct gm_top_view *view,
			    const struct gm_top_facts *f)
{
	struct columns c = columns_of(f, view->width, view->history != NULL);
	struct gm_page *page = &view->page;
	const struct {
		int column, width;
		const char *text;
	} right[] = {
		{ c.memory, MEMORY, "taken/all" },
		{ c.busy, 6, "busy" },
		{ c.heat, 6, "heat" },
		{ c.power, 7, "power" },
		{ c.jobs, 7, "jobs/s" },
		{ c.died, 5, "died" },
	};

	gm_page_put(page, ROW, KIND, GM_STYLE_DIM, "row");
	gm_page_put(page, KIND, STATE, GM_STYLE_DIM, "kind");
	gm_page_put(page, STATE, BAR, GM_STYLE_DIM, "state");
	gm_page_put(page, BAR, c.bar_end, GM_STYLE_DIM, "memory");
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++)
		if (right[i].column > 0)
			gm_page_right(page, right[i].column,
				      right[i].column + right[i].width,
				      GM_STYLE_DIM, right[i].text);
	if (c.name > 0)
		gm_page_put(page, c.name, page->width, GM_STYLE_DIM, "device");
}
