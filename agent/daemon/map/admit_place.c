/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/admit_place.h"

#include <stdlib.h>
#include <string.h>

#include "agent/daemon/account/ledger.h"
#include "agent/daemon/base/connection.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/user.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/map/room.h"
#include "agent/daemon/map/transaction.h"
#include "gpumap.h"

#define TURN_NS UINT64_C(1000000000)

void gm_admit_place_drop(struct gm_admit_place *place)
{
	gm_timer_stop(place->d->loop, &place->turn);
	gm_wait_line_leave(place->d, &place->wait);
	if (place->connection != NULL)
		place->connection->line = NULL;
	free(place);
}

bool gm_admit_place_is_over(const struct gm_admit_place *place)
{
	return place->wait.is_dropped || gm_loop_now() >= place->wait.until_ns;
}

/* ---- turns --------------------------------------------------------------- */

/* After the second one it comes last, and keeps nothing from others. */
void gm_admit_place_miss_turn(struct gm_admit_place *place)
{
	if (place->has_missed) {
		gm_wait_line_leave(place->d, &place->wait);
		memset(place->wait.claims, 0, sizeof(place->wait.claims));
	}
	place->has_missed = !place->has_missed;
}

static void end_turn(struct gm_timer *timer)
{
	struct gm_admit_place *place =
		gm_owner(timer, struct gm_admit_place, turn);

	gm_admit_place_miss_turn(place);
	place->is_late = true;
	gm_wait_line_wait(place->d, &place->wait);
}

static void begin_turn(struct gm_admit_place *place)
{
	place->turn.fired = end_turn;
	place->end_ns = gm_loop_now() + TURN_NS;
	gm_timer_set(place->d->loop, &place->turn, place->end_ns);
}

void gm_admit_place_give(struct gm_admit_place *place, struct gm_connection *c)
{
	place->request = NULL;
	place->connection = c;
	c->line = place;
	if (place->is_again)
		begin_turn(place);
	else if (gm_loop_now() < place->end_ns)
		gm_timer_set(place->d->loop, &place->turn, place->end_ns);
	else
		gm_wait_line_wait(place->d, &place->wait);
}

/* Room may have come in a turn that its client has not heard of. */
void gm_admit_place_wait(struct gm_admit_place *place)
{
	gm_wait_line_wait(place->d, &place->wait);
	if (place->is_late)
		gm_wait_line_changed(place->d);
	place->is_late = false;
}

/* ---- another attempt ----------------------------------------------------- */

/* A glance: is there room for the bytes that it asks for, on all of its rows,
 * on one, or for the model on all together?  A row that cannot be used any more
 * is for the attempt to find. */
static bool may_fit(const struct gm_admit_place *place)
{
	const struct gm_wait_place *wait = &place->wait;
	const struct gm_daemon *d = place->d;
	uint32_t slot = place->replaces ? gm_room_slot(d, &place->map)
					: GM_LEDGER_NOBODY;
	bool has_all = true, has_one = false;
	uint64_t sum = 0;

	for (uint32_t row = 0; row < d->devices->n; row++) {
		uint64_t avail;

		if (!gm_wait_line_has_row(wait->rows, row))
			continue;
		if (!gm_ledger_has_row(d, row))
			return true;
		avail = gm_ledger_avail(d, row, slot);
		sum += avail;
		has_all &= avail >= wait->asks[row];
		has_one |= avail >= wait->asks[row];
	}
	if (wait->takes_all)
		return has_all;
	return wait->takes_one ? has_one : sum >= place->least_bytes;
}

/* The client of one whose turn it is has asked for nothing yet, and hears that
 * it was dropped when it does. */
static bool try_again(struct gm_wait_place *wait)
{
	struct gm_admit_place *place =
		gm_owner(wait, struct gm_admit_place, wait);
	bool is_over = gm_admit_place_is_over(place);

	if (place->request != NULL && !is_over && !may_fit(place))
		return false;
	if (place->request != NULL) {
		place->is_again = true;
		gm_transactions_again(place->request);
	} else if (is_over) {
		gm_wait_line_leave(place->d, wait);
	} else {
		begin_turn(place);
	}
	return true;
}

uint32_t gm_admit_place_uid(const struct gm_connection *c,
			    const struct gm_room *map)
{
	return (map->flags & GPUMAP_PLAN_FOR) != 0 &&
			       !gm_user_is_privileged(map->owner_uid)
		       ? map->owner_uid
		       : c->uid;
}

struct gm_admit_place *gm_admit_place_of(const struct gm_connection *c,
					 const struct gm_room *map)
{
	struct gm_admit_place *place = c->line;

	return place != NULL && strcmp(place->map.name, map->name) == 0 &&
			       place->wait.has_start == (map->start_ns != 0) &&
			       place->wait.uid == gm_admit_place_uid(c, map)
		       ? place
		       : NULL;
}

struct gm_admit_place *gm_admit_place_take(struct gm_connection *c,
					   const struct gm_room *map,
					   struct gm_change *request)
{
	struct gm_admit_place *place = gm_admit_place_of(c, map);

	if (place == NULL && c->line != NULL)
		gm_admit_place_drop(c->line);
	if (place == NULL) {
		place = calloc(1, sizeof(*place));
		if (place == NULL)
			return NULL;
		place->d = c->server->d;
		place->map = *map;
		place->wait.uid = gm_admit_place_uid(c, map);
		place->wait.has_start = map->start_ns != 0;
		place->wait.again = try_again;
		place->wait.name = place->map.name;
	}
	gm_timer_stop(place->d->loop, &place->turn);
	/* The request is in hand until it waits again. */
	place->wait.is_tried = true;
	place->connection = NULL;
	place->request = request;
	place->is_again = false;
	place->replaces = gm_room_slot(place->d, map) != GM_LEDGER_NOBODY;
	c->line = NULL;
	return place;
}

/* ---- events -------------------------------------------------------------- */

void gm_admit_place_map_published(struct gm_daemon *d, const char *name)
{
	struct gm_wait_place *wait;

	TAILQ_FOREACH(wait, &d->line->places, entry)
	{
		struct gm_admit_place *place =
			gm_owner(wait, struct gm_admit_place, wait);

		place->replaces |= strcmp(wait->name, name) == 0;
	}
}

void gm_admit_place_connection_dropped(struct gm_connection *c, const char *why)
{
	if (c->line != NULL)
		gm_admit_place_drop(c->line);
}
