/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Room that is on its way back: who closes a session and asks for another at
 * once gets it, though a worker has not let go of the first yet.
 *
 * The worker is stopped meanwhile.  On a machine that stands still it may be
 * taken for hung and replaced, and then what is asked for is there sooner.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpumap.h"
#include "tests/support/agent.h"
#include "tests/support/process.h"
#include "tests/support/raw.h"
#include "tests/support/tap.h"

#define MIB (UINT64_C(1) << 20)

static const char config[] = "[host]\n"
			     "rows = 1\n"
			     "[limits]\n"
			     "sessions-per-uid = 2\n"
			     "registrations-per-uid = 1\n"
			     "arena = 64M\n"
			     "arena-per-uid = 64M\n";

static struct agent agent;
static struct gpumap *map;
static char path[160];

/* ---- the worker -------------------------------------------------------- */

static pid_t worker(void)
{
	struct gpumap_device device = { .size = sizeof(device) };

	EQ(gpumap_device_read(map, 0, &device), 0);
	return (pid_t)device.worker_pid;
}

/* The client @c has left, and the worker does not know it. */
static pid_t close_unseen(struct raw *c)
{
	pid_t pid = worker();

	OK(process_stop(pid));
	raw_close(c);
	return pid;
}

/* ---- requests that wait ------------------------------------------------ */

static void send_open(struct raw *c, uint64_t range_bytes)
{
	struct gm_session_open open = { .depth = 16,
					.range_bytes = range_bytes };
	struct raw_record record = {
		.header =
			raw_header(c, GM_CONTROL_SESSION_OPEN, sizeof(open), 0),
		.body = &open,
		.body_bytes = sizeof(open),
	};

	EQ(raw_send(c, &record, 0), 0);
}

static void send_registration(struct raw *c, const struct gm_register *ask,
			      int fd)
{
	struct raw_record record = {
		.header = raw_header(c, GM_CONTROL_REGISTER, sizeof(*ask), 0),
		.body = ask,
		.body_bytes = sizeof(*ask),
		.fds = &fd,
		.n_fds = 1,
	};

	EQ(raw_send(c, &record, 0), 0);
}

static int answer(struct raw *c)
{
	struct gm_control header = { 0 };
	char body[256];
	int fds[GM_CONTROL_FDS_MAX];
	int ret = raw_receive(c, &header, body, sizeof(body), fds);

	for (uint32_t i = 0; ret >= 0 && i < GM_CONTROL_FDS_MAX; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	return ret < 0 ? ret : header.status;
}

/* The agent has met what was sent before, and says how many sessions count. */
static uint32_t count(void)
{
	struct gm_list_reply reply = { 0 };
	struct gm_list_ask after = { 0 };
	struct raw c;

	EQ(raw_open(&c, path), 0);
	EQ(raw_ask(&c, GM_CONTROL_LIST, &after, sizeof(after), &reply,
		   sizeof(reply), NULL),
	   0);
	raw_close(&c);
	return reply.total;
}

static void is_answered(struct raw *c, pid_t stopped, int want)
{
	struct pollfd early = { .fd = c->socket, .events = POLLIN };

	count();
	NOTE("%s before the worker has let go",
	     poll(&early, 1, 0) > 0 ? "answered" : "waits");
	kill(stopped, SIGCONT);
	EQ(answer(c), want);
}

static void wait_for_none(void)
{
	uint64_t until = raw_now() + RAW_PATIENCE_NS;

	while (count() != 0 && raw_now() < until)
		raw_nap(1000000);
	EQ(count(), 0);
}

/* ---- stories ----------------------------------------------------------- */

static void the_arena_is_waited_for(void)
{
	struct raw first, late;

	EQ(raw_open(&late, path), 0);
	EQ(raw_open_queue(&first, path, 0, 16, 48 * MIB), 0);
	send_open(&late, 48 * MIB);
	EQ(answer(&late), -EDQUOT); /* it is open, and may be for long */

	pid_t stopped = close_unseen(&first);

	send_open(&late, 48 * MIB);
	is_answered(&late, stopped, 0);
	raw_close(&late);
	wait_for_none();
}

static void the_place_is_waited_for(void)
{
	struct raw other, first, late;

	EQ(raw_open(&late, path), 0);
	EQ(raw_open_queue(&other, path, 0, 16, MIB), 0);
	EQ(raw_open_queue(&first, path, 0, 16, MIB), 0);
	send_open(&late, MIB);
	EQ(answer(&late), -EUSERS);

	pid_t stopped = close_unseen(&first);

	send_open(&late, MIB);
	is_answered(&late, stopped, 0);
	raw_close(&other);
	raw_close(&late);
	wait_for_none();
}

/* A descriptor that came with a request comes with it again. */
static void a_registration_is_waited_for(void)
{
	struct gm_register ask = { .handle = gm_handle_make(
					   1, GM_BUFFER_REGISTERED, 0, 1),
				   .row = 0,
				   .bytes = MIB };
	int fd = memfd_create("retry", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct raw first, late;

	EQ(ftruncate(fd, MIB), 0);
	EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	EQ(raw_open_queue(&first, path, 0, 16, MIB), 0);
	EQ(raw_open_queue(&late, path, 0, 16, MIB), 0);
	EQ(raw_register(&first, &ask, fd), 0);
	send_registration(&late, &ask, fd);
	EQ(answer(&late), -EDQUOT);

	pid_t stopped = close_unseen(&first);

	send_registration(&late, &ask, fd);
	is_answered(&late, stopped, 0);
	EQ(raw_forget(&late, ask.handle), 0);
	close(fd);
	raw_close(&late);
	wait_for_none();
}

/* One that wants what another has, which has left unseen. */
static pid_t let_one_wait(struct raw *late)
{
	struct raw first;
	pid_t stopped;

	EQ(raw_open(late, path), 0);
	EQ(raw_open_queue(&first, path, 0, 16, 48 * MIB), 0);
	stopped = close_unseen(&first);
	send_open(late, 48 * MIB);
	count();
	return stopped;
}

static void who_waits_may_leave(void)
{
	struct raw late;
	pid_t stopped = let_one_wait(&late);

	raw_close(&late);
	count();
	kill(stopped, SIGCONT);
	wait_for_none();
}

/* The last: the agent ends. */
static void nobody_waits_for_an_end(void)
{
	struct raw late;
	pid_t stopped = let_one_wait(&late);
	int ret;

	kill(agent.pid, SIGTERM);
	OK(agent_wait_log(&agent, "event=draining"));
	ret = answer(&late);
	OK(ret == -ESHUTDOWN ||
	   (ret == 0 && agent_logged(&agent, "event=worker_died")));
	kill(stopped, SIGCONT);
	raw_close(&late);
}

TAP_CASE()
{
	agent_make(&agent, config);
	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	if (!OK(agent_start(&agent))) {
		agent_show_log(&agent);
		return tap_done();
	}

	struct gpumap_attach_opts where = { .size = sizeof(where),
					    .instance = agent.instance,
					    .runtime_dir = agent.dir };

	if (EQ(gpumap_attach(&where, &map), 0)) {
		the_arena_is_waited_for();
		the_place_is_waited_for();
		a_registration_is_waited_for();
		who_waits_may_leave();
		nobody_waits_for_an_end();
	}
	gpumap_detach(map);
	EQ(agent_wait(&agent), 0);
	if (tap_failures)
		agent_show_log(&agent);
	return tap_done();
}
