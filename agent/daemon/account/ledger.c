/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/account/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/node_clock.h"
#include "agent/daemon/account/usage.h"
#include "agent/daemon/base/events.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/user.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/segment/segment.h"
#include "gpumap.h"
#include "lib/model/plan/checked.h"
#include "lib/model/plan/size_text.h"

/* Returns false when it is 2^63 or more. */
static bool sum_up(const struct gm_charge_image *charge, uint64_t *ret_bytes)
{
	uint64_t sum = charge->weight_bytes;

	if (__builtin_add_overflow(sum, charge->kv_bytes, &sum) ||
	    __builtin_add_overflow(sum, charge->activation_bytes, &sum) ||
	    __builtin_add_overflow(sum, charge->reserve_bytes, &sum) ||
	    sum > INT64_MAX)
		return false;
	*ret_bytes = sum;
	return true;
}

/* Charges name each row once; where they do not, they are added up. */
static bool add(struct gm_reservation *reservation, uint32_t row,
		uint64_t bytes)
{
	uint32_t i = 0;

	if (bytes == 0)
		return true;
	while (i < reservation->n && reservation->of[i].row != row)
		i++;
	if (i == reservation->n) {
		reservation->of[reservation->n++] =
			(struct gm_promise){ .row = row };
	}
	reservation->of[i].bytes += bytes;
	return reservation->of[i].bytes <= INT64_MAX;
}

int gm_ledger_reservation(const struct gm_layers *layers,
			  char ret_why[GM_WHY_BYTES],
			  struct gm_reservation **ret_reservation)
{
	struct gm_reservation *reservation;

	if ((layers->flags & GM_OBJECT_COMMITTED) == 0) {
		*ret_reservation = NULL;
		return 0;
	}
	reservation = malloc(sizeof(*reservation) +
			     layers->n_rows * sizeof(reservation->of[0]));
	if (reservation == NULL)
		return gm_why(ret_why, -ENOMEM, "out of memory");
	*reservation = (struct gm_reservation){ .uid = layers->owner_uid };
	for (uint32_t i = 0; i < layers->n_rows; i++) {
		const struct gm_charge_image *charge = &layers->charges[i];
		uint64_t bytes;

		if (sum_up(charge, &bytes) &&
		    add(reservation, charge->row, bytes))
			continue;
		free(reservation);
		return gm_why(ret_why, -EOVERFLOW,
			      "row %u is charged for 2^63 bytes or more",
			      charge->row);
	}
	*ret_reservation = reservation;
	return 0;
}

static struct gm_promise *promise_of(struct gm_reservation *reservation,
				     uint32_t row)
{
	for (uint32_t i = 0; reservation != NULL && i < reservation->n; i++) {
		if (reservation->of[i].row == row)
			return &reservation->of[i];
	}
	return NULL;
}

struct gm_promise *gm_ledger_promise(const struct gm_daemon *d, uint32_t slot,
				     uint32_t row)
{
	return promise_of(d->ledger->of[slot], row);
}

static uint64_t share_of(struct gm_reservation *reservation, uint32_t row)
{
	const struct gm_promise *promise = promise_of(reservation, row);

	return promise != NULL ? promise->bytes : 0;
}

/* Bytes reserved by all maps but the one in @slot. */
static uint64_t others(const struct gm_daemon *d, uint32_t row, uint32_t slot)
{
	return d->ledger->promised[row] -
	       (slot != GM_LEDGER_NOBODY ? share_of(d->ledger->of[slot], row)
					 : 0);
}

bool gm_ledger_has_row(const struct gm_daemon *d, uint32_t row)
{
	const struct gm_device *device =
		row < d->devices->n ? d->devices->of[row] : NULL;

	return device != NULL && device->present &&
	       device->moving.state != GPUMAP_DEVICE_FAILED &&
	       device->moving.state != GPUMAP_DEVICE_LOST;
}

uint64_t gm_ledger_avail(const struct gm_daemon *d, uint32_t row, uint32_t slot)
{
	const struct gm_ledger *ledger = d->ledger;
	uint64_t bytes, most;

	if (!gm_ledger_has_row(d, row))
		return 0;
	bytes = gm_minus(gm_usage_free(d, row, true),
			 ledger->promised[row] - ledger->used[row]);
	if (slot != GM_LEDGER_NOBODY)
		bytes += share_of(ledger->of[slot], row);
	/* Whatever is in use: the sum of the promises stays below the total,
	 * unless the row has shrunk since. */
	most = gm_minus(d->devices->of[row]->facts.total_bytes,
			others(d, row, slot));
	if (slot != GM_LEDGER_NOBODY && most < share_of(ledger->of[slot], row))
		most = share_of(ledger->of[slot], row);
	return bytes < most ? bytes : most;
}

