/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/sync/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOCKET "/run/gpumap-sync/node"

/* For a reply to a request that waits for the store alone. */
#define LIMIT_NS (60 * GM_SECOND)

/* For the first reply: gpumap-sync answers it at once. */
#define HELLO_NS (5 * GM_SECOND)

/* gpumap-sync's clock may differ from this process's, so it is told how
 * long. */
uint64_t gm_sync_link_left(uint64_t deadline_ns)
{
	uint64_t now = gm_now_ns();

	if (deadline_ns == GPUMAP_NO_DEADLINE)
		return UINT64_MAX;
	return deadline_ns > now ? deadline_ns - now : 0;
}

/* The descriptor stays open, and can be read: a program that polls it finds
 * out. */
static int lose(struct gpumap_sync *sync)
{
	sync->is_lost = true;
	shutdown(sync->link.fd, SHUT_RDWR);
	return gm_refuse(NULL, -ECONNRESET,
			 "gpumap-sync has ended, or has ended this connection; "
			 "its log says why: connect again");
}

int gm_sync_link_begin(struct gpumap_sync *sync)
{
	int ret = gm_guard_mine(&sync->mine) ? 0 : -EOWNERDEAD;

	gm_refuse_plain(NULL, ret);
	if (ret != 0)
		return ret;
	pthread_mutex_lock(&sync->lock);
	sync->until_ns = gm_now_ns() + LIMIT_NS;
	return 0;
}

int gm_sync_link_end(struct gpumap_sync *sync, int ret)
{
	gm_sync_link_tell(sync);
	pthread_mutex_unlock(&sync->lock);
	return ret;
}

void gm_sync_link_tell(struct gpumap_sync *sync)
{
	const struct gm_cohort *cohort = &sync->cohort;
	uint64_t n = 1;
	ssize_t done;

	if (sync->gang_lost || sync->lease_lost || cohort->moved ||
	    cohort->changed)
		done = write(sync->told, &n, sizeof(n));
	else
		done = read(sync->told, &n, sizeof(n));
	(void)done; /* EAGAIN: it is in that state already */
}

/* ---- records ------------------------------------------------------------- */

/* The ephemeral values are gone, and with them the rank. */
static void lose_lease(struct gpumap_sync *sync)
{
	sync->lease_lost = true;
	sync->cohort.moved = sync->cohort.name[0] != '\0';
}

/* Refusals are texts that end with a NUL. */
static void keep_event(struct gpumap_sync *sync, const struct gm_control *event,
		       const char *body)
{
	char *why =
		event->status == -ENOLINK ? sync->gang_why : sync->lease_why;
	size_t n = event->body < GM_WHY ? event->body : GM_WHY - 1;

	if (event->status == -ENOLINK)
		sync->gang_lost = true;
	else if (event->status == -ESTALE)
		lose_lease(sync);
	else
		return; /* of a later version */
	memcpy(why, body, n);
	why[n] = '\0';
}

/* The cohort's wait has been answered, or refused. */
static void keep_change(struct gm_cohort *cohort,
			const struct gm_control *header, const char *body)
{
	struct gm_sync_value_wait_reply reply;

	cohort->serial = 0;
	cohort->changed = true;
	if (header->status != 0 || header->body < sizeof(reply))
		return;
	memcpy(&reply, body, sizeof(reply));
	cohort->seen = reply.seen;
}

/*
 * take - take a record, if there is one
 *
 * call		whose reply, to @serial, ends the wait; or NULL.  An event
 *		ends a wait for a change as a change does
 *
 * Returns	1 with the reply and its status, 0 with another record, -EAGAIN,
 *		or why the connection is of no use any more
 */
static int take(struct gpumap_sync *sync, struct gm_call *call, uint32_t serial,
		int *ret_status)
{
	struct gm_cohort *cohort = &sync->cohort;
	struct gm_control header;
	ssize_t n = recv(sync->link.fd, sync->record, sizeof(sync->record),
			 MSG_DONTWAIT | MSG_TRUNC);
	int ret;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n <= 0)
		return -ECONNRESET;
	if ((size_t)n < sizeof(header) || (size_t)n > sizeof(sync->record))
		return -EPROTO;
	memcpy(&header, sync->record, sizeof(header));
	if (header.magic != GM_CONTROL_MAGIC || header.bytes != (size_t)n ||
	    header.body > (size_t)n - sizeof(header))
		return -EPROTO;
	if (call != NULL && header.serial == serial) {
		ret = gm_link_check(sync->record, (size_t)n, serial, call,
				    ret_status);
		return ret == 0 ? 1 : ret;
	}
	if (header.serial == 0 && header.type == GM_SYNC_EVENT) {
		keep_event(sync, &header, sync->record + sizeof(header));
		return call != NULL && call->type == GM_SYNC_VALUE_WAIT;
	}
	if (header.serial != 0 && header.serial == cohort->serial)
		keep_change(cohort, &header, sync->record + sizeof(header));
	return 0;
}

static void nap(struct gpumap_sync *sync, uint64_t left_ns)
{
	struct pollfd readable = { .fd = sync->link.fd, .events = POLLIN };
	uint64_t most = 3600 * GM_SECOND;
	uint64_t ns = left_ns < most ? left_ns : most;
	struct timespec time = { .tv_sec = (time_t)(ns / GM_SECOND),
				 .tv_nsec = (long)(ns % GM_SECOND) };

	ppoll(&readable, 1, &time, NULL);
}

