/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/account/retry_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/base/deferred_close.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/sessions/session.h"

#define TAIL_MAX 4096u /* of a request that waits */

struct gm_deferred_request {
	TAILQ_ENTRY(gm_deferred_request) entry;
	struct gm_connection *connection;
	struct gm_timer limit;
	bool was_turn; /* of the loop, since it came */
	struct gm_request request;
	int fd; /* that came with it, or -1 */
	char tail[];
};

static bool is_want_of_room(int status)
{
	return status == -EUSERS || status == -EDQUOT;
}

/* Is it refused for what all users have together? */
static bool is_of_all(const struct gm_control_server *s, int status)
{
	return status == -EUSERS
		       ? s->n_sessions + s->n_releases >= s->d->config->sessions
		       : s->memory_limit == GM_MEMORY_LIMIT_ALL;
}

/* Does it wait for memory that is being freed?  Other limits, of registrations
 * for instance, have room again when a session is gone. */
static bool is_freed(const struct gm_connection *c, int status, bool of_all)
{
	const struct gm_control_server *s = c->server;

	if (status == -EDQUOT && s->memory_limit == GM_MEMORY_LIMIT_NONE)
		return false;
	return (of_all ? s->n_releases : c->user->releases) > 0;
}

/* Is anything of what it is refused for on its way back? */
static bool comes_back(const struct gm_connection *c, int status)
{
	const struct gm_control_server *s = c->server;
	bool of_all = is_of_all(s, status);
	const struct gm_session *session;

	if (s->draining || !is_want_of_room(status))
		return false;
	if (is_freed(c, status, of_all))
		return true;
	TAILQ_FOREACH(session, &s->sessions, entry)
	{
		if (!session->connection &&
		    (of_all || session->user == c->user))
			return true;
	}
	return false;
}

static void enter(struct gm_deferred_request *wait)
{
	struct gm_connection *c = wait->connection;

	wait->fd = c->fd;
	c->fd = -1;
	c->room = wait;
	gm_connection_wait(c, &wait->request.header);
	TAILQ_INSERT_TAIL(&c->server->room_waits, wait, entry);
}

static void leave(struct gm_deferred_request *wait)
{
	struct gm_connection *c = wait->connection;

	c->room = NULL;
	TAILQ_REMOVE(&c->server->room_waits, wait, entry);
}

static void end(struct gm_deferred_request *wait)
{
	const struct gm_connection *c = wait->connection;

	gm_timer_stop(c->server->d->loop, &wait->limit);
	gm_deferred_close_close(wait->fd, c->uid);
	free(wait);
}

/* No other record was read meanwhile, so every check of it still holds. */
static void handle(struct gm_deferred_request *wait)
{
	struct gm_connection *c = wait->connection;
	bool has_fd = wait->fd >= 0;
	int status;

	leave(wait);
	c->busy++;
	c->waits = false;
	c->fd = wait->fd;
	wait->fd = -1;
	status = gm_connection_handle(c, &wait->request);
	if (status < 0 && c->source.fd >= 0 && wait->limit.due_ns != 0 &&
	    has_fd == (c->fd >= 0) && comes_back(c, status)) {
		enter(wait);
		gm_connection_release(c);
		return;
	}
	if (status < 0)
		gm_connection_refuse(c, &wait->request.header, status,
				     c->server->why);
	gm_deferred_close_close(c->fd, c->uid);
	c->fd = -1;
	end(wait);
	if (!c->waits)
		gm_connection_resume(c);
	gm_connection_release(c);
}

static void is_over(struct gm_timer *timer)
{
	handle(gm_owner(timer, struct gm_deferred_request, limit));
}

/* An event that came before the request may be met after it, once: epoll puts
 * descriptors that were just served behind others.  So the end of a session may
 * still be found. */
static void give_a_turn(struct gm_control_server *s,
			struct gm_deferred_request *wait)
{
	TAILQ_REMOVE(&s->room_waits, wait, entry);
	TAILQ_INSERT_TAIL(&s->room_waits, wait, entry);
	wait->was_turn = true;
	gm_timer_set(s->d->loop, &s->room, gm_loop_now() + 1);
}

/* Those that still wait come behind the others, and so keep their order. */
static void look(struct gm_timer *timer)
{
	struct gm_control_server *s =
		gm_owner(timer, struct gm_control_server, room);
	const struct gm_deferred_request *wait;
	uint32_t n = 0;

	TAILQ_FOREACH(wait, &s->room_waits, entry)
	{
		n++;
	}
	while (n-- > 0 && !TAILQ_EMPTY(&s->room_waits)) {
		struct gm_deferred_request *first = TAILQ_FIRST(&s->room_waits);

		if (first->was_turn)
			handle(first);
		else
			give_a_turn(s, first);
	}
}

bool gm_retry_queue_add(struct gm_connection *c, const struct gm_request *r,
			int status, uint64_t limit_ns)
{
	const struct gm_request_kind *kind = c->server->kind_of(r->header.type);
	struct gm_deferred_request *wait;

	/* A descriptor that came may have been taken, and is no more. */
	if (c->source.fd < 0 || c->waits || r->tail_bytes > TAIL_MAX ||
	    (kind->has_fd && c->fd < 0) || !is_want_of_room(status))
		return false;
	wait = calloc(1, sizeof(*wait) + r->tail_bytes);
	if (!wait)
		return false;
	wait->connection = c;
	wait->request = *r;
	wait->request.tail = wait->tail;
	memcpy(wait->tail, r->tail, r->tail_bytes);
	wait->limit.fired = is_over;
	gm_timer_set(c->server->d->loop, &wait->limit,
		     gm_loop_now() + limit_ns);
	enter(wait);
	gm_retry_queue_changed(c->server);
	return true;
}

void gm_retry_queue_connection_dropped(struct gm_connection *c, const char *why)
{
	struct gm_deferred_request *wait = c->room;

	if (!wait)
		return;
	leave(wait);
	end(wait);
}

void gm_retry_queue_changed(struct gm_control_server *s)
{
	if (!TAILQ_EMPTY(&s->room_waits))
		gm_timer_set(s->d->loop, &s->room, gm_loop_now());
}

void gm_retry_queue_init(struct gm_control_server *s)
{
	s->room.fired = look;
	TAILQ_INIT(&s->room_waits);
}

/* After all connections. */
void gm_retry_queue_exit(struct gm_control_server *s)
{
	gm_timer_stop(s->d->loop, &s->room);
}
