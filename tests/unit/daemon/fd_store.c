/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* fd_store: messages to a manager whose queue is full, or that is gone. */

#include "agent/daemon/base/fd_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/daemon/base/events.h"
#include "agent/daemon/base/loop.h"
#include "agent/common/manager.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/daemon.h"
#include "tests/support/tap.h"

#define MOST 600u

static struct gm_daemon *d;
static struct gm_fd_store *store;
static int manager; /* its end */
static char path[108];
static int n_told;

static void sent(struct gm_daemon *daemon)
{
	n_told += daemon == d;
}

static bool all_is_sent(void)
{
	return gm_fd_store_has_sent(store, gm_fd_store_mark(store));
}

/* The loop stops after each turn. */
static void turn(void)
{
	d->loop->stop = false;
	d->loop->turned = gm_loop_stop;
	gm_loop_run(d->loop);
}

static const struct gm_events events = { .fd_store_sent = sent };

static void start(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(path, sizeof(path), "/tmp/gpumap-fd-store-%d", (int)getpid());
	memcpy(address.sun_path, path, strlen(path) + 1);
	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	EQ(bind(manager, (struct sockaddr *)&address, sizeof(address)), 0);
	*d->manager = (struct gm_manager){ .socket = 0,
					   .listener = -1,
					   .to = address,
					   .to_bytes = sizeof(address),
					   .keeps_most = MOST };
	EQ(gm_fd_store_start(d), 0);
	n_told = 0;
}

static void stop(void)
{
	gm_fd_store_exit(d);
	if (manager >= 0)
		close(manager);
	unlink(path);
}

/* The next message; its descriptor, or -1. */
static int receive(char ret_text[128])
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec text = { ret_text, 127 };
	struct msghdr head = { .msg_iov = &text,
			       .msg_iovlen = 1,
			       .msg_control = control.bytes,
			       .msg_controllen = sizeof(control.bytes) };
	ssize_t n = recvmsg(manager, &head, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	int fd = -1;

	ret_text[n > 0 ? n : 0] = '\0';
	if (n > 0 && CMSG_FIRSTHDR(&head))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&head)), sizeof(fd));
	return fd;
}

static bool is_same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_ino == y.st_ino &&
	       x.st_dev == y.st_dev;
}