/* Wait for the reply.  Returns 0 with its status, or what went wrong. */
static int await(struct gpumap_sync *sync, struct gm_call *call,
		 uint32_t serial, int *ret_status)
{
	int ret;

	for (;;) {
		uint64_t left;

		ret = take(sync, call, serial, ret_status);
		if (ret == 1)
			return 0;
		if (ret == 0)
			continue;
		if (ret != -EAGAIN)
			return ret;
		left = gm_sync_link_left(sync->until_ns);
		if (left == 0)
			return -ETIMEDOUT;
		nap(sync, left);
	}
}

int gm_sync_link_ask(struct gpumap_sync *sync, struct gm_call *call,
		     uint32_t *ret_serial)
{
	int ret = sync->is_lost ? -EPIPE : 0;

	if (ret == 0 && sync->link.serial == UINT32_MAX)
		sync->link.serial = 0; /* that of events */
	if (ret == 0)
		ret = gm_link_send(NULL, &sync->link, call);
	if (ret == -EPIPE || ret == -ECONNRESET)
		return lose(sync);
	if (ret != 0) {
		gm_map_refuse(NULL, call->why);
		return ret;
	}
	*ret_serial = sync->link.serial;
	return 0;
}

int gm_sync_link_call(struct gpumap_sync *sync, struct gm_call *call)
{
	uint32_t serial = 0;
	int status = 0, ret = gm_sync_link_ask(sync, call, &serial);

	if (ret != 0)
		return ret;
	ret = await(sync, call, serial, &status);
	if (ret == -ETIMEDOUT)
		return gm_refuse(NULL, ret,
				 "gpumap-sync runs, and has not answered in "
				 "time: it may do yet what it was asked for");
	if (ret == -ECONNRESET)
		return lose(sync);
	if (ret != 0) {
		lose(sync);
		return gm_refuse(NULL, ret,
				 "gpumap-sync has sent a message that this "
				 "library does not know: install both in one "
				 "version");
	}
	gm_map_refuse(NULL, status != 0 ? call->why : "");
	return status;
}

int gm_sync_link_drain(struct gpumap_sync *sync)
{
	int ret;

	do
		ret = sync->is_lost ? -ECONNRESET : take(sync, NULL, 0, NULL);
	while (ret == 0);
	return ret == -EAGAIN ? 0 : lose(sync);
}

/* ---- the connection ------------------------------------------------------ */

static int hello(struct gpumap_sync *sync)
{
	struct gm_sync_hello_reply reply;
	struct gm_call call = { .type = GM_SYNC_HELLO,
				.reply = &reply,
				.reply_bytes = sizeof(reply) };
	int ret;

	sync->until_ns = gm_now_ns() + HELLO_NS;
	ret = gm_sync_link_call(sync, &call);
	if (ret == 0)
		sync->lease_ns = reply.lease_ns;
	return ret;
}

static int make_token(struct gpumap_sync *sync)
{
	uint8_t bytes[GM_SYNC_TOKEN_BYTES / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return gm_refuse_plain(NULL, -errno);
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(sync->token + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

static int make_descriptors(struct gpumap_sync *sync)
{
	struct epoll_event readable = { .events = EPOLLIN };

	sync->epoll = epoll_create1(EPOLL_CLOEXEC);
	sync->told = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (sync->epoll < 0 || sync->told < 0 ||
	    epoll_ctl(sync->epoll, EPOLL_CTL_ADD, sync->link.fd, &readable) ||
	    epoll_ctl(sync->epoll, EPOLL_CTL_ADD, sync->told, &readable))
		return gm_refuse_plain(NULL, -errno);
	return 0;
}

static int connect_and_say_hello(struct gpumap_sync *sync, const char *path)
{
	char why[GM_WHY];
	int ret = gm_fork_guard_make(&sync->mine);

	if (ret != 0)
		return gm_refuse_memory(NULL, sizeof(uint64_t));
	if (path[0] == '\0')
		return gm_refuse(NULL, -EINVAL, "the socket has no path");
	ret = gm_link_connect(path, "gpumap-sync", &sync->link, why);
	if (ret != 0) {
		gm_map_refuse(NULL, why);
		return ret;
	}
	ret = make_token(sync);
	if (ret == 0)
		ret = make_descriptors(sync);
	return ret == 0 ? hello(sync) : ret;
}

int gpumap_sync_open(const char *path, struct gpumap_sync **ret_sync)
{
	struct gpumap_sync *sync = calloc(1, sizeof(*sync));
	int ret;

	gm_refuse_plain(NULL, 0);
	if (sync == NULL)
		return gm_refuse_memory(NULL, sizeof(*sync));
	pthread_mutex_init(&sync->lock, NULL);
	sync->link.fd = -1;
	sync->epoll = -1;
	sync->told = -1;
	ret = connect_and_say_hello(sync, path != NULL ? path : SOCKET);
	if (ret != 0)
		gpumap_sync_close(sync);
	else
		*ret_sync = sync;
	return ret;
}

void gpumap_sync_close(struct gpumap_sync *sync)
{
	if (sync == NULL)
		return;
	if (gm_guard_mine(&sync->mine))
		gm_link_close(&sync->link);
	gm_link_forget(&sync->link);
	if (sync->epoll >= 0)
		close(sync->epoll);
	if (sync->told >= 0)
		close(sync->told);
	gm_fork_guard_drop(&sync->mine);
	pthread_mutex_destroy(&sync->lock);
	free(sync);
}

int gpumap_sync_fd(const struct gpumap_sync *sync)
{
	return sync->epoll;
}
