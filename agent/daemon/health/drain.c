/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/health/drain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/daemon/base/events.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/health/vendors.h"
#include "agent/daemon/health/watchers.h"
#include "agent/daemon/workers/supervisor.h"
#include "gpumap.h"

enum drain_state { FINISHING, CLOSING, DRAINED, RESUMING };

/* The drain of one row.  Instances that are drained with their card have one
 * each, whose leader is the card's. */
struct gm_row_drain {
	struct gm_daemon *d;
	uint32_t row;
	uint32_t leader; /* row of the card that leads, or its own */
	enum drain_state state;
	bool is_closed; /* no process of the row runs */
	struct gm_timer timer;
	TAILQ_HEAD(, gm_drain_wait) waits;
};

static struct gm_row_drain *drain_of(const struct gm_daemon *d, uint32_t row)
{
	return d->devices->of[row]->drain;
}

/* The drain of the row, or of its card: an instance that came when its card was
 * drained already has none of its own. */
static struct gm_row_drain *drain_over(const struct gm_daemon *d, uint32_t row)
{
	static const uint8_t none[16];
	const struct gm_device *device = d->devices->of[row], *card = NULL;

	if (device->drain != NULL)
		return device->drain;
	if (memcmp(device->parent, none, sizeof(none)) != 0)
		card = gm_devices_find(d, device->parent);
	if (card == NULL || card->drain == NULL ||
	    card->drain->state == RESUMING)
		return NULL;
	return card->drain;
}

/* A card, or the whole of one, which the probe opens by itself. */
static bool is_card(const struct gm_daemon *d, uint32_t row)
{
	static const uint8_t none[16];

	return gm_device_is_watched(d->devices->of[row]) &&
	       memcmp(d->devices->of[row]->parent, none, sizeof(none)) == 0;
}

/* The first row from @row on that is an instance of the device of @card. */
static uint32_t next_part(const struct gm_daemon *d, uint32_t card,
			  uint32_t row)
{
	const uint8_t *uuid = d->devices->of[card]->facts.uuid;

	while (row < d->devices->n &&
	       memcmp(d->devices->of[row]->parent, uuid, 16) != 0)
		row++;
	return row;
}

/* The waiting clients are told then that it takes longer.  A worker that has
 * nothing left to do is killed after half of the time that its end may take. */
static void set_limit(struct gm_row_drain *drain)
{
	uint64_t limit = drain->d->config->drain_row_ns;

	if (drain->state == FINISHING)
		limit *= 2;
	gm_timer_set(drain->d->loop, &drain->timer, gm_loop_now() + limit);
}

static void tell_all(struct gm_row_drain *drain, int status, const char *why)
{
	struct gm_drain_wait *wait;

	while ((wait = TAILQ_FIRST(&drain->waits)) != NULL) {
		gm_drains_leave(wait);
		wait->done(wait, status, why);
	}
}

/* ---- out of service ---------------------------------------------------- */

static void is_drained(struct gm_row_drain *drain)
{
	gm_timer_stop(drain->d->loop, &drain->timer);
	drain->state = DRAINED;
	gm_log(GM_LOG_INFO, "row_drained", "row=%u", drain->row);
	tell_all(drain, 0, "");
}

static void close_card(struct gm_row_drain *drain)
{
	struct gm_daemon *d = drain->d;

	drain->state = CLOSING;
	set_limit(drain);
	if (!is_card(d, drain->row) ||
	    !gm_watchers_release(d, d->devices->of[drain->row]->facts.uuid))
		is_drained(drain);
}

/* The first of the row and its instances of which a process runs yet, or
 * GM_ROWS. */
static uint32_t first_open(const struct gm_row_drain *drain)
{
	const struct gm_daemon *d = drain->d;
	uint32_t row = next_part(d, drain->row, 0);

	if (!drain->is_closed)
		return drain->row;
	for (; row < d->devices->n; row = next_part(d, drain->row, row + 1)) {
		const struct gm_row_drain *part = drain_of(d, row);

		if (part != NULL && !part->is_closed)
			return row;
	}
	return GM_ROWS;
}

static void row_closed(struct gm_daemon *d, uint32_t row)
{
	if (drain_of(d, row) != NULL)
		drain_of(d, row)->is_closed = true;
	for (row = 0; row < d->devices->n; row++) {
		struct gm_row_drain *drain = drain_of(d, row);

		if (drain != NULL && drain->state == FINISHING &&
		    first_open(drain) == GM_ROWS)
			close_card(drain);
	}
}

