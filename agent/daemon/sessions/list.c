/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sessions/list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/account/ledger.h"
#include "agent/daemon/account/usage.h"
#include "agent/daemon/account/wait_line.h"
#include "agent/daemon/base/loop.h"
#include "agent/common/node_clock.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/map/pins.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/sharing/export_accounting.h"
#include "agent/daemon/sharing/exports.h"
#include "agent/daemon/sharing/share.h"
#include "gpumap.h"

/* A portion of a list. */
struct list {
	const struct gm_control_server *server;
	struct gm_list_key after;
	struct gm_list_reply reply;
	size_t item_bytes;
	uint64_t items[GM_LIST_BYTES / 8];
};

/* Count an item.  Returns where it goes, zeroed but for its key, or NULL if it
 * is not of this portion. */
static void *add(struct list *list, uint64_t first, uint64_t second)
{
	const struct gm_list_key key = { first, second };
	char *item = (char *)list->items + list->reply.n * list->item_bytes;

	list->reply.total++;
	if (!gm_list_key_follows(&key, &list->after) ||
	    item + list->item_bytes > (char *)list->items + GM_LIST_BYTES)
		return NULL;
	list->reply.n++;
	memset(item, 0, list->item_bytes);
	memcpy(item, &key, sizeof(key));
	return item;
}

/* ---- sessions ------------------------------------------------------------ */

static void add_rows(const struct gm_session *session,
		     uint64_t rows[GM_ROW_WORDS])
{
	for (uint32_t row = 0; row < session->n_rows; row++)
		if (session->queue[row] != NULL)
			rows[row / 64] |= UINT64_C(1) << row % 64;
}

static void list_sessions(struct list *list)
{
	uint64_t now = gm_loop_now();
	const struct gm_session *session;

	TAILQ_FOREACH(session, &list->server->sessions, entry)
	{
		struct gm_session_item *item = add(list, session->id, 0);

		if (item == NULL)
			continue;
		item->pid = (uint32_t)session->pid;
		item->uid = session->user->uid;
		item->n_queues = session->n_queues;
		item->depth = session->depth;
		item->arena_bytes = gm_session_arena_bytes(session);
		item->age_ns = now - session->since_ns;
		item->load_bytes = session->loading.bytes;
		item->load_total = session->loading.total;
		add_rows(session, item->rows);
	}
}

/* ---- usage --------------------------------------------------------------- */

/* Memory without a session comes first. */
static void list_abandoned(struct list *list)
{
	struct gm_usage_item sum;
	bool goes_on = false;

	while (gm_exports_next_abandoned(list->server->d, goes_on, &sum)) {
		struct gm_usage_item *item =
			add(list, 0, ((uint64_t)sum.uid << 32 | sum.row) + 1);

		goes_on = true;
		if (item == NULL)
			continue;
		sum.key = item->key;
		*item = sum;
	}
}

static void list_usage(struct list *list)
{
	const struct gm_session *session;

	list_abandoned(list);
	TAILQ_FOREACH(session, &list->server->sessions, entry)
	{
		for (uint32_t row = 0; row < session->n_rows; row++) {
			const struct gm_session_queue *queue =
				session->queue[row];
			struct gm_usage_item *item =
				queue != NULL ? add(list, session->id, row)
					      : NULL;

			if (item == NULL)
				continue;
			item->pid = (uint32_t)session->pid;
			item->uid = session->user->uid;
			item->row = row;
			item->bytes =
				gm_usage_of_attachment(&queue->attachment);
			gm_exports_count(session, item);
		}
	}
}

/* ---- reservations -------------------------------------------------------- */

static int by_row(const void *a, const void *b)
{
	const struct gm_promise *const *x = a, *const *y = b;

	return ((*x)->row > (*y)->row) - ((*x)->row < (*y)->row);
}

static void list_reservation(struct list *list, uint32_t slot)
{
	const struct gm_daemon *d = list->server->d;
	const struct gm_reservation *reservation = d->ledger->of[slot];
	const struct gm_block *block = &d->directory->objects[slot];
	const struct gm_promise *sorted[GM_ROWS];

	for (uint32_t i = 0; i < reservation->n; i++)
		sorted[i] = &reservation->of[i];
	qsort(sorted, reservation->n, sizeof(sorted[0]), by_row);
	for (uint32_t i = 0; i < reservation->n; i++) {
		const struct gm_promise *promise = sorted[i];
		struct gm_reservation_item *item =
			add(list, slot + UINT64_C(1), promise->row);

		if (item == NULL)
			continue;
		item->row = promise->row;
		item->uid = reservation->uid;
		item->pid = (uint32_t)gm_pins_holder(d, slot);
		item->version = block->version;
		item->bytes = promise->bytes;
		item->own_bytes = promise->own_bytes;
		item->session_bytes = promise->session_bytes;
		snprintf(item->name, sizeof(item->name), "%s", block->name);
	}
}

