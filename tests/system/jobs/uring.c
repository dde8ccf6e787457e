/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Checks gpumap/uring.h: jobs end on the client's own io_uring. */

#include <gpumap/uring.h>

#include "tests/support/agent.h"
#include "tests/support/tap.h"

#define JOBS   UINT64_C(0x6a6f6273)
#define ROUNDS 200

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

/* Wait on the ring until @want jobs have ended.  Returns how many did. */
static int wait_on_ring(struct gpumap_session *session, int want)
{
	int taken = take(session);

	while (taken < want) {
		struct __kernel_timespec second = { .tv_sec = 1 };
		struct io_uring_cqe *cqe = NULL;
		int ret = gpumap_uring_arm(&ring, session, JOBS);

		if (ret == 0) {
			io_uring_submit_and_wait_timeout(&ring, &cqe, 1,
							 &second, NULL);
			if (cqe == NULL || cqe->user_data != JOBS)
				return -1;
			io_uring_cqe_seen(&ring, cqe);
		} else if (ret != 1) {
			return ret;
		}
		taken += take(session);
	}
	return taken;
}

static void jobs_end_on_the_ring(struct gpumap *map)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_POLLABLE };
	struct gpumap_job jobs[3] = { { .op = GPUMAP_OP_NOP } };
	struct gpumap_session *session;
	int taken = 0;

	if (!EQ(gpumap_session_open(map, &opts, &session), 0))
		return;
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t n = 1 + (uint32_t)i % 3;

		if (gpumap_submit(session, 0, jobs, n) != 0)
			break;
		taken += wait_on_ring(session, (int)n) == (int)n;
	}
	EQ(taken, ROUNDS);
	gpumap_session_close(session);
}

static void a_full_ring_is_said(struct gpumap *map)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_POLLABLE };
	struct gpumap_session *session;

	if (!EQ(gpumap_session_open(map, &opts, &session), 0))
		return;
	for (int i = 0; i < 8; i++)
		io_uring_prep_nop(io_uring_get_sqe(&ring));
	EQ(gpumap_uring_arm(&ring, session, JOBS), -EBUSY);
	gpumap_session_close(session);
}

static void without_the_flag_there_is_no_descriptor(struct gpumap *map)
{
	struct gpumap_session *session;

	if (!EQ(gpumap_session_open(map, NULL, &session), 0))
		return;
	EQ(gpumap_uring_arm(&ring, session, JOBS), -ENOTSUP);
	gpumap_session_close(session);
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
		without_the_flag_there_is_no_descriptor(map);
		a_full_ring_is_said(map);
		gpumap_detach(map);
	}
	EQ(agent_kill(&agent, 15), 0);
	io_uring_queue_exit(&ring);
	return tap_done();
}
