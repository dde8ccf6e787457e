/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * admit_turns: when a map that waits has its turn, how it uses or misses it,
 * and what it keeps from others meanwhile.
 */

#include "tests/support/admit_rig.h"

/* The model needs less of row 2 than it keeps, and no other
 * row. */
static const struct asked narrow = { .name = "model",
				     HELD,
				     .row = 2,
				     .bytes = 800,
				     .n_others = 1,
				     .others = { 2 },
				     .least = 100,
				     .only_waits = true,
				     .wait_ns = LONG_NS };
/* A turn passes, and at once comes another one, as nothing bars it. */
static void miss_turn(void)
{
	pass(SECOND + STEP);
}

/* ---- turns --------------------------------------------------------------- */

static void a_turn_is_used(void)
{
	begin_turn();
	EQ(ask(&c, &made), 0);
	EQ(reserved(2), 800);
	EQ(position("model"), 0);
	EQ(position("other"), 1);
	give_back("model");
	write_all();
	EQ(told(&behind), 0);
	end_turn();
}

/* The second one that is missed puts the place last, and it keeps nothing until
 * its client asks again; then it may miss one again. */
static void missed_turns_pass(void)
{
	struct asked last = other;

	begin_turn();
	miss_turn();
	EQ(position("model"), 1);
	EQ(left_to_others(), 200);
	pass(SECOND - 2 * STEP);
	EQ(position("model"), 1);
	EQ(told(&behind), QUIET);
	pass(2 * STEP);
	write_all();
	EQ(told(&behind), 0);
	EQ(position("next"), 1);
	EQ(position("model"), 2);
	/* The next one that it misses is the first of two. */
	last.name = "last";
	EQ(ask(&behind, &last), QUIET);
	EQ(position("last"), 3);
	hang_up(&third);
	third = come();
	turn();
	OK(c.c->line->turn.due_ns != 0);
	EQ(left_to_others(), 200);
	give_back("other");
	write_all();
	EQ(told(&behind), 0);
	EQ(position("model"), 1);
	EQ(left_to_others(), UINT64_MAX);
	EQ(ask(&third, &next), QUIET);
	miss_turn();
	EQ(position("model"), 1);
	EQ(publish(&c, &waits), QUIET);
	EQ(left_to_others(), 0);
	end_turn();
}

/* Nor do requests that come too late make a turn longer. */
static void late_requests_make_no_turn_longer(void)
{
	struct asked late = made;

	late.is_of_others = true;
	begin_turn();
	for (int i = 0; i < 2; i++) {
		EQ(position("model"), 1);
		pass(SECOND / 2);
		EQ(ask(&c, &late), -EAGAIN);
		EQ(told(&behind), QUIET);
		pass(SECOND / 2);
	}
	write_all();
	EQ(told(&behind), 0);
	end_turn();
}

/* Its turns have passed, and no other comes before the next one has row 2. */
static void lose_turns(void)
{
	begin_turn_of(&narrow);
	pass(2 * SECOND + STEP);
	write_all();
	EQ(told(&behind), 0);
	EQ(position("next"), 1);
	EQ(position("model"), 2);
	OK(c.c->line != NULL && !c.c->line->wait.is_tried);
}

/* Nor do they miss turns. */
static void late_requests_miss_no_turn(void)
{
	struct asked late = narrow, last = other;

	late.only_waits = false;
	late.is_of_others = true;
	last.name = "last";
	lose_turns();
	EQ(ask(&behind, &last), QUIET);
	for (int i = 0; i < 3; i++) {
		EQ(ask(&c, &late), -EAGAIN);
		turn();
		EQ(position("model"), 2);
	}
	end_turn();
}

/* A client asks for what is there, and does not take it. */
static void declined_turns_pass(void)
{
	begin_turn();
	EQ(ask(&c, &waits), QUIET);
	turn();
	EQ(told(&c), QUIET); /* nothing has changed */
	EQ(position("model"), 1);
	EQ(told(&behind), QUIET);
	pass(SECOND + STEP);
	EQ(told(&c), -EAGAIN);
	EQ(ask(&c, &waits), QUIET);
	write_all();
	EQ(told(&behind), 0);
	EQ(position("model"), 2);
	hang_up(&third);
	third = come();
	EQ(left_to_others(), UINT64_MAX);
	end_turn();
}

