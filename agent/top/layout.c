/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/top/top.h"

/* From so many columns on the lower panels lie beside each other; from so many
 * lines for them on, below each other. */
#define WIDE    140
#define STACKED 15

/* ---- for all parts ------------------------------------------------------- */

bool gm_top_matches(const struct gm_top_view *view, const char *text, ...)
{
	bool found = view->filter[0] == '\0';
	va_list args;

	va_start(args, text);
	for (; text != NULL && !found; text = va_arg(args, const char *))
		found = strcasestr(text, view->filter) != NULL;
	va_end(args);
	return found;
}

void gm_top_layout_none(const struct gm_top_view *view, struct gm_page *page,
			const char *none)
{
	if (page->n > 0)
		return;
	gm_page_line(page, -1);
	gm_page_put(page, 1, page->width, GM_STYLE_DIM,
		    view->filter[0] != '\0' ? "nothing with this text" : none);
}

const char *gm_top_time(uint64_t seconds, char ret_text[32])
{
	const struct {
		const char *unit;
		uint64_t seconds;
	} units[] = {
		{ "s", 1 }, { "min", 60 }, { "h", 3600 }, { "d", 86400 }
	};
	size_t i = 0;

	while (i < 3 && seconds >= 2 * units[i + 1].seconds)
		i++;
	snprintf(ret_text, 32, "%llu %s",
		 (unsigned long long)(seconds / units[i].seconds),
		 units[i].unit);
	return ret_text;
}

const char *gm_top_rows_text(const uint64_t rows[GPUMAP_ROWS_MAX / 64],
			     char ret_text[GM_TOP_ROWS_TEXT])
{
	size_t all = 0, n;

	for (size_t i = 0; i < GPUMAP_ROWS_MAX / 64; i++)
		all += (size_t)__builtin_popcountll(rows[i]);
	n = (size_t)snprintf(ret_text, GM_TOP_ROWS_TEXT, "%s",
			     all == 0   ? "no row"
			     : all == 1 ? "row"
					: "rows");
	for (uint32_t row = 0; row < GPUMAP_ROWS_MAX; row++) {
		size_t room = GM_TOP_ROWS_TEXT - n;
		uint32_t last = row;

		if (!gm_top_has_row(rows, row))
			continue;
		if (room < 16) {
			snprintf(ret_text + n, room, ",...");
			break;
		}
		while (last + 1 < GPUMAP_ROWS_MAX &&
		       gm_top_has_row(rows, last + 1))
			last++;
		n += (size_t)snprintf(ret_text + n, room, "%s%u",
				      n > 4 ? "," : " ", row);
		if (last > row)
			n += (size_t)snprintf(ret_text + n,
					      GM_TOP_ROWS_TEXT - n, "%s%u",
					      last > row + 1 ? "-" : ",", last);
		row = last;
	}
	return ret_text;
}

bool gm_top_is_drained(const struct gm_top_facts *f, uint32_t row)
{
	return row < f->n_rows &&
	       f->rows[row].device.state == GPUMAP_DEVICE_DRAINING;
}

/* ---- lines of the screen ------------------------------------------------- */

static const char *state_of(const struct gpumap_health *health)
{
	return health->state == GPUMAP_RETIRED    ? "RETIRED"
	       : health->stale                    ? "GONE"
	       : health->state == GPUMAP_READY    ? "READY"
	       : health->state == GPUMAP_STARTING ? "STARTING"
						  : "DRAINING";
}

/* "08:12:03", of the local time. */
static void write_clock(uint64_t seconds, char ret_text[16])
{
	time_t when = (time_t)seconds;
	struct tm now;

	if (localtime_r(&when, &now) == NULL ||
	    strftime(ret_text, 16, "%H:%M:%S", &now) == 0)
		ret_text[0] = '\0';
}

