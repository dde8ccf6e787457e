/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sessions/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/account/retry_queue.h"
#include "agent/daemon/base/deferred_close.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/peercred.h"
#include "agent/daemon/base/session_memory.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/map/cordon.h"
#include "agent/daemon/sessions/programs.h"
#include "agent/daemon/sharing/exports.h"
#include "agent/daemon/sharing/peer_mapping.h"
#include "agent/daemon/sharing/share.h"
#include "gpumap.h"
#include "lib/model/plan/size_text.h"
#include "shm/point.h"
#include "shm/queue.h"

#define DEPTH_DEFAULT 256u
#define RANGE_DEFAULT (UINT64_C(64) << 20)
#define RANGE_MAX     (UINT64_C(1) << 46) /* so that no sum of them wraps */
#define BURST_NS      UINT64_C(1000000000)
#define REST_MAX_NS   UINT64_C(1000000000)
/* For which a user is held back who has kept a worker waiting. */
#define STALL_NS UINT64_C(30000000000)

uint64_t gm_session_arena_bytes(const struct gm_session *session)
{
	return session->n_rows * session->range_bytes;
}

/* ---- the end ----------------------------------------------------------- */

/* Memory of a session that is gone. */
struct gm_session_release {
	struct gm_deferred_memory queues;
	struct gm_deferred_memory arena;
	struct gm_control_server *server;
	struct gm_user *user;
	uint64_t bytes; /* of its arenas */
	uint32_t n;     /* memfds that have memory yet */
};

static void is_released(struct gm_session_release *release)
{
	struct gm_control_server *s = release->server;

	if (--release->n > 0)
		return;
	release->user->arena_bytes -= release->bytes;
	release->user->releases--;
	s->n_releases--;
	gm_user_drop(s, release->user);
	gm_retry_queue_changed(s);
	free(release);
	GM_POINT("session_released");
}

static void are_queues_freed(struct gm_deferred_memory *memory)
{
	is_released(gm_owner(memory, struct gm_session_release, queues));
}

static void is_arena_freed(struct gm_deferred_memory *memory)
{
	is_released(gm_owner(memory, struct gm_session_release, arena));
}

/* The user's counts of bytes and sessions, and a hold of the user, go with the
 * memory. */
static void release_memory(struct gm_session *session)
{
	struct gm_session_release *release = session->release;
	uid_t uid = session->user->uid;
	int queues = session->queues, arena = session->arena;

	*release = (struct gm_session_release){
		.queues.freed = are_queues_freed,
		.arena.freed = is_arena_freed,
		.server = session->server,
		.user = session->user,
		.bytes = gm_session_arena_bytes(session),
		.n = 2,
	};
	session->release = NULL;
	session->queues = session->arena = -1;
	release->user->holds++;
	release->user->releases++;
	release->server->n_releases++;
	gm_deferred_close_free(&release->queues, queues, uid);
	gm_deferred_close_free(&release->arena, arena, uid);
}

static void close_queue(struct gm_session *session, uint32_t row)
{
	struct gm_session_queue *queue = session->queue[row];

	if (!queue)
		return;
	if (queue->attachment.doorbell >= 0)
		close(queue->attachment.doorbell);
	free(queue);
	session->queue[row] = NULL;
	session->n_queues--;
}

void gm_session_free(struct gm_session *session)
{
	struct gm_control_server *s = session->server;

	gm_registrations_free(session);
	gm_shares_leave(session);
	gm_share_offers_leave(session);
	gm_exports_free(session);
	gm_peer_mappings_free(session);
	gm_comms_free(session);
	for (uint32_t row = 0; row < GM_ROWS; row++)
		close_queue(session, row);
	for (int i = 0; i < 2; i++) {
		if (session->wake[i] >= 0)
			close(session->wake[i]);
	}
	if (session->release) {
		/* No client has had a descriptor, or the agent ends.  Ours may
		 * be the last: then the pages go, and there may be many. */
		gm_close_thread_close(&s->close_thread, session->queues);
		gm_close_thread_close(&s->close_thread, session->arena);
		session->user->arena_bytes -= gm_session_arena_bytes(session);
		free(session->release);
	}
	TAILQ_REMOVE(&s->sessions, session, entry);
	s->n_sessions--;
	session->user->sessions--;
	gm_user_drop(s, session->user);
	gm_retry_queue_changed(s);
	free(session);
}

