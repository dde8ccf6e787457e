/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Checks gpumap/uring.h: jobs end on the client's own io_uring. */

#include <gpumap/uring.h>

#include "tests/support/agent.h"
#include "tests/support/tap.h"

#define JOBS    UINT64_C(0x6a6f6273)
#define ROUNDS  200
#define LIMIT_S 30 /* against hanging */

static struct agent agent;
static struct io_uring ring;

/* Take the completions there are.  Returns how many. */
static int take(struct gpumap_session *session)
{
	struct gpumap_done done[8];
	int n, all = 0;

	while ((n = gpumap_poll(session, done, 8)) > 0)
		all += n;
	return all;
}

/* Wait for one entry of the ring.  Returns whether it is that of the jobs. */
static bool woken(struct gpumap_uring *jobs)
{
	struct __kernel_timespec limit = { .tv_sec = LIMIT_S };
	struct io_uring_cqe *cqe = NULL;
	bool came;

	io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &limit, NULL);
	if (cqe == NULL)
		return false;
	came = gpumap_uring_came(jobs, cqe) == 1;
	io_uring_cqe_seen(&ring, cqe);
	return came;
}

/* Wait on the ring until @want jobs have ended.  Returns how many did. */
static int wait_on_ring(struct gpumap_uring *jobs, int want)
{
	int taken = take(jobs->session);

	while (taken < want) {
		int ret = gpumap_uring_arm(jobs, &ring);

		if (ret < 0)
			return ret;
		if (ret == 0 && !woken(jobs))
			return -1;
		taken += take(jobs->session);
	}
	return taken;
}

static bool open_pollable(struct gpumap *map, struct gpumap_uring *ret_jobs)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_POLLABLE };

	*ret_jobs = (struct gpumap_uring){ .user_data = JOBS };
	return EQ(gpumap_session_open(map, &opts, &ret_jobs->session), 0);
}

/* The poll of a session that was closed is still in the ring, and ends when the
 * agent has closed the other end. */
static void close_session(struct gpumap_uring *jobs)
{
	gpumap_session_close(jobs->session);
	if (jobs->is_polled)
		OK(woken(jobs));
	EQ(jobs->is_polled, 0);
}

static void jobs_end_on_the_ring(struct gpumap *map)
{
	struct gpumap_job nops[3] = { { .op = GPUMAP_OP_NOP } };
	struct gpumap_uring jobs;
	int taken = 0;

	if (!open_pollable(map, &jobs))
		return;
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t n = 1 + (uint32_t)i % 3;

		if (gpumap_submit(jobs.session, 0, nops, n) != 0)
			break;
		taken += wait_on_ring(&jobs, (int)n) == (int)n;
	}
	EQ(taken, ROUNDS);
	close_session(&jobs);
}

/* A program that has nothing to do arms again and again: the ring is not
 * filled, and one job wakes the program once. */
static void an_idle_program_has_one_poll(struct gpumap *map)
{
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_uring jobs;
	struct io_uring_cqe *cqe;
	int armed = 0;

	if (!open_pollable(map, &jobs))
		return;
	for (int i = 0; i < ROUNDS; i++) {
		armed += gpumap_uring_arm(&jobs, &ring) == 0;
		io_uring_submit(&ring);
	}
	EQ(armed, ROUNDS);
	EQ(gpumap_submit(jobs.session, 0, &nop, 1), 0);
	OK(woken(&jobs));
	EQ(take(jobs.session), 1);
	EQ(io_uring_peek_cqe(&ring, &cqe), -EAGAIN);
	/* And the next job once more. */
	EQ(gpumap_submit(jobs.session, 0, &nop, 1), 0);
	EQ(wait_on_ring(&jobs, 1), 1);
	close_session(&jobs);
}

/* All but taking completions and waiting for them may come between arming and
 * the sleep. */
static void it_stays_armed(struct gpumap *map)
{
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_uring jobs;
	uint64_t buffer = 0;
	void *memory;

	if (!open_pollable(map, &jobs))
		return;
	EQ(gpumap_buffer_alloc(jobs.session, 0, 4096, 0, GPUMAP_NO_DEADLINE,
			       &buffer),
	   0);
	EQ(gpumap_uring_arm(&jobs, &ring), 0);
	EQ(gpumap_alloc(jobs.session, 0, 4096, &memory), 0);
	EQ(gpumap_submit(jobs.session, 0, &nop, 1), 0);
	EQ(gpumap_cancel(jobs.session, 0), 0);
	EQ(gpumap_free(jobs.session, memory), 0);
	EQ(gpumap_buffer_free(jobs.session, buffer), 0);
	OK(woken(&jobs));
	EQ(wait_on_ring(&jobs, 1), 1); /* that may have been an earlier wake */
	close_session(&jobs);
}

static void a_full_ring_is_said(struct gpumap *map)
{
	struct gpumap_uring jobs;

	if (!open_pollable(map, &jobs))
		return;
	EQ(gpumap_uring_arm(&jobs, &ring), 0);
	for (int i = 0; i < 7; i++)
		io_uring_prep_nop(io_uring_get_sqe(&ring));
	EQ(gpumap_uring_arm(&jobs, &ring), 0); /* its poll is there */
	jobs.is_polled = 0;
	EQ(gpumap_uring_arm(&jobs, &ring), -EBUSY);
	gpumap_session_close(jobs.session);
}

static void without_the_flag_there_is_no_descriptor(struct gpumap *map)
{
	struct gpumap_uring jobs = { .user_data = JOBS };

	if (!EQ(gpumap_session_open(map, NULL, &jobs.session), 0))
		return;
	EQ(gpumap_uring_arm(&jobs, &ring), -ENOTSUP);
	close_session(&jobs);
}

TAP_CASE()
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts) };
	struct gpumap *map;

	if (io_uring_queue_init(8, &ring, 0) != 0) {
		SKIP(1, "this kernel gives us no io_uring");
		return tap_done();
	}
	agent_make(&agent, NULL);
	opts.instance = agent.instance;
	opts.runtime_dir = agent.dir;
	if (OK(agent_start(&agent)) && EQ(gpumap_attach(&opts, &map), 0)) {
		jobs_end_on_the_ring(map);
		an_idle_program_has_one_poll(map);
		it_stays_armed(map);
		without_the_flag_there_is_no_descriptor(map);
		a_full_ring_is_said(map);
		gpumap_detach(map);
	}
	EQ(agent_kill(&agent, 15), 0);
	io_uring_queue_exit(&ring);
	return tap_done();
}