/* A map that came too late is another attempt. */
static void an_attempt_is_no_missed_turn(void)
{
	struct asked much = made;

	much.bytes = 1000;
	begin_turn();
	EQ(hold("last", getpid(), 2, 100, SHOWN), 0);
	miss_turn();
	EQ(position("model"), 1);
	EQ(publish(&c, &much), QUIET);
	turn();
	EQ(told(&c), -EAGAIN);
	miss_turn();
	EQ(position("model"), 1);
	EQ(release("last"), 0);
	end_turn();
}

/* Room came between its look and its place. */
static void a_new_place_has_missed_nothing(void)
{
	c = come();
	behind = come();
	third = come();
	fill();
	give_back("h2");
	EQ(publish(&c, &waits), QUIET);
	EQ(ask(&behind, &other), QUIET);
	EQ(told(&c), -EAGAIN);
	EQ(ask(&c, &waits), QUIET);
	pass(SECOND + STEP);
	EQ(told(&c), -EAGAIN);
	EQ(position("model"), 1);
	EQ(told(&behind), QUIET);
	end_turn();
}

/* One that asks for nothing, or for what it cannot have, declines nothing:
 * @before waits before it. */
static void declines_nothing(const struct asked *asked,
			     const struct asked *before)
{
	c = come();
	behind = come();
	third = come();
	EQ(hold("h2", getpid(), 2, 300, SHOWN), 0);
	if (before != NULL)
		EQ(ask(&third, before), QUIET);
	EQ(publish(&c, asked), QUIET);
	EQ(ask(&behind, &other), QUIET);
	EQ(told(&c), -EAGAIN);
	for (int i = 0; i < 4; i++) {
		EQ(ask(&c, asked), QUIET);
		EQ(position("model"), 1 + (before != NULL));
		pass(SECOND + STEP);
		EQ(told(&c), -EAGAIN);
	}
	end_turn();
}

static void those_without_room_decline_nothing(void)
{
	struct asked nothing = waits, more = waits, kept = waits;

	nothing.has_no_charge = true;
	nothing.least = 0;
	declines_nothing(&nothing, NULL);
	/* Other rows have the bytes, and the one that it asks for has not; */
	more.bytes = 900;
	declines_nothing(&more, NULL);
	/* or it has, and is to be another's. */
	kept.bytes = 600;
	declines_nothing(&kept, &next);
}

/* The line looks at its places while a request's file is being written, or that
 * of another one before it. */
static void a_request_in_hand_is_not_tried(bool is_behind_another)
{
	struct asked at_once = narrow, small = plain;
	const struct gm_admit_place *place;

	lose_turns();
	at_once.only_waits = false;
	at_once.flags = 0;
	at_once.wait_ns = 0;
	at_once.bytes = 100;
	small.name = "last";
	small.flags = 0;
	small.bytes = 10;
	place = c.c->line;
	if (is_behind_another)
		EQ(publish(&behind, &small), QUIET);
	EQ(publish(&c, &at_once), QUIET);
	OK(!gm_transactions_drained(d));
	EQ(TAILQ_EMPTY(&d->changes->waiting), !is_behind_another);
	gm_wait_line_drop(d, "next", 0, true);
	step();
	OK(gm_transactions_drained(d) || !place->is_again);
	write_all();
	EQ(told(&c), 0);
	if (is_behind_another)
		EQ(told(&behind), 0);
	end_turn();
}

/* The change that its turn was for, and that its client has not heard of, is
 * there for its next request; and for that alone. */
static void a_late_client_hears_of_room(void)
{
	struct asked much = made;

	much.bytes = TOTAL;
	begin_turn();
	EQ(hold("last", getpid(), 2, 100, SHOWN), 0);
	EQ(publish(&c, &much), QUIET);
	turn();
	EQ(told(&c), -EAGAIN);
	for (int i = 0; i < 2; i++) {
		EQ(publish(&c, &much), QUIET);
		turn();
		EQ(told(&c), QUIET);
		pass(SECOND + STEP);
		EQ(told(&c), -EAGAIN);
		miss_turn();
		EQ(publish(&c, &much), QUIET);
		turn();
		EQ(told(&c), -EAGAIN);
	}
	end_turn();
}

