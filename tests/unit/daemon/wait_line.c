/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * wait_line: which places are tried when something has changed, what each
 * leaves to those behind it, and that no change is lost to a place that is
 * being tried.
 */

#include <stdlib.h>
#include <unistd.h>

#include "agent/daemon/account/ledger.h"
#include "agent/daemon/account/wait_line.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/segment/directory.h"
#include "gpumap.h"
#include "tests/support/dice.h"
#include "tests/support/tap.h"

#define PLACES  8u
#define LONG_NS UINT64_C(3600000000000)
#define TOTAL   UINT64_C(100) /* bytes of each row */

static struct gm_daemon *d;
static struct gm_wait_place places[PLACES];
static char tried[64];                 /* a letter for each place, in order */
static struct gm_wait_place *to_leave; /* when another one is tried */

static bool again(struct gm_wait_place *place)
{
	size_t n = strlen(tried);

	tried[n] = (char)('a' + (place - places));
	tried[n + 1] = '\0';
	if (to_leave != NULL && to_leave != place)
		gm_wait_line_leave(d, to_leave);
	return true;
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

/* The rows are bits, and it asks for all of each. */
static struct gm_wait_place *come(uint32_t i, uint64_t rows, bool takes_all)
{
	places[i] = (struct gm_wait_place){ .again = again,
					    .name = "place",
					    .until_ns = gm_loop_now() + LONG_NS,
					    .rows = { rows },
					    .claims = { rows },
					    .takes_all = takes_all };
	for (uint32_t row = 0; row < GM_ROWS; row++)
		places[i].asks[row] = TOTAL;
	gm_wait_line_wait(d, &places[i]);
	return &places[i];
}

/* One that asks for @bytes of row 0. */
static struct gm_wait_place *come_for(uint32_t i, uint64_t bytes, uint32_t uid)
{
	places[i] = (struct gm_wait_place){ .again = again,
					    .name = "place",
					    .uid = uid,
					    .until_ns = gm_loop_now() + LONG_NS,
					    .rows = { 1 },
					    .claims = { 1 },
					    .asks = { bytes },
					    .takes_all = true };
	gm_wait_line_wait(d, &places[i]);
	return &places[i];
}

/* A reservation that came at @came_ns. */
static void hold(uint32_t slot, uint32_t row, uint64_t bytes, uint64_t came_ns,
		 bool is_for_good)
{
	struct gm_reservation *r = malloc(sizeof(*r) + sizeof(r->of[0]));

	if (r == NULL)
		exit(99);
	*r = (struct gm_reservation){ .n = 1, .came_ns = came_ns };
	r->of[0] = (struct gm_promise){ .row = row, .bytes = bytes };
	free(d->ledger->of[slot]);
	d->ledger->of[slot] = r;
	d->directory->objects[slot].flags =
		GM_OBJECT_COMMITTED | (is_for_good ? 0 : GM_OBJECT_HELD);
}

static void hold_nothing(void)
{
	for (uint32_t slot = 0; slot < PLACES; slot++) {
		free(d->ledger->of[slot]);
		d->ledger->of[slot] = NULL;
	}
}

/* The most that a newcomer may have of row 0. */
static uint64_t leave_to(uint32_t uid)
{
	const struct gm_wait_place newcomer = { .uid = uid };
	struct gm_wait_limits limits;

	d->line->fresh_ns = 0;
	gm_wait_line_limits(d, &newcomer, &limits);
	return limits.bytes[0];
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

/* One of each user in a turn of the loop. */
static void users_take_turns(void)
{
	come_for(0, 10, 1);
	come_for(1, 10, 1);
	come_for(2, 10, 2);
	come_for(3, 10, 1);
	come_for(4, 10, 2);
	rest();
	gm_wait_line_changed(d);
	STR(look(), "acbed");
	end();
}

static void a_place_that_comes_is_tried_once(void)
{
	uint64_t before, due;

	come(0, 1, true);
	OK(is_due());
	STR(look(), "a");
	/* Nothing has changed since.  The next look comes in its time, though
	 * places wait again meanwhile. */
	before = gm_loop_now();
	gm_timer_stop(d->loop, &d->line->timer);
	gm_wait_line_wait(d, &places[0]);
	due = d->line->timer.due_ns;
	OK(due >= before + GM_WAIT_LINE_LOOK_NS);
	gm_wait_line_wait(d, &places[0]);
	OK(d->line->timer.due_ns == due);
	/* A start window may end without a change that the agent sees. */
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
	STR(look(), "b");
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
	STR(look(), "b");
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
	/* Its end is a change, which the one that was tried hears of later. */
	STR(look(), "ac");
	to_leave = NULL;
	gm_wait_line_wait(d, &places[0]);
	gm_wait_line_wait(d, &places[2]);
	STR(look(), "a");
	end();
}

static void what_fits_beside_may_pass(void)
{
	uint64_t came_ns;

	EQ(leave_to(0), UINT64_MAX);
	came_ns = come_for(0, 70, 0)->came_ns;
	EQ(leave_to(0), 30);
	EQ(leave_to(1), 30);
	/* Those that were there before will end; one that has passed will, too,
	 * but not in time. */
	hold(0, 0, 60, came_ns - 1, false);
	EQ(leave_to(0), 30);
	hold(1, 0, 10, came_ns, false);
	EQ(leave_to(0), 20);
	hold(2, 0, 25, came_ns + 1, false);
	EQ(leave_to(0), 0);
	hold(3, 1, 90, came_ns, false); /* of another row */
	EQ(leave_to(0), 0);
	hold_nothing();
	/* A reservation that is kept for good never ends. */
	hold(0, 0, 20, came_ns - 1, true);
	EQ(leave_to(0), 10);
	hold(0, 0, 31, came_ns, true);
	EQ(leave_to(0), UINT64_MAX);
	hold_nothing();
	come_for(1, 40, 0);
	EQ(leave_to(0), 30);
	gm_wait_line_leave(d, &places[0]);
	EQ(leave_to(0), 60);
	end();
}

static void what_never_fits_keeps_none_waiting(void)
{
	come_for(0, TOTAL + 1, 0);
	EQ(leave_to(0), UINT64_MAX);
	come_for(1, 10, 0);
	rest();
	gm_wait_line_changed(d);
	STR(look(), "ab");
	/* All of its rows, or none. */
	places[0].asks[0] = 10;
	places[0].asks[1] = TOTAL + 1;
	places[0].claims[0] = places[0].rows[0] = 3;
	EQ(leave_to(1), 90);
	places[0].takes_one = true;
	places[0].takes_all = false;
	EQ(leave_to(1), 90);
	gm_wait_line_leave(d, &places[1]);
	EQ(leave_to(1), 90);
	places[0].takes_one = false;
	EQ(leave_to(1), UINT64_MAX);
	end();
}

/* Memory of a process that has ended is seen to be free a little later. */
static void strangers_are_not_believed_at_once(void)
{
	come_for(0, 70, 0);
	EQ(leave_to(0), 30);
	d->devices->of[0]->moving.free_bytes = 60;
	EQ(leave_to(0), 30);
	d->line->strange_ns[0] -= GM_WAIT_LINE_FREED_NS;
	EQ(leave_to(0), UINT64_MAX);
	d->devices->of[0]->moving.free_bytes = 80;
	EQ(leave_to(0), 10);
	d->devices->of[0]->moving.free_bytes = TOTAL;
	EQ(leave_to(0), 30);
	end();
}

/* A user's second place keeps the row from that user alone. */
static void a_user_keeps_a_row_by_one_place(void)
{
	come_for(0, 20, 1);
	come_for(1, 95, 1);
	come_for(2, 40, 2);
	EQ(leave_to(1), 5);
	EQ(leave_to(2), 60);
	EQ(leave_to(3), 60);
	rest();
	gm_wait_line_changed(d);
	STR(look(), "ac");
	rest();
	gm_wait_line_leave(d, &places[0]);
	EQ(leave_to(3), 5);
	STR(look(), "b");
	rest();
	/* Its first that keeps the row. */
	places[1].claims[0] = 0;
	come_for(3, 30, 1);
	EQ(leave_to(3), 60);
	EQ(leave_to(1), 60);
	gm_wait_line_leave(d, &places[2]);
	EQ(leave_to(3), 70);
	end();
}

static uint32_t n_before(uint32_t i)
{
	const struct gm_wait_place *place = &places[i];
	uint32_t n;

	gm_wait_line_before(d, &place, 1, &n);
	return n;
}

static void those_before_are_counted(void)
{
	uint32_t both[2];

	come(0, 1, true);
	come(1, 6, false);
	come_for(2, 10, 0);
	come(3, 7, true);
	rest();
	EQ(n_before(0), 0);
	EQ(n_before(1), 0);
	EQ(n_before(2), 1);
	EQ(n_before(3), 3);
	/* One that waits again keeps its place. */
	rest();
	gm_wait_line_wait(d, &places[0]);
	EQ(n_before(2), 1);
	gm_wait_line_leave(d, &places[0]);
	gm_wait_line_leave(d, &places[0]);
	EQ(n_before(2), 0);
	/* Two are counted at once. */
	gm_wait_line_before(
		d, (const struct gm_wait_place *[]){ &places[1], &places[3] },
		2, both);
	EQ(both[0], 0);
	EQ(both[1], 2);
	end();
}

static void a_row_that_is_not_claimed_is_left(void)
{
	come(0, 3, true)->claims[0] = 0;
	come(1, 1, true);
	come(2, 1, true);
	rest();
	gm_wait_line_changed(d);
	STR(look(), "ab");
	end();
}

/* Those that are to start come one after the other; one that is not, and has
 * room beside them, waits for none. */
static void windows_have_an_order(void)
{
	come_for(0, 10, 0)->has_start = true;
	places[0].is_for_start = true;
	come_for(1, 10, 0)->has_start = true;
	come_for(2, 0, 0)->has_start = true;
	come_for(3, 10, 1);
	come_for(4, 0, 1);
	rest();
	gm_wait_line_changed(d);
	STR(look(), "ade");
	EQ(n_before(1), 1);
	EQ(n_before(3), 0);
	end();
}

/* One of its user's that waits for bytes does not stand for it. */
static void a_users_window_has_its_turn(void)
{
	const struct gm_wait_place newcomer = { .uid = 2 };
	struct gm_wait_limits limits;

	come_for(0, 90, 1);
	come_for(1, 10, 1)->has_start = true;
	places[1].is_for_start = true;
	come_for(2, 10, 2)->has_start = true;
	rest();
	gm_wait_line_limits(d, &newcomer, &limits);
	EQ(limits.starts[0], 1);
	EQ(n_before(2), 1);
	/* The first of two alone is in another user's way. */
	come_for(3, 10, 1)->has_start = true;
	places[3].is_for_start = true;
	come_for(4, 10, 2)->has_start = true;
	places[2].claims[0] = 0;
	rest();
	d->line->fresh_ns = 0;
	gm_wait_line_limits(d, &newcomer, &limits);
	EQ(n_before(4), 1);
	gm_wait_line_leave(d, &places[4]);
	gm_wait_line_leave(d, &places[3]);
	places[2].claims[0] = 1;
	rest();
	gm_wait_line_changed(d);
	STR(look(), "ab");
	end();
}

static void those_of_a_name_are_dropped(void)
{
	come(0, 1, true)->uid = 1;
	come(1, 1, true)->name = "other";
	come(2, 1, true);
	rest();
	EQ(gm_wait_line_drop(d, "none", 0, true), 0);
	EQ(gm_wait_line_drop(d, "place", 2, false), 0);
	OK(!places[0].is_dropped);
	EQ(gm_wait_line_drop(d, "place", 0, false), 1);
	OK(!places[0].is_dropped && places[2].is_dropped);
	STR(look(), "ac");
	EQ(gm_wait_line_drop(d, "place", 0, true), 2);
	OK(places[0].is_dropped && !places[1].is_dropped);
	end();
}

/* ---- any line, beside the rule read once more ---------------------------- */

static const uint32_t some_rows[] = { 0, 1, 63, 64, 250, 255 };

#define SOME (sizeof(some_rows) / sizeof(some_rows[0]))

/* The rows that a place keeps from others; @is_own: from those of its user. */
static bool keeps(uint32_t i, uint32_t row, bool is_own)
{
	const struct gm_wait_place *place = &places[i];
	bool is_whole = true;

	for (uint32_t k = 0; k < GM_ROWS; k++)
		is_whole &= !gm_wait_line_has_row(place->claims, k) ||
			    place->asks[k] <= TOTAL;
	if (!gm_wait_line_has_row(place->claims, row) ||
	    place->asks[row] > TOTAL || !(is_whole || place->takes_one) ||
	    (place->asks[row] == 0 && !place->is_for_start))
		return false;
	for (uint32_t k = 0; !is_own && k < i; k++)
		if (places[k].uid == place->uid && keeps(k, row, true))
			return false;
	return true;
}

/* Likewise the rows on which it waits to start. */
static bool keeps_start(uint32_t i, uint32_t row, bool is_own)
{
	if (!places[i].is_for_start || !keeps(i, row, true))
		return false;
	for (uint32_t k = 0; !is_own && k < i; k++)
		if (places[k].uid == places[i].uid && keeps_start(k, row, true))
			return false;
	return true;
}

static bool may_have_row(uint32_t i, uint32_t row)
{
	const struct gm_wait_place *place = &places[i];
	bool is_plan = !place->takes_all && !place->takes_one;
	uint64_t bytes = is_plan ? 1 : place->asks[row];

	for (uint32_t k = 0; k < i; k++) {
		const struct gm_wait_place *other = &places[k];
		uint64_t sum = bytes + other->asks[row];

		if (place->has_start &&
		    keeps_start(k, row, other->uid == place->uid))
			return false;
		if (!keeps(k, row, other->uid == place->uid))
			continue;
		for (uint32_t slot = 0; slot < PLACES; slot++) {
			const struct gm_reservation *r = d->ledger->of[slot];

			if (r != NULL && r->of[0].row == row &&
			    r->came_ns >= other->came_ns)
				sum += r->of[0].bytes;
		}
		if (other->asks[row] != 0 && bytes != 0 && sum > TOTAL)
			return false;
	}
	return true;
}

static bool may_move(uint32_t i)
{
	bool has_any = false, has_all = true;

	for (uint32_t row = 0; row < GM_ROWS; row++) {
		if (!gm_wait_line_has_row(places[i].rows, row))
			continue;
		has_any |= may_have_row(i, row);
		has_all &= may_have_row(i, row);
	}
	return places[i].takes_all ? has_all : has_any;
}

static void add_row(struct gm_wait_place *place)
{
	uint32_t row = some_rows[dice(SOME)];

	gm_wait_line_add_row(place->rows, row);
	if (dice(4) != 0)
		gm_wait_line_add_row(place->claims, row);
	place->asks[row] = dice(8) ? dice(TOTAL / 2) : dice(2 * TOTAL);
	if (dice(8) == 0)
		place->asks[row] = 0;
}

static void come_any(uint32_t i)
{
	struct gm_wait_place *place = come(i, 0, dice(2) != 0);

	gm_wait_line_leave(d, place);
	memset(place->asks, 0, sizeof(place->asks));
	place->uid = (uint32_t)dice(3);
	place->takes_one = !place->takes_all && dice(2) != 0;
	place->has_start = dice(3) == 0;
	place->is_for_start = place->has_start && dice(2) != 0;
	for (uint64_t k = 1 + dice(3); k > 0; k--)
		add_row(place);
	gm_wait_line_wait(d, place);
}

static void hold_any(void)
{
	for (uint32_t i = 0; i < PLACES; i++)
		if (dice(2) != 0)
			hold(i, some_rows[dice(SOME)], dice(TOTAL / 2),
			     places[dice(PLACES)].came_ns + dice(2) - 1, false);
}

/* The same letters, in the order of turns: of each user one in each. */
static bool is_set(const char *letters, const char *want)
{
	for (size_t i = 0; want[i] != '\0'; i++)
		if (strchr(letters, want[i]) == NULL)
			return false;
	return strlen(letters) == strlen(want);
}

static void any_line_is_tried_by_the_rule(void)
{
	uint32_t wrong = 0;

	for (int round = 0; round < 2000; round++) {
		char want[PLACES + 1] = "";
		size_t n = 0;

		for (uint32_t i = 0; i < PLACES; i++)
			come_any(i);
		hold_any();
		for (uint32_t i = 0; i < PLACES; i++)
			if (may_move(i))
				want[n++] = (char)('a' + i);
		rest();
		gm_wait_line_changed(d);
		wrong += !is_set(look(), want);
		end();
		hold_nothing();
	}
	EQ(wrong, 0);
}

static void make_rows(void)
{
	for (uint32_t row = 0; row < GM_ROWS; row++) {
		struct gm_device *device = calloc(1, sizeof(*device));

		if (device == NULL)
			exit(99);
		device->present = true;
		device->facts.total_bytes = TOTAL;
		device->moving.state = GPUMAP_DEVICE_READY;
		device->moving.free_bytes = TOTAL;
		d->devices->of[row] = device;
	}
	d->devices->n = GM_ROWS;
}

TAP_CASE()
{
	d = gm_daemon_new();
	if (d == NULL || gm_loop_init(d->loop) != 0)
		return 99;
	make_rows();
	the_first_of_each_row_is_tried();
	users_take_turns();
	a_place_that_comes_is_tried_once();
	no_change_is_lost_while_one_is_tried();
	one_whose_time_is_over_is_tried();
	one_may_leave_while_others_are_tried();
	what_fits_beside_may_pass();
	what_never_fits_keeps_none_waiting();
	strangers_are_not_believed_at_once();
	a_user_keeps_a_row_by_one_place();
	those_before_are_counted();
	a_row_that_is_not_claimed_is_left();
	windows_have_an_order();
	a_users_window_has_its_turn();
	those_of_a_name_are_dropped();
	any_line_is_tried_by_the_rule();
	gm_wait_line_exit(d);
	for (uint32_t row = 0; row < GM_ROWS; row++)
		free(d->devices->of[row]);
	gm_loop_exit(d->loop);
	gm_daemon_free(d);
	return tap_done();
}
