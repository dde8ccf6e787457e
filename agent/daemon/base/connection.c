/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/connection.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/common/fds.h"
#include "agent/common/log.h"
#include "agent/common/node_clock.h"
#include "agent/daemon/base/deferred_close.h"
#include "agent/daemon/base/events.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/peercred.h"
#include "agent/daemon/base/user.h"
#include "agent/daemon/config.h"
#include "shm/point.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

#define RECORDS_A_TURN 16u /* of a uid; then others have theirs */
#define BYTES_A_TURN   (UINT64_C(64) << 10) /* likewise */
#define TURN_NS        UINT64_C(200000)     /* likewise */
#define FULL_NS        UINT64_C(20000000)   /* until there may be room, */
#define FULL_MOST_NS   UINT64_C(1000000000) /* doubled up to this */
#define REFUSED_MAX    16u /* that are told why; the rest is just closed */

static const char *const drop_names[GM_DROPS] = {
	[GM_DROP_HUNG_UP] = "hung_up",    [GM_DROP_SESSION] = "session_ended",
	[GM_DROP_AGENT] = "agent_ending", [GM_DROP_REFUSED] = "too_many",
	[GM_DROP_RECORD] = "bad_record",  [GM_DROP_FDS] = "descriptors",
	[GM_DROP_SILENT] = "silent",      [GM_DROP_FULL] = "does_not_read",
	[GM_DROP_BROKEN] = "socket_error"
};

void gm_connection_release(struct gm_connection *c)
{
	if (--c->busy == 0)
		free(c);
}

int gm_connection_pass_fds(int socket, bool pass)
{
	int value = pass;

	return setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &value,
			  sizeof(value))
		       ? -errno
		       : 0;
}

/* ---- the end ------------------------------------------------------------- */

static void leave_turns(struct gm_connection *c)
{
	struct gm_user *user = c->user;

	if (!c->is_ready)
		return;
	c->is_ready = false;
	TAILQ_REMOVE(&user->ready, c, turn);
	if (TAILQ_EMPTY(&user->ready))
		TAILQ_REMOVE(&c->server->ready, user, turn);
}

/* With it goes what its peer has sent and we have not received. */
static void close_socket(struct gm_connection *c, enum gm_drop reason)
{
	/* Before it has said HELLO too: behind a bad record may be another. */
	bool may_hold_fds = reason == GM_DROP_FDS || c->was_session ||
			    !c->server->keeps_fds_out;

	if (may_hold_fds) {
		/* Its peer shall know at once, whenever that is. */
		shutdown(c->source.fd, SHUT_RDWR);
		gm_deferred_close_close(c->source.fd, c->uid);
	} else {
		close(c->source.fd);
	}
}

void gm_connection_drop(struct gm_connection *c, enum gm_drop reason,
			const char *detail)
{
	struct gm_control_server *s = c->server;

	if (c->source.fd < 0)
		return;
	s->drops[reason]++;
	if (reason != GM_DROP_HUNG_UP && reason != GM_DROP_AGENT)
		gm_log_of(c->uid, GM_LOG_WARNING, "connection_dropped",
			  "pid=%d uid=%u reason=%s detail=%s times=%" PRIu64,
			  (int)c->pid, (unsigned)c->uid, drop_names[reason],
			  gm_quote(detail ? detail : "").text,
			  s->drops[reason]);
	gm_loop_del(s->d->loop, &c->source);
	gm_timer_stop(s->d->loop, &c->rest);
	gm_loop_del(s->d->loop, &c->process);
	if (c->process.fd >= 0)
		close(c->process.fd);
	c->process.fd = -1;
	leave_turns(c);
	close_socket(c, reason);
	c->source.fd = -1;
	TAILQ_REMOVE(c->said_hello ? &s->known : &s->silent, c, entry);
	s->n_connections--;
	if (c->is_refused)
		s->n_refused--;
	else
		c->user->connections--;
	gm_events_connection_dropped(s->d, c,
				     detail ? detail : drop_names[reason]);
	gm_user_drop(s, c->user);
	gm_connection_release(c);
}

