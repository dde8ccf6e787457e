/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Bytes for a header, a body and a tail: refusals and a page of sessions fit.
 * Callers with larger tails bring room of their own. */
#define HEAD_MAX  1024u
#define REPLY_MAX 4096u

/* Seconds after which a call that receives nothing checks whether the agent is
 * alive, and the number of such checks where no heartbeat says so. */
#define PATIENCE_S 1
#define PATIENCE   5

/* A wait for the agent. */
struct patience {
	uint64_t due_ns;   /* of the next check */
	uint64_t limit_ns; /* 0: none */
	uint64_t waited_ns;
	int checks;
};

static void explain(char why[GM_WHY], const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void explain(char why[GM_WHY], const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, GM_WHY, format, args);
	va_end(args);
}

static struct patience begin_wait(uint64_t limit_ns)
{
	return (struct patience){ .due_ns =
					  gm_now_ns() + PATIENCE_S * GM_SECOND,
				  .limit_ns = limit_ns };
}

/*
 * A call of the kernel has ended with @error: may it be repeated?
 *
 * map		NULL: the heartbeat does not matter
 *
 * Each repetition waits for another PATIENCE_S, and signals may come more
 * often than that, so the clock decides when to check the agent, and not the
 * error.  Each check counts PATIENCE_S of the limit, however late it comes: a
 * machine that stood still does not use the limit up.  errno is ETIMEDOUT where
 * the agent is alive, and the limit has passed.
 */
static bool keep_waiting(const struct gpumap *map, struct patience *patience,
			 int error)
{
	uint64_t now = gm_now_ns(), due = patience->due_ns;

	if (error == EINTR && now < due)
		return true;
	if (error != EINTR && error != EAGAIN)
		return false;
	patience->due_ns = now + PATIENCE_S * GM_SECOND;
	if (map == NULL || map->map.header == NULL)
		return ++patience->checks < PATIENCE;
	if (!gm_health_stood_still(due, now) &&
	    gm_health_map_age(map) >= GM_STALE_NS)
		return false;
	patience->waited_ns += PATIENCE_S * GM_SECOND;
	if (patience->limit_ns == 0 || patience->waited_ns < patience->limit_ns)
		return true;
	errno = ETIMEDOUT;
	return false;
}

static int connect_to(const char *path, int fd, char why[GM_WHY])
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct patience patience = begin_wait(0);
	size_t n = strlen(path);

	if (n >= sizeof(to.sun_path)) {
		explain(why,
			"%s is too long for a socket's path; use a "
			"shorter runtime directory",
			path);
		return -EINVAL;
	}
	memcpy(to.sun_path, path, n);
	do {
		if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
			return 0;
	} while (keep_waiting(NULL, &patience, errno));
	if (errno == EACCES || errno == EPERM) {
		explain(why,
			"this user may not open %s: add it to the group "
			"(usermod -aG GROUP USER; [socket] of gpumapd.conf)",
			to.sun_path);
		return -EACCES;
	}
	explain(why, "no agent answers on %s (%s); is gpumapd running?",
		to.sun_path,
		errno == ENOENT ? "there is no such socket" : "nobody listens");
	return -ECONNREFUSED;
}

