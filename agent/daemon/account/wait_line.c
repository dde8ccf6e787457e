/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/account/wait_line.h"

#include <string.h>

#include "agent/common/node_clock.h"
#include "agent/daemon/account/ledger.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "lib/model/plan/checked.h"

#define TRIES_A_TURN 8u /* of the loop's turns; one of a user */

/* The time of the next look, whatever happens until then. */
static uint64_t look_at(const struct gm_wait_line *line, uint64_t now)
{
	uint64_t at = now + GM_WAIT_LINE_LOOK_NS;
	const struct gm_wait_place *place;

	if (line->is_due)
		return now;
	TAILQ_FOREACH(place, &line->places, entry)
	{
		if (place->is_tried)
			continue;
		if (place->is_for_start && at > now + GM_WAIT_LINE_START_NS)
			at = now + GM_WAIT_LINE_START_NS;
		if (place->until_ns < at)
			at = place->until_ns;
	}
	return at;
}

/* Those that wait again, however often, put no look off. */
static void arm(struct gm_wait_line *line)
{
	uint64_t at;

	if (TAILQ_EMPTY(&line->places))
		return;
	at = look_at(line, gm_loop_now());
	if (line->timer.due_ns == 0 || at < line->timer.due_ns)
		gm_timer_set(line->d->loop, &line->timer, at);
}

/* ---- who keeps what from whom -------------------------------------------- */

/* The next row of a set from @row on; GM_ROWS: there is none. */
static uint32_t next_row(const uint64_t rows[GM_ROW_WORDS], uint32_t row)
{
	for (; row < GM_ROWS; row = (row / 64 + 1) * 64) {
		uint64_t word = rows[row / 64] >> row % 64;

		if (word != 0)
			return row + (uint32_t)__builtin_ctzll(word);
	}
	return GM_ROWS;
}

#define EACH_ROW(rows, row)                                   \
	for (uint32_t row = next_row(rows, 0); row < GM_ROWS; \
	     row = next_row(rows, row + 1))

static void note_lasting(struct gm_wait_line *line,
			 const struct gm_ledger_look *look)
{
	uint64_t now = gm_loop_now();

	for (uint32_t row = 0; row < GM_ROWS; row++) {
		if (look->strange[row] <= line->strange[row] ||
		    now - line->strange_ns[row] >= GM_WAIT_LINE_FREED_NS) {
			line->strange[row] = look->strange[row];
			line->strange_ns[row] = now;
		}
		line->lasting[row] =
			gm_minus(look->most[row], line->strange[row]);
	}
}

/* The bytes that each place by itself leaves of its rows to those that pass it:
 * from the last place to the first, by which more and more have passed. */
static void find_spare(const struct gm_wait_line *line,
		       const struct gm_ledger_look *look)
{
	uint64_t passed[GM_ROWS] = { 0 };
	struct gm_wait_place *place;
	uint32_t n = 0;

	TAILQ_FOREACH_REVERSE(place, &line->places, gm_wait_place_list, entry)
	{
		for (; n < look->n && look->held[n]->came_ns >= place->came_ns;
		     n++)
			for (uint32_t i = 0; i < look->held[n]->n; i++)
				passed[look->held[n]->of[i].row] +=
					look->held[n]->of[i].bytes;
		EACH_ROW(place->claims, row)
		place->behind.bytes[row] = gm_minus(
			line->lasting[row], passed[row] + place->asks[row]);
	}
}

/* The rows that it will have one day. */
static void find_bars(const struct gm_wait_line *line,
		      struct gm_wait_place *place)
{
	const struct gm_wait_place *previous = place->previous;
	uint64_t bars[GM_ROW_WORDS] = { 0 };
	bool is_whole = true;

	EACH_ROW(place->claims, row)
	{
		if (place->asks[row] > line->lasting[row])
			is_whole = false;
		else if (place->asks[row] != 0 || place->is_for_start)
			gm_wait_line_add_row(bars, row);
	}
	for (uint32_t i = 0; i < GM_ROW_WORDS; i++) {
		uint64_t user = previous != NULL ? previous->user_bars[i] : 0;

		place->own_bars[i] = is_whole || place->takes_one ? bars[i] : 0;
		place->bars[i] = place->own_bars[i] & ~user;
		place->user_bars[i] = place->own_bars[i] | user;
	}
}

/* The rows on which it waits to start, before any other of its user. */
static uint64_t starts_of(const struct gm_wait_place *place, uint32_t i)
{
	const struct gm_wait_place *previous = place->previous;
	uint64_t user = previous != NULL ? previous->behind.starts[i] : 0;

	return place->is_for_start ? place->own_bars[i] & ~user : 0;
}

static void add_limits(struct gm_wait_limits *to,
		       const struct gm_wait_place *place,
		       const uint64_t rows[GM_ROW_WORDS])
{
	EACH_ROW(rows, row)
	if (place->asks[row] != 0 && place->behind.bytes[row] < to->bytes[row])
		to->bytes[row] = place->behind.bytes[row];
	for (uint32_t i = 0; i < GM_ROW_WORDS; i++)
		to->starts[i] |= starts_of(place, i);
}

