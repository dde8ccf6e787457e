/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Against a peer in a thread: gpumap_wait_ready() waits for an agent that
 * answers and for workers that are being started, and so does a scatter over
 * all rows.
 */

#include "shm/device_kinds.h"
#include "shm/rows.h"
#include "tests/support/peer/peer_session.h"

/* Another thread, which waits for the workers. */
static struct {
	pthread_t thread;
	gm_a32 has_ended;
	int ret;
} waiter;

static void *wait_for_rows(void *unused)
{
	waiter.ret = gpumap_wait_ready(map, GPUMAP_NO_DEADLINE);
	gm_put(&waiter.has_ended, 1);
	return unused;
}

/* Returns once the other thread has asked the peer, and has asked again. */
static bool begin_waiting(void)
{
	uint32_t asked = gm_get(&peer.requests);

	gm_put(&waiter.has_ended, 0);
	if (pthread_create(&waiter.thread, NULL, wait_for_rows, NULL) != 0)
		return false;
	while (gm_get(&peer.requests) - asked < 2 &&
	       gm_get(&waiter.has_ended) == 0)
		usleep(100);
	return gm_get(&waiter.has_ended) == 0;
}

static int end_waiting(void)
{
	pthread_join(waiter.thread, NULL);
	return waiter.ret;
}

static bool says(const char *text)
{
	if (strstr(gpumap_refusal(map), text) != NULL)
		return true;
	NOTE("%s", gpumap_refusal(map));
	return false;
}

static void set_flags(uint32_t row, uint32_t kind, uint32_t flags)
{
	struct gm_row_image facts;

	if (gm_rows_facts(&file.segment.map, row, &facts) != 0)
		return;
	facts.kind = kind;
	facts.flags = gm_device_kind(kind)->flags | flags;
	segment_facts(&file.segment, row, &facts);
}

static void a_row_that_starts_is_waited_for(void)
{
	moving(2, GPUMAP_DEVICE_READY, 1);
	EQ(gpumap_wait_ready(map, 0), 0);
	moving(1, GPUMAP_DEVICE_RESTARTING, 1);
	EQ(gpumap_wait_ready(map, 0), -ETIME);
	OK(says("the worker of row 1 is still being started"));
	moving(1, GPUMAP_DEVICE_PROBING, 1);
	EQ(gpumap_wait_ready(map, soon()), -ETIME);
	OK(begin_waiting());
	moving(1, GPUMAP_DEVICE_READY, 1);
	EQ(end_waiting(), 0);
	STR(gpumap_refusal(map), "the worker of row 1 is still being started: "
				 "gpumap_wait_ready() waits for it, and "
				 "gpumapctl devices says more");
}

static void rows_without_a_worker_are_not(void)
{
	static const uint32_t states[] = { GPUMAP_DEVICE_FAILED,
					   GPUMAP_DEVICE_LOST,
					   GPUMAP_DEVICE_DRAINING };

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		moving(1, states[i], 1);
		EQ(gpumap_wait_ready(map, 0), 0);
	}
	moving(1, GPUMAP_DEVICE_PROBING, 1);
	set_flags(1, GPUMAP_DEVICE_DUMMY, 0);
	EQ(gpumap_wait_ready(map, 0), 0);
	set_flags(1, GPUMAP_DEVICE_CUDA, GPUMAP_DEVICE_CORDONED);
	EQ(gpumap_wait_ready(map, 0), 0);
	set_flags(1, GPUMAP_DEVICE_CUDA, 0);
	EQ(gpumap_wait_ready(map, 0), -ETIME);
	set_flags(1, GPUMAP_DEVICE_HOST, 0);
	moving(1, GPUMAP_DEVICE_READY, 1);
}

/* A dead agent's map says READY for two seconds more. */
static void an_agent_that_is_gone_is_waited_for(void)
{
	EQ(gpumap_wait_ready(map, 0), 0);
	gm_put(&peer.lie, PEER_HANG_UP);
	EQ(gpumap_wait_ready(map, 0), -ECONNRESET);
	OK(begin_waiting());
	gm_put(&peer.lie, PEER_HONEST);
	EQ(end_waiting(), 0);
	gm_put(&file.segment.map.header->state, GM_STATE_STARTING);
	EQ(gpumap_wait_ready(map, 0), -ETIME);
	OK(says("its map is not READY"));
	OK(begin_waiting());
	gm_put(&file.segment.map.header->state, GM_STATE_READY);
	EQ(end_waiting(), 0);
}

/* ---- scatters ------------------------------------------------------------ */

static struct gpumap_session *session;

static void *scatter_over_all(void *job)
{
	waiter.ret = gpumap_scatter(session, job, NULL, NULL, 0);
	return NULL;
}

static void a_scatter_waits_likewise(void)
{
	struct gpumap_scatter_opts opts = { .size = sizeof(opts),
					    .deadline_ns = soon() };
	struct gpumap_session_counts counts = { .size = sizeof(counts) };
	struct gpumap_job job = fill(NULL, 3000, 1);
	static const uint32_t first = 0;
	void *memory = NULL;

	session = open_session(16, 0);
	job.dst = floats(session, 0, 3000);
	moving(1, GPUMAP_DEVICE_PROBING, 1);
	moving(2, GPUMAP_DEVICE_FAILED, 1);
	EQ(gpumap_scatter(session, &job, &opts, NULL, 0), -ENODEV);
	OK(says("the worker of row 1 is still being started"));
	EQ(gpumap_scatter_alloc(session, 3000, 4, &opts, &memory), -ENODEV);
	OK(says("the worker of row 1 is still being started"));
	EQ(gpumap_session_counts(session, &counts), 0);
	EQ(counts.submitted, 0);
	opts.rows = &first;
	opts.n_rows = 1;
	opts.deadline_ns = 0;
	EQ(gpumap_scatter(session, &job, &opts, NULL, 0), 1);
	if (OK(pthread_create(&waiter.thread, NULL, scatter_over_all, &job) ==
	       0)) {
		moving(1, GPUMAP_DEVICE_READY, 1);
		EQ(end_waiting(), 2);
	}
	moving(2, GPUMAP_DEVICE_RESTARTING, 1);
	if (OK(pthread_create(&waiter.thread, NULL, scatter_over_all, &job) ==
	       0)) {
		moving(2, GPUMAP_DEVICE_FAILED, 1);
		EQ(end_waiting(), 2);
	}
}

/* The session ends with its agent, and with it the wait. */
static void a_scatter_without_an_agent_ends(void)
{
	struct gpumap_job job = { .op = GPUMAP_OP_NOP, .n = 3000 };

	moving(2, GPUMAP_DEVICE_PROBING, 1);
	gm_put(&peer.hang_up, 1);
	EQ(gpumap_scatter(session, &job, NULL, NULL, 0), -ECONNRESET);
	gpumap_session_close(session);
	moving(2, GPUMAP_DEVICE_READY, 1);
}

/* ---- the map's end ------------------------------------------------------- */

static void a_retired_map_is_told(void)
{
	gm_put(&file.segment.map.header->state, GM_STATE_RETIRED);
	EQ(gpumap_wait_ready(map, GPUMAP_NO_DEADLINE), -ESTALE);
	OK(says("attach again"));
}

TAP_CASE()
{
	if (!client_begin("ready"))
		return tap_done();
	a_row_that_starts_is_waited_for();
	rows_without_a_worker_are_not();
	an_agent_that_is_gone_is_waited_for();
	a_scatter_waits_likewise();
	a_scatter_without_an_agent_ends();
	a_retired_map_is_told();
	return client_end();
}