/* ---- what will end ------------------------------------------------------- */

static int by_coming(const void *a, const void *b)
{
	const struct gm_reservation *const *x = a, *const *y = b;

	return ((*x)->came_ns < (*y)->came_ns) -
	       ((*x)->came_ns > (*y)->came_ns);
}

static bool is_held(const struct gm_daemon *d, uint32_t slot)
{
	return (d->directory->objects[slot].flags & GM_OBJECT_HELD) != 0;
}

/* As far as is known.  Memory that was given back counts as free at once, or
 * the end of a session would look like memory that a stranger took. */
static uint64_t strange_bytes(const struct gm_daemon *d, uint32_t row,
			      uint64_t own_bytes)
{
	uint64_t total = d->devices->of[row]->facts.total_bytes;

	return gm_minus(gm_minus(total, gm_usage_free(d, row, false)),
			own_bytes + gm_usage_of_row(d, row));
}

void gm_ledger_look(const struct gm_daemon *d, struct gm_ledger_look *ret_look)
{
	uint64_t own[GM_ROWS] = { 0 }, stays[GM_ROWS] = { 0 };
	uint64_t kept[GM_ROWS] = { 0 };

	gm_events_kept_bytes(d, kept);
	ret_look->n = 0;
	for (uint32_t slot = 0; slot < GM_OBJECTS; slot++) {
		const struct gm_reservation *r = d->ledger->of[slot];
		bool ends = is_held(d, slot);

		for (uint32_t i = 0; r != NULL && i < r->n; i++) {
			struct gm_promise of = r->of[i];

			own[of.row] += of.own_bytes;
			stays[of.row] += ends ? 0 : of.bytes;
			/* They may be part of that. */
			kept[of.row] = gm_minus(kept[of.row],
						ends ? 0 : of.session_bytes);
		}
		if (r != NULL && ends && ret_look->n < GM_HOLDERS)
			ret_look->held[ret_look->n++] = r;
	}
	qsort(ret_look->held, ret_look->n, sizeof(ret_look->held[0]),
	      by_coming);
	memset(ret_look->most, 0, sizeof(ret_look->most));
	memset(ret_look->strange, 0, sizeof(ret_look->strange));
	for (uint32_t row = 0; row < d->devices->n; row++) {
		if (!gm_ledger_has_row(d, row))
			continue;
		ret_look->most[row] =
			gm_minus(d->devices->of[row]->facts.total_bytes,
				 stays[row] + kept[row]);
		ret_look->strange[row] = strange_bytes(d, row, own[row]);
	}
}

/* ---- judging ------------------------------------------------------------ */

static int check_room(uint32_t row, uint64_t want, uint64_t avail,
		      char *ret_why, struct gm_shortage *ret_shortage)
{
	if (want <= avail)
		return 0;
	if (ret_shortage != NULL)
		*ret_shortage = (struct gm_shortage){ want - avail, row };
	return gm_why(ret_why, -ENOSPC,
		      "row %u has %s that no map reserves, the map takes %s: "
		      "release one that gpumapctl who shows, or ask for less",
		      row, gm_size_down(avail).text, gm_size_up(want).text);
}

void gm_ledger_shares(const struct gm_daemon *d, uint32_t uid, uint32_t slot,
		      uint64_t ret_has[GM_ROWS])
{
	memset(ret_has, 0, GM_ROWS * sizeof(ret_has[0]));
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		const struct gm_reservation *reservation = d->ledger->of[i];

		if (reservation == NULL || reservation->uid != uid || i == slot)
			continue;
		for (uint32_t k = 0; k < reservation->n; k++)
			ret_has[reservation->of[k].row] +=
				reservation->of[k].bytes;
	}
}

struct gm_promise gm_ledger_share(const struct gm_daemon *d, uint32_t uid,
				  uint32_t row)
{
	struct gm_promise sum = { .row = row };

	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		const struct gm_promise *promise;

		if (d->ledger->of[i] == NULL || d->ledger->of[i]->uid != uid)
			continue;
		promise = promise_of(d->ledger->of[i], row);
		if (promise == NULL)
			continue;
		sum.bytes += promise->bytes;
		sum.own_bytes += promise->own_bytes;
		sum.session_bytes += promise->session_bytes;
	}
	return sum;
}