static void limits_init(struct gm_wait_limits *limits)
{
	memset(limits->bytes, 0xff, sizeof(limits->bytes));
	memset(limits->starts, 0, sizeof(limits->starts));
}

const uint64_t *gm_wait_line_lasting(struct gm_daemon *d)
{
	struct gm_ledger_look look;

	gm_ledger_look(d, &look);
	note_lasting(d->line, &look);
	return d->line->lasting;
}

/* The bytes that it and those of its user before it leave of each row. */
static void find_behind(const struct gm_wait_line *line,
			struct gm_wait_place *place)
{
	const struct gm_wait_place *previous = place->previous;
	struct gm_wait_limits *behind = &place->behind;

	for (uint32_t row = 0; row < line->d->devices->n; row++) {
		uint64_t before = previous != NULL ? previous->behind.bytes[row]
						   : UINT64_MAX;

		if (place->asks[row] == 0 || before < behind->bytes[row] ||
		    !gm_wait_line_has_row(place->own_bars, row))
			behind->bytes[row] = before;
	}
	for (uint32_t i = 0; i < GM_ROW_WORDS; i++)
		behind->starts[i] =
			(previous != NULL ? previous->behind.starts[i] : 0) |
			(place->is_for_start ? place->own_bars[i] : 0);
}

static void refresh(struct gm_wait_line *line)
{
	struct gm_ledger_look look;
	struct gm_wait_place *place;
	uint64_t now = gm_loop_now();

	if (TAILQ_EMPTY(&line->places) ||
	    now - line->fresh_ns < GM_WAIT_LINE_FRESH_NS)
		return;
	line->fresh_ns = now;
	gm_ledger_look(line->d, &look);
	note_lasting(line, &look);
	find_spare(line, &look);
	TAILQ_FOREACH(place, &line->places, entry)
	{
		find_bars(line, place);
		find_behind(line, place);
	}
}

static struct gm_wait_place *last_of(const struct gm_wait_line *line,
				     uint32_t uid)
{
	struct gm_wait_place *place;

	TAILQ_FOREACH_REVERSE(place, &line->places, gm_wait_place_list, entry)
	{
		if (place->uid == uid)
			break;
	}
	return place;
}

void gm_wait_line_limits(struct gm_daemon *d, const struct gm_wait_place *place,
			 struct gm_wait_limits *ret_limits)
{
	const struct gm_wait_place *other, *previous = place->previous;

	refresh(d->line);
	limits_init(ret_limits);
	if (place->number == 0)
		previous = last_of(d->line, place->uid);
	if (previous != NULL)
		*ret_limits = previous->behind;
	TAILQ_FOREACH(other, &d->line->places, entry)
	{
		if (other == place)
			break;
		add_limits(ret_limits, other, other->bars);
	}
}

/* ---- who may move -------------------------------------------------------- */

/* The least that it needs of a row: a plan may have less on some of its rows
 * than it asks for now. */
static uint64_t bytes_of(const struct gm_wait_place *place, uint32_t row)
{
	return place->takes_all || place->takes_one ? place->asks[row] : 1;
}

static bool may_have(const struct gm_wait_place *place, uint32_t row,
		     const struct gm_wait_limits *limits)
{
	return bytes_of(place, row) <= limits->bytes[row] &&
	       !(place->has_start && gm_wait_line_has_row(limits->starts, row));
}

/* @before: what the places of all users before it leave. */
static bool may_move(const struct gm_wait_place *place,
		     const struct gm_wait_limits *before)
{
	bool has_all = true, has_any = false;

	EACH_ROW(place->rows, row)
	{
		bool has = may_have(place, row, before) &&
			   (place->previous == NULL ||
			    may_have(place, row, &place->previous->behind));

		has_all &= has;
		has_any |= has;
	}
	return place->takes_all ? has_all : has_any;
}

/* Returns how many are to be tried now. */
static uint32_t mark(struct gm_wait_line *line, uint64_t now)
{
	struct gm_wait_limits before;
	struct gm_wait_place *place;
	uint32_t n = 0;

	refresh(line);
	limits_init(&before);
	TAILQ_FOREACH(place, &line->places, entry)
	{
		bool is_new = place->n_changes != line->n_changes ||
			      (place->is_for_start &&
			       now - place->tried_ns >= GM_WAIT_LINE_START_NS);

		place->is_to_try =
			!place->is_tried &&
			(place->is_dropped || now >= place->until_ns ||
			 (is_new && may_move(place, &before)));
		n += place->is_to_try;
		add_limits(&before, place, place->bars);
	}
	return n;
}

/* Users of whom a place has been tried in this turn of the loop. */
struct turn {
	uint32_t n;
	uint32_t uids[TRIES_A_TURN];
};

static bool has_had(const struct turn *turn, uint32_t uid)
{
	for (uint32_t i = 0; i < turn->n; i++)
		if (turn->uids[i] == uid)
			return true;
	return false;
}