static void list_reservations(struct list *list)
{
	for (uint32_t slot = 0; slot < GM_OBJECTS; slot++)
		if (list->server->d->ledger->of[slot] != NULL)
			list_reservation(list, slot);
}

/* ---- requests that wait -------------------------------------------------- */

#define WAITS (GM_LIST_BYTES / sizeof(struct gm_wait_item))

static void list_waits(struct list *list)
{
	const struct gm_daemon *d = list->server->d;
	const struct gm_wait_place *places[WAITS], *place;
	struct gm_wait_item *items = (void *)list->items;
	uint64_t now = gm_loop_now();
	uint32_t before[WAITS], n = 0;

	TAILQ_FOREACH(place, &d->line->places, entry)
	{
		struct gm_wait_item *item = add(list, place->number, 0);

		if (item == NULL)
			continue;
		places[n++] = place;
		item->uid = place->uid;
		item->pid = place->pid;
		item->flags = place->is_for_start ? GPUMAP_WAIT_FOR_START : 0;
		item->missing_row = place->missing_row;
		item->missing_bytes = place->missing_bytes;
		item->bytes = place->bytes;
		item->age_ns = now - place->since_ns;
		if (place->until_ns > now)
			item->left_ns = place->until_ns - now;
		snprintf(item->name, sizeof(item->name), "%s", place->name);
		memcpy(item->rows, place->rows, sizeof(item->rows));
	}
	gm_wait_line_before(d, places, n, before);
	for (uint32_t i = 0; i < n; i++)
		items[i].n_before = before[i];
}

/* ---- shares -------------------------------------------------------------- */

static void list_shares(struct list *list)
{
	const struct gm_share_holder *holder;
	const struct gm_shared *shared;

	TAILQ_FOREACH(shared, &list->server->shares, entry)
	{
		struct gm_shares_item *item = add(list, shared->id, 0);

		if (item == NULL)
			continue;
		item->about_bytes = shared->about_bytes;
		item->age_ns = gm_node_clock_now() - shared->since_ns;
		item->uid = shared->user->uid;
		item->flags = shared->flags;
		item->n_buffers = shared->n_buffers;
		item->n_holders = shared->n_holders;
		memcpy(item->name, shared->name, sizeof(item->name));
		memcpy(item->hash, shared->key.hash, sizeof(item->hash));
		for (uint32_t i = 0; i < shared->n_buffers; i++) {
			uint32_t row = shared->buffers[i]->row;

			item->bytes += shared->buffers[i]->bytes;
			item->rows[row / 64] |= UINT64_C(1) << row % 64;
		}
		TAILQ_FOREACH(holder, &shared->holders, entry)
		{
			if (holder->is_first)
				item->pid = (uint32_t)holder->pid;
		}
	}
}

/* ---- the request --------------------------------------------------------- */

static const struct {
	size_t item_bytes;
	void (*fill)(struct list *list);
} kinds[] = {
	[GM_LIST_SESSIONS] = { sizeof(struct gm_session_item), list_sessions },
	[GM_LIST_USAGE] = { sizeof(struct gm_usage_item), list_usage },
	[GM_LIST_RESERVATIONS] = { sizeof(struct gm_reservation_item),
				   list_reservations },
	[GM_LIST_WAITS] = { sizeof(struct gm_wait_item), list_waits },
	[GM_LIST_SHARES] = { sizeof(struct gm_shares_item), list_shares },
};

int gm_list_handle(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_list_ask *ask = (const void *)r->body;
	struct list list = { .server = c->server, .after = ask->after };

	if (ask->kind >= sizeof(kinds) / sizeof(kinds[0]) || ask->reserved != 0)
		return gm_connection_bad(
			c, -EINVAL,
			"there is no list %u, or a reserved field "
			"is set",
			ask->kind);
	list.item_bytes = kinds[ask->kind].item_bytes;
	kinds[ask->kind].fill(&list);
	return gm_connection_reply(
		c, &r->header,
		&(struct gm_reply){
			.body = &list.reply,
			.body_bytes = sizeof(list.reply),
			.tail = list.items,
			.tail_bytes = list.reply.n * (uint32_t)list.item_bytes,
		});
}
