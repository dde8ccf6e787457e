/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/account/wait_line.h"

#include "agent/daemon/base/parts.h"

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

static void arm(struct gm_wait_line *line)
{
	if (!TAILQ_EMPTY(&line->places))
		gm_timer_set(line->d->loop, &line->timer,
			     look_at(line, gm_loop_now()));
}

/* @taken: the rows of those before it. */
static bool may_move(const struct gm_wait_place *place,
		     const uint64_t taken[GM_ROW_WORDS])
{
	bool has_taken = false, has_other = false;

	for (uint32_t i = 0; i < GM_ROW_WORDS; i++) {
		has_taken |= (place->rows[i] & taken[i]) != 0;
		has_other |= (place->rows[i] & ~taken[i]) != 0;
	}
	return place->takes_all ? !has_taken : has_other;
}

static void add_rows(uint64_t to[GM_ROW_WORDS],
		     const uint64_t rows[GM_ROW_WORDS])
{
	for (uint32_t i = 0; i < GM_ROW_WORDS; i++)
		to[i] |= rows[i];
}

/* Returns how many are to be tried now. */
static uint32_t mark(struct gm_wait_line *line, uint64_t now)
{
	uint64_t taken[GM_ROW_WORDS] = { 0 }, starts[GM_ROW_WORDS] = { 0 };
	struct gm_wait_place *place;
	uint32_t n = 0;

	TAILQ_FOREACH(place, &line->places, entry)
	{
		place->is_to_try =
			!place->is_tried &&
			(now >= place->until_ns ||
			 may_move(place, place->takes_none ? starts : taken));
		n += place->is_to_try;
		add_rows(taken, place->claims);
		if (place->is_for_start)
			add_rows(starts, place->claims);
	}
	return n;
}

/* One that is tried may leave at once, and others with it. */
static struct gm_wait_place *next(struct gm_wait_line *line)
{
	struct gm_wait_place *place;

	TAILQ_FOREACH(place, &line->places, entry)
	{
		if (place->is_to_try)
			break;
	}
	return place;
}

static void look(struct gm_timer *timer)
{
	struct gm_wait_line *line = gm_owner(timer, struct gm_wait_line, timer);
	struct gm_wait_place *place;

	line->is_due = false;
	arm(line);
	if (mark(line, gm_loop_now()) == 0)
		return;
	while ((place = next(line)) != NULL) {
		place->is_to_try = false;
		place->is_tried = true;
		place->n_changes = line->n_changes;
		place->again(place);
	}
}

/* A change while the place was tried may be one that the attempt did not see.
 * Nor does the line know of those before the place came. */
void gm_wait_line_wait(struct gm_daemon *d, struct gm_wait_place *place)
{
	struct gm_wait_line *line = d->line;

	if (place->number == 0) {
		place->number = ++line->last;
		place->since_ns = gm_loop_now();
		place->n_changes = line->n_changes - 1;
		TAILQ_INSERT_TAIL(&line->places, place, entry);
	}
	place->is_tried = false;
	line->is_due |= place->n_changes != line->n_changes;
	arm(line);
}

void gm_wait_line_leave(struct gm_daemon *d, struct gm_wait_place *place)
{
	if (place->number == 0)
		return;
	TAILQ_REMOVE(&d->line->places, place, entry);
	place->number = 0;
	gm_wait_line_changed(d);
}

uint32_t gm_wait_line_before(const struct gm_daemon *d,
			     const struct gm_wait_place *place,
			     uint64_t ret_rows[GM_ROW_WORDS])
{
	const struct gm_wait_place *other;
	uint32_t n = 0;

	for (uint32_t i = 0; i < GM_ROW_WORDS; i++)
		ret_rows[i] = 0;
	TAILQ_FOREACH(other, &d->line->places, entry)
	{
		if (other == place)
			break;
		if (other->is_for_start || !place->takes_none)
			add_rows(ret_rows, other->claims);
		n++;
	}
	return n;
}

void gm_wait_line_changed(struct gm_daemon *d)
{
	d->line->n_changes++;
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
