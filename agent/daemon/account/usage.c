/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/account/usage.h"

#include <errno.h>
#include <string.h>

#include "agent/daemon/account/quota.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/sharing/exports.h"
#include "agent/daemon/workers/worker_process.h"

/* ---- what workers say -------------------------------------------------- */

static uint64_t said_bytes(const struct gm_seat *seat)
{
	return gm_get(
		&gm_journal_at(seat->keeper->journal, seat->place)->bytes);
}

/* What a program's worker says, a program may have said. */
static bool is_believed(const struct gm_keeper *keeper)
{
	return !keeper->crew->runs_programs;
}

/* A worker that has been told of a seat has begun from nothing. */
static uint64_t of_seat(const struct gm_seat *seat)
{
	const struct gm_keeper *keeper = seat->keeper;

	if (!keeper || keeper->is_undertaker || !gm_keeper_has_child(keeper) ||
	    seat->state <= GM_SEAT_OFFERED)
		return 0;
	return said_bytes(seat);
}

uint64_t gm_usage_within_reach(const struct gm_keeper *keeper, uint32_t uid)
{
	const struct gm_seat *seat;
	uint64_t bytes = 0;

	TAILQ_FOREACH(seat, &keeper->seats, entry)
	{
		if (seat->uid == uid ||
		    (seat->state >= GM_SEAT_LEAVING && is_believed(keeper)))
			bytes += of_seat(seat);
	}
	return bytes;
}

void gm_usage_leaves(const struct gm_seat *seat)
{
	const struct gm_keeper *keeper = seat->keeper;

	if (!keeper->is_undertaker && is_believed(keeper) &&
	    seat->state == GM_SEAT_LEFT)
		gm_quota_back(keeper->d, keeper->row, said_bytes(seat));
}

void gm_usage_ends(const struct gm_keeper *keeper)
{
	const struct gm_seat *seat;

	if (!is_believed(keeper))
		return;
	TAILQ_FOREACH(seat, &keeper->seats, entry)
	{
		if (seat->state == GM_SEAT_TAKEN ||
		    seat->state == GM_SEAT_LEAVING)
			gm_quota_back(keeper->d, keeper->row, said_bytes(seat));
	}
}

/* ---- the list ---------------------------------------------------------- */

struct list {
	struct gm_usage_ask after;
	struct gm_usage_reply reply;
	struct gm_usage_item items[GM_USAGE_MAX];
};

static void add(struct list *list, const struct gm_usage_item *item)
{
	list->reply.total++;
	if (list->reply.n < GM_USAGE_MAX)
		list->items[list->reply.n++] = *item;
}

/* In the order of (uid, row). */
static void add_abandoned(struct list *list, const struct gm_daemon *d)
{
	const struct gm_usage_ask *after = &list->after;
	struct gm_usage_item item;
	bool goes_on = false;

	while (gm_exports_next_abandoned(d, goes_on, &item)) {
		goes_on = true;
		if (!after->goes_on ||
		    (after->session == 0 &&
		     (item.uid > after->uid ||
		      (item.uid == after->uid && item.row > after->row))))
			add(list, &item);
		else
			list->reply.total++;
	}
}

static void add_session(struct list *list, const struct gm_session *session)
{
	const struct gm_usage_ask *after = &list->after;

	for (uint32_t row = 0; row < session->n_rows; row++) {
		const struct gm_session_queue *queue = session->queue[row];
		struct gm_usage_item item;

		if (!queue)
			continue;
		/* What is not listed is not looked at: it takes a look at all
		 * that is exported. */
		if (list->reply.n == GM_USAGE_MAX ||
		    (after->goes_on &&
		     (session->id < after->session ||
		      (session->id == after->session && row <= after->row)))) {
			list->reply.total++;
			continue;
		}
		item = (struct gm_usage_item){
			.session = session->id,
			.pid = (uint32_t)session->pid,
			.uid = session->user->uid,
			.row = row,
			.bytes = of_seat(&queue->seat),
		};
		gm_exports_count(session, &item);
		add(list, &item);
	}
}

int gm_usage_handle(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_session *session;
	struct list list = { .reply = { .n = 0 } };

	memcpy(&list.after, r->body, sizeof(list.after));
	if (list.after.goes_on > 1 || list.after.reserved)
		return gm_connection_bad(c, -EINVAL, "a reserved field is set");
	add_abandoned(&list, c->server->d);
	TAILQ_FOREACH(session, &c->server->sessions, entry)
	add_session(&list, session);
	gm_connection_reply(c, &r->header, &list.reply, sizeof(list.reply),
			    list.items,
			    list.reply.n * (uint32_t)sizeof(list.items[0]),
			    NULL, 0);
	return 0;
}
