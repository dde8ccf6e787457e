/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <stdlib.h>
#include <string.h>

#include "agent/plan/size_text.h"
#include "agent/top/top.h"

#define SECOND   UINT64_C(1000000000)
#define LOAD_BAR 10 /* columns */

/* A list that is not known says why; one without a line says @none. */
static void put_empty(const struct gm_top_view *view, struct gm_page *page,
		      const struct gm_top_facts *f, int n, const char *none)
{
	if (n < 0 && f->refusal[0] != '\0') {
		gm_page_line(page, -1);
		gm_page_printf(page, 1, GM_STYLE_WARN, "not known: %s",
			       f->refusal);
	}
	gm_top_layout_none(view, page, n < 0 ? "not known" : none);
}

/* ---- sessions: user, process, what it has -------------------------------- */

/* A thing that a process has: a session, a reservation, or memory that outlives
 * its session. */
struct entry {
	const struct gm_top_process *process;
	const struct gm_top_session *session;
	const struct gm_top_holder *holder;
	const struct gm_top_usage *kept;
	size_t at; /* in the order of the lists */
};

static uint64_t bytes_of(const struct gm_top_facts *f, const struct entry *e)
{
	uint64_t sum = 0;

	if (e->holder != NULL)
		return e->holder->bytes;
	if (e->kept != NULL)
		return e->kept->info.bytes;
	for (int i = 0; i < f->n_usages; i++)
		if (f->usages[i].info.session == e->session->info.id)
			sum += f->usages[i].info.bytes;
	return sum;
}

static int compare(const void *a, const void *b)
{
	const struct entry *one = a, *two = b;
	int by_user = strcmp(one->process->user, two->process->user);

	if (by_user != 0)
		return by_user;
	if (one->process->pid != two->process->pid)
		return one->process->pid < two->process->pid ? -1 : 1;
	return one->at < two->at ? -1 : 1;
}

/* ", loads ####...... 43 % of 12 GiB", as the session says. */
static int put_load(struct gm_page *page, int x,
		    const struct gpumap_session_info *info)
{
	double part = (double)info->load_bytes / (double)info->load_total_bytes;
	char size[GM_SIZE_TEXT];

	part = part > 1 ? 1 : part;
	x = gm_page_put(page, x, page->width, GM_STYLE_PLAIN, ", loads ");
	gm_page_fill(page, x, x + LOAD_BAR, GM_STYLE_FREE,
		     gm_page_sign(page, L'·', '.'));
	gm_page_fill(page, x, x + (int)(part * LOAD_BAR), GM_STYLE_OURS,
		     gm_page_sign(page, L'█', '#'));
	return gm_page_printf(page, x + LOAD_BAR, GM_STYLE_PLAIN,
			      " %d %% of %s", (int)(part * 100),
			      gm_size_text(info->load_total_bytes, size));
}

static void put_session(struct gm_page *page, int x,
			const struct gm_top_facts *f, const struct entry *e)
{
	const struct gpumap_session_info *info = &e->session->info;
	uint64_t lent = 0, borrowed = 0;
	char size[GM_SIZE_TEXT], text[GM_TOP_ROWS_TEXT];

	for (int i = 0; i < f->n_usages; i++)
		if (f->usages[i].info.session == info->id) {
			lent += f->usages[i].info.lent_bytes;
			borrowed += f->usages[i].info.borrowed_bytes;
		}
	x = gm_page_printf(page, x, GM_STYLE_PLAIN, "session %llu has %s",
			   (unsigned long long)info->id,
			   gm_size_text(bytes_of(f, e), size));
	if (info->load_total_bytes > 0)
		x = put_load(page, x, info);
	if (lent > 0)
		x = gm_page_printf(page, x, GM_STYLE_PLAIN, ", lent %s",
				   gm_size_text(lent, size));
	if (borrowed > 0)
		x = gm_page_printf(page, x, GM_STYLE_PLAIN, ", borrowed %s",
				   gm_size_text(borrowed, size));
	x = gm_page_printf(page, x, GM_STYLE_PLAIN, " of %s",
			   gm_top_rows_text(info->rows, text));
	gm_page_printf(page, x, GM_STYLE_DIM, ", %s",
		       gm_top_time(info->age_ns / SECOND, text));
}

