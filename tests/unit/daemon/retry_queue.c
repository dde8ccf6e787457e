/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * room: a request that waits for what never comes back is refused when its time
 * is over, and one that nothing could help waits not at all.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/daemon/account/retry_queue.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/sessions/dispatch.h"
#include "agent/daemon/sessions/session.h"
#include "tests/support/tap.h"

#define MS      UINT64_C(1000000)
#define HANG_NS (60000 * MS)

static struct gm_daemon *d;
static struct gm_control_server s;
static struct gm_user user = { .uid = 1 };
static struct gm_session ended = { .user = &user };
static struct gm_connection c;

static struct gm_source reader;
static struct gm_timer hang;
static struct gm_control got; /* the refusal */

static void refused(struct gm_source *source, uint32_t events)
{
	char record[512] = { 0 };

	(void)events;
	if (recv(source->fd, record, sizeof(record), 0) > 0)
		memcpy(&got, record, sizeof(got));
	gm_loop_stop(d->loop);
}

static void hangs(struct gm_timer *timer)
{
	(void)timer;
	gm_loop_stop(d->loop);
}

/* One row, on which no user may have a byte. */
static void set_up(void)
{
	static struct gm_device row = { .facts.flags = GPUMAP_DEVICE_SERVES };
	int ends[2];

	EQ(gm_loop_init(d->loop), 0);
	d->server = &s;
	d->devices->n = 1;
	d->devices->of[0] = &row;
	d->config->sessions = 4;
	d->config->sessions_per_uid = 4;
	d->config->arena_bytes = UINT64_MAX;
	s.d = d;
	s.kind_of = gm_dispatch_request_kind;
	s.n_sessions = 1;
	TAILQ_INIT(&s.sessions);
	TAILQ_INIT(&s.users);
	TAILQ_INSERT_TAIL(&s.users, &user, entry);
	TAILQ_INSERT_TAIL(&s.sessions, &ended, entry);
	gm_retry_queue_init(&s);
	EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	c.server = &s;
	c.user = &user;
	c.busy = 1;
	c.fd = -1;
	c.source.fd = ends[0];
	EQ(gm_loop_add(d->loop, &c.source, 0), 0);
	reader = (struct gm_source){ ends[1], refused };
	EQ(gm_loop_add(d->loop, &reader, EPOLLIN), 0);
	hang.fired = hangs;
}

static struct gm_request request(void)
{
	struct gm_request r = { .header = { .type = GM_CONTROL_SESSION_OPEN,
					    .serial = 7 },
				.tail = "" };
	struct gm_session_open open = { .depth = 16, .range_bytes = 4096 };

	memcpy(r.body, &open, sizeof(open));
	return r;
}

/* How the request ends that was refused with @status; 0: it did not wait. */
static int32_t waited(int status, uint64_t limit_ns)
{
	struct gm_request r = request();

	if (!gm_retry_queue_add(&c, &r, status, limit_ns))
		return 0;
	OK(c.waits);
	got.status = 0;
	d->loop->stop = false;
	gm_timer_set(d->loop, &hang, gm_loop_now() + HANG_NS);
	EQ(gm_loop_run(d->loop), 0);
	EQ(got.serial, 7);
	OK(!c.waits);
	OK(c.room == NULL);
	OK(TAILQ_EMPTY(&s.room_waits));
	return got.status;
}

static void a_limit_ends_it(void)
{
	EQ(waited(-EDQUOT, MS), -EDQUOT);
	EQ(waited(-EUSERS, MS), -EDQUOT); /* what it is now */
}

/* Its time, which is longer than we wait, is not used up. */
static void what_nothing_helps_ends_at_once(void)
{
	struct gm_user other = { .uid = 2 };

	EQ(waited(-EINVAL, 2 * HANG_NS), 0);
	c.user = &other;
	EQ(waited(-EDQUOT, 2 * HANG_NS), -EDQUOT);
	c.user = &user;
	ended.connection = &c; /* it is open */
	EQ(waited(-EDQUOT, 2 * HANG_NS), -EDQUOT);
	ended.connection = NULL;
	s.draining = true;
	EQ(waited(-EDQUOT, 2 * HANG_NS), -ESHUTDOWN);
	s.draining = false;
}

