/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Checks what keys and clicks do to the screen of gpumapctl top. */

#include "tests/unit/top/node.h"

static enum gm_top_deed press(uint32_t key)
{
	enum gm_top_deed deed = gm_top_key(&view, &facts, key);

	node_draw();
	return deed;
}

static void type(const char *text)
{
	while (*text != '\0')
		press((unsigned char)*text++);
}

static void lines_are_selected(void)
{
	const struct gm_top_place *place = &view.places[GM_TOP_ROWS];

	node_make(64);
	node_draw();
	EQ(view.row, 0);
	press(GM_TOP_UP);
	EQ(view.row, 0);
	press(GM_TOP_DOWN);
	press('j');
	EQ(view.row, 2);
	press('k');
	EQ(view.row, 1);
	press(GM_TOP_END);
	EQ(view.row, 63);
	EQ(place->at, 65); /* with the headings of two nodes */
	press(GM_TOP_DOWN);
	EQ(view.row, 63);
	press(GM_TOP_PAGE_UP);
	OK(view.row < 63 && view.row > 63 - 24);
	press(GM_TOP_HOME);
	EQ(view.row, 0);
	EQ(place->first, 0); /* with its heading */
	press(GM_TOP_PAGE_DOWN);
	OK(view.row > 1);
	/* Over a heading. */
	view.row = 31;
	node_draw();
	press(GM_TOP_DOWN);
	EQ(view.row, 32);
	press(GM_TOP_UP);
	EQ(view.row, 31);
	/* The device stays selected in another order. */
	press('s');
	press('S');
	EQ(view.row, 31);
	node_make(0);
	node_draw();
	press(GM_TOP_DOWN);
	press(GM_TOP_END);
	EQ(press('d'), GM_TOP_DRAW);
	OK(!view.asks);
}

static void panels_are_changed(void)
{
	node_make(4);
	node_draw();
	EQ(view.focus, GM_TOP_ROWS);
	EQ(gm_top_layout_panels(&view),
	   1u << GM_TOP_ROWS | 1u << GM_TOP_SESSIONS);
	press('\t');
	EQ(view.focus, GM_TOP_SESSIONS);
	press('\t');
	EQ(view.focus, GM_TOP_MODELS);
	EQ(gm_top_layout_panels(&view),
	   1u << GM_TOP_ROWS | 1u << GM_TOP_MODELS);
	press(GM_TOP_DOWN);
	EQ(view.places[GM_TOP_MODELS].at, 1);
	press('\t');
	press('\t');
	EQ(view.focus, GM_TOP_ROWS);
	EQ(view.tab, GM_TOP_WAITS);
	press(GM_TOP_BACK_TAB);
	EQ(view.focus, GM_TOP_WAITS);
}

static void a_filter_is_typed(void)
{
	node_make(4);
	strcpy(rows[2].device.name, "L40S \xc3\xa9");
	node_draw();
	type("/l40");
	OK(shows(" filter: l40"));
	EQ(line_of("\n   0 cuda"), -1);
	OK(line_of("\n   2 cuda") > 0);
	press('q'); /* is a letter here */
	STR(view.filter, "l40q");
	press(GM_TOP_BACKSPACE);
	press(GM_TOP_ENTER);
	OK(shows(" q quit"));
	STR(view.filter, "l40");
	press('/');
	press(0xe9);
	STR(view.filter, "l40\xc3\xa9");
	press(0x6a21);
	press(0x1f600);
	STR(view.filter, "l40\xc3\xa9\xe6\xa8\xa1\xf0\x9f\x98\x80");
	press(GM_TOP_BACKSPACE);
	press(GM_TOP_BACKSPACE);
	press(GM_TOP_BACKSPACE);
	STR(view.filter, "l40");
	for (int i = 0; i < 100; i++)
		press('x');
	OK(strlen(view.filter) < GM_TOP_FILTER);
	press(GM_TOP_ESCAPE);
	STR(view.filter, "");
	OK(line_of("\n   0 cuda") > 0);
	/* No key of ncurses, and no control character, is a letter. */
	press('/');
	press(GM_TOP_UP);
	press(1);
	STR(view.filter, "");
	press(GM_TOP_ENTER);
}