static void put_holder(struct gm_page *page, int x, const struct entry *e)
{
	uint64_t rows[GPUMAP_ROWS_MAX / 64] = { 0 };
	const struct gpumap_holder *holder = &e->holder->holder;
	char size[GM_SIZE_TEXT], text[GM_TOP_ROWS_TEXT];

	for (uint32_t i = 0; i < e->holder->n; i++)
		rows[e->holder->charges[i].row / 64 % 4] |=
			UINT64_C(1) << e->holder->charges[i].row % 64;
	x = gm_page_printf(page, x, GM_STYLE_PLAIN, "reserves %s of %s as %s",
			   gm_size_text(e->holder->bytes, size),
			   gm_top_rows_text(rows, text), holder->name);
	if (holder->start_ns != 0)
		gm_page_printf(page, x, GM_STYLE_WARN, ", starts, %s left",
			       gm_top_time(holder->start_ns / SECOND, text));
}

static void put_entry(struct gm_page *page, int x, const struct gm_top_facts *f,
		      const struct entry *e)
{
	char size[GM_SIZE_TEXT];

	if (e->session != NULL)
		put_session(page, x, f, e);
	else if (e->holder != NULL)
		put_holder(page, x, e);
	else
		gm_page_printf(page, x, GM_STYLE_PLAIN,
			       "%s of row %u, kept by a name or by importers",
			       gm_size_text(e->kept->info.bytes, size),
			       e->kept->info.row);
}

static int put_process(struct gm_page *page, int x,
		       const struct gm_top_process *process)
{
	if (process->pid == 0)
		return gm_page_put(page, x, page->width, GM_STYLE_PLAIN,
				   "no process");
	x = gm_page_put(page, x, page->width, GM_STYLE_STRONG,
			process->command[0] != '-' ? process->command
						   : "process");
	return gm_page_printf(page, x, GM_STYLE_DIM, " %u", process->pid);
}

static void put_user(struct gm_page *page, const struct gm_top_facts *f,
		     const struct entry *v, size_t n)
{
	uint64_t has = 0, reserved = 0;
	char one[GM_SIZE_TEXT], two[GM_SIZE_TEXT];
	int x;

	for (size_t i = 0; i < n && v[i].process->uid == v->process->uid; i++)
		*(v[i].holder != NULL ? &reserved : &has) += bytes_of(f, &v[i]);
	gm_page_line(page, 0);
	x = gm_page_printf(page, 1, GM_STYLE_TITLE, "%s", v->process->user);
	gm_page_printf(page, x + 2, GM_STYLE_DIM, "has %s, reserves %s",
		       gm_size_text(has, one), gm_size_text(reserved, two));
}

static size_t collect(const struct gm_top_view *view,
		      const struct gm_top_facts *f, struct entry *v)
{
	size_t n = 0;

	for (int i = 0; i < f->n_sessions; i++)
		v[n++] = (struct entry){ .process = &f->sessions[i].process,
					 .session = &f->sessions[i] };
	for (uint32_t i = 0; i < f->n_holders; i++)
		v[n++] = (struct entry){ .process = &f->holders[i].process,
					 .holder = &f->holders[i] };
	for (int i = 0; f->n_sessions >= 0 && i < f->n_usages; i++)
		if (f->usages[i].info.session == 0)
			v[n++] = (struct entry){ .process =
							 &f->usages[i].process,
						 .kept = &f->usages[i] };
	for (size_t i = 0, all = n; i < all; i++) {
		const struct entry *e = &v[i];

		if (i == 0)
			n = 0;
		if (gm_top_matches(view, e->process->user, e->process->command,
				   e->holder != NULL ? e->holder->holder.name
						     : "",
				   NULL)) {
			v[n] = *e;
			v[n].at = n;
			n++;
		}
	}
	qsort(v, n, sizeof(*v), compare);
	return n;
}