/* Try the next place that may have room, which may leave at once, and others
 * with it.  Returns whether there was one. */
static bool try_next(struct gm_wait_line *line, struct turn *turn)
{
	struct gm_wait_place *place;

	TAILQ_FOREACH(place, &line->places, entry)
	{
		uint32_t uid = place->uid;

		if (!place->is_to_try || has_had(turn, uid))
			continue;
		place->is_to_try = false;
		place->is_tried = true;
		place->tried_ns = gm_loop_now();
		place->n_changes = line->n_changes;
		if (place->again(place)) {
			turn->uids[turn->n++] = uid;
			return true;
		}
		place->is_tried = false;
	}
	return false;
}

static void look(struct gm_timer *timer)
{
	struct gm_wait_line *line = gm_owner(timer, struct gm_wait_line, timer);
	struct turn turn = { .n = 0 };
	uint64_t now = gm_loop_now();

	if (now - line->look_ns >= GM_WAIT_LINE_LOOK_NS) {
		line->look_ns = now;
		line->n_changes++;
	}
	line->is_due = false;
	arm(line);
	if (mark(line, now) == 0)
		return;
	while (turn.n < TRIES_A_TURN && try_next(line, &turn))
		;
	/* Others of these users have theirs in the next turn. */
	line->is_due |= turn.n > 0;
	arm(line);
}

/* A change while the place was tried may be one that the attempt did not see.
 * Nor does the line know of those before the place came. */
void gm_wait_line_wait(struct gm_daemon *d, struct gm_wait_place *place)
{
	struct gm_wait_line *line = d->line;

	if (place->number == 0) {
		place->number = ++line->last;
		place->since_ns = gm_loop_now();
		place->came_ns = gm_node_clock_now();
		place->previous = last_of(line, place->uid);
		place->n_changes = line->n_changes - 1;
		TAILQ_INSERT_TAIL(&line->places, place, entry);
	}
	place->is_tried = false;
	line->fresh_ns = 0;
	line->is_due |= place->n_changes != line->n_changes;
	arm(line);
}

void gm_wait_line_leave(struct gm_daemon *d, struct gm_wait_place *place)
{
	struct gm_wait_place *next = place;

	if (place->number == 0)
		return;
	while (next != NULL && next->previous != place)
		next = TAILQ_NEXT(next, entry);
	if (next != NULL)
		next->previous = place->previous;
	TAILQ_REMOVE(&d->line->places, place, entry);
	place->number = 0;
	place->came_ns = 0;
	gm_wait_line_changed(d);
}

static bool keeps_any(const struct gm_wait_place *place,
		      const struct gm_wait_place *from)
{
	const uint64_t *bars =
		place->uid == from->uid ? place->own_bars : place->bars;

	for (uint32_t i = 0; i < GM_ROW_WORDS && from->has_start; i++) {
		uint64_t starts = place->uid != from->uid ? starts_of(place, i)
				  : place->is_for_start   ? place->own_bars[i]
							  : 0;

		if ((starts & from->rows[i]) != 0)
			return true;
	}
	EACH_ROW(bars, row)
	{
		if (!gm_wait_line_has_row(from->rows, row))
			continue;
		if (place->asks[row] != 0 &&
		    bytes_of(from, row) > place->behind.bytes[row])
			return true;
	}
	return false;
}

/* Each place is read once: there may be thousands. */
void gm_wait_line_before(const struct gm_daemon *d,
			 const struct gm_wait_place *const places[], uint32_t n,
			 uint32_t ret_before[])
{
	const struct gm_wait_place *other;
	uint32_t first = 0;

	memset(ret_before, 0, n * sizeof(ret_before[0]));
	TAILQ_FOREACH(other, &d->line->places, entry)
	{
		first += first < n && places[first] == other;
		for (uint32_t i = first; i < n; i++)
			ret_before[i] += keeps_any(other, places[i]);
		if (first == n)
			break;
	}
}

uint32_t gm_wait_line_drop(struct gm_daemon *d, const char *name, uint32_t uid,
			   bool of_all)
{
	struct gm_wait_place *place;
	uint32_t n = 0;

	TAILQ_FOREACH(place, &d->line->places, entry)
	{
		if (strcmp(place->name, name) != 0 ||
		    (!of_all && place->uid != uid))
			continue;
		place->is_dropped = true;
		n++;
	}
	if (n > 0)
		gm_wait_line_changed(d);
	return n;
}

void gm_wait_line_changed(struct gm_daemon *d)
{
	d->line->n_changes++;
	d->line->fresh_ns = 0;
	d->line->is_due = !TAILQ_EMPTY(&d->line->places);
	arm(d->line);
}

void gm_wait_line_init(struct gm_daemon *d)
{
	*d->line = (struct gm_wait_line){ .d = d };
	d->line->timer.fired = look;
	TAILQ_INIT(&d->line->places);
}

void gm_wait_line_exit(struct gm_daemon *d)
{
	gm_timer_stop(d->loop, &d->line->timer);
}