/* Another's request takes a place of its own, behind all. */
static void a_place_serves_one_map(void)
{
	struct asked changed[] = { waits, waits, waits };

	changed[0].name = "next";
	changed[1].start_ns = SECOND;
	changed[2].flags |= GPUMAP_PLAN_FOR;
	changed[2].owner = OTHER;
	changed[2].bytes = 300;
	for (int i = 0; i < 3; i++) {
		const struct gm_wait_place *last;

		begin_turn();
		EQ(room_of(&c, &waits).most_bytes, UINT64_MAX);
		OK(room_of(&c, &changed[i]).most_bytes <= 200);
		EQ(publish(&c, &changed[i]), QUIET);
		EQ(position("other"), 1);
		last = TAILQ_LAST(&d->line->places, gm_wait_place_list);
		STR(last->name, changed[i].name);
		EQ(last->uid, changed[i].owner);
		EQ(last->has_start, changed[i].start_ns != 0);
		write_all();
		end_turn();
	}
}

static void a_place_can_be_left(void)
{
	struct asked none = waits;

	none.wait_ns = 0;
	none.has_no_charge = true;
	begin_turn();
	EQ(ask(&c, &none), 0);
	OK(c.c->line == NULL);
	EQ(told(&behind), 0);
	EQ(position("next"), 1);
	/* Allowed for one that has none. */
	EQ(ask(&c, &none), 0);
	end_turn();
	/* And by hanging up. */
	begin_turn();
	hang_up(&c);
	EQ(told(&behind), 0);
	c = come();
	end_turn();
}

/* ---- ends ---------------------------------------------------------------- */

static void a_place_that_is_dropped_is_refused(void)
{
	begin_turn();
	EQ(gm_wait_line_drop(d, "model", 0, true), 1);
	EQ(ask(&c, &made), -ECANCELED);
	EQ(told(&behind), 0);
	end_turn();
	/* While it waits for room. */
	c = come();
	fill();
	EQ(ask(&c, &waits), QUIET);
	EQ(gm_wait_line_drop(d, "model", 0, true), 1);
	turn();
	EQ(told(&c), -ECANCELED);
	EQ(position("model"), 0);
	hang_up(&c);
	clear();
}

static void time_ends_a_wait(void)
{
	struct asked soon = waits, fixed = other;
	struct peer f = come();

	c = come();
	fill();
	soon.wait_ns = fixed.wait_ns = SECOND / 2;
	EQ(ask(&c, &soon), QUIET);
	EQ(ask(&f, &fixed), QUIET);
	pass(SECOND / 4);
	EQ(told(&c), QUIET);
	pass(SECOND / 4 + STEP);
	EQ(told(&c), -ETIMEDOUT);
	EQ(told(&f), -ETIMEDOUT);
	OK(TAILQ_EMPTY(&d->line->places));
	/* In its turn; and another request makes it no longer. */
	soon.wait_ns = 3 * SECOND / 2;
	EQ(ask(&c, &soon), QUIET);
	pass(SECOND / 4);
	give_back("h2");
	EQ(told(&c), -EAGAIN);
	EQ(ask(&c, &soon), QUIET);
	pass(SECOND + STEP);
	EQ(told(&c), -EAGAIN);
	pass(SECOND + STEP);
	EQ(position("model"), 0);
	EQ(left_to_others(), UINT64_MAX);
	soon.only_waits = false;
	EQ(ask(&c, &soon), 0);
	EQ(d->ledger->of[slot_of("model")]->came_ns, standing_ns);
	EQ(release("model"), 0);
	soon.only_waits = true;
	/* So long that it never is. */
	soon.wait_ns = UINT64_MAX;
	soon.bytes = 900;
	EQ(hold("h2", getpid(), 2, TOTAL, SHOWN), 0);
	EQ(ask(&c, &soon), QUIET);
	EQ(position("model"), 1);
	hang_up(&c);
	hang_up(&f);
	clear();
}

/* ---- looks --------------------------------------------------------------- */