int gm_connection_bad(struct gm_connection *c, int status, const char *format,
		      ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(c->server->why, sizeof(c->server->why), format, args);
	va_end(args);
	return status;
}

static void process_ended(struct gm_source *source, uint32_t events)
{
	gm_connection_drop(gm_owner(source, struct gm_connection, process),
			   GM_DROP_HUNG_UP, "its process has ended");
}

/* The kernel hands out pidfds of reaped processes, too (Linux 6.16). */
static bool has_ended(int pidfd)
{
	struct pollfd end = { .fd = pidfd, .events = POLLIN };

	return poll(&end, 1, 0) != 0;
}

int gm_connection_watch(struct gm_connection *c)
{
	int fd, ret;

	if (c->process.fd >= 0)
		return 0;
	fd = gm_peer_pidfd(c->source.fd, c->pid, c->node_ns);
	if (fd == -ENOTSUP)
		return 0;
	if (fd < 0)
		return fd;
	c->process = (struct gm_source){ fd, process_ended };
	ret = has_ended(fd)
		      ? -ESRCH
		      : gm_loop_add(c->server->d->loop, &c->process, EPOLLIN);
	if (ret != 0) {
		close(fd);
		c->process.fd = -1;
	}
	return ret;
}

bool gm_connection_lives(const struct gm_connection *c)
{
	int fd = gm_peer_pidfd(c->source.fd, c->pid, c->node_ns);
	bool lives = fd >= 0 && !has_ended(fd);

	if (fd >= 0)
		close(fd);
	return lives;
}

bool gm_connection_is_sync(const struct gm_connection *c)
{
	return gm_user_is_privileged(c->uid) ||
	       c->uid == c->server->d->config->cluster_uid;
}

/* ---- replies ----------------------------------------------------------- */

static void send_reply(struct gm_connection *c, struct gm_control *header,
		       struct iovec record[3], const int *fds, uint32_t n_fds)
{
	struct msghdr message = { .msg_iov = record, .msg_iovlen = 3 };
	union gm_fds_room room;

	if (c->source.fd < 0)
		return;
	header->magic = GM_CONTROL_MAGIC;
	header->version = GM_CONTROL_VERSION;
	header->bytes = (uint32_t)(record[0].iov_len + record[1].iov_len +
				   record[2].iov_len);
	gm_fds_put(&message, &room, fds, n_fds);
	if (sendmsg(c->source.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
		c->gave_fds |= n_fds != 0;
		GM_POINT("control_replied");
		return;
	}
	if (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS)
		gm_connection_drop(c, GM_DROP_FULL, strerror(errno));
	else if (errno == EPIPE || errno == ECONNRESET)
		gm_connection_drop(c, GM_DROP_HUNG_UP, NULL);
	else
		gm_connection_drop(c, GM_DROP_BROKEN, strerror(errno));
}

int gm_connection_reply(struct gm_connection *c,
			const struct gm_control *request,
			const struct gm_reply *reply)
{
	const struct gm_reply all = reply ? *reply : (struct gm_reply){ 0 };
	struct gm_control header = { .type = request->type,
				     .serial = request->serial,
				     .body = all.body_bytes };
	struct iovec record[3] = { { &header, sizeof(header) },
				   { (void *)all.body, all.body_bytes },
				   { (void *)all.tail, all.tail_bytes } };

	send_reply(c, &header, record, all.fds, all.n_fds);
	return 0;
}

int gm_connection_reply_body(struct gm_connection *c,
			     const struct gm_control *request, const void *body,
			     uint32_t bytes)
{
	return gm_connection_reply(c, request,
				   &(struct gm_reply){ .body = body,
						       .body_bytes = bytes });
}

void gm_connection_refuse_with(struct gm_connection *c,
			       const struct gm_control *request, int status,
			       const void *body, uint32_t bytes)
{
	struct gm_control header = { .type = request->type,
				     .serial = request->serial,
				     .status = status,
				     .body = bytes };
	struct iovec record[3] = { { &header, sizeof(header) },
				   { (void *)body, bytes } };

	send_reply(c, &header, record, NULL, 0);
}

void gm_connection_refuse(struct gm_connection *c,
			  const struct gm_control *request, int status,
			  const char *why)
{
	struct gm_refusal refusal = { 0 };

	snprintf(refusal.text, sizeof(refusal.text), "%s", why);
	gm_connection_refuse_with(c, request, status, &refusal,
				  sizeof(refusal));
}

void gm_connection_answer(struct gm_connection *c, int status, const char *why,
			  const void *body, uint32_t bytes, int fd)
{
	struct gm_control request = c->pending;

	c->busy++;
	if (status < 0)
		gm_connection_refuse(c, &request, status, why);
	else
		gm_connection_reply(c, &request,
				    &(struct gm_reply){ .body = body,
							.body_bytes = bytes,
							.fds = &fd,
							.n_fds = fd < 0 ? 0
									: 1 });
	gm_connection_resume(c);
	gm_connection_release(c);
}

/* ---- requests ---------------------------------------------------------- */

/* Body and tail where the handler finds them; the body as long as we know it.
 * Returns 0, -E2BIG for a field that we do not know, -EPROTO. */
static int unpack(const struct gm_request_kind *kind, const char *record,
		  struct gm_request *r)
{
	const char *body = record + sizeof(r->header);
	uint32_t bytes = r->header.body;
	uint32_t known = bytes < kind->body_bytes ? bytes : kind->body_bytes;