/* The row was brought back, and the probe has not said whether the card is
 * there.  A row that is LOST can be drained again, and comes back by itself
 * when the probe sees the card. */
static void is_not_seen(struct gm_row_drain *drain)
{
	struct gm_daemon *d = drain->d;
	uint32_t row = drain->row;

	d->devices->of[row]->drain = NULL;
	tell_all(drain, -ETIMEDOUT,
		 "the probe has not seen it: its log lines say more");
	free(drain);
	gm_events_row_unseen(d, row);
	gm_supervisor_unbar(d, row, GM_BAR_DRAIN);
}

static void limit(struct gm_timer *timer)
{
	struct gm_row_drain *drain =
		gm_owner(timer, struct gm_row_drain, timer);
	char why[GM_WHY_BYTES];

	gm_log(GM_LOG_WARNING, "drain_stuck", "row=%u", drain->row);
	if (drain->state == RESUMING) {
		is_not_seen(drain);
		return;
	}
	if (drain->state == FINISHING)
		gm_supervisor_what_runs(drain->d, first_open(drain), why);
	else
		gm_why(why, 0,
		       "the probe does not answer: its log lines say more");
	tell_all(drain, -ETIMEDOUT, why);
}

static struct gm_row_drain *make(struct gm_daemon *d, uint32_t row,
				 uint32_t leader)
{
	struct gm_row_drain *drain = calloc(1, sizeof(*drain));

	if (drain == NULL)
		return NULL;
	drain->d = d;
	drain->row = row;
	drain->leader = leader;
	drain->timer.fired = limit;
	TAILQ_INIT(&drain->waits);
	d->devices->of[row]->drain = drain;
	return drain;
}

/* The row and those of its parts that are not drained for themselves: all or
 * none. */
static int make_all(struct gm_daemon *d, uint32_t leader)
{
	uint32_t row = next_part(d, leader, 0);
	bool is_whole = make(d, leader, leader) != NULL;

	for (; is_whole && row < d->devices->n;
	     row = next_part(d, leader, row + 1)) {
		if (drain_of(d, row) == NULL)
			is_whole = make(d, row, leader) != NULL;
	}
	if (is_whole)
		return 0;
	for (row = 0; row < d->devices->n; row++) {
		struct gm_row_drain *drain = drain_of(d, row);

		if (drain == NULL || drain->leader != leader)
			continue;
		d->devices->of[row]->drain = NULL;
		free(drain);
	}
	return -ENOMEM;
}

static void begin(struct gm_row_drain *drain)
{
	static const char why[] = "drained by an administrator";
	struct gm_daemon *d = drain->d;
	uint32_t row = drain->row;

	set_limit(drain);
	gm_devices_state(d, row, GPUMAP_DEVICE_DRAINING, why, 0);
	gm_supervisor_bar(d, row, GM_BAR_DRAIN, true, why, row_closed);
}

static int begin_all(struct gm_daemon *d, uint32_t leader)
{
	int ret = make_all(d, leader);

	if (ret != 0)
		return ret;
	/* Its parts first: it looks whether they are closed. */
	for (uint32_t row = 0; row < d->devices->n; row++) {
		struct gm_row_drain *drain = drain_of(d, row);

		if (drain != NULL && drain->leader == leader && row != leader)
			begin(drain);
	}
	begin(drain_of(d, leader));
	return 0;
}

static int check(const struct gm_daemon *d, uint32_t row, char *ret_why)
{
	if (d->draining)
		return gm_why(ret_why, -ESHUTDOWN, "the agent is draining");
	if (row >= d->devices->n)
		return gm_why(ret_why, -ENODEV, "there is no row %u", row);
	if (!gm_device_can(d->devices->of[row], GPUMAP_DEVICE_SERVES))
		return gm_why(ret_why, -ENODEV,
			      "row %u is a dummy: there is nothing to drain",
			      row);
	return 0;
}

static int wait_for(struct gm_row_drain *drain, struct gm_drain_wait *wait)
{
	/* A client that asks after the limit has a limit of its own. */
	if (drain->timer.due_ns == 0)
		set_limit(drain);
	wait->drain = drain;
	TAILQ_INSERT_TAIL(&drain->waits, wait, entry);
	return -EINPROGRESS;
}

int gm_drains_begin(struct gm_daemon *d, uint32_t row,
		    struct gm_drain_wait *wait, char ret_why[GM_WHY_BYTES])
{
	int ret = check(d, row, ret_why);
	struct gm_row_drain *drain;