static void put_header(struct gm_top_view *view, const struct gm_top_facts *f)
{
	uint32_t version = f->health.agent_version, died = 0;
	struct gm_page *page = &view->page;
	char text[32], clock[16];
	int x, end = view->width - 10;

	for (uint32_t i = 0; i < f->n_rows; i++)
		died += f->rows[i].device.restarts;
	gm_page_line(page, -1);
	x = gm_page_printf(page, 1, GM_STYLE_TITLE, "%s", f->instance);
	x = gm_page_printf(page, x + 2, GM_STYLE_PLAIN, "gpumapd %u.%u.%u",
			   version / 10000, version / 100 % 100, version % 100);
	x = gm_page_put(page, x + 1, end,
			gm_top_is_gone(f) ? GM_STYLE_BAD : GM_STYLE_GOOD,
			state_of(&f->health));
	if (f->up_s > 0 && !gm_top_is_gone(f))
		x = gm_page_printf(page, x, GM_STYLE_PLAIN, " for %s",
				   gm_top_time(f->up_s, text));
	x = gm_page_printf(page, x, GM_STYLE_DIM, ", start %llu",
			   (unsigned long long)f->health.epoch);
	x = gm_page_printf(page, x + 2, GM_STYLE_PLAIN, "%u row%s", f->n_rows,
			   f->n_rows == 1 ? "" : "s");
	if (died > 0)
		x = gm_page_printf(page, x + 2, GM_STYLE_WARN,
				   "%u worker%s died", died,
				   died == 1 ? "" : "s");
	if (view->is_paused)
		gm_page_put(page, x + 2, end, GM_STYLE_ALARM, " PAUSED ");
	write_clock(f->time_s, clock);
	gm_page_fill(page, end, end + 1, GM_STYLE_PLAIN, L' ');
	gm_page_right(page, end, view->width - 1, GM_STYLE_PLAIN, clock);
}

static void put_alarm(struct gm_top_view *view, const struct gm_top_facts *f)
{
	uint64_t ago = f->health.age_ns / 1000000000;
	char since[16], text[32];

	write_clock(f->time_s - ago, since);
	gm_page_line(&view->page, -1);
	gm_page_fill(&view->page, 0, view->width, GM_STYLE_ALARM, L' ');
	gm_page_printf(&view->page, 1, GM_STYLE_ALARM,
		       "No gpumapd since %s (%s), facts are old: run "
		       "gpumapctl doctor, systemctl status gpumapd",
		       since, gm_top_time(ago, text));
}

static int put_choice(struct gm_page *page, int x, const char *key,
		      const char *what)
{
	x = gm_page_put(page, x, page->width, GM_STYLE_KEY, key);
	return gm_page_put(page, x + 1, page->width, GM_STYLE_PLAIN, what) + 2;
}

static void put_question(struct gm_top_view *view, const struct gm_top_facts *f)
{
	bool is_drained = gm_top_is_drained(f, view->row);
	uint32_t shares = 0, sessions = 0;

	for (int i = 0; i < f->n_shares; i++)
		shares += gm_top_has_row(f->shares[i].info.rows, view->row);
	for (int i = 0; i < f->n_sessions; i++)
		sessions += gm_top_has_row(f->sessions[i].info.rows, view->row);
	gm_page_fill(&view->page, 0, view->width, GM_STYLE_ALARM, L' ');
	if (is_drained)
		gm_page_printf(&view->page, 1, GM_STYLE_ALARM,
			       "Take row %u into service again?  y or n",
			       view->row);
	else if (f->n_sessions < 0 || f->n_shares < 0)
		gm_page_printf(&view->page, 1, GM_STYLE_ALARM,
			       "Drain row %u?  y or n: ends its jobs and "
			       "memory, and shares there",
			       view->row);
	else
		gm_page_printf(&view->page, 1, GM_STYLE_ALARM,
			       "Drain row %u?  y or n: ends its jobs and "
			       "memory, %u session%s, %u share%s",
			       view->row, sessions, sessions == 1 ? "" : "s",
			       shares, shares == 1 ? "" : "s");
}