static void a_drain_is_confirmed(void)
{
	node_make(4);
	node_draw();
	press(GM_TOP_DOWN);
	EQ(press('d'), GM_TOP_DRAW);
	OK(shows(
		"\n Drain row 1?  y or n: ends its jobs and memory, 1 session, "
		"1 share\n"));
	EQ(gm_top_layout_panels(&view),
	   1u << GM_TOP_ROWS | 1u << GM_TOP_SESSIONS | 1u << GM_TOP_MODELS);
	EQ(press('n'), GM_TOP_DRAW);
	OK(shows(" q quit"));
	press('d');
	EQ(press('\n'), GM_TOP_DRAW);
	OK(!view.asks);
	press('d');
	EQ(press('q'), GM_TOP_DRAW); /* no answer but y drains or quits */
	press('d');
	EQ(press('y'), GM_TOP_DRAIN);
	EQ(view.row, 1);
	facts.n_shares = -1;
	press('d');
	OK(shows(
		"\n Drain row 1?  y or n: ends its jobs and memory, and shares "
		"there\n"));
	press('n');
	rows[1].device.state = GPUMAP_DEVICE_DRAINING;
	OK(gm_top_is_drained(&facts, 1));
	press('d');
	OK(shows("\n Take row 1 into service again?  y or n\n"));
	EQ(press('Y'), GM_TOP_DRAIN);
}

static void a_mouse_selects(void)
{
	const struct gm_top_place *place = &view.places[GM_TOP_ROWS];

	node_make(64);
	node_draw();
	gm_top_click(&view, 30, place->y + 3);
	EQ(view.row, 2);
	gm_top_click(&view, 30, place->y); /* a heading */
	EQ(view.row, 0);
	gm_top_wheel(&view, 30, place->y, 3);
	EQ(view.row, 3);
	gm_top_wheel(&view, 30, place->y, -3);
	EQ(view.row, 0);
	gm_top_click(&view, 3, view.places[GM_TOP_SESSIONS].y + 1);
	EQ(view.focus, GM_TOP_SESSIONS);
	EQ(view.places[GM_TOP_SESSIONS].at, 1);
	gm_top_click(&view, 3, 0);
	gm_top_click(&view, 3, 1000);
	gm_top_click(&view, -1, -1);
	EQ(view.focus, GM_TOP_SESSIONS);
	view.asks = true;
	gm_top_click(&view, 30, place->y + 3);
	EQ(view.row, 0);
}

static void other_keys(void)
{
	node_make(4);
	node_draw();
	press('h');
	OK(shows("  d                               drain the selected row, or "
		 "undrain; asks\n"));
	EQ(view.page.n, 24);
	press('x');
	EQ(line_of("undrain"), -1);
	press('?');
	OK(view.is_help);
	EQ(press('q'), GM_TOP_QUIT);
	view.is_help = false;
	press(' ');
	OK(shows(" PAUSED "));
	press(' ');
	OK(!view.is_paused);
	press('t');
	EQ(line_of("NUMA node"), -1);
	strcpy(view.message, "drain of row 1: done");
	node_draw();
	OK(shows("\n drain of row 1: done\n"));
	press('x');
	EQ(line_of("done"), -1);
	EQ(press(3), GM_TOP_QUIT);
	EQ(press(0), GM_TOP_DRAW);
}

TAP_CASE()
{
	OK(setlocale(LC_CTYPE, "C.UTF-8") != NULL);
	lines_are_selected();
	panels_are_changed();
	a_filter_is_typed();
	a_drain_is_confirmed();
	a_mouse_selects();
	other_keys();
	gm_top_view_free(&view);
	free(screen);
	return tap_done();
}
