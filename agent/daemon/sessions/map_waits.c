/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sessions/map_waits.h"

#include <errno.h>
#include <string.h>

#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/segment/segment.h"
#include "shm/point.h"

#define MS UINT64_C(1000000)

static uint32_t generation_of(const struct gm_daemon *d)
{
	return gm_get(&d->segment->map.header->generation);
}

static void leave(struct gm_connection *c)
{
	TAILQ_REMOVE(&c->server->map_waits, c, map_wait);
	c->waits_for_map = false;
}

static void tell(struct gm_connection *c, uint32_t generation)
{
	struct gm_change_reply reply = { .generation = generation };

	leave(c);
	GM_POINT("change_told");
	gm_connection_answer(c, 0, NULL, &reply, sizeof(reply), -1);
}

static void tell_some(struct gm_control_server *s)
{
	uint32_t generation = generation_of(s->d), n = 0;
	struct gm_connection *c, *next;

	s->map_told = generation;
	for (c = TAILQ_FIRST(&s->map_waits); c; c = next) {
		next = TAILQ_NEXT(c, map_wait);
		if (c->seen == generation)
			continue;
		if (n++ == GM_SEGMENT_WAKES) {
			gm_timer_set(s->d->loop, &s->map_tells,
				     gm_loop_now() + MS);
			break;
		}
		tell(c, generation);
	}
}

static void tell_more(struct gm_timer *timer)
{
	tell_some(gm_owner(timer, struct gm_control_server, map_tells));
}

void gm_map_waits_init(struct gm_control_server *s)
{
	TAILQ_INIT(&s->map_waits);
	s->map_tells.fired = tell_more;
}

void gm_map_waits_look(struct gm_daemon *d)
{
	struct gm_control_server *s = d->server;

	if (s && s->map_tells.due_ns == 0 && s->map_told != generation_of(d))
		tell_some(s);
}

void gm_map_waits_connection_dropped(struct gm_connection *c, const char *why)
{
	if (c->waits_for_map)
		leave(c);
}

int gm_map_waits_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_change_reply reply = { .generation =
						 generation_of(c->server->d) };
	struct gm_change_ask ask;

	memcpy(&ask, r->body, sizeof(ask));
	if (c->session)
		return gm_connection_bad(c, -EINVAL,
					 "a session's connection is not to "
					 "wait: connect another");
	if (ask.reserved)
		return gm_connection_bad(c, -EINVAL, "a reserved field is set");
	if (ask.seen != reply.generation)
		return gm_connection_reply_body(c, &r->header, &reply,
						sizeof(reply));
	c->seen = ask.seen;
	c->waits_for_map = true;
	TAILQ_INSERT_TAIL(&c->server->map_waits, c, map_wait);
	gm_connection_wait(c, &r->header);
	return 0;
}