/* Connect, and say nothing yet.  Returns as gm_link_open(). */
static int link_connect(const char *path, struct gm_link *ret_link,
			char why[GM_WHY])
{
	static const struct timeval patience = { .tv_sec = PATIENCE_S };
	static const int room = GM_CONTROL_BYTES_MAX;
	struct gm_link link = { .fd = -1 };
	int ret;

	link.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (link.fd < 0) {
		ret = -errno;
		explain(why, "no socket: %s", gpumap_strerror(ret));
		return ret;
	}
	setsockopt(link.fd, SOL_SOCKET, SO_RCVTIMEO, &patience,
		   sizeof(patience));
	setsockopt(link.fd, SOL_SOCKET, SO_SNDTIMEO, &patience,
		   sizeof(patience));
	/* A record goes through in one piece; the kernel may allow less. */
	setsockopt(link.fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	ret = connect_to(path, link.fd, why);
	if (ret == 0)
		*ret_link = link;
	else
		gm_link_close(&link);
	return ret;
}

static int retired(char why[GM_WHY])
{
	explain(why, "this map was retired, and a new one has taken its name: "
		     "attach again");
	return -ESTALE;
}

static int hello(struct gpumap *map, struct gm_link *link, char why[GM_WHY])
{
	struct gm_hello hello = { .layout_major = GM_LAYOUT_MAJOR,
				  .layout_minor = GM_LAYOUT_MINOR,
				  .layout = gm_layout_hash() };
	struct gm_hello_reply reply;
	struct gm_call call = { GM_REQUEST(GM_CONTROL_HELLO, hello),
				GM_REPLY(reply) };
	int ret = gm_link_call(map, link, &call, 0);

	if (ret == -EPIPE)
		ret = -ECONNRESET;
	if (ret == 0 && reply.layout_major != GM_LAYOUT_MAJOR) {
		explain(call.why,
			"the agent's layout is %u, this library's "
			"%u",
			reply.layout_major, GM_LAYOUT_MAJOR);
		ret = -EPROTO;
	}
	/* Does the agent write this map, and not one that has taken its
	 * place? */
	if (ret == 0 && map->map.header != NULL && reply.segment_ino != 0 &&
	    (reply.segment_dev != map->dev || reply.segment_ino != map->ino)) {
		gm_put(&map->replaced, 1);
		ret = retired(call.why);
	}
	if (ret != 0)
		memcpy(why, call.why, GM_WHY);
	return ret;
}

int gm_link_open(struct gpumap *map, struct gm_link *ret_link, char why[GM_WHY])
{
	/* One that is too long for these bytes is too long for the socket. */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
	struct gm_link link;
	int ret;

	if (map->map.header != NULL && gm_health_retired(map))
		return retired(why);
	snprintf(path, sizeof(path), "%s/%s.sock", map->runtime_dir,
		 map->instance);
	ret = link_connect(path, &link, why);
	if (ret != 0)
		return ret;
	ret = hello(map, &link, why);
	if (ret != 0) {
		gm_link_close(&link);
		return ret;
	}
	*ret_link = link;
	return 0;
}

void gm_link_close(struct gm_link *link)
{
	/* A forked child has the descriptor, too: closing ours would leave the
	 * agent with a connection that is still open. */
	if (link->fd >= 0)
		shutdown(link->fd, SHUT_RDWR);
	gm_link_forget(link);
}

void gm_link_forget(struct gm_link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
}

bool gm_link_lost(const struct gm_link *link)
{
	char byte;
	ssize_t n = recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0)
		return errno != EAGAIN && errno != EINTR;
	return n == 0;
}

void gm_call_close_fds(struct gm_call *call)
{
	for (uint32_t i = 0; i < call->n_fds; i++)
		if (call->fds[i] >= 0)
			close(call->fds[i]);
	call->n_fds = 0;
}

/* Room for the one descriptor that a request may carry. */
union one_fd {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static void put_fd(struct msghdr *message, union one_fd *control, int fd)
{
	struct cmsghdr *c;

	memset(control, 0, sizeof(*control));
	message->msg_control = control->bytes;
	message->msg_controllen = sizeof(control->bytes);
	c = CMSG_FIRSTHDR(message);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
}

static int send_request(const struct gpumap *map, struct gm_link *link,
			struct gm_call *call)
{
	struct gm_control header = { .magic = GM_CONTROL_MAGIC,
				     .version = GM_CONTROL_VERSION,
				     .type = call->type,
				     .serial = ++link->serial,
				     .body = call->body_bytes };
	struct iovec io[2 + sizeof(call->tail) / sizeof(call->tail[0])] = {
		{ &header, sizeof(header) },
		{ (void *)call->body, call->body_bytes }
	};
	struct msghdr message = { .msg_iov = io,
				  .msg_iovlen = 2u + call->n_tail };
	size_t bytes = sizeof(header) + call->body_bytes;
	struct patience patience = begin_wait(call->limit_ns);
	union one_fd control;