	r->tail = body + bytes;
	r->tail_bytes = r->header.bytes - (uint32_t)sizeof(r->header) - bytes;
	if (r->tail_bytes && !kind->has_tail)
		return -EPROTO;
	memset(r->body, 0, sizeof(r->body));
	memcpy(r->body, body, known);
	for (uint32_t i = known; i < bytes; i++) {
		if (body[i] != 0)
			return -E2BIG;
	}
	return 0;
}

int gm_connection_handle(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_request_kind *kind = c->server->kind_of(r->header.type);
	char *why = c->server->why;
	int status;

	why[0] = '\0';
	c->server->memory_limit = GM_MEMORY_LIMIT_NONE;
	status = kind->of_session && !c->session
			 ? gm_connection_bad(c, -EINVAL,
					     "this connection is no session")
			 : kind->handle(c, r);
	if (status < 0 && why[0] == '\0')
		snprintf(why, GM_WHY_BYTES, "%s", strerror(-status));
	return status;
}

static void handle(struct gm_connection *c, const struct gm_request *r)
{
	int status = gm_connection_handle(c, r);

	if (status < 0 && !c->server->waits_for_room(c, r, status, GM_ROOM_NS))
		gm_connection_refuse(c, &r->header, status, c->server->why);
}

/* One whole record of @bytes.  Returns false when the connection is over. */
static bool take(struct gm_connection *c, const char *record, size_t bytes)
{
	const struct gm_request_kind *kind;
	struct gm_request r;
	const char *wrong = NULL;
	int error;

	if (bytes < sizeof(r.header)) {
		gm_connection_drop(c, GM_DROP_RECORD, "shorter than a header");
		return false;
	}
	memcpy(&r.header, record, sizeof(r.header));
	kind = c->server->kind_of(r.header.type);
	if (r.header.magic != GM_CONTROL_MAGIC)
		wrong = "wrong magic";
	else if (r.header.bytes != bytes)
		wrong = "its length is not its header's";
	else if (r.header.body > bytes - sizeof(r.header))
		wrong = "its body is longer than itself";
	else if (!c->said_hello && r.header.type != GM_CONTROL_HELLO)
		wrong = "the first request must be HELLO";
	if (wrong) {
		gm_connection_drop(c, GM_DROP_RECORD, wrong);
		return false;
	}
	if (r.header.version != GM_CONTROL_VERSION) {
		gm_connection_refuse(c, &r.header, -EPROTO,
				     "library and agent are of different "
				     "versions of gpumap; use a library of the "
				     "agent's release");
		return c->source.fd >= 0;
	}
	if (!kind) {
		gm_connection_refuse(c, &r.header, -EOPNOTSUPP,
				     "this agent does not know the request; "
				     "update gpumapd");
		return c->source.fd >= 0;
	}
	error = unpack(kind, record, &r);
	if (error == -EPROTO)
		gm_connection_drop(c, GM_DROP_RECORD, "a tail after its body");
	else if (error)
		gm_connection_refuse(c, &r.header, error,
				     "the request sets a field that this agent "
				     "does not know; update gpumapd");
	else
		handle(c, &r);
	return c->source.fd >= 0;
}

/* Is there still a reply with descriptors that it has not taken? */
static bool owes_reading(struct gm_connection *c)
{
	int unread = 0;

	if (c->gave_fds && ioctl(c->source.fd, SIOCOUTQ, &unread) == 0)
		c->gave_fds = unread > 0;
	return c->gave_fds;
}

/* Has the next record descriptors, and may it?  Returns 1 or 0; or a negative
 * errno: -EBADF where it may not, -EBUSY where nothing may be taken yet. */
static int look(struct gm_connection *c)
{
	const struct gm_request_kind *kind;
	struct gm_control header;
	struct iovec room = { &header, sizeof(header) };
	struct msghdr message = { .msg_iov = &room, .msg_iovlen = 1 };
	ssize_t n = recvmsg(c->source.fd, &message, MSG_DONTWAIT | MSG_PEEK);

	if (n < 0)
		return -errno;
	if (n > 0 && owes_reading(c))
		return -EBUSY;
	kind = c->session && n == (ssize_t)sizeof(header)
		       ? c->server->kind_of(header.type)
		       : NULL;
	if (!(message.msg_flags & MSG_CTRUNC))
		return 0;
	if (!kind || !kind->has_fd)
		return -EBADF;
	return gm_deferred_close_is_full(c->uid) ? -EBUSY : 1;
}

/* Room comes when the client reads, or when its files are closed: that may be
 * never. */
static void rest_longer(struct gm_connection *c)
{
	c->full_ns = c->full_ns ? 2 * c->full_ns : FULL_NS;
	if (c->full_ns > FULL_MOST_NS)
		c->full_ns = FULL_MOST_NS;
	gm_connection_rest(c, gm_loop_now() + c->full_ns);
}

/* Why nothing is received. */
static void cannot_receive(struct gm_connection *c, int error)
{
	if (error == -EBUSY)
		rest_longer(c);
	else if (error == -EBADF)
		gm_connection_drop(c, GM_DROP_FDS, "its request carries none");
	else if (error == -ECONNRESET)
		gm_connection_drop(c, GM_DROP_HUNG_UP, NULL);
	else if (error != -EAGAIN && error != -EINTR)
		gm_connection_drop(c, GM_DROP_BROKEN, strerror(-error));
}

/* A record of @n bytes, and what came with it in c->fd. */
static bool received(struct gm_connection *c, ssize_t n, int flags)
{
	struct gm_control_server *s = c->server;

	if (n == 0) {
		gm_connection_drop(c, GM_DROP_HUNG_UP, NULL);
		return false;
	}
	/* Without a descriptor for the first there is none for us: that is not
	 * its sender's fault. */
	if ((flags & MSG_CTRUNC) && c->fd >= 0) {
		gm_connection_drop(c, GM_DROP_FDS, "more than one");
		return false;
	}
	if (flags & MSG_TRUNC) {
		gm_connection_drop(c, GM_DROP_RECORD, "longer than any is");
		return false;
	}
	c->lost_fd = (flags & MSG_CTRUNC) != 0;
	return take(c, s->record, (size_t)n) && !c->waits;
}

/* Take a record.  Returns its bytes, 0 where there was none, and in
 * *@ret_goes_on whether another may be read now. */
static size_t receive(struct gm_connection *c, bool *ret_goes_on)
{
	struct gm_control_server *s = c->server;
	struct iovec record = { s->record, sizeof(s->record) };
	struct msghdr message = { .msg_iov = &record, .msg_iovlen = 1 };
	union gm_fds_room room;
	int may_carry = look(c);
	ssize_t n;

	*ret_goes_on = false;
	if (may_carry < 0) {
		cannot_receive(c, may_carry);
		return 0;
	}
	if (may_carry)
		gm_fds_expect(&message, &room, 1);
	n = recvmsg(c->source.fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0) {
		cannot_receive(c, -errno);
		return 0;
	}
	c->full_ns = 0;
	(void)gm_fds_take(&message, &c->fd);
	*ret_goes_on = received(c, n, message.msg_flags);
	gm_deferred_close_close(c->fd, c->uid);
	c->fd = -1;
	return (size_t)n;
}

/* ---- turns --------------------------------------------------------------- */

/* Returns the bytes of the record that was taken, or 0. */
static size_t serve_one(struct gm_connection *c)
{
	bool goes_on;
	size_t bytes;

	c->busy++;
	bytes = receive(c, &goes_on);
	if (!goes_on) {
		leave_turns(c);
	} else {
		TAILQ_REMOVE(&c->user->ready, c, turn);
		TAILQ_INSERT_TAIL(&c->user->ready, c, turn);
	}
	if (c->waits && c->source.fd >= 0)
		gm_loop_mod(c->server->d->loop, &c->source, 0);
	gm_connection_release(c);
	return bytes;
}

/* The next user's turn.  An end is no record, so that each is found at once. */
static void serve_next(struct gm_control_server *s)
{
	struct gm_user *user = TAILQ_FIRST(&s->ready);
	struct gm_connection *c;
	uint32_t records = 0;
	uint64_t bytes = 0, end_ns = gm_loop_now() + TURN_NS;

	TAILQ_REMOVE(&s->ready, user, turn);
	TAILQ_INSERT_TAIL(&s->ready, user, turn);
	user->holds++;
	while (records < RECORDS_A_TURN && bytes < BYTES_A_TURN &&
	       (c = TAILQ_FIRST(&user->ready))) {
		size_t n = serve_one(c);

		records += n > 0;
		bytes += n;
		if (gm_loop_now() >= end_ns)
			break;
	}
	gm_user_drop(s, user);
}

static void take_turns(struct gm_timer *timer)
{
	struct gm_control_server *s =
		gm_owner(timer, struct gm_control_server, turn);
	const struct gm_user *user;
	uint32_t n = 0;

	TAILQ_FOREACH(user, &s->ready, turn)
	n++;
	for (; n > 0 && !TAILQ_EMPTY(&s->ready); n--)
		serve_next(s);
	if (!TAILQ_EMPTY(&s->ready))
		gm_timer_set(s->d->loop, &s->turn, gm_loop_now() + 1);
}

void gm_connection_init_turns(struct gm_control_server *s)
{
	TAILQ_INIT(&s->ready);
	s->turn.fired = take_turns;
}

/* Its turn is after all events of this turn of the loop, so that those that
 * came first have no advantage. */
static void queue_up(struct gm_connection *c)
{
	struct gm_control_server *s = c->server;

	if (c->is_ready)
		return;
	c->is_ready = true;
	if (TAILQ_EMPTY(&c->user->ready))
		TAILQ_INSERT_TAIL(&s->ready, c->user, turn);
	TAILQ_INSERT_TAIL(&c->user->ready, c, turn);
	if (s->turn.due_ns == 0)
		gm_timer_set(s->d->loop, &s->turn, 1);
}

static void ready(struct gm_source *source, uint32_t events)
{
	struct gm_connection *c =
		gm_owner(source, struct gm_connection, source);

	if (!c->waits)
		queue_up(c);
	else if (events & (EPOLLHUP | EPOLLERR))
		/* Only the end is news while we do not read. */
		gm_connection_drop(c, GM_DROP_HUNG_UP, NULL);
}

void gm_connection_wait(struct gm_connection *c,
			const struct gm_control *request)
{
	c->pending = *request;
	c->waits = true;
}

void gm_connection_resume(struct gm_connection *c)
{
	c->waits = false;
	if (c->source.fd >= 0)
		gm_loop_mod(c->server->d->loop, &c->source, EPOLLIN);
}

static void rested(struct gm_timer *timer)
{
	gm_connection_resume(gm_owner(timer, struct gm_connection, rest));
}

void gm_connection_rest(struct gm_connection *c, uint64_t until_ns)
{
	c->waits = true;
	c->rest.fired = rested;
	gm_timer_set(c->server->d->loop, &c->rest, until_ns);
}

void gm_connection_turn_away(const struct gm_control_server *s, int fd,
			     uid_t uid)
{
	if (s->keeps_fds_out) {
		close(fd);
		return;
	}
	shutdown(fd, SHUT_RDWR);
	gm_deferred_close_close(fd, uid);
}

bool gm_connection_let_in(struct gm_connection *c)
{
	struct gm_control_server *s = c->server;
	const struct gm_config *config = s->d->config;

	if (!c->is_refused)
		return true;
	if (s->n_connections - s->n_refused >= config->connections ||
	    c->user->connections >= config->connections_per_uid)
		return false;
	c->is_refused = false;
	s->n_refused--;
	c->user->connections++;
	return true;
}

/* Those that hung up may be found after the one that comes now, however long
 * ago they did. */
static void drop_gone(struct gm_control_server *s)
{
	struct gm_connection *c, *next;

	for (c = TAILQ_FIRST(&s->silent); c; c = next) {
		struct pollfd end = { .fd = c->source.fd };

		next = TAILQ_NEXT(c, entry);
		if (c->is_refused && poll(&end, 1, 0) > 0)
			gm_connection_drop(c, GM_DROP_HUNG_UP, NULL);
	}
}

static bool is_crowded(struct gm_control_server *s)
{
	if (s->n_refused >= REFUSED_MAX)
		drop_gone(s);
	return s->n_refused >= REFUSED_MAX;
}

int gm_connection_open(struct gm_control_server *s, int fd, bool is_refused)
{
	struct gm_connection *c = calloc(1, sizeof(*c));
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	int error = c ? 0 : -ENOMEM;

	if (c && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
		error = -errno;
	if (!error) {
		c->server = s;
		c->pid = peer.pid;
		c->uid = peer.uid;
		c->busy = 1;
		c->since_ns = gm_loop_now();
		c->node_ns = gm_node_clock_now();
		c->source = (struct gm_source){ fd, ready };
		c->process.fd = -1;
		c->fd = -1;
		TAILQ_INIT(&c->imports);
		TAILQ_INIT(&c->loans);
		TAILQ_INIT(&c->members);
		c->user = gm_user_hold(s, peer.uid);
		c->is_refused =
			is_refused ||
			(c->user && c->user->connections >=
					    s->d->config->connections_per_uid);
		if (!c->user)
			error = -ENOMEM;
		else if (c->is_refused && is_crowded(s))
			error = -EUSERS;
		else
			error = gm_loop_add(s->d->loop, &c->source, EPOLLIN);
		if (error && c->user)
			gm_user_drop(s, c->user);
	}
	if (error) {
		gm_connection_turn_away(s, fd, c ? c->uid : (uid_t)-1);
		free(c);
		return error;
	}
	TAILQ_INSERT_TAIL(&s->silent, c, entry);
	s->n_connections++;
	if (c->is_refused)
		s->n_refused++;
	else
		c->user->connections++;
	return 0;
}