static void put_footer(struct gm_top_view *view, const struct gm_top_facts *f)
{
	struct gm_page *page = &view->page;
	int x = 1;

	gm_page_line(page, -1);
	if (view->asks) {
		put_question(view, f);
		return;
	}
	if (view->is_typing) {
		x = gm_page_put(page, x, page->width, GM_STYLE_KEY, "filter: ");
		x = gm_page_put(page, x, page->width, GM_STYLE_STRONG,
				view->filter);
		gm_page_put(page, x, page->width, GM_STYLE_ALARM, " ");
		return;
	}
	if (view->message[0] != '\0') {
		gm_page_put(page, x, page->width, GM_STYLE_WARN, view->message);
		return;
	}
	x = put_choice(page, x, "q", "quit");
	x = put_choice(page, x, "h", "help");
	x = put_choice(page, x, "Tab", "panel");
	x = put_choice(page, x, "s", "sort");
	x = put_choice(page, x, "/", "filter");
	x = put_choice(page, x, "t", "tree");
	x = put_choice(page, x, "d", "drain");
	put_choice(page, x, "space", "pause");
}

static void put_help(struct gm_top_view *view)
{
	static const char *const lines[][2] = {
		{ "arrows j k PgUp PgDn Home End", "move; so does the wheel" },
		{ "Tab, Shift-Tab", "go to another panel; so does a click" },
		{ "s, S", "sort rows by the next figure, the last" },
		{ "/", "only lines with a text, until Escape" },
		{ "t", "by NUMA node and user, or flat" },
		{ "d", "drain the selected row, or undrain; asks" },
		{ "space", "stop, and go on" },
		{ "r, Ctrl-L", "read and draw again" },
		{ "q, Ctrl-C", "quit" },
		{ "h, ?", "this help; any key ends it" },
	};
	struct gm_page *page = &view->page;

	gm_page_line(page, -1);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		gm_page_line(page, -1);
		gm_page_put(page, 2, page->width, GM_STYLE_KEY, lines[i][0]);
		gm_page_put(page, 34, page->width, GM_STYLE_PLAIN, lines[i][1]);
	}
	while (page->n < view->height - 1 && !page->failed)
		gm_page_line(page, -1);
}

/* ---- titles of panels ---------------------------------------------------- */

static int put_legend(struct gm_page *page, int x)
{
	const struct {
		enum gm_page_style style;
		wchar_t sign;
		char ascii;
		const char *what;
	} parts[] = {
		{ GM_STYLE_OURS, L'█', '#', "sessions" },
		{ GM_STYLE_OTHERS, L'▓', '+', "others" },
		{ GM_STYLE_PROMISED, L'▒', '=', "promised" },
		{ GM_STYLE_FREE, L'·', '.', "free" },
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		gm_page_fill(page, x, x + 2, parts[i].style,
			     gm_page_sign(page, parts[i].sign, parts[i].ascii));
		x = gm_page_put(page, x + 3, page->width, GM_STYLE_DIM,
				parts[i].what) +
		    2;
	}
	return x;
}

#define LEGEND 46 /* columns */

static void put_rows_title(struct gm_top_view *view)
{
	static const char *const sorts[GM_TOP_SORTS] = {
		"",
		" by used memory",
		" by promised memory",
		" by free memory",
		" by load",
		" by temperature",
		" by state",
	};
	struct gm_page *page = &view->page;
	int end = view->width - LEGEND, x = 2;
	bool has_focus = view->focus == GM_TOP_ROWS;

	gm_page_fill(page, 0, view->width, GM_STYLE_DIM,
		     gm_page_sign(page, L'─', '-'));
	gm_page_fill(page, 1, 2, GM_STYLE_PLAIN, L' ');
	x = gm_page_put(page, x, end, has_focus ? GM_STYLE_KEY : GM_STYLE_TITLE,
			"rows");
	if (view->sort != GM_TOP_BY_ROW)
		x = gm_page_put(page, x, end, GM_STYLE_PLAIN,
				sorts[view->sort]);
	if (view->filter[0] != '\0') {
		x = gm_page_put(page, x, end, GM_STYLE_WARN, " with ");
		x = gm_page_put(page, x, end, GM_STYLE_WARN, view->filter);
	}
	gm_page_fill(page, x, x + 1, GM_STYLE_PLAIN, L' ');
	gm_page_fill(page, end, view->width, GM_STYLE_PLAIN, L' ');
	put_legend(page, end + 1);
}