	for (uint32_t i = 0; i < call->n_tail; i++) {
		io[2 + i] = call->tail[i];
		bytes += call->tail[i].iov_len;
	}
	if (bytes > GM_CONTROL_BYTES_MAX)
		return -EMSGSIZE;
	header.bytes = (uint32_t)bytes;
	if (call->carries != NULL)
		put_fd(&message, &control, *call->carries);
	do {
		if (sendmsg(link->fd, &message, MSG_NOSIGNAL) >= 0)
			return 0; /* records are never cut */
	} while (keep_waiting(map, &patience, errno));
	if (errno == EINTR || errno == EAGAIN)
		return -ECONNRESET;
	if (errno == EMSGSIZE)
		explain(call->why,
			"a request of %zu bytes does not fit through "
			"the socket; raise net.core.wmem_max",
			bytes);
	return errno == ECONNRESET ? -EPIPE : -errno;
}

/* The kernel delivers descriptors whether they are expected or not: gather
 * them, and close those beyond the expected number.  Returns 0, -EPROTO for too
 * many, or -EMFILE: the kernel could not deliver all of them. */
static int gather_fds(struct msghdr *message, struct gm_call *call,
		      uint32_t max_fds)
{
	bool cut = (message->msg_flags & MSG_CTRUNC) != 0;
	bool surplus = cut && max_fds == 0;
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (call->n_fds < max_fds) {
				call->fds[call->n_fds++] = fd;
				continue;
			}
			close(fd);
			surplus = true;
		}
	}
	if (surplus)
		return -EPROTO;
	return cut ? -EMFILE : 0;
}

/* @record's length is the room, and then the bytes that came. */
static int receive(const struct gpumap *map, struct gm_link *link,
		   struct gm_call *call, uint32_t max_fds, struct iovec *record)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(GM_CONTROL_FDS_MAX * sizeof(int))];
	} control;
	struct msghdr message = { .msg_iov = record,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct patience patience = begin_wait(call->limit_ns);
	ssize_t n;
	int ret;

	do
		n = recvmsg(link->fd, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && keep_waiting(map, &patience, errno));
	if (n < 0 && errno != ECONNRESET && errno != EINTR && errno != EAGAIN)
		return -errno;
	if (n <= 0)
		return -ECONNRESET;
	ret = gather_fds(&message, call, max_fds);
	if (ret == 0 && (message.msg_flags & MSG_TRUNC) != 0)
		ret = -EPROTO;
	if (ret != 0)
		return ret;
	record->iov_len = (size_t)n;
	return 0;
}

/* Newer versions add to a body's end.  Fields that the agent did not send read
 * as zero; bytes that this library does not know must be zero. */
static int copy_body(const char *body, uint32_t bytes, struct gm_call *call)
{
	uint32_t n = bytes < call->reply_bytes ? bytes : call->reply_bytes;

	for (uint32_t i = n; i < bytes; i++)
		if (body[i] != 0)
			return -E2BIG;
	if (call->reply_bytes > 0) {
		memset(call->reply, 0, call->reply_bytes);
		memcpy(call->reply, body, n);
	}
	return 0;
}

static void refuse(const char *body, uint32_t bytes, struct gm_call *call)
{
	size_t n = bytes < GM_WHY ? bytes : GM_WHY - 1;

	memcpy(call->why, body, n);
	call->why[n] = '\0';
	if (call->refusal == NULL)
		return;
	n = bytes < call->refusal_bytes ? bytes : call->refusal_bytes;
	memset(call->refusal, 0, call->refusal_bytes);
	memcpy(call->refusal, body, n);
}

/* Validate a reply to the request of @serial.  Returns 0 with the status in it,
 * or -EPROTO or -E2BIG: what is wrong with the reply. */
static int link_check(const char *record, size_t bytes, uint32_t serial,
		      struct gm_call *call, int *ret_status)
{
	const char *body = record + sizeof(struct gm_control);
	struct gm_control header;
	uint32_t tail;

	if (bytes < sizeof(header))
		return -EPROTO;
	memcpy(&header, record, sizeof(header));
	if (header.magic != GM_CONTROL_MAGIC || header.bytes != bytes ||
	    header.type != call->type || header.serial != serial ||
	    header.body > bytes - sizeof(header) || header.status > 0 ||
	    header.status < -4095)
		return -EPROTO;
	*ret_status = header.status;
	if (header.status != 0) {
		refuse(body, header.body, call);
		return 0;
	}
	tail = (uint32_t)(bytes - sizeof(header) - header.body);
	if (tail > call->reply_tail_room)
		return -EPROTO;
	if (tail > 0)
		memcpy(call->reply_tail, body + header.body, tail);
	call->reply_tail_bytes = tail;
	return copy_body(body, header.body, call);
}