static void gone(struct gm_session *session)
{
	gm_log_of(session->user->uid, GM_LOG_INFO, "session_gone",
		  "session=%" PRIu64 " pid=%d sessions=%u", session->id,
		  (int)session->pid, session->server->n_sessions - 1);
	/* While the agent ends, clients may still read what jobs have done. */
	if (!session->server->is_ending)
		release_memory(session);
	gm_session_free(session);
	GM_POINT("session_gone");
}

static void has_left(struct gm_attachment *attachment)
{
	struct gm_session_queue *queue =
		gm_owner(attachment, struct gm_session_queue, attachment);
	struct gm_session *session = queue->session;

	close_queue(session, queue->row);
	if (session->n_queues == 0)
		gone(session);
}

void gm_session_end(struct gm_session *session, const char *reason)
{
	struct gm_control_server *s = session->server;
	struct gm_connection *c = session->connection;
	uint32_t left = session->n_queues;

	if (!c)
		return;
	gm_log_of(session->user->uid, GM_LOG_INFO, "session_ended",
		  "session=%" PRIu64 " pid=%d uid=%u queues=%u reason=%s",
		  session->id, (int)session->pid, (unsigned)session->user->uid,
		  left, gm_quote(reason).text);
	session->connection = NULL;
	c->session = NULL;
	gm_shares_leave(session);
	gm_share_offers_leave(session);
	gm_connection_drop(c, GM_DROP_SESSION, reason);
	GM_POINT("session_ended");

	if (left == 0) {
		gone(session);
		return;
	}
	/* The last one that leaves frees the session. */
	for (uint32_t row = 0; left > 0; row++) {
		if (!session->queue[row])
			continue;
		left--;
		gm_supervisor_leave(s->d, &session->queue[row]->attachment);
	}
}

void gm_session_connection_dropped(struct gm_connection *c, const char *why)
{
	if (c->session)
		gm_session_end(c->session, why);
}

/* ---- SESSION_OPEN ------------------------------------------------------ */

/* How many rows a session has: up to the last that holds data.  Dummy rows
 * behind it have no range in an arena, and count for no quota; those before it
 * have one, which a client could write to, and count. */
static uint32_t rows_of_a_session(const struct gm_daemon *d)
{
	uint32_t n = d->devices->n;

	while (n > 0 &&
	       !gm_device_can(d->devices->of[n - 1], GPUMAP_DEVICE_SERVES))
		n--;
	return n;
}

/* As much as the limit leaves, where that is less. */
static uint64_t default_range(const struct gm_config *config, uint32_t n_rows)
{
	uint64_t most = config->arena_bytes / n_rows / GM_PAGE * GM_PAGE;

	return most > 0 && most < RANGE_DEFAULT ? most : RANGE_DEFAULT;
}

static int check(struct gm_connection *c, struct gm_session_open *open,
		 uint32_t n_rows)
{
	if (c->session)
		return gm_connection_bad(
			c, -EBUSY,
			"this connection is a session already; "
			"a second one needs its own");
	if (c->server->draining)
		return gm_connection_bad(
			c, -ESHUTDOWN,
			"the agent is shutting down; try again "
			"when it is back");
	if (open->depth == 0)
		open->depth = DEPTH_DEFAULT;
	if (open->range_bytes == 0)
		open->range_bytes = default_range(c->server->d->config, n_rows);
	if (open->depth < GM_DEPTH_MIN || open->depth > GM_DEPTH_MAX ||
	    (open->depth & (open->depth - 1)) != 0)
		return gm_connection_bad(c, -EINVAL,
					 "depth %u is no power of two from %u "
					 "to %u",
					 open->depth, GM_DEPTH_MIN,
					 GM_DEPTH_MAX);
	if (open->flags & ~(GPUMAP_SESSION_POLLABLE | GPUMAP_SESSION_PROGRAMS))
		return gm_connection_bad(c, -EINVAL,
					 "session flags %#x are not known",
					 open->flags);
	if (open->range_bytes > RANGE_MAX)
		return gm_connection_bad(c, -EDQUOT,
					 "a range of %s is more than any row "
					 "could have",
					 gm_size_up(open->range_bytes).text);
	open->range_bytes =
		(open->range_bytes + GM_PAGE - 1) / GM_PAGE * GM_PAGE;
	return 0;
}

