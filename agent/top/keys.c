/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <string.h>

#include "agent/top/top.h"

/* ---- the selected line --------------------------------------------------- */

/* Go to the line that can be selected at @to or next behind it, seen from the
 * direction @step; else stay. */
static void go(struct gm_top_view *view, enum gm_top_panel panel, int to,
	       int step)
{
	struct gm_top_place *place = &view->places[panel];
	const struct gm_page *page = &place->page;

	to = to < 0 ? 0 : to >= page->n ? page->n - 1 : to;
	for (int turn = 0; turn < 2; turn++, step = -step)
		for (int i = to; i >= 0 && i < page->n; i += step) {
			if (page->tags[i] < 0)
				continue;
			place->at = i;
			if (panel == GM_TOP_ROWS)
				view->row = (uint32_t)page->tags[i];
			return;
		}
}

static void move(struct gm_top_view *view, enum gm_top_panel panel, int lines)
{
	go(view, panel, view->places[panel].at + lines, lines < 0 ? -1 : 1);
}

static bool moves(struct gm_top_view *view, uint32_t key)
{
	const struct gm_top_place *place = &view->places[view->focus];
	int page = place->height > 1 ? place->height - 1 : 1;

	switch (key) {
	case GM_TOP_UP:
	case 'k':
		move(view, view->focus, -1);
		return true;
	case GM_TOP_DOWN:
	case 'j':
		move(view, view->focus, 1);
		return true;
	case GM_TOP_PAGE_UP:
		move(view, view->focus, -page);
		return true;
	case GM_TOP_PAGE_DOWN:
		move(view, view->focus, page);
		return true;
	case GM_TOP_HOME:
		go(view, view->focus, 0, 1);
		return true;
	case GM_TOP_END:
		go(view, view->focus, place->page.n - 1, -1);
		return true;
	default:
		return false;
	}
}

static void focus(struct gm_top_view *view, enum gm_top_panel panel)
{
	view->focus = panel;
	if (panel != GM_TOP_ROWS)
		view->tab = panel;
}

/* ---- a filter ------------------------------------------------------------ */

/* Take the last character away, whose bytes behind the first begin with 10. */
static void shorten(char *text)
{
	size_t n = strlen(text);

	while (n > 0 && ((unsigned char)text[--n] & 0xc0) == 0x80)
		continue;
	text[n] = '\0';
}

/* In UTF-8: names in the map are so. */
static void append(char *text, uint32_t ch)
{
	size_t n = strlen(text);

	if (n + 4 >= GM_TOP_FILTER)
		return;
	if (ch < 0x80) {
		text[n++] = (char)ch;
	} else if (ch < 0x800) {
		text[n++] = (char)(0xc0 | ch >> 6);
	} else if (ch < 0x10000) {
		text[n++] = (char)(0xe0 | ch >> 12);
		text[n++] = (char)(0x80 | (ch >> 6 & 0x3f));
	} else {
		text[n++] = (char)(0xf0 | ch >> 18);
		text[n++] = (char)(0x80 | (ch >> 12 & 0x3f));
		text[n++] = (char)(0x80 | (ch >> 6 & 0x3f));
	}
	if (ch >= 0x80)
		text[n++] = (char)(0x80 | (ch & 0x3f));
	text[n] = '\0';
}

static void type(struct gm_top_view *view, uint32_t key)
{
	if (key == GM_TOP_ENTER)
		view->is_typing = false;
	else if (key == GM_TOP_BACKSPACE)
		shorten(view->filter);
	else if (key >= ' ' && key < GM_TOP_UP && key != 0x7f)
		append(view->filter, key);
	if (key == GM_TOP_ESCAPE) {
		view->filter[0] = '\0';
		view->is_typing = false;
	}
}

/* ---- all ----------------------------------------------------------------- */

static enum gm_top_deed answer(struct gm_top_view *view, uint32_t key)
{
	view->asks = false;
	return key == 'y' || key == 'Y' ? GM_TOP_DRAIN : GM_TOP_DRAW;
}

static void ask(struct gm_top_view *view, const struct gm_top_facts *facts)
{
	focus(view, GM_TOP_ROWS);
	if (view->row < facts->n_rows)
		view->asks = true;
}

enum gm_top_deed gm_top_key(struct gm_top_view *view,
			    const struct gm_top_facts *facts, uint32_t key)
{
	view->message[0] = '\0';
	if (view->asks)
		return answer(view, key);
	if (view->is_typing) {
		type(view, key);
		return GM_TOP_DRAW;
	}
	if (view->is_help && key != 'q') {
		view->is_help = false;
		return GM_TOP_DRAW;
	}
	if (moves(view, key))
		return GM_TOP_DRAW;
	switch (key) {
	case 'q':
	case 'Q':
	case 3: /* Ctrl-C */
		return GM_TOP_QUIT;
	case 'h':
	case '?':
		view->is_help = true;
		break;
	case '\t':
		focus(view, (view->focus + 1) % GM_TOP_PANELS);
		break;
	case GM_TOP_BACK_TAB:
		focus(view, (view->focus + GM_TOP_PANELS - 1) % GM_TOP_PANELS);
		break;
	case 's':
		view->sort = (view->sort + 1) % GM_TOP_SORTS;
		break;
	case 'S':
		view->sort = (view->sort + GM_TOP_SORTS - 1) % GM_TOP_SORTS;
		break;
	case '/':
		view->is_typing = true;
		break;
	case GM_TOP_ESCAPE:
		view->filter[0] = '\0';
		break;
	case 't':
		view->is_flat = !view->is_flat;
		break;
	case ' ':
		view->is_paused = !view->is_paused;
		break;
	case 'd':
		ask(view, facts);
		break;
	default:
		break;
	}
	return GM_TOP_DRAW;
}

/* ---- the mouse ----------------------------------------------------------- */

static bool find(const struct gm_top_view *view, int x, int y,
		 enum gm_top_panel *ret_panel)
{
	for (int i = 0; i < GM_TOP_PANELS; i++) {
		const struct gm_top_place *p = &view->places[i];

		if (!p->is_shown || x < p->x || x >= p->x + p->width ||
		    y < p->y || y >= p->y + p->height)
			continue;
		*ret_panel = i;
		return true;
	}
	return false;
}

void gm_top_click(struct gm_top_view *view, int x, int y)
{
	const struct gm_top_place *place;
	enum gm_top_panel panel;

	if (view->asks || view->is_help || !find(view, x, y, &panel))
		return;
	focus(view, panel);
	place = &view->places[panel];
	go(view, panel, place->first + y - place->y, -1);
}

void gm_top_wheel(struct gm_top_view *view, int x, int y, int lines)
{
	enum gm_top_panel panel;

	if (!view->asks && !view->is_help && find(view, x, y, &panel))
		move(view, panel, lines);
}