static uint64_t per_cent(uint64_t bytes, uint32_t n)
{
	return bytes / 100 * n + bytes % 100 * n / 100;
}

/* The bytes of a row that a uid may have in all. */
static uint64_t share_of_uid(const struct gm_daemon *d, uint32_t uid,
			     uint32_t row)
{
	return gm_user_is_privileged(uid)
		       ? UINT64_MAX
		       : per_cent(d->devices->of[row]->facts.total_bytes,
				  d->config->reserve_per_uid);
}

uint64_t gm_ledger_share_left(const struct gm_daemon *d, uint32_t uid,
			      uint32_t row, uint64_t has)
{
	return gm_minus(share_of_uid(d, uid, row), has);
}

int gm_ledger_check_share(const struct gm_daemon *d, uint32_t uid, uint32_t row,
			  uint64_t bytes, uint64_t has,
			  char ret_why[GM_WHY_BYTES])
{
	if (bytes <= gm_ledger_share_left(d, uid, row, has))
		return 0;
	return gm_why(ret_why, -EDQUOT,
		      "uid %u has reserved %s of row %u, asks for %s, and may "
		      "have %s: %s, or raise reserve-per-uid in [limits] of "
		      "gpumapd.conf",
		      uid, gm_size_down(has).text, row, gm_size_up(bytes).text,
		      gm_size_down(share_of_uid(d, uid, row)).text,
		      has != 0 ? "release a map" : "ask for less");
}

int gm_ledger_check_row(const struct gm_daemon *d, uint32_t row,
			char ret_why[GM_WHY_BYTES])
{
	if (gm_ledger_has_row(d, row))
		return 0;
	return gm_why(ret_why, -ENODEV,
		      "row %u is not there, is lost or has failed: gpumapctl "
		      "devices shows which can be used",
		      row);
}

int gm_ledger_admit(const struct gm_daemon *d,
		    const struct gm_reservation *reservation, uint32_t slot,
		    char ret_why[GM_WHY_BYTES],
		    struct gm_shortage *ret_shortage)
{
	uint64_t has[GM_ROWS];
	int ret = 0;

	if (reservation == NULL)
		return 0;
	gm_ledger_shares(d, reservation->uid, slot, has);
	/* First, because no other user's map would help by its end. */
	for (uint32_t i = 0; i < reservation->n && ret == 0; i++) {
		uint32_t row = reservation->of[i].row;

		ret = gm_ledger_check_row(d, row, ret_why);
		if (ret == 0)
			ret = gm_ledger_check_share(d, reservation->uid, row,
						    reservation->of[i].bytes,
						    has[row], ret_why);
	}
	for (uint32_t i = 0; i < reservation->n && ret == 0; i++) {
		uint32_t row = reservation->of[i].row;

		ret = check_room(row, reservation->of[i].bytes,
				 gm_ledger_avail(d, row, slot), ret_why,
				 ret_shortage);
	}
	return ret;
}

int gm_ledger_fits(const struct gm_daemon *d,
		   const struct gm_reservation *reservation, uint32_t slot,
		   char ret_why[GM_WHY_BYTES])
{
	int ret = 0;

	for (uint32_t i = 0;
	     reservation != NULL && i < reservation->n && ret == 0; i++) {
		uint32_t row = reservation->of[i].row;
		uint64_t total;

		if (row >= d->devices->n || !d->devices->of[row]->present)
			return gm_why(ret_why, -ENODEV, "row %u is not there",
				      row);
		total = d->devices->of[row]->facts.total_bytes;
		ret = check_room(row, reservation->of[i].bytes,
				 gm_minus(total, others(d, row, slot)), ret_why,
				 NULL);
	}
	return ret;
}

/* ---- keeping ------------------------------------------------------------ */

/* A row that only an earlier agent knew says nothing any more.  At no instant
 * is more in use than reserved. */
static void tell(struct gm_daemon *d, uint32_t row)
{
	if (row >= d->devices->n)
		return;
	if (d->ledger->used[row] <= d->devices->of[row]->moving.used_by_holders)
		gm_devices_used(d, row, d->ledger->used[row]);
	gm_devices_reserved(d, row, d->ledger->promised[row]);
	gm_devices_used(d, row, d->ledger->used[row]);
}