static int check_limits(struct gm_connection *c, uint64_t bytes)
{
	const struct gm_control_server *s = c->server;
	const struct gm_config *config = s->d->config;
	const struct gm_user *user = c->user;
	uint32_t has = user->sessions + user->releases;

	if (s->n_sessions + s->n_releases >= config->sessions)
		return gm_connection_bad(
			c, -EUSERS,
			"all %u sessions of this agent are open, or have "
			"memory that is not free yet; close some, or raise "
			"sessions in [limits] of gpumapd.conf",
			config->sessions);
	if (has >= config->sessions_per_uid)
		return gm_connection_bad(
			c, -EUSERS,
			"uid %u has %u sessions, %u of them ended with memory "
			"that is not free yet, its limit is %u; close some, "
			"or raise sessions-per-uid in [limits] of gpumapd.conf",
			(unsigned)user->uid, has, user->releases,
			config->sessions_per_uid);
	if (bytes > config->arena_bytes)
		return gm_connection_bad(
			c, -EDQUOT,
			"an arena of %s over all rows; a session's limit is "
			"%s: ask for less, or raise arena in [limits] of "
			"gpumapd.conf",
			gm_size_up(bytes).text,
			gm_size_down(config->arena_bytes).text);
	return gm_user_admit_memory(c->server, user, bytes, "a session");
}

/* No process reads messages of the client there, and descriptors in them would
 * be closed with the agent's end, by the agent, which may take long: so the
 * client cannot send. */
static int make_wake(struct gm_session *session)
{
	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
		       session->wake) != 0 ||
	    shutdown(session->wake[0], SHUT_RD) != 0)
		return -errno;
	return 0;
}

/* All pages before the client has the descriptor: later it could hold the lock
 * of the inode, which fallocate() waits for, as long as it likes.  Each row's
 * are from its node. */
static int fill_queues(const struct gm_session *session)
{
	const struct gm_devices *devices = session->server->d->devices;
	uint64_t bytes = gm_queue_bytes(session->depth);
	int error = gm_session_memory_fill(session->queues, 0, GM_PAGE, -1);

	for (uint32_t row = 0; error == 0 && row < session->n_rows; row++) {
		const struct gm_device *device = devices->of[row];

		if (gm_device_can(device, GPUMAP_DEVICE_SERVES))
			error = gm_session_memory_fill(
				session->queues,
				gm_queue_at(row, session->depth), bytes,
				device->facts.numa_node);
	}
	return error;
}

static int make_memory(struct gm_session *session, uint32_t flags)
{
	session->queues = gm_session_memory_open(
		"gpumap-queues", gm_queue_at(session->n_rows, session->depth));
	if (session->queues < 0)
		return session->queues;
	session->arena = gm_session_memory_open(
		"gpumap-arena", gm_session_arena_bytes(session));
	if (session->arena < 0)
		return session->arena;
	if (flags & GPUMAP_SESSION_POLLABLE) {
		int error = make_wake(session);

		if (error)
			return error;
	}
	return fill_queues(session);
}

static int make_session(struct gm_connection *c,
			const struct gm_session_open *open, uint32_t n_rows,
			struct gm_session **ret_session)
{
	struct gm_control_server *s = c->server;
	struct gm_session *session = calloc(1, sizeof(*session));
	int error;

	if (!session)
		return -ENOMEM;
	session->server = s;
	session->id = s->last_session + 1;
	session->pid = c->pid;
	session->depth = open->depth;
	session->runs_programs = open->flags & GPUMAP_SESSION_PROGRAMS;
	session->n_rows = n_rows;
	session->range_bytes = open->range_bytes;
	session->since_ns = gm_loop_now();
	session->queues = session->arena = -1;
	session->wake[0] = session->wake[1] = -1;
	TAILQ_INIT(&session->registrations);
	TAILQ_INIT(&session->imports);
	TAILQ_INIT(&session->shares);
	gm_peer_mappings_init(&session->peer_mappings);
	gm_comms_init(&session->comms);
	session->release = calloc(1, sizeof(*session->release));
	session->user = session->release ? gm_user_hold(s, c->uid) : NULL;
	if (!session->user) {
		free(session->release);
		free(session);
		return -ENOMEM;
	}
	session->user->sessions++;
	session->user->arena_bytes += gm_session_arena_bytes(session);
	s->n_sessions++;
	TAILQ_INSERT_TAIL(&s->sessions, session, entry);
	error = make_memory(session, open->flags);
	if (error == 0)
		error = gm_connection_watch(c);
	if (error) {
		gm_session_free(session);
		gm_connection_bad(c, error,
				  "no memory for the queues of %u rows: %s",
				  n_rows, strerror(-error));
		return error;
	}
	s->last_session = session->id;
	*ret_session = session;
	return 0;
}

/*
 * Each session costs a worker some mappings and page faults, for which its
 * other clients wait.  A uid that opens more than its rate allows, after a
 * burst, is answered; its next request (a queue) is read later.  The wait is at
 * most REST_MAX, because one of the uid's processes may be innocent, but up to
 * STALL after a session of the uid has kept a worker waiting.
 */