/* Returns whether the next message adds this descriptor by this name. */
static bool adds(const char *name, int file)
{
	char text[128], want[128];
	int fd = receive(text);
	bool is_it = fd >= 0 && is_same_file(fd, file);

	snprintf(want, sizeof(want), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	if (fd >= 0)
		close(fd);
	return is_it && strcmp(text, want) == 0;
}

static void what_has_no_room_waits_in_order(void)
{
	char name[16], text[128];
	int file = open("/dev/null", O_RDONLY | O_CLOEXEC), wrong = 0;

	start();
	OK(all_is_sent());
	for (unsigned i = 0; i < MOST - 1; i++) {
		snprintf(name, sizeof(name), "share-%u", i);
		EQ(gm_fd_store_put(store, name, file), 0);
	}
	gm_fd_store_remove(store, "share-7");
	if (all_is_sent()) {
		SKIP(1, "the kernel's queue of datagrams is too long");
		stop();
		return;
	}
	/* One at a time: the loop sends as there is room. */
	for (unsigned i = 0; i < MOST - 1; i++) {
		snprintf(name, sizeof(name), "share-%u", i);
		while (!adds(name, file)) {
			if (++wrong > 1000)
				break;
		}
		if (!all_is_sent())
			turn();
	}
	EQ(wrong, 0);
	OK(n_told > 0);
	EQ(receive(text), -1);
	STR(text, "FDSTOREREMOVE=1\nFDNAME=share-7");
	OK(all_is_sent());
	stop();
	close(file);
}

/* The manager need not hear of a descriptor that it was not sent; and marks are
 * those of the messages before. */
static void a_removal_takes_back_what_waits(void)
{
	int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
	char name[16], text[128];
	uint64_t first, mark;
	unsigned n = 0;

	start();
	EQ(gm_fd_store_put(store, "share-0", file), 0);
	first = gm_fd_store_mark(store);
	OK(gm_fd_store_has_sent(store, first));
	while (all_is_sent() && ++n < MOST) {
		snprintf(name, sizeof(name), "share-%u", n);
		gm_fd_store_put(store, name, file);
	}
	if (all_is_sent()) {
		SKIP(1, "the kernel's queue of datagrams is too long");
	} else {
		mark = gm_fd_store_mark(store);
		OK(gm_fd_store_has_sent(store, first));
		EQ(gm_fd_store_put(store, "share-last", file), 0);
		OK(!gm_fd_store_has_sent(store, mark));
		gm_fd_store_remove(store, name);
		OK(gm_fd_store_has_sent(store, mark));
		OK(!all_is_sent());
		gm_fd_store_remove(store, "share-last");
		OK(all_is_sent());
		/* Those that are sent are taken out. */
		gm_fd_store_remove(store, "share-0");
		OK(!all_is_sent());
		for (unsigned i = 0; i < n; i++)
			close(receive(text));
		turn();
		OK(all_is_sent());
		EQ(receive(text), -1);
		STR(text, "FDSTOREREMOVE=1\nFDNAME=share-0");
		EQ(store->n, n - 1);
	}
	stop();
	close(file);
}

static void room_is_counted(void)
{
	struct gm_manager_kept earlier[] = { { 100, "share-1" },
					     { 101, "share-1-0" } };
	int file = open("/dev/null", O_RDONLY | O_CLOEXEC);

	start();
	d->manager->keeps_most = 3;
	OK(gm_fd_store_has_room(store, 3));
	OK(!gm_fd_store_has_room(store, 4));
	EQ(gm_fd_store_put(store, "share-1", file), 0);
	EQ(gm_fd_store_put(store, "share-2", file), 0);
	OK(gm_fd_store_has_room(store, 1));
	OK(!gm_fd_store_has_room(store, 2));
	OK(!gm_fd_store_has_room(store, UINT32_MAX));
	gm_fd_store_remove(store, "share-1");
	OK(gm_fd_store_has_room(store, 2));
	stop();
	/* Descriptors of an earlier agent take room as well. */
	start();
	d->manager->kept = earlier;
	d->manager->n_kept = 2;
	d->manager->keeps_most = 3;
	gm_fd_store_exit(d);
	EQ(gm_fd_store_start(d), 0);
	OK(gm_fd_store_has_room(store, 1));
	OK(!gm_fd_store_has_room(store, 2));
	d->manager->n_kept = 0;
	stop();
	close(file);
}

static void a_manager_that_is_gone_is_no_store(void)
{
	int file = open("/dev/null", O_RDONLY | O_CLOEXEC);

	start();
	close(manager);
	manager = -1;
	gm_fd_store_put(store, "share-1", file);
	OK(all_is_sent());
	OK(!gm_fd_store_has_room(store, 1));
	EQ(gm_fd_store_put(store, "share-2", file), -ENOTCONN);
	gm_fd_store_remove(store, "share-1");
	OK(all_is_sent());
	stop();
	close(file);
}

/* Clients wait for the answer: they get it. */
static void a_manager_that_goes_settles_all(void)
{
	int file = open("/dev/null", O_RDONLY | O_CLOEXEC);

	start();
	for (int i = 0; i < 600 && all_is_sent(); i++)
		gm_fd_store_put(store, "share-1", file);
	if (all_is_sent()) {
		SKIP(1, "the kernel's queue of datagrams is too long");
	} else {
		close(manager);
		manager = -1;
		turn();
		EQ(n_told, 1);
		OK(all_is_sent());
	}
	stop();
	close(file);
}

static void what_was_kept_is_found_by_name(void)
{
	struct gm_manager_kept kept[] = {
		{ 102, "share-2" },   { 103, "share-3" }, { 105, "share-4" },
		{ 101, "share-1-0" }, { 104, "share-3" }, { 100, "share-1" }
	};

	start();
	d->manager->kept = kept;
	d->manager->n_kept = sizeof(kept) / sizeof(kept[0]);
	gm_fd_store_exit(d);
	EQ(gm_fd_store_start(d), 0);
	EQ(gm_fd_store_find(store, "share-1-0"), 101);
	EQ(gm_fd_store_take(store, "share-1"), 100);
	EQ(gm_fd_store_take(store, "share-1"), -1);
	EQ(gm_fd_store_find(store, "share-1"), -1);
	EQ(gm_fd_store_find(store, "share"), -1);
	EQ(gm_fd_store_find(store, ""), -1);
	EQ(gm_fd_store_find(store, "zzz"), -1);
	EQ(gm_fd_store_find(store, "share-2"), 102);
	EQ(gm_fd_store_find(store, "share-1-0"), 101);
	/* Which of the two is it? */
	EQ(gm_fd_store_find(store, "share-3"), -1);
	EQ(gm_fd_store_take(store, "share-3"), -1);
	EQ(gm_fd_store_find(store, "share-4"), 105);
	d->manager->n_kept = 0;
	stop();
}

TAP_CASE()
{
	d = gm_daemon_new();
	if (!OK(d) || !EQ(gm_loop_init(d->loop), 0))
		return tap_done();
	d->events = &events;
	store = d->fd_store;
	what_has_no_room_waits_in_order();
	a_removal_takes_back_what_waits();
	room_is_counted();
	a_manager_that_is_gone_is_no_store();
	a_manager_that_goes_settles_all();
	what_was_kept_is_found_by_name();
	gm_loop_exit(d->loop);
	gm_daemon_free(d);
	return tap_done();
}
