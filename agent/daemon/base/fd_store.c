/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/fd_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/fds.h"
#include "agent/common/log.h"
#include "agent/daemon/base/events.h"
#include "agent/common/manager.h"
#include "agent/daemon/base/parts.h"

#define RETRY_NS   UINT64_C(20000000)
#define TEXT_BYTES (GM_MANAGER_NAME_BYTES + 64)

struct gm_fd_store_message {
	STAILQ_ENTRY(gm_fd_store_message) entry;
	uint64_t serial;
	int fd; /* -1: a removal */
	char name[GM_MANAGER_NAME_BYTES];
	char text[TEXT_BYTES];
};

static void drop(struct gm_fd_store *store, struct gm_fd_store_message *message)
{
	STAILQ_REMOVE(&store->messages, message, gm_fd_store_message, entry);
	if (message->fd >= 0)
		close(message->fd);
	free(message);
}

static void stop_waiting(struct gm_fd_store *store)
{
	if (store->waits)
		gm_loop_del(store->d->loop, &store->socket);
	store->waits = false;
	gm_timer_stop(store->d->loop, &store->retry);
}

/* The manager still has what it has, for the next agent. */
static void give_up(struct gm_fd_store *store, int error)
{
	gm_log(GM_LOG_WARNING, "fd_store_lost", "why=%s remedy=%s",
	       gm_quote(strerror(-error)).text,
	       gm_quote("shares of this agent end with it: restart gpumapd "
			"when no client needs them")
		       .text);
	stop_waiting(store);
	close(store->socket.fd);
	store->socket.fd = -1;
	while (!STAILQ_EMPTY(&store->messages))
		drop(store, STAILQ_FIRST(&store->messages));
}

static int send_to(int socket, const struct gm_fd_store_message *message)
{
	struct iovec text = { (void *)(uintptr_t)message->text,
			      strlen(message->text) };
	struct msghdr datagram = { .msg_iov = &text, .msg_iovlen = 1 };
	union gm_fds_room room;

	gm_fds_put(&datagram, &room, &message->fd, message->fd >= 0);
	return sendmsg(socket, &datagram, MSG_DONTWAIT | MSG_NOSIGNAL) < 0
		       ? -errno
		       : 0;
}

/* poll() tells of room in the manager's queue, and of no other want. */
static void try_later(struct gm_fd_store *store, int error)
{
	if (error != -EAGAIN && store->waits) {
		gm_loop_del(store->d->loop, &store->socket);
		store->waits = false;
	}
	if (error == -EAGAIN && !store->waits)
		store->waits = gm_loop_add(store->d->loop, &store->socket,
					   EPOLLOUT) == 0;
	if (error != -EAGAIN || !store->waits)
		gm_timer_set(store->d->loop, &store->retry,
			     gm_loop_now() + RETRY_NS);
}

/* Send what there is room for. */
static void send_all(struct gm_fd_store *store)
{
	int error = 0;

	while (error == 0 && !STAILQ_EMPTY(&store->messages)) {
		error = send_to(store->socket.fd,
				STAILQ_FIRST(&store->messages));
		if (error == 0)
			drop(store, STAILQ_FIRST(&store->messages));
	}
	if (error == 0)
		stop_waiting(store);
	else if (error == -EAGAIN || error == -ETOOMANYREFS ||
		 error == -ENOBUFS || error == -ENOMEM || error == -EINTR)
		try_later(store, error);
	else
		give_up(store, error);
}

static void go_on(struct gm_fd_store *store)
{
	send_all(store);
	gm_events_fd_store_sent(store->d);
}

static void has_room(struct gm_source *source, uint32_t events)
{
	(void)events;
	go_on(gm_owner(source, struct gm_fd_store, socket));
}

static void is_time(struct gm_timer *timer)
{
	go_on(gm_owner(timer, struct gm_fd_store, retry));
}

static int compare(const void *a, const void *b)
{
	const struct gm_manager_kept *x = a, *y = b;

	return strcmp(x->name, y->name);
}

