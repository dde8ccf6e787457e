/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* wakers: one that is awaited and does not come is asked for again, also by who
 * has nothing else to wake up for. */

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/worker/collective/collective.h"
#include "agent/worker/collective/member.h"
#include "agent/worker/queue/dependency.h"
#include "tests/support/tap.h"

static struct gm_worker worker;
static struct gm_group_page group_page;
static int gpumapd;

static void be_row(uint32_t row)
{
	int pair[2];

	OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	worker.row = row;
	worker.group_page = &group_page;
	worker.pair = pair[0];
	gpumapd = pair[1];
	gm_send_queue_init(&worker.outbox);
	gm_dependency_init(&worker);
	gm_collective_init(&worker);
}

/* Which row's waker is asked for now; -EAGAIN: none is. */
static int asked_for(void)
{
	struct gm_wire wire;

	if (recv(gpumapd, &wire, sizeof(wire), MSG_DONTWAIT) !=
	    (ssize_t)sizeof(wire))
		return -errno;
	return wire.type == GM_WIRE_WAKER ? (int)wire.place : -EINVAL;
}

/* Let the worker sleep now.  Returns for how long, or 0 for as long as nothing
 * comes. */
static uint64_t nap(void)
{
	uint64_t ns = 77;

	OK(!gm_dependency_is_due(&worker, &ns));
	return ns;
}

static bool is_under_a_second(uint64_t ns)
{
	return ns > 0 && ns < GM_WAIT_ASK_NS;
}

static void it_is_asked_for_again(int row)
{
	for (int i = 0; i < 3; i++) {
		OK(is_under_a_second(nap()));
		EQ(asked_for(), row);
		OK(is_under_a_second(nap()));
		/* And a second later. */
		worker.waiting.asked_ns -= GM_WAIT_ASK_NS;
	}
	while (asked_for() == row)
		;
}

TAP_CASE()
{
	static struct gm_collective_member member;

	be_row(5);
	EQ(nap(), 0);
	EQ(asked_for(), -EAGAIN);
	/* Its group may be broken by others, while it rests. */
	LIST_INSERT_HEAD(&worker.cliqued, &member, cliqued);
	it_is_asked_for_again(5);
	LIST_REMOVE(&member, cliqued);
	EQ(nap(), 0);
	/* Or it has others to wake. */
	gm_wakeup_list_call(&worker.wakeups, 3);
	it_is_asked_for_again(3);
	close(gpumapd);
	close(worker.pair);
	return tap_done();
}