/* How many there are of what a panel shows, for its title; "": not known. */
static void count_of(const struct gm_top_facts *f, enum gm_top_panel panel,
		     char ret_text[16])
{
	int n = panel == GM_TOP_SESSIONS ? f->n_sessions
		: panel == GM_TOP_MODELS ? f->n_shares
					 : f->n_waits;

	if (panel == GM_TOP_MODELS && n >= 0)
		n += (int)f->n_maps;
	if (panel == GM_TOP_SESSIONS && n >= 0)
		n += (int)f->n_holders;
	ret_text[0] = '\0';
	if (n >= 0)
		snprintf(ret_text, 16, " %d", n);
}

static const char *const names[GM_TOP_PANELS] = {
	[GM_TOP_SESSIONS] = "sessions and reservations",
	[GM_TOP_MODELS] = "models",
	[GM_TOP_WAITS] = "waits",
};

static void put_title(struct gm_top_view *view, const struct gm_top_facts *f,
		      enum gm_top_panel panel)
{
	const struct gm_top_place *place = &view->places[panel];
	struct gm_page *page = &view->page;
	int end = place->x + place->width;
	bool is_tab =
		view->height > 0 &&
		!view->places[GM_TOP_SESSIONS + (panel == GM_TOP_SESSIONS)]
			 .is_shown;
	int x = place->x + 2;

	gm_page_fill(page, place->x, end, GM_STYLE_DIM,
		     gm_page_sign(page, L'─', '-'));
	gm_page_fill(page, x - 1, x, GM_STYLE_PLAIN, L' ');
	for (int i = GM_TOP_SESSIONS; i < GM_TOP_PANELS; i++) {
		char count[16];

		if (!is_tab && i != (int)panel)
			continue;
		count_of(f, i, count);
		x = gm_page_put(page, x, end,
				i == (int)view->focus ? GM_STYLE_KEY
				: i == (int)panel     ? GM_STYLE_TITLE
						      : GM_STYLE_DIM,
				names[i]);
		x = gm_page_put(page, x, end, GM_STYLE_PLAIN, count);
		gm_page_fill(page, x, x + 2, GM_STYLE_PLAIN, L' ');
		x += 2;
	}
	gm_page_fill(page, x - 1, end, GM_STYLE_DIM,
		     gm_page_sign(page, L'─', '-'));
}

/* ---- what is where ------------------------------------------------------- */

static int least(int a, int b)
{
	return a < b ? a : b;
}

static int most(int a, int b)
{
	return a > b ? a : b;
}

static void show(struct gm_top_view *view, enum gm_top_panel panel, int y,
		 int height)
{
	struct gm_top_place *place = &view->places[panel];

	place->is_shown = true;
	place->y = y;
	place->height = most(height, 0);
}

/* Let the lower panels have @height lines from @y on, with their titles. */
static void place_lower(struct gm_top_view *view, int y, int height)
{
	struct gm_top_place *places = view->places;
	int waits = places[GM_TOP_WAITS].page.n;
	int models = places[GM_TOP_MODELS].page.n;

	if (view->width >= WIDE) {
		waits = least(most(waits, 2), (height - 2) / 3);
		show(view, GM_TOP_SESSIONS, y + 1, height - 1);
		show(view, GM_TOP_MODELS, y + 1, height - 2 - waits);
		show(view, GM_TOP_WAITS, y + height - waits, waits);
	} else if (height >= STACKED) {
		waits = least(most(waits, 2), (height - 3) / 4);
		models = least(most(models, 2), (height - 3) * 2 / 5);
		show(view, GM_TOP_SESSIONS, y + 1, height - 3 - waits - models);
		y += height - 2 - waits - models;
		show(view, GM_TOP_MODELS, y + 1, models);
		show(view, GM_TOP_WAITS, y + models + 2, waits);
	} else {
		show(view, view->tab, y + 1, height - 1);
	}
}

