/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A client that asked for a descriptor to poll, from the worker's side: its
 * socket becomes readable when a job ends while the client sleeps, when a
 * worker has died, and never otherwise; and nothing that the client does to its
 * end harms others.
 */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gpumap.h"
#include "tests/support/agent.h"
#include "tests/support/raw.h"
#include "tests/support/slow_close.h"
#include "tests/support/tap.h"

#define MIB (UINT64_C(1) << 20)

static struct agent agent;
static char path[160];

static bool becomes_readable(const struct raw *c, int ms)
{
	struct pollfd p = { c->wake, POLLIN, 0 };

	return poll(&p, 1, ms) == 1 && (p.revents & POLLIN);
}

static void drain(const struct raw *c)
{
	char bytes[16];

	while (recv(c->wake, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

static bool open_one(struct raw *c)
{
	return raw_open(c, path) == 0 &&
	       raw_session(c, 16, GPUMAP_SESSION_POLLABLE, MIB) == 0 &&
	       raw_queue(c, 0) == 0;
}

/* The number that a client publishes before it sleeps on its descriptor: odd,
 * and not answered yet. */
static void sleep_by_fd(struct raw *c)
{
	gm_put(&c->page->by_fd, 1);
	gm_put_ordered(&c->page->parked, (gm_get(&c->page->parked) | 1) + 2);
}

static void wake_up(struct raw *c)
{
	gm_put_ordered(&c->page->parked, (gm_get(&c->page->parked) | 1) + 1);
	gm_put(&c->page->by_fd, 0);
	drain(c);
}

static void sleepers_are_woken_by_socket(struct raw *c)
{
	struct gm_entry nop = raw_entry(&c->row[0], GPUMAP_OP_NOP);
	uint32_t position;
	int32_t status = -1;

	wake_up(c);
	EQ(raw_do(c, &c->row[0], &nop), 0);
	EQ(becomes_readable(c, 0), false); /* it was awake */
	sleep_by_fd(c);
	raw_post(&c->row[0], &nop, 1);
	OK(becomes_readable(c, 20000));
	OK(raw_take(&c->row[0], &position, &status));
	EQ(status, 0);
	wake_up(c);
}

/* A dead worker's clients are all woken: some slept on what it took along. */
static void a_death_wakes_all(struct raw *c)
{
	struct gpumap_attach_opts where = { .size = sizeof(where),
					    .instance = agent.instance,
					    .runtime_dir = agent.dir };
	struct gpumap_device device = { .size = sizeof(device) };
	struct gpumap *map;

	drain(c);
	if (!EQ(gpumap_attach(&where, &map), 0))
		return;
	EQ(gpumap_device_read(map, 0, &device), 0);
	EQ(kill((pid_t)device.worker_pid, SIGKILL), 0);
	OK(becomes_readable(c, 20000));
	OK(agent_wait_log(&agent, "event=recovered"));
	gpumap_detach(map);
	drain(c);
}

/* A full socket, or one that was shut down, is its owner's own matter. */
static void a_bad_end_hurts_its_owner_only(struct raw *c)
{
	struct gm_entry nop = raw_entry(&c->row[0], GPUMAP_OP_NOP);
	uint64_t ended = 0;

	for (int i = 0; i < 2000; i++) {
		sleep_by_fd(c);
		ended += raw_do(c, &c->row[0], &nop) == 0;
	}
	EQ(ended, 2000);
	EQ(shutdown(c->wake, SHUT_RDWR), 0);
	sleep_by_fd(c);
	EQ(raw_do(c, &c->row[0], &nop), 0);
	OK(!raw_is_over(c));
}

/* Over its own end.  Returns 0, or a negative errno. */
static int send_over(const struct raw *c, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = "" };
	struct iovec byte = { (char[]){ 0 }, 1 };
	struct msghdr message = { .msg_iov = &byte,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	return sendmsg(c->wake, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0
		       ? -errno
		       : 0;
}

/* The agent reads nothing there, so descriptors that a client sends would be
 * closed with the agent's end: a close that takes as long as the client
 * likes. */
static void it_is_sent_nothing(bool has_queue)
{
	struct raw c, good;
	int other, fd = lingering(&other);

	raw_init(&c);
	raw_init(&good);
	EQ(raw_open(&c, path), 0);
	EQ(raw_session(&c, 16, GPUMAP_SESSION_POLLABLE, MIB), 0);
	EQ(has_queue ? raw_queue(&c, 0) : 0, 0);
	EQ(send(c.wake, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL), -1);
	if (!EQ(send_over(&c, fd), -EPIPE)) {
		close(fd);
		fd = -1;
	}
	raw_close(&c);
	EQ(raw_open(&good, path), 0);
	EQ(raw_session(&good, 16, 0, MIB), 0);
	raw_close(&good);
	close(other);
	if (fd >= 0)
		close(fd);
}

static void unknown_flags_are_refused(void)
{
	struct raw c;

	EQ(raw_open(&c, path), 0);
	EQ(raw_session(&c, 16, GPUMAP_SESSION_POLLABLE << 1, MIB), -EINVAL);
	EQ(raw_session(&c, 16, 0, MIB), 0);
	EQ(c.wake, -1); /* none was asked for */
	raw_close(&c);
}

TAP_CASE()
{
	struct raw c;

	agent_make(&agent, NULL);
	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	if (OK(agent_start(&agent)) && OK(open_one(&c))) {
		sleepers_are_woken_by_socket(&c);
		a_bad_end_hurts_its_owner_only(&c);
		raw_close(&c);
		if (OK(open_one(&c)))
			a_death_wakes_all(&c);
		raw_close(&c);
		it_is_sent_nothing(false);
		it_is_sent_nothing(true);
		unknown_flags_are_refused();
	}
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
