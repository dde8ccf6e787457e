/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * wait_line: which places are tried when something has changed, and that no
 * change is lost to a place that is being tried.
 */

#include "agent/daemon/account/wait_line.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/daemon.h"
#include "tests/support/dice.h"
#include "tests/support/tap.h"

#define PLACES  8u
#define LONG_NS UINT64_C(3600000000000)

static struct gm_daemon *d;
static struct gm_wait_place places[PLACES];
static char tried[64];                 /* a letter for each place, in order */
static struct gm_wait_place *to_leave; /* when another one is tried */

static void again(struct gm_wait_place *place)
{
	size_t n = strlen(tried);

	tried[n] = (char)('a' + (place - places));
	tried[n + 1] = '\0';
	if (to_leave != NULL && to_leave != place)
		gm_wait_line_leave(d, to_leave);
}

/* Is there to be a look at once? */
static bool is_due(void)
{
	return d->line->timer.due_ns != 0 &&
	       d->line->timer.due_ns <= gm_loop_now();
}

/* All looks that are due, without their end.  Returns the places that were
 * tried. */
static const char *look(void)
{
	tried[0] = '\0';
	while (is_due() && strlen(tried) < 32) {
		gm_timer_stop(d->loop, &d->line->timer);
		d->line->timer.fired(&d->line->timer);
	}
	return tried;
}

/* The rows are bits. */
static struct gm_wait_place *come(uint32_t i, uint64_t rows, bool takes_all)
{
	places[i] = (struct gm_wait_place){ .again = again,
					    .name = "place",
					    .until_ns = gm_loop_now() + LONG_NS,
					    .rows = { rows },
					    .claims = { rows },
					    .takes_all = takes_all };
	gm_wait_line_wait(d, &places[i]);
	return &places[i];
}

/* Those that were tried wait again, until nothing is due. */
static void rest(void)
{
	do {
		look();
		for (uint32_t i = 0; i < PLACES; i++)
			if (places[i].number != 0 && places[i].is_tried)
				gm_wait_line_wait(d, &places[i]);
	} while (is_due());
}

static void end(void)
{
	for (uint32_t i = 0; i < PLACES; i++)
		gm_wait_line_leave(d, &places[i]);
}

static void the_first_of_each_row_is_tried(void)
{
	come(0, 1, true);
	come(1, 2, true);
	come(2, 1, true);
	come(3, 3, false); /* each of its rows is that of another one */
	come(4, 4, true);
	come(5, 12, false); /* but not this row */
	come(6, 24, true);  /* all, and one is of another */
	come(7, 32, true);
	rest();
	gm_wait_line_changed(d);
	STR(look(), "abefh");
	rest();
	gm_wait_line_leave(d, &places[0]);
	STR(look(), "bcefh");
	rest();
	gm_wait_line_leave(d, &places[1]);
	STR(look(), "cdefh");
	rest();
	end();
}

static void a_place_that_comes_is_tried_once(void)
{
	uint64_t before;

	come(0, 1, true);
	OK(is_due());
	STR(look(), "a");
	/* Nothing has changed since. */
	gm_wait_line_wait(d, &places[0]);
	OK(!is_due());
	/* A start window may end without a change that the agent sees. */
	before = gm_loop_now();
	gm_wait_line_wait(d, &places[0]);
	OK(d->line->timer.due_ns >= before + GM_WAIT_LINE_LOOK_NS);
	places[0].is_for_start = true;
	gm_wait_line_wait(d, &places[0]);
	OK(d->line->timer.due_ns <= gm_loop_now() + GM_WAIT_LINE_START_NS);
	end();
}

static void no_change_is_lost_while_one_is_tried(void)
{
	come(0, 1, true);
	come(1, 2, true);
	rest();
	gm_wait_line_changed(d);
	STR(look(), "ab");
	/* The look comes before the place waits again; */
	gm_wait_line_changed(d);
	STR(look(), "");
	gm_wait_line_wait(d, &places[0]);
	STR(look(), "a");
	gm_wait_line_wait(d, &places[0]);
	OK(!is_due());
	gm_wait_line_wait(d, &places[1]);
	STR(look(), "ab");
	rest();
	/* or after that. */
	gm_wait_line_changed(d);
	STR(look(), "ab");
	gm_wait_line_changed(d);
	gm_wait_line_wait(d, &places[0]);
	gm_wait_line_wait(d, &places[1]);
	OK(is_due());
	STR(look(), "ab");
	rest();
	end();
}

static void one_whose_time_is_over_is_tried(void)
{
	come(0, 1, true);
	come(1, 1, true);
	rest();
	places[1].until_ns = gm_loop_now();
	gm_wait_line_wait(d, &places[1]);
	STR(look(), "ab");
	end();
}

