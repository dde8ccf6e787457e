/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sessions/usage_request.h"

#include <errno.h>
#include <string.h>

#include "agent/daemon/account/usage.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/sharing/export_accounting.h"
#include "agent/daemon/sharing/exports.h"

struct list {
	struct gm_usage_ask after;
	struct gm_list_reply reply;
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
		/* Only listed sessions are counted, because that walks all
		 * exports. */
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
			.bytes = gm_usage_of_attachment(&queue->attachment),
		};
		gm_exports_count(session, &item);
		add(list, &item);
	}
}

int gm_usage_request_handle(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_session *session;
	struct list list = { .reply = { .n = 0 } };

	memcpy(&list.after, r->body, sizeof(list.after));
	if (list.after.goes_on > 1 || list.after.reserved)
		return gm_connection_bad(c, -EINVAL, "a reserved field is set");
	add_abandoned(&list, c->server->d);
	TAILQ_FOREACH(session, &c->server->sessions, entry)
	add_session(&list, session);
	return gm_connection_reply_list(c, &r->header, &list.reply, list.items,
					sizeof(list.items[0]));
}