/* All of everything, below each other.  Returns the lines. */
static int place_all(struct gm_top_view *view, int y)
{
	for (int i = 0; i < GM_TOP_PANELS; i++) {
		y += i == GM_TOP_ROWS ? 2 : 1;
		show(view, i, y, view->places[i].page.n);
		y += view->places[i].page.n;
	}
	return y;
}

/* From line @y on.  Returns the lines of the detail. */
static int place(struct gm_top_view *view, int y)
{
	int body = view->height - y - 1;
	int detail = body >= 60 ? 9 : body >= 32 ? 6 : 3;
	int rest = body - 2 - detail;
	int lower = 4, rows;

	for (int i = GM_TOP_SESSIONS; i < GM_TOP_PANELS; i++)
		lower = most(lower, view->places[i].page.n + 1);
	if (view->width >= WIDE) /* two of them below each other */
		lower = most(lower, view->places[GM_TOP_MODELS].page.n +
					    view->places[GM_TOP_WAITS].page.n +
					    2);
	rows = least(view->places[GM_TOP_ROWS].page.n,
		     rest - least(lower, rest * 2 / 5));

	show(view, GM_TOP_ROWS, y + 2, rows);
	place_lower(view, y + 2 + rows + detail, rest - rows);
	return detail;
}

/* ---- the selected line of each panel ------------------------------------- */

/* The selected row keeps its device where the order changes. */
static void find_row(struct gm_top_view *view)
{
	struct gm_top_place *place = &view->places[GM_TOP_ROWS];
	int first = -1;

	for (int i = 0; i < place->page.n; i++) {
		if (place->page.tags[i] < 0)
			continue;
		if (first < 0)
			first = i;
		if ((uint32_t)place->page.tags[i] == view->row) {
			place->at = i;
			return;
		}
	}
	place->at = most(first, 0);
	if (first >= 0)
		view->row = (uint32_t)place->page.tags[first];
}

static void scroll(struct gm_top_place *place)
{
	int n = place->page.n, first = place->first;

	place->at = most(least(place->at, n - 1), 0);
	if (place->at < first)
		first = place->at;
	if (place->at >= first + place->height)
		first = place->at - place->height + 1;
	/* With its heading. */
	if (first == place->at && first > 0 &&
	    place->page.tags[first - 1] < 0 && place->height > 1)
		first--;
	place->first = most(least(first, n - place->height), 0);
}

/* ---- all ----------------------------------------------------------------- */

static void build(struct gm_top_view *view, const struct gm_top_facts *f)
{
	static void (*const write[GM_TOP_PANELS])(
		struct gm_top_view * view, const struct gm_top_facts *facts) = {
		[GM_TOP_ROWS] = gm_top_layout_rows,
		[GM_TOP_SESSIONS] = gm_top_layout_sessions,
		[GM_TOP_MODELS] = gm_top_layout_models,
		[GM_TOP_WAITS] = gm_top_layout_waits,
	};
	bool is_wide = view->width >= WIDE && view->height > 0;
	int middle = is_wide ? view->width / 2 : 0;

	for (int i = 0; i < GM_TOP_PANELS; i++) {
		struct gm_top_place *p = &view->places[i];

		p->is_shown = false;
		p->x = i > GM_TOP_SESSIONS ? middle : 0;
		p->width = !is_wide || i == GM_TOP_ROWS ? view->width
			   : i == GM_TOP_SESSIONS       ? middle - 1
							: view->width - middle;
		gm_page_clear(&p->page, p->width, view->is_ascii);
		write[i](view, f);
	}
	find_row(view);
}