static void one_may_leave_while_others_are_tried(void)
{
	come(0, 1, true);
	come(1, 2, true);
	come(2, 4, true);
	rest();
	to_leave = &places[1];
	gm_wait_line_changed(d);
	/* Its end is a change, which those that are tried hear of later. */
	STR(look(), "ac");
	to_leave = NULL;
	gm_wait_line_wait(d, &places[0]);
	gm_wait_line_wait(d, &places[2]);
	STR(look(), "ac");
	end();
}

static void those_before_are_known(void)
{
	struct gm_wait_place outside = { .number = 0 };
	uint64_t rows[GM_ROW_WORDS];

	EQ(gm_wait_line_before(d, &outside, rows), 0);
	EQ(rows[0], 0);
	come(0, 1, true);
	come(1, 6, false);
	EQ(gm_wait_line_before(d, &places[0], rows), 0);
	EQ(gm_wait_line_before(d, &places[1], rows), 1);
	EQ(rows[0], 1);
	EQ(gm_wait_line_before(d, &outside, rows), 2);
	EQ(rows[0], 7);
	/* One that waits again keeps its place. */
	rest();
	gm_wait_line_wait(d, &places[0]);
	EQ(gm_wait_line_before(d, &places[1], rows), 1);
	gm_wait_line_leave(d, &places[0]);
	gm_wait_line_leave(d, &places[0]);
	EQ(gm_wait_line_before(d, &outside, rows), 1);
	end();
}

static void a_row_that_is_not_claimed_is_left(void)
{
	uint64_t rows[GM_ROW_WORDS];

	come(0, 3, true)->claims[0] = 0;
	come(1, 1, true);
	come(2, 1, true);
	rest();
	gm_wait_line_changed(d);
	STR(look(), "ab");
	EQ(gm_wait_line_before(d, &places[2], rows), 2);
	EQ(rows[0], 1);
	end();
}

/* One that takes no memory comes after those that wait to start, too. */
static void one_that_takes_none_waits_for_windows(void)
{
	uint64_t rows[GM_ROW_WORDS];

	come(0, 1, true);
	come(1, 2, true)->is_for_start = true;
	come(2, 1, true)->takes_none = true;
	come(3, 2, true)->takes_none = true;
	come(4, 1, true);
	rest();
	gm_wait_line_changed(d);
	STR(look(), "abc");
	EQ(gm_wait_line_before(d, &places[3], rows), 3);
	EQ(rows[0], 2);
	EQ(gm_wait_line_before(d, &places[4], rows), 4);
	EQ(rows[0], 3);
	end();
}

/* Some rows of a place are not claimed. */
static void add_row(uint32_t i, uint32_t row)
{
	gm_wait_line_add_row(places[i].rows, row);
	if (dice(4) != 0)
		gm_wait_line_add_row(places[i].claims, row);
}

/* Rows beyond the first word, too. */
static bool may_move(uint32_t i)
{
	bool has_free = false, has_taken = false;

	for (uint32_t row = 0; row < GM_ROWS; row++) {
		bool is_taken = false;

		if (!gm_wait_line_has_row(places[i].rows, row))
			continue;
		for (uint32_t k = 0; k < i; k++)
			is_taken |= gm_wait_line_has_row(places[k].claims, row);
		has_free |= !is_taken;
		has_taken |= is_taken;
	}
	return places[i].takes_all ? !has_taken : has_free;
}

static void any_line_is_tried_by_the_rule(void)
{
	uint32_t wrong = 0;

	for (int round = 0; round < 2000; round++) {
		char want[PLACES + 1] = "";
		size_t n = 0;

		for (uint32_t i = 0; i < PLACES; i++) {
			come(i, 0, dice(2) != 0);
			for (uint64_t k = 1 + dice(3); k > 0; k--)
				add_row(i, (uint32_t)(dice(2) ? dice(6)
							      : 250 + dice(6)));
		}
		for (uint32_t i = 0; i < PLACES; i++)
			if (may_move(i))
				want[n++] = (char)('a' + i);
		rest();
		gm_wait_line_changed(d);
		wrong += strcmp(look(), want) != 0;
		for (uint32_t i = 0; i < PLACES; i++)
			gm_wait_line_leave(d, &places[i]);
	}
	EQ(wrong, 0);
}

TAP_CASE()
{
	d = gm_daemon_new();
	if (d == NULL || gm_loop_init(d->loop) != 0)
		return 99;
	the_first_of_each_row_is_tried();
	a_place_that_comes_is_tried_once();
	no_change_is_lost_while_one_is_tried();
	one_whose_time_is_over_is_tried();
	one_may_leave_while_others_are_tried();
	those_before_are_known();
	a_row_that_is_not_claimed_is_left();
	one_that_takes_none_waits_for_windows();
	any_line_is_tried_by_the_rule();
	gm_wait_line_exit(d);
	gm_loop_exit(d->loop);
	gm_daemon_free(d);
	return tap_done();
}