static bool are_of_one(const struct entry *a, const struct entry *b)
{
	return a->process->uid == b->process->uid &&
	       a->process->pid == b->process->pid;
}

/* One thing is beside its process; several are below it. */
static void put_tree(struct gm_page *page, const struct gm_top_facts *f,
		     const struct entry *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		bool is_first = i == 0 || !are_of_one(&v[i], &v[i - 1]);
		bool is_last = i + 1 == n || !are_of_one(&v[i], &v[i + 1]);
		int x = 5;

		if (i == 0 || v[i].process->uid != v[i - 1].process->uid)
			put_user(page, f, &v[i], n - i);
		gm_page_line(page, 0);
		if (is_first) {
			x = put_process(page, 3, v[i].process) + 1;
			if (!is_last)
				gm_page_line(page, 0);
		}
		put_entry(page, is_first && is_last ? x : 5, f, &v[i]);
	}
}

void gm_top_layout_sessions(struct gm_top_view *view,
			    const struct gm_top_facts *f)
{
	struct gm_page *page = &view->places[GM_TOP_SESSIONS].page;
	size_t most = (size_t)(f->n_sessions > 0 ? f->n_sessions : 0) +
		      f->n_holders +
		      (size_t)(f->n_usages > 0 ? f->n_usages : 0) + 1;
	struct entry *v = calloc(most, sizeof(*v));
	size_t n = 0;

	if (v != NULL)
		n = collect(view, f, v);
	if (!view->is_flat)
		put_tree(page, f, v, n);
	for (size_t i = 0; view->is_flat && i < n; i++) {
		int x;

		gm_page_line(page, 0);
		x = gm_page_printf(page, 1, GM_STYLE_TITLE, "%-10.10s ",
				   v[i].process->user);
		x = put_process(page, x, v[i].process);
		put_entry(page, x < 30 ? 30 : x + 2, f, &v[i]);
	}
	put_empty(view, page, f, f->n_sessions,
		  "no session and no reservation");
	free(v);
}

/* ---- models: shares, then layer maps ------------------------------------- */

/* The name has what the other columns leave. */
static int put_name(struct gm_page *page, const char *name, const char *user)
{
	int end = page->width - 56 > 12 ? page->width - 56 : 12;
	int x = end > 40 ? 40 : end;

	gm_page_line(page, 0);
	gm_page_put(page, 1, x, GM_STYLE_STRONG, name);
	gm_page_put(page, x + 1, x + 11, GM_STYLE_PLAIN, user);
	return x + 11;
}

static void put_share(struct gm_page *page, const struct gm_top_share *share)
{
	const struct gpumap_share_info *info = &share->info;
	char text[GM_TOP_ROWS_TEXT], size[GM_SIZE_TEXT];
	int x = put_name(page, info->name, share->process.user);

	gm_page_right(page, x, x + 9, GM_STYLE_PLAIN,
		      gm_size_text(info->bytes, size));
	x = gm_page_printf(page, x + 10, GM_STYLE_GOOD, "%u holder%s",
			   info->n_holders, info->n_holders == 1 ? "" : "s");
	if (info->flags & GPUMAP_SHARE_KEEP)
		x = gm_page_put(page, x, page->width, GM_STYLE_GOOD, ", kept");
	x = gm_page_printf(page, x, GM_STYLE_PLAIN, ", %s",
			   gm_top_rows_text(info->rows, text));
	gm_page_printf(page, x, GM_STYLE_DIM, ", %s",
		       gm_top_time(info->age_ns / SECOND, text));
}

