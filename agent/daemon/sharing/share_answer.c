/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sharing/share_answer.h"

#include <errno.h>
#include <string.h>

#include "agent/daemon/base/fd_store.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/sharing/export_accounting.h"
#include "agent/daemon/sharing/share.h"

/* To a session that holds it now, and that may end. */
static void tell(struct gm_connection *c, const struct gm_control *request,
		 const struct gm_shared *shared, bool with_about)
{
	struct gm_share_reply reply = { .id = shared->id,
					.about_bytes = shared->about_bytes,
					.uid = shared->user->uid,
					.flags = shared->flags,
					.n_buffers = shared->n_buffers };
	struct gm_share_buffer list[GM_SHARE_BUFFERS_MAX];
	bool has_fd = with_about && shared->about >= 0;

	memcpy(reply.hash, shared->key.hash, sizeof(reply.hash));
	for (uint32_t i = 0; i < shared->n_buffers; i++)
		list[i] = (struct gm_share_buffer){
			.id = shared->buffers[i]->id,
			.bytes = shared->buffers[i]->bytes,
			.row = shared->buffers[i]->row,
		};
	gm_connection_reply(
		c, request,
		&(struct gm_reply){ .body = &reply,
				    .body_bytes = sizeof(reply),
				    .tail = list,
				    .tail_bytes = shared->n_buffers *
						  (uint32_t)sizeof(list[0]),
				    .fds = &shared->about,
				    .n_fds = has_fd ? 1 : 0 });
}

static void stop_waiting(struct gm_connection *c)
{
	TAILQ_REMOVE(&c->server->share_answers, c, share_answer);
	c->share = 0;
}

/* The share may have ended, or its session may hold it no longer. */
static void answer(struct gm_connection *c)
{
	struct gm_share_holder *holder = gm_shared_held(c->session, c->share);
	struct gm_control request = c->pending;

	stop_waiting(c);
	if (!holder) {
		gm_connection_answer(c, -ENOENT, "the share has ended", NULL, 0,
				     -1);
		return;
	}
	c->busy++;
	tell(c, &request, holder->shared, c->opens_share);
	gm_connection_resume(c);
	gm_connection_release(c);
}

void gm_share_answers_sent(struct gm_daemon *d)
{
	struct gm_connection *c, *next;

	if (!d->server)
		return;
	for (c = TAILQ_FIRST(&d->server->share_answers); c; c = next) {
		next = TAILQ_NEXT(c, share_answer);
		if (gm_fd_store_has_sent(d->fd_store, c->share_mark))
			answer(c);
	}
}

void gm_share_answer(struct gm_connection *c, const struct gm_control *request,
		     const struct gm_shared *shared, bool with_about)
{
	if (gm_fd_store_has_sent(c->server->d->fd_store, shared->mark)) {
		tell(c, request, shared, with_about);
		return;
	}
	c->share = shared->id;
	c->share_mark = shared->mark;
	c->opens_share = with_about;
	TAILQ_INSERT_TAIL(&c->server->share_answers, c, share_answer);
	gm_connection_wait(c, request);
}

void gm_share_answers_connection_dropped(struct gm_connection *c,
					 const char *why)
{
	(void)why;
	if (c->share)
		stop_waiting(c);
}