static void put_line(struct gm_top_view *view, const struct gm_top_facts *f,
		     int y)
{
	gm_page_line(&view->page, -1);
	for (int i = 0; i < GM_TOP_PANELS; i++) {
		const struct gm_top_place *p = &view->places[i];
		int line = p->first + y - p->y;

		if (!p->is_shown)
			continue;
		if (i == GM_TOP_ROWS && y == p->y - 2)
			put_rows_title(view);
		else if (i == GM_TOP_ROWS && y == p->y - 1)
			gm_top_layout_headings(view, f);
		else if (i != GM_TOP_ROWS && y == p->y - 1)
			put_title(view, f, i);
		else if (y >= p->y && y < p->y + p->height && line < p->page.n)
			gm_page_copy(&view->page, p->x, &p->page, line,
				     view->height > 0 && line == p->at &&
						     i == (int)view->focus &&
						     p->page.tags[line] >= 0
					     ? GM_PAGE_CHOSEN
					     : 0);
	}
}

static void put_too_small(struct gm_top_view *view)
{
	const char *const lines[] = { "too small:", "" };
	struct gm_page *page = &view->page;

	gm_page_line(page, -1);
	gm_page_put(page, 0, view->width, GM_STYLE_WARN, lines[0]);
	gm_page_line(page, -1);
	gm_page_printf(page, 0, GM_STYLE_PLAIN, "top needs %dx%d,",
		       GM_TOP_LEAST_WIDTH, GM_TOP_LEAST_HEIGHT);
	gm_page_line(page, -1);
	gm_page_printf(page, 0, GM_STYLE_PLAIN, "this is %dx%d", view->width,
		       view->height);
	while (page->n < view->height && !page->failed)
		gm_page_line(page, -1);
	if (page->n > view->height && view->height > 0)
		page->n = view->height;
}

void gm_top_layout(struct gm_top_view *view, const struct gm_top_facts *f)
{
	struct gm_page *page = &view->page;
	int end, detail = 0;

	gm_page_clear(page, view->width, view->is_ascii);
	if (view->height > 0 && (view->width < GM_TOP_LEAST_WIDTH ||
				 view->height < GM_TOP_LEAST_HEIGHT)) {
		put_too_small(view);
		return;
	}
	put_header(view, f);
	if (gm_top_is_gone(f))
		put_alarm(view, f);
	if (view->is_help && view->height > 0) {
		put_help(view);
		put_footer(view, f);
		return;
	}
	build(view, f);
	if (view->height > 0) {
		detail = place(view, page->n);
		end = view->height - 1;
	} else {
		end = place_all(view, page->n);
	}
	for (int i = 0; i < GM_TOP_PANELS; i++)
		if (view->places[i].is_shown)
			scroll(&view->places[i]);
	while (page->n < end && !page->failed) {
		const struct gm_top_place *rows = &view->places[GM_TOP_ROWS];
		int y = page->n, line = y - rows->y - rows->height;

		put_line(view, f, y);
		if (line >= 0 && line < detail)
			gm_top_layout_detail(view, f, line, detail);
	}
	if (view->height > 0)
		put_footer(view, f);
}

unsigned int gm_top_layout_panels(const struct gm_top_view *view)
{
	unsigned int panels = 1u << GM_TOP_ROWS;

	for (int i = 0; i < GM_TOP_PANELS; i++)
		if (view->places[i].is_shown)
			panels |= 1u << i;
	if (view->asks) /* says what a drain ends */
		panels |= 1u << GM_TOP_SESSIONS | 1u << GM_TOP_MODELS;
	return panels;
}

void gm_top_view_free(struct gm_top_view *view)
{
	for (int i = 0; i < GM_TOP_PANELS; i++)
		gm_page_free(&view->places[i].page);
	gm_page_free(&view->page);
}