static void pace(struct gm_connection *c)
{
	const struct gm_config *config = c->server->d->config;
	struct gm_user *user = c->user;
	uint64_t now = gm_loop_now();

	if (gm_user_is_privileged(c->uid) || c->source.fd < 0)
		return;
	if (user->paced_ns < now)
		user->paced_ns = now;
	if (user->paced_ns < now + BURST_NS + REST_MAX_NS)
		user->paced_ns += BURST_NS / config->sessions_per_second;
	if (user->paced_ns > now + BURST_NS)
		gm_connection_rest(c, user->paced_ns - BURST_NS);
}

int gm_session_handle_open(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_session_open open;
	struct gm_session_reply reply;
	struct gm_session *session = NULL;
	uint32_t n_rows = rows_of_a_session(c->server->d);
	int error, fds[3];

	memcpy(&open, r->body, sizeof(open));
	if (n_rows == 0)
		return gm_connection_bad(
			c, -ENODEV,
			"there is no other row here: dummy rows "
			"plan and account, but hold no data");
	error = check(c, &open, n_rows);
	if (error == 0 && (open.flags & GPUMAP_SESSION_PROGRAMS))
		error = gm_program_policy(c);
	if (error == 0)
		error = check_limits(c, n_rows * open.range_bytes);
	if (error == 0)
		error = make_session(c, &open, n_rows, &session);
	if (error)
		return error;
	session->connection = c;
	c->session = session;
	c->was_session = true;
	if (c->server->keeps_fds_out)
		gm_connection_pass_fds(c->source.fd, true);
	gm_log_of(c->uid, GM_LOG_INFO, "session_opened",
		  "session=%" PRIu64
		  " pid=%d uid=%u depth=%u arena_bytes=%" PRIu64
		  " sessions=%u uid_sessions=%u",
		  session->id, (int)session->pid, (unsigned)c->uid,
		  session->depth, gm_session_arena_bytes(session),
		  c->server->n_sessions, c->user->sessions);
	GM_POINT("session_opened");

	reply = (struct gm_session_reply){ .id = session->id,
					   .depth = session->depth,
					   .n_rows = n_rows,
					   .range_bytes = open.range_bytes };
	fds[0] = session->queues;
	fds[1] = session->arena;
	fds[2] = session->wake[1];
	gm_connection_reply(c, &r->header,
			    &(struct gm_reply){ .body = &reply,
						.body_bytes = sizeof(reply),
						.fds = fds,
						.n_fds = fds[2] < 0 ? 2 : 3 });
	if (c->session && session->wake[1] >= 0) {
		close(session->wake[1]); /* the client has its own now */
		session->wake[1] = -1;
	}
	pace(c);
	return 0;
}

/* ---- QUEUE_OPEN -------------------------------------------------------- */

static void is_attached(struct gm_attachment *attachment, int status,
			const char *why)
{
	struct gm_session_queue *queue =
		gm_owner(attachment, struct gm_session_queue, attachment);
	struct gm_session *session = queue->session;
	struct gm_connection *c = session->connection;
	struct gm_queue_reply reply = { .at = attachment->queue_at,
					.bytes = gm_queue_bytes(
						attachment->depth) };

	if (!c)
		return;
	if (status < 0)
		close_queue(session, queue->row);
	else
		GM_POINT("session_queue_opened");
	gm_connection_answer(c, status, why, &reply, sizeof(reply),
			     status < 0 ? -1 : attachment->doorbell);
}

static void is_broken(struct gm_attachment *attachment, const char *why)
{
	gm_session_end(gm_owner(attachment, struct gm_session_queue, attachment)
			       ->session,
		       why);
}

static bool is_held_back(const struct gm_user *user, uint64_t now)
{
	return !gm_user_is_privileged(user->uid) &&
	       user->paced_ns > now + BURST_NS + REST_MAX_NS;
}

/* One session of the user has kept a worker waiting, and then another one. */
static void end_all_of(struct gm_control_server *s, const struct gm_user *user)
{
	struct gm_session *session, *next;

	for (session = TAILQ_FIRST(&s->sessions); session; session = next) {
		next = TAILQ_NEXT(session, entry);
		if (session->user == user)
			gm_session_end(session, "other sessions of its user "
						"keep workers waiting");
	}
}

/* Holes that another user may have punched hold the session's user back if they
 * are the second ones in that time: two users together could keep a worker
 * waiting otherwise. */