/* No session is left for any user: the end of each one helps. */
static void a_full_agent_waits_for_anybody(void)
{
	struct gm_user other = { .uid = 2 };

	c.user = &other;
	s.n_sessions = d->config->sessions;
	EQ(waited(-EUSERS, MS), -EUSERS);
	c.user = &user;
	s.n_sessions = 1;
}

/* Does it wait after several turns of the loop? */
static bool goes_on_waiting(void)
{
	struct gm_request r = request();
	bool waits;

	OK(gm_retry_queue_add(&c, &r, -EDQUOT, HANG_NS));
	d->loop->stop = false;
	gm_timer_set(d->loop, &hang, gm_loop_now() + 20 * MS);
	EQ(gm_loop_run(d->loop), 0);
	waits = c.room != NULL;
	gm_retry_queue_connection_dropped(&c, "");
	c.waits = false;
	return waits;
}

static void set_releases(uint32_t n)
{
	user.releases = n;
	s.n_releases = n;
}

/* Memory of each user counts for the limit of all users together, and no other
 * user's for that of one. */
static void a_full_memory_waits_for_all_users(void)
{
	struct gm_user other = { .uid = 2 };

	c.user = &other;
	ended.connection = &c; /* nothing but what is being freed */
	set_releases(1);
	EQ(waited(-EDQUOT, 2 * HANG_NS), -EDQUOT);
	d->config->arena_bytes_per_uid = UINT64_C(1) << 20;
	user.arena_bytes = UINT64_C(1) << 20;
	OK(goes_on_waiting());
	set_releases(0);
	ended.connection = NULL;
	OK(goes_on_waiting());
	d->config->arena_bytes_per_uid = 0;
	user.arena_bytes = 0;
	c.user = &user;
}

/* A session whose memory is not free yet counts as one. */
static void releases_count_as_sessions(void)
{
	struct gm_user other = { .uid = 2 };

	ended.connection = &c;
	set_releases(d->config->sessions_per_uid);
	d->config->sessions += 2;
	OK(goes_on_waiting());
	d->config->sessions -= 2;
	c.user = &other;
	set_releases(d->config->sessions - s.n_sessions);
	OK(goes_on_waiting());
	c.user = &user;
	set_releases(0);
	ended.connection = NULL;
}

/* Its limit is not one of memory: what is being freed does not help. */
static void other_limits_wait_for_no_memory(void)
{
	struct gm_session_open open = { .depth = 16, .range_bytes = 4096 };
	uint64_t arena_bytes = d->config->arena_bytes;

	ended.connection = &c;
	set_releases(1);
	s.memory_limit = GM_MEMORY_LIMIT_ALL; /* of a request before */
	d->config->arena_bytes = open.range_bytes - 1;
	EQ(waited(-EDQUOT, 2 * HANG_NS), -EDQUOT);
	d->config->arena_bytes = arena_bytes;
	set_releases(0);
	ended.connection = NULL;
}

static void who_leaves_waits_no_more(void)
{
	struct gm_request r = request();

	OK(gm_retry_queue_add(&c, &r, -EDQUOT, HANG_NS));
	gm_retry_queue_connection_dropped(&c, "");
	OK(c.room == NULL);
	OK(TAILQ_EMPTY(&s.room_waits));
	gm_retry_queue_connection_dropped(&c, "");
}

TAP_CASE()
{
	d = gm_daemon_new();
	if (!OK(d))
		return tap_done();
	set_up();
	a_limit_ends_it();
	what_nothing_helps_ends_at_once();
	a_full_agent_waits_for_anybody();
	a_full_memory_waits_for_all_users();
	releases_count_as_sessions();
	other_limits_wait_for_no_memory();
	who_leaves_waits_no_more();
	gm_timer_stop(d->loop, &hang);
	gm_retry_queue_exit(&s);
	close(c.source.fd);
	close(reader.fd);
	gm_loop_exit(d->loop);
	gm_daemon_free(d);
	return tap_done();
}