static void put_map(struct gm_page *page, const struct gm_top_map *map)
{
	const struct gpumap_layers *l = &map->layers;
	char text[GM_TOP_ROWS_TEXT], size[GM_SIZE_TEXT];
	int x = put_name(page, l->name, map->process.user);

	gm_page_right(page, x, x + 9, GM_STYLE_PLAIN,
		      map->bytes > 0 ? gm_size_text(map->bytes, size) : "-");
	x = gm_page_printf(
		page, x + 10, GM_STYLE_PLAIN, "%u layer%s%s", l->n_layers,
		l->n_layers == 1 ? "" : "s",
		(l->flags & GPUMAP_LAYERS_COMMITTED) != 0 ? ", reserved" : "");
	gm_page_printf(page, x, GM_STYLE_PLAIN, ", %s",
		       gm_top_rows_text(map->rows, text));
}

void gm_top_layout_models(struct gm_top_view *view,
			  const struct gm_top_facts *f)
{
	struct gm_page *page = &view->places[GM_TOP_MODELS].page;

	for (int i = 0; i < f->n_shares; i++)
		if (gm_top_matches(view, f->shares[i].info.name,
				   f->shares[i].process.user, NULL))
			put_share(page, &f->shares[i]);
	for (uint32_t i = 0; i < f->n_maps; i++)
		if (gm_top_matches(view, f->maps[i].layers.name,
				   f->maps[i].process.user, NULL))
			put_map(page, &f->maps[i]);
	put_empty(view, page, f, f->n_shares, "no share and no layer map");
}

/* ---- who waits for whom -------------------------------------------------- */

static void put_for(struct gm_page *page, int x,
		    const struct gm_top_facts *facts, int i)
{
	const struct gm_top_holder *holder;
	char size[GM_SIZE_TEXT];
	uint32_t before;

	holder = gm_top_facts_wait(facts, i, &before);
	if (holder != NULL) {
		x = gm_page_put(page, x, page->width, GM_STYLE_PLAIN, "for ");
		x = put_process(page, x, &holder->process);
		x = gm_page_printf(page, x, GM_STYLE_PLAIN,
				   ", which reserves %s as %s",
				   gm_size_text(holder->bytes, size),
				   holder->holder.name);
	}
	if (before > 0)
		gm_page_printf(page, x, GM_STYLE_PLAIN, "%s%u wait%s before",
			       holder != NULL ? ", " : "", before,
			       before == 1 ? "s" : "");
}

static void put_wait(struct gm_page *page, bool is_flat,
		     const struct gm_top_facts *facts, int i)
{
	const struct gm_top_wait *wait = &facts->waits[i];
	const struct gpumap_wait_info *info = &wait->info;
	char text[GM_TOP_ROWS_TEXT], size[GM_SIZE_TEXT];
	int x;

	gm_page_line(page, 0);
	x = gm_page_printf(page, 1, GM_STYLE_WARN, "%d ", i + 1);
	x = put_process(page, x, &wait->process);
	x = gm_page_printf(page, x, GM_STYLE_PLAIN, " asks %s of %s as %s",
			   info->bytes > 0 ? gm_size_text(info->bytes, size)
					   : "a plan",
			   gm_top_rows_text(info->rows, text), info->name);
	x = gm_page_printf(page, x, GM_STYLE_DIM, ", waits %s",
			   gm_top_time(info->age_ns / SECOND, text));
	if (info->missing_bytes > 0)
		x = gm_page_printf(page, x, GM_STYLE_WARN,
				   ", %s missing on row %u",
				   gm_size_text(info->missing_bytes, size),
				   info->missing_row);
	if (!is_flat) {
		gm_page_line(page, 0);
		x = 3;
	}
	put_for(page, x + 1, facts, i);
}

void gm_top_layout_waits(struct gm_top_view *view, const struct gm_top_facts *f)
{
	struct gm_page *page = &view->places[GM_TOP_WAITS].page;

	for (int i = 0; i < f->n_waits; i++)
		if (gm_top_matches(view, f->waits[i].info.name,
				   f->waits[i].process.user,
				   f->waits[i].process.command, NULL))
			put_wait(page, view->is_flat, f, i);
	put_empty(view, page, f, f->n_waits, "no request waits");
}