void gm_ledger_recounted(struct gm_daemon *d, uint32_t row)
{
	uint64_t used = 0;

	for (uint32_t slot = 0; slot < GM_OBJECTS; slot++) {
		const struct gm_promise *promise =
			gm_ledger_promise(d, slot, row);

		if (promise != NULL)
			used += promise->own_bytes + promise->session_bytes;
	}
	d->ledger->used[row] = used;
	tell(d, row);
}

void gm_ledger_put(struct gm_daemon *d, uint32_t slot,
		   struct gm_reservation *reservation)
{
	struct gm_ledger *ledger = d->ledger;
	struct gm_reservation *old = ledger->of[slot];

	if (reservation != NULL)
		reservation->since_ns = gm_node_clock_now();
	if (reservation != NULL && reservation->came_ns == 0)
		reservation->came_ns = reservation->since_ns;
	/* One step for each row: no reader sees the replaced map's reservation
	 * gone before the new one is there. */
	for (uint32_t i = 0; reservation != NULL && i < reservation->n; i++) {
		ledger->promised[reservation->of[i].row] +=
			reservation->of[i].bytes;
		ledger->has_changed[reservation->of[i].row] = true;
	}
	for (uint32_t i = 0; old != NULL && i < old->n; i++) {
		const struct gm_promise *promise = &old->of[i];

		ledger->promised[promise->row] -= promise->bytes;
		ledger->used[promise->row] -=
			promise->own_bytes + promise->session_bytes;
		ledger->has_changed[promise->row] = true;
	}
	ledger->of[slot] = reservation;
	for (uint32_t i = 0; reservation != NULL && i < reservation->n; i++)
		tell(d, reservation->of[i].row);
	for (uint32_t i = 0; old != NULL && i < old->n; i++) {
		if (share_of(reservation, old->of[i].row) == 0)
			tell(d, old->of[i].row);
	}
	free(old);
}

void gm_ledger_slot_stored(struct gm_daemon *d, uint32_t slot,
			   const struct gm_put *put)
{
	gm_ledger_put(d, slot, put != NULL ? put->reservation : NULL);
}

/* The charges of a published block; segment/validate.c has checked them. */
static int read_promise(const struct gm_daemon *d, uint32_t slot,
			struct gm_reservation **ret_reservation)
{
	const gm_a64 *word = &d->segment->map.objects[slot].slot;
	struct gm_charge_image charges[GM_ROWS];
	struct gm_layers layers = { .charges = charges };
	struct gm_layers_image image;
	struct gm_object object;
	char why[GM_WHY_BYTES];

	if (gm_object_open(&d->segment->map, word, &object) != 0 ||
	    gm_layers_image(&object, &image) != 0 ||
	    gm_object_read(&object, image.charges_at, charges,
			   image.n_rows * sizeof(charges[0])) != 0)
		return -EPROTO;
	layers.flags = image.object.flags;
	layers.owner_uid = image.object.owner_uid;
	layers.n_rows = image.n_rows;
	return gm_ledger_reservation(&layers, why, ret_reservation);
}

int gm_ledger_adopt(struct gm_daemon *d)
{
	for (uint32_t slot = 0; slot < GM_OBJECTS; slot++) {
		const struct gm_block *block = &d->directory->objects[slot];
		struct gm_reservation *reservation;
		int ret;

		if (block->unit == 0 ||
		    (block->flags & GM_OBJECT_COMMITTED) == 0)
			continue;
		ret = read_promise(d, slot, &reservation);
		if (ret != 0)
			return ret;
		gm_ledger_put(d, slot, reservation);
	}
	/* Also those that an agent before us had promised, and we have not. */
	for (uint32_t row = 0; row < d->devices->n; row++) {
		uint64_t total = d->devices->of[row]->facts.total_bytes;

		tell(d, row);
		if (d->ledger->promised[row] > total)
			gm_log(GM_LOG_WARNING, "overpromised",
			       "row=%u promised=%llu total=%llu", row,
			       (unsigned long long)d->ledger->promised[row],
			       (unsigned long long)total);
	}
	return 0;
}

void gm_ledger_exit(struct gm_daemon *d)
{
	for (uint32_t slot = 0; slot < GM_OBJECTS; slot++) {
		free(d->ledger->of[slot]);
		d->ledger->of[slot] = NULL;
	}
}