	if (ret != 0)
		return ret;
	drain = drain_of(d, row);
	if (drain != NULL && drain->state == RESUMING)
		return gm_why(ret_why, -EBUSY,
			      "row %u is being brought back: ask again when "
			      "that is done",
			      row);
	if (drain == NULL)
		ret = begin_all(d, row);
	if (ret != 0)
		return gm_why(ret_why, ret, "out of memory");
	drain = drain_of(d, row);
	return drain->state == DRAINED ? 0 : wait_for(drain, wait);
}

/* ---- and back ---------------------------------------------------------- */

static void is_back(struct gm_row_drain *drain)
{
	struct gm_daemon *d = drain->d;

	gm_timer_stop(d->loop, &drain->timer);
	d->devices->of[drain->row]->drain = NULL;
	gm_log(GM_LOG_INFO, "row_undrained", "row=%u", drain->row);
	tell_all(drain, 0, "");
	free(drain);
}

static void resume(struct gm_row_drain *drain)
{
	struct gm_daemon *d = drain->d;
	uint32_t row = drain->row;
	struct gm_device *device = d->devices->of[row];

	tell_all(drain, -ECANCELED, "the row is brought back");
	drain->state = RESUMING;
	/* A row that is lost stays so until its driver shows it. */
	if (!device->present && !gm_device_is_watched(device))
		gm_devices_state(d, row, GPUMAP_DEVICE_LOST,
				 "no longer there or not configured", -ENODEV);
	else
		gm_devices_state(d, row, GPUMAP_DEVICE_PROBING, NULL, 0);
	if (!gm_device_is_watched(device)) {
		is_back(drain);
		gm_supervisor_unbar(d, row, GM_BAR_DRAIN);
		return;
	}
	gm_watchers_resume(d, device->facts.uuid);
	set_limit(drain);
}

int gm_drains_undo(struct gm_daemon *d, uint32_t row,
		   struct gm_drain_wait *wait, char ret_why[GM_WHY_BYTES])
{
	int ret = check(d, row, ret_why);
	struct gm_row_drain *drain;

	if (ret != 0)
		return ret;
	gm_watchers_look_again(d);
	gm_vendors_look_again(d);
	drain = drain_over(d, row);
	if (drain == NULL)
		return 0;
	if (drain->leader != row)
		return gm_why(ret_why, -EBUSY,
			      "row %u is drained with its card: undrain row %u",
			      row, drain->leader);
	if (drain->state != RESUMING) {
		for (uint32_t at = 0; at < d->devices->n; at++) {
			struct gm_row_drain *part = drain_of(d, at);

			if (part != NULL && part->leader == row && at != row)
				resume(part);
		}
		resume(drain);
	}
	return drain_of(d, row) == NULL ? 0 : wait_for(drain, wait);
}

void gm_drains_connection_dropped(struct gm_connection *c, const char *why)
{
	gm_drains_leave(&c->drain);
}

void gm_drains_leave(struct gm_drain_wait *wait)
{
	if (wait->drain == NULL)
		return;
	TAILQ_REMOVE(&wait->drain->waits, wait, entry);
	wait->drain = NULL;
}

/* ---- the probe --------------------------------------------------------- */

bool gm_drains_has(const struct gm_daemon *d, uint32_t row)
{
	return drain_over(d, row) != NULL;
}

void gm_drains_came(struct gm_daemon *d, uint32_t row)
{
	if (!gm_drains_has(d, row))
		return;
	d->devices->of[row]->present = false;
	gm_devices_state(d, row, GPUMAP_DEVICE_DRAINING, "its card is drained",
			 0);
}

void gm_drains_released(struct gm_daemon *d, uint32_t row)
{
	struct gm_row_drain *drain = drain_of(d, row);

	if (drain != NULL && drain->state == CLOSING)
		is_drained(drain);
}

bool gm_drains_seen(struct gm_daemon *d, uint32_t row)
{
	struct gm_row_drain *drain = drain_of(d, row);

	if (drain == NULL || drain->state != RESUMING)
		return false;
	is_back(drain);
	return true;
}

void gm_drains_exit(struct gm_daemon *d)
{
	for (uint32_t row = 0; row < d->devices->n; row++) {
		struct gm_row_drain *drain = drain_of(d, row);

		if (drain == NULL)
			continue;
		gm_timer_stop(d->loop, &drain->timer);
		d->devices->of[row]->drain = NULL;
		free(drain);
	}
}
