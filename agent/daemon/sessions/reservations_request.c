/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sessions/reservations_request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/account/ledger.h"
#include "agent/daemon/account/wait_line.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/map/pins.h"
#include "agent/daemon/segment/directory.h"
#include "gpumap.h"

struct list {
	const struct gm_daemon *d;
	struct gm_reservations_ask after;
	struct gm_list_reply reply;
	struct gm_reservation_item items[GM_RESERVATIONS_MAX];
};

static int by_row(const void *a, const void *b)
{
	const struct gm_promise *const *x = a, *const *y = b;

	return ((*x)->row > (*y)->row) - ((*x)->row < (*y)->row);
}

static bool is_after(const struct gm_reservations_ask *ask, uint32_t slot,
		     uint32_t row)
{
	if (!ask->goes_on || slot > ask->slot)
		return true;
	return slot == ask->slot && row > ask->row;
}

static void add(struct list *list, uint32_t slot,
		const struct gm_promise *promise)
{
	const struct gm_daemon *d = list->d;
	const struct gm_reservation *reservation = d->ledger->of[slot];
	const struct gm_block *block = &d->directory->objects[slot];
	struct gm_reservation_item *item;

	list->reply.total++;
	if (list->reply.n == GM_RESERVATIONS_MAX ||
	    !is_after(&list->after, slot, promise->row))
		return;
	item = &list->items[list->reply.n++];
	*item = (struct gm_reservation_item){
		.slot = slot,
		.row = promise->row,
		.uid = reservation->uid,
		.pid = (uint32_t)gm_pins_holder(d, slot),
		.version = block->version,
		.bytes = promise->bytes,
		.own_bytes = promise->own_bytes,
		.session_bytes = promise->session_bytes,
	};
	snprintf(item->name, sizeof(item->name), "%s", block->name);
}

static void add_all(struct list *list, uint32_t slot)
{
	struct gm_reservation *reservation = list->d->ledger->of[slot];
	const struct gm_promise *sorted[GM_ROWS];

	for (uint32_t i = 0; i < reservation->n; i++)
		sorted[i] = &reservation->of[i];
	qsort(sorted, reservation->n, sizeof(sorted[0]), by_row);
	for (uint32_t i = 0; i < reservation->n; i++)
		add(list, slot, sorted[i]);
}

int gm_reservations_request_handle(struct gm_connection *c,
				   const struct gm_request *r)
{
	struct list list = { .d = c->server->d };

	memcpy(&list.after, r->body, sizeof(list.after));
	if (list.after.goes_on > 1 || list.after.reserved)
		return gm_connection_bad(c, -EINVAL, "a reserved field is set");
	for (uint32_t slot = 0; slot < GM_OBJECTS; slot++) {
		if (list.d->ledger->of[slot] != NULL)
			add_all(&list, slot);
	}
	return gm_connection_reply_list(c, &r->header, &list.reply, list.items,
					sizeof(list.items[0]));
}

/* ---- requests that wait -------------------------------------------------- */

static void put_wait(const struct gm_wait_place *place, uint32_t n_before,
		     struct gm_wait_item *ret_item)
{
	uint64_t now = gm_loop_now();

	*ret_item = (struct gm_wait_item){
		.place = place->number,
		.uid = place->uid,
		.pid = place->pid,
		.flags = place->is_for_start ? GPUMAP_WAIT_FOR_START : 0,
		.n_before = n_before,
		.missing_row = place->missing_row,
		.missing_bytes = place->missing_bytes,
		.bytes = place->bytes,
		.age_ns = now - place->since_ns,
		.left_ns = place->until_ns > now ? place->until_ns - now : 0,
	};
	snprintf(ret_item->name, sizeof(ret_item->name), "%s", place->name);
	memcpy(ret_item->rows, place->rows, sizeof(ret_item->rows));
}

int gm_reservations_request_waits(struct gm_connection *c,
				  const struct gm_request *r)
{
	const struct gm_wait_place *places[GM_WAIT_LIST_MAX], *place;
	const struct gm_waits_ask *ask = (const void *)r->body;
	const struct gm_daemon *d = c->server->d;
	struct gm_wait_item items[GM_WAIT_LIST_MAX];
	struct gm_list_reply reply = { 0 };
	uint32_t before[GM_WAIT_LIST_MAX];

	TAILQ_FOREACH(place, &d->line->places, entry)
	{
		reply.total++;
		if (place->number > ask->after && reply.n < GM_WAIT_LIST_MAX)
			places[reply.n++] = place;
	}
	gm_wait_line_before(d, places, reply.n, before);
	for (uint32_t i = 0; i < reply.n; i++)
		put_wait(places[i], before[i], &items[i]);
	return gm_connection_reply_list(c, &r->header, &reply, items,
					sizeof(items[0]));
}