static int call_with(const struct gpumap *map, struct gm_link *link,
		     struct gm_call *call, uint32_t max_fds,
		     struct iovec *record)
{
	int ret, status = 0;

	ret = send_request(map, link, call);
	if (ret == -EMSGSIZE)
		return ret; /* nothing was sent */
	if (ret == 0)
		ret = receive(map, link, call, max_fds, record);
	if (ret == 0)
		ret = link_check(record->iov_base, record->iov_len,
				 link->serial, call, &status);
	if (ret < 0) {
		gm_call_close_fds(call);
		gm_link_close(link);
		if (ret == -ETIMEDOUT)
			explain(call->why,
				"the agent runs, and has not answered in %u s: "
				"it may do yet what it was asked for; its log "
				"says what it waits for",
				(unsigned int)(call->limit_ns / GM_SECOND));
		else if (call->why[0] == '\0' && ret != -EPIPE)
			explain(call->why, "%s", gpumap_strerror(ret));
		return ret;
	}
	if (status != 0)
		gm_call_close_fds(call);
	return status;
}

int gm_link_send(const struct gpumap *map, struct gm_link *link,
		 struct gm_call *call)
{
	call->why[0] = '\0';
	call->n_fds = 0;
	return send_request(map, link, call);
}

int gm_link_take(const struct gm_link *link, struct gm_call *call)
{
	char record[HEAD_MAX] __attribute__((aligned(8)));
	int ret, status = 0;
	ssize_t n;

	call->why[0] = '\0';
	/* Without room for descriptors the kernel closes any that come. */
	n = recv(link->fd, record, sizeof(record), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n <= 0)
		return -ECONNRESET;
	ret = link_check(record, (size_t)n, link->serial, call, &status);
	return ret != 0 ? ret : status;
}

int gm_link_call(const struct gpumap *map, struct gm_link *link,
		 struct gm_call *call, uint32_t max_fds)
{
	char small[REPLY_MAX] __attribute__((aligned(8)));
	struct iovec record = { small, HEAD_MAX + call->reply_tail_room };
	int ret;

	call->why[0] = '\0';
	call->n_fds = 0;
	if (record.iov_len > sizeof(small))
		record.iov_base = malloc(record.iov_len);
	else
		record.iov_len = sizeof(small);
	if (record.iov_base == NULL) {
		explain(call->why, "%s", gpumap_strerror(-ENOMEM));
		return -ENOMEM; /* nothing was sent */
	}
	ret = call_with(map, link, call, max_fds, &record);
	if (record.iov_base != small)
		free(record.iov_base);
	return ret;
}

/* Connect again once per request, if the connection was lost since the previous
 * one.  A request whose connection is lost under way is not repeated, because
 * the agent may have acted on it. */
static int call_locked(struct gpumap *map, struct gm_call *call,
		       uint32_t max_fds)
{
	int ret = gm_get(&map->mine.mine) != NULL
			  ? 0
			  : gm_fork_guard_make(&map->mine);

	if (ret != 0)
		return ret;
	if (map->link.fd >= 0) {
		ret = gm_link_call(map, &map->link, call, max_fds);
		if (ret != -EPIPE)
			return ret;
	}
	ret = gm_link_open(map, &map->link, call->why);
	if (ret != 0)
		return ret;
	ret = gm_link_call(map, &map->link, call, max_fds);
	return ret == -EPIPE ? -ECONNRESET : ret;
}

int gm_map_call(struct gpumap *map, struct gm_call *call, uint32_t max_fds)
{
	uint64_t limit_ns = gm_get(&map->request_limit_ns);
	int ret = gm_fork_map_mine(map);

	call->why[0] = '\0';
	if (limit_ns != GPUMAP_NO_DEADLINE &&
	    call->wait_ns < UINT64_MAX - limit_ns)
		call->limit_ns = limit_ns + call->wait_ns;
	if (ret == 0) {
		pthread_mutex_lock(&map->link_lock);
		ret = call_locked(map, call, max_fds);
		pthread_mutex_unlock(&map->link_lock);
	}
	return gm_refuse_call(map, ret, call);
}

int gpumap_request_limit(struct gpumap *map, uint64_t limit_ns)
{
	gm_put(&map->request_limit_ns,
	       limit_ns > GM_SECOND ? limit_ns : GM_SECOND);
	return gm_refuse_plain(map, 0);
}