int gm_fd_store_start(struct gm_daemon *d)
{
	const struct gm_manager *manager = d->manager;
	struct gm_fd_store *store = d->fd_store;
	int fd;

	*store = (struct gm_fd_store){ .d = d,
				       .socket = { -1, has_room },
				       .retry.fired = is_time,
				       .n = manager->n_kept };
	STAILQ_INIT(&store->messages);
	if (manager->n_kept > 0)
		qsort(manager->kept, manager->n_kept, sizeof(manager->kept[0]),
		      compare);
	if (manager->keeps_most == 0)
		return 0;
	/* poll() of a connected socket says when its peer has room. */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	store->socket.fd = fd;
	if (connect(fd, (const struct sockaddr *)&manager->to,
		    manager->to_bytes) != 0)
		give_up(store, -errno);
	return 0;
}

void gm_fd_store_exit(struct gm_daemon *d)
{
	struct gm_fd_store *store = d->fd_store;

	if (store->d == NULL)
		return;
	/* The last removals, where there is room for them. */
	if (store->socket.fd >= 0)
		send_all(store);
	stop_waiting(store);
	while (!STAILQ_EMPTY(&store->messages))
		drop(store, STAILQ_FIRST(&store->messages));
	if (store->socket.fd >= 0)
		close(store->socket.fd);
	store->socket.fd = -1;
}

bool gm_fd_store_has_room(const struct gm_fd_store *store, uint32_t n)
{
	return store->socket.fd >= 0 &&
	       store->n <= store->d->manager->keeps_most &&
	       n <= store->d->manager->keeps_most - store->n;
}

static int add(struct gm_fd_store *store, const char *what, const char *name,
	       int fd)
{
	struct gm_fd_store_message *message = calloc(1, sizeof(*message));

	if (message == NULL)
		return -ENOMEM;
	message->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd >= 0 && message->fd < 0) {
		free(message);
		return -EMFILE;
	}
	message->serial = ++store->last_serial;
	snprintf(message->name, sizeof(message->name), "%s", name);
	snprintf(message->text, sizeof(message->text), "%s\nFDNAME=%s", what,
		 message->name);
	STAILQ_INSERT_TAIL(&store->messages, message, entry);
	if (!store->waits && store->retry.due_ns == 0)
		send_all(store);
	return 0;
}

int gm_fd_store_put(struct gm_fd_store *store, const char *name, int fd)
{
	int error = store->socket.fd < 0
			    ? -ENOTCONN
			    : add(store, "FDSTORE=1\nFDPOLL=0", name, fd);

	if (error == 0)
		store->n++;
	return error;
}

/* The manager need not hear of one that it has not been sent: so the queue has
 * at most as many descriptors as the manager keeps, and as many removals. */
static bool take_back(struct gm_fd_store *store, const char *name)
{
	struct gm_fd_store_message *message;

	STAILQ_FOREACH(message, &store->messages, entry)
	{
		if (message->fd < 0 || strcmp(message->name, name) != 0)
			continue;
		drop(store, message);
		return true;
	}
	return false;
}

void gm_fd_store_remove(struct gm_fd_store *store, const char *name)
{
	if (store->socket.fd >= 0 &&
	    (take_back(store, name) ||
	     add(store, "FDSTOREREMOVE=1", name, -1) == 0))
		store->n--;
}

uint64_t gm_fd_store_mark(const struct gm_fd_store *store)
{
	return store->last_serial;
}

bool gm_fd_store_has_sent(const struct gm_fd_store *store, uint64_t mark)
{
	const struct gm_fd_store_message *first =
		STAILQ_FIRST(&store->messages);

	return first == NULL || first->serial > mark;
}

static bool is_named(const struct gm_manager *m, uint32_t i, const char *name)
{
	return i < m->n_kept && strcmp(m->kept[i].name, name) == 0;
}

/* The only one of this name, or NULL. */
static struct gm_manager_kept *find(const struct gm_fd_store *store,
				    const char *name)
{
	const struct gm_manager *m = store->d->manager;
	uint32_t low = 0, high = m->n_kept;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (strcmp(m->kept[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return is_named(m, low, name) && !is_named(m, low + 1, name)
		       ? &m->kept[low]
		       : NULL;
}

int gm_fd_store_find(const struct gm_fd_store *store, const char *name)
{
	const struct gm_manager_kept *kept = find(store, name);

	return kept != NULL ? kept->fd : -1;
}

int gm_fd_store_take(struct gm_fd_store *store, const char *name)
{
	struct gm_manager_kept *kept = find(store, name);
	int fd = kept != NULL ? kept->fd : -1;

	if (kept != NULL)
		kept->fd = -1;
	return fd;
}