/* A client is told where a glance finds as much as it needs. */
static void no_turn_comes_without_room(void)
{
	struct asked least = waits, two = waits, nothing = waits;

	c = come();
	fill();
	EQ(ask(&c, &waits), QUIET);
	EQ(hold("h2", getpid(), 2, 300, SHOWN), 0);
	turn();
	EQ(told(&c), QUIET);
	/* Together with what there is of another row. */
	EQ(hold("h1", getpid(), 1, 900, SHOWN), 0);
	turn();
	EQ(told(&c), -EAGAIN);
	EQ(ask(&c, &waits), QUIET);
	/* A row is gone: that is for the client to find. */
	EQ(hold("h2", getpid(), 2, TOTAL, SHOWN), 0);
	d->devices->of[1]->moving.state = GPUMAP_DEVICE_LOST;
	gm_wait_line_changed(d);
	turn();
	EQ(told(&c), -EAGAIN);
	d->devices->of[1]->moving.state = GPUMAP_DEVICE_READY;
	hang_up(&c);
	clear();

	/* Its client says how much that is, also if it keeps nothing; */
	c = come();
	fill();
	nothing.has_no_charge = true;
	EQ(ask(&c, &nothing), QUIET);
	EQ(hold("h2", getpid(), 2, 300, SHOWN), 0);
	turn();
	EQ(told(&c), QUIET);
	give_back("h2");
	EQ(told(&c), -EAGAIN);
	hang_up(&c);
	clear();

	/* and at most what it keeps. */
	c = come();
	fill();
	least.least = 500;
	EQ(ask(&c, &least), QUIET);
	EQ(hold("h2", getpid(), 2, 500, SHOWN), 0);
	turn();
	EQ(told(&c), -EAGAIN);
	hang_up(&c);
	clear();
	c = come();
	fill();
	two.least = 5000;
	EQ(ask(&c, &two), QUIET);
	give_back("h2");
	EQ(told(&c), -EAGAIN);
	hang_up(&c);
	clear();
}

/* A map replaces one of its name, whose bytes are its own. */
static void a_map_may_grow(void)
{
	struct asked grows = waits;

	c = come();
	fill();
	EQ(hold("model", getpid(), 2, 1, SHOWN), -ENOSPC);
	give_back("h2");
	EQ(hold("model", getpid(), 2, 500, SHOWN), 0);
	EQ(hold("last", getpid(), 2, 500, SHOWN), 0);
	grows.bytes = 900;
	grows.least = 900;
	EQ(ask(&c, &grows), QUIET);
	EQ(hold("last", getpid(), 2, 100, SHOWN), 0);
	turn();
	EQ(told(&c), -EAGAIN);
	hang_up(&c);
	clear();
	/* Also one that came after the place. */
	c = come();
	fill();
	EQ(ask(&c, &grows), QUIET);
	give_back("h2");
	EQ(told(&c), -EAGAIN);
	EQ(ask(&c, &grows), QUIET);
	EQ(hold("last", getpid(), 2, 100, SHOWN), 0);
	EQ(hold("model", getpid(), 2, 500, SHOWN), 0);
	turn();
	EQ(told(&c), -EAGAIN);
	hang_up(&c);
	clear();
}

/* A place keeps rows from others that its turn can come for. */
static void rows_are_kept_for_a_turn_alone(void)
{
	struct asked elsewhere = waits;

	c = come();
	fill();
	elsewhere.n_others = 1;
	EQ(ask(&c, &elsewhere), QUIET); /* row 0 */
	EQ(left_to_others(), UINT64_MAX);
	/* A new place counts at once. */
	behind = come();
	EQ(room_of(&behind, &plain).most_bytes, UINT64_MAX);
	EQ(publish(&behind, &other), QUIET);
	EQ(room_of(&c, &plain).most_bytes, 200);
	hang_up(&behind);
	hang_up(&c);
	clear();
}

TAP_CASE()
{
	if (!admit_begin("test-admit-turns"))
		return 99;
	a_turn_is_used();
	missed_turns_pass();
	late_requests_make_no_turn_longer();
	late_requests_miss_no_turn();
	declined_turns_pass();
	an_attempt_is_no_missed_turn();
	a_new_place_has_missed_nothing();
	those_without_room_decline_nothing();
	a_request_in_hand_is_not_tried(false);
	a_request_in_hand_is_not_tried(true);
	a_late_client_hears_of_room();
	a_place_serves_one_map();
	a_place_can_be_left();
	a_place_that_is_dropped_is_refused();
	time_ends_a_wait();
	no_turn_comes_without_room();
	a_map_may_grow();
	rows_are_kept_for_a_turn_alone();
	return admit_end();
}