static void has_stalled(struct gm_attachment *attachment, const char *why)
{
	struct gm_session *session =
		gm_owner(attachment, struct gm_session_queue, attachment)
			->session;
	struct gm_control_server *s = session->server;
	struct gm_user *user = session->user;
	uint64_t now = gm_loop_now();
	bool again = is_held_back(user, now);

	if (!session->connection) /* ended already */
		return;
	if (gm_exports_are_others(session) && user->suspect_ns <= now) {
		user->suspect_ns = now + STALL_NS;
		gm_session_end(session, why);
		return;
	}
	gm_log_of(user->uid, GM_LOG_WARNING, "user_held_back",
		  "uid=%u session=%" PRIu64 " for_s=%" PRIu64 " reason=%s",
		  (unsigned)user->uid, session->id, STALL_NS / BURST_NS,
		  gm_quote(why).text);
	user->paced_ns = now + STALL_NS;
	gm_session_end(session, why);
	if (again)
		end_all_of(s, user);
}

static int make_queue(struct gm_session *session, uint32_t row)
{
	struct gm_session_queue *queue = calloc(1, sizeof(*queue));
	int error;

	if (!queue)
		return -ENOMEM;
	queue->session = session;
	queue->row = row;
	queue->attachment = (struct gm_attachment){
		.session = session->id,
		.uid = session->user->uid,
		.pid = session->pid,
		.runs_programs = session->runs_programs,
		.depth = session->depth,
		.queue_at = gm_queue_at(row, session->depth),
		.arena_bytes = gm_session_arena_bytes(session),
		.range_at = row * session->range_bytes,
		.range_bytes = session->range_bytes,
		.queues = session->queues,
		.arena = session->arena,
		.doorbell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
		.socket = session->wake[0],
		.attached = is_attached,
		.broken = is_broken,
		.stalled = has_stalled,
		.left = has_left,
	};
	session->queue[row] = queue;
	session->n_queues++;
	error = queue->attachment.doorbell < 0 ? -errno : 0;
	if (error)
		close_queue(session, row);
	return error;
}

int gm_session_handle_queue(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_queue_open *open = (const void *)r->body;
	const struct gm_devices *devices = c->server->d->devices;
	struct gm_session *session = c->session;
	uint32_t row = open->row;
	int error;

	if (open->reserved)
		return gm_connection_bad(c, -EINVAL, "a reserved field is set");
	if (row < devices->n &&
	    !gm_device_can(devices->of[row], GPUMAP_DEVICE_SERVES))
		return gm_connection_bad(c, -ENODEV,
					 "row %u is a dummy: dummy rows plan "
					 "and account, but hold no data",
					 row);
	if (row >= session->n_rows)
		return gm_connection_bad(c, -ENODEV,
					 "row %u: this session has rows 0 to "
					 "%u; newer rows need a new session",
					 row, session->n_rows - 1);
	if (devices->of[row]->given_ns > session->since_ns)
		return gm_connection_bad(
			c, -ENODEV,
			"row %u is another device since this session was "
			"opened; newer rows need a new session",
			row);
	if (!gm_cordons_admit(c->server->d, row, session->since_ns))
		return gm_connection_bad(
			c, -ENODEV,
			"row %u is cordoned and takes no new sessions: use "
			"another row, or gpumapctl uncordon %u",
			row, row);
	if (session->queue[row])
		return gm_connection_bad(c, -EALREADY,
					 "the queue of row %u is open", row);
	error = make_queue(session, row);
	if (error)
		return gm_connection_bad(
			c, error, "no doorbell for the queue of row %u: %s",
			row, strerror(-error));

	/* The answer may come out of the next call. */
	gm_connection_wait(c, &r->header);
	error = gm_supervisor_attach(c->server->d, row,
				     &session->queue[row]->attachment,
				     c->server->why);
	if (error) {
		c->waits = false;
		close_queue(session, row);
		return error;
	}
	return 0;
}

/* ---- LOADING ------------------------------------------------------------ */

int gm_session_handle_loading(struct gm_connection *c,
			      const struct gm_request *r)
{
	const struct gm_loading *loading = (const void *)r->body;

	if (loading->total > INT64_MAX || loading->bytes > loading->total)
		return gm_connection_bad(c, -EINVAL,
					 "%" PRIu64 " bytes of %" PRIu64
					 ": at most 2^63 - 1, and no more than "
					 "all",
					 loading->bytes, loading->total);
	c->session->loading = *loading;
	return gm_connection_reply(c, &r->header, NULL);
}
