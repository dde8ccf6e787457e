/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* io_events: requests are accepted, and no event is lost, while the kernel
 * refuses entries because completions wait for room. */

#include <dlfcn.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/worker/control/io_events.h"
#include "tests/support/tap.h"

#define MANY 3000 /* requests, which is more than the ring has room for */

static struct gm_worker worker;
static bool refuses;
static int n_refused;

/* In place of liburing's: refuse as a kernel before 5.19 whose completion queue
 * is full. */
int io_uring_submit(struct io_uring *ring)
{
	int (*usual)(struct io_uring *) =
		(int (*)(struct io_uring *))dlsym(RTLD_NEXT, "io_uring_submit");

	if (refuses && io_uring_cq_ready(ring)) {
		n_refused++;
		return -EBUSY;
	}
	return usual(ring);
}

/* Send records until one has to wait for room.  Returns how many. */
static int fill_socket(void)
{
	struct gm_wire wire = { .type = GM_WIRE_WAKER };
	int n = 0;

	while (!worker.outbox.is_polled && n++ < 100000)
		gm_io_events_say(&worker, &wire, -1);
	return n;
}

static int empty_socket(int fd)
{
	struct gm_wire wire;
	int n = 0;

	while (recv(fd, &wire, sizeof(wire), MSG_DONTWAIT) > 0)
		n++;
	return n;
}

/* The completion that the kernel needs taken belongs to the record that
 * waits. */
static void refused_entries_lose_no_event(int gpumapd)
{
	int bell = eventfd(0, EFD_CLOEXEC), sent = fill_socket(), got;

	refuses = false;
	io_uring_submit(&worker.ring);
	got = empty_socket(gpumapd);
	EQ(got, sent - 1);
	while (!io_uring_cq_ready(&worker.ring))
		io_uring_submit_and_wait(&worker.ring, 1);
	refuses = true;
	for (int i = 0; i < MANY; i++)
		gm_io_events_listen_to_waker(&worker, bell);
	OK(n_refused > 0);
	OK(gm_events_due(&worker));
	gm_io_events_handle(&worker);
	EQ(empty_socket(gpumapd), 1);
	OK(!worker.outbox.is_polled);
	OK(!gm_io_backlog_waits(&worker.backlog));
	refuses = false;
	close(bell);
}

TAP_CASE()
{
	static struct gm_journal *journal;
	const char *why = "";
	int pair[2];

	journal = calloc(1, GM_JOURNAL_BYTES);
	if (!OK(journal != NULL) || !EQ(gm_uring_open(&worker.ring, &why), 0) ||
	    !OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) ==
		0))
		return tap_done();
	worker.journal = journal;
	worker.pair = pair[0];
	gm_send_queue_init(&worker.outbox);
	refused_entries_lose_no_event(pair[1]);
	io_uring_queue_exit(&worker.ring);
	free(journal);
	return tap_done();
}
