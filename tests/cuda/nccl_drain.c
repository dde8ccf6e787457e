/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Cards that are drained, by the stand-in for NCCL: while they meet, when the
 * meeting ends for all, and while others of their groups have not ended yet: a
 * collective that has ended on one of them ends well on all.  And when they are
 * closed: NCCL has all cards of the node open, in each worker that has met.
 */

#define STAGE_CUDA 1

#include "tests/support/collective_nccl.h"

/* Row 1 gives and is soon through; row 0 gets it late. */
static const struct shape from_row_1 = { .op = GPUMAP_OP_BROADCAST,
					 .dtype = GPUMAP_DTYPE_I32,
					 .n = 1000,
					 .root = 1 };

/* Behind the collective in row 1's queue. */
static void row_1_is_through(struct ranks *g)
{
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .dtype = GPUMAP_DTYPE_U8,
				  .n = 64,
				  .src = g->memory[1],
				  .dst_buffer = g->buffer[1],
				  .cookie = 2 };

	EQ(gpumap_submit(session, g->row[1], &job, 1), 0);
	EQ(collective_end(session, 2), 0);
}

static bool leave_in_the_tail(uint32_t ms, int *ret_status)
{
	struct nccl_drain drain;
	struct ranks g;
	int drained;

	if (!nccl_open(session, "cards", MIB, &g))
		return false;
	EQ(gpumap_comm_flags(g.comm), GPUMAP_COMM_NCCL);
	EQ(cards_once(&g, &from_row_1, 1), 0);
	nccl_slow_down(0, ms);
	EQ(cards_submit(&g, &from_row_1, 1), 0);
	row_1_is_through(&g);
	if (!nccl_drain_begin(1, &drain))
		return false;
	*ret_status = collective_end(session, 1);
	cuda_scene_mend(&stage_scene);
	nccl_close(&g);
	nccl_leave_session();
	drained = nccl_drain_end(&drain);
	return OK(drained == 0 || drained == -ETIMEDOUT);
}

static void who_leaves_waits_for_the_others(void)
{
	int status;

	if (!nccl_begin("", "nccl = yes\n"))
		return;
	if (leave_in_the_tail(1500, &status))
		EQ(status, 0);
	nccl_end();
}

/* The row does not look idle meanwhile. */
static void who_waits_is_not_ended(void)
{
	int status;

	if (!nccl_prepare("", "nccl = yes\n",
			  "[agent]\ndrain-row = 100ms\n"
			  "[host]\nrows = 1\n") ||
	    !nccl_start())
		return;
	if (leave_in_the_tail(2500, &status))
		EQ(status, 0);
	OK(!agent_logged(&agent, "it did not end when asked"));
	nccl_end();
}

/* But not for ever. */
static void for_as_long_as_they_may_meet(void)
{
	int status;

	if (!nccl_begin("", "nccl = yes\nnccl-limit = 2s\n"))
		return;
	if (leave_in_the_tail(20000, &status))
		EQ(status, -EIO);
	OK(!agent_logged(&agent, "it did not end when asked"));
	nccl_end();
}

/* ---- before they have met ------------------------------------------------ */

/* A group that is opened by another thread. */
struct opening {
	struct gpumap *map;
	struct gpumap_session *session;
	struct gpumap_comm *comm;
	const char *mesh;
	pthread_t thread;
	int status;
};

static void *open_it(void *arg)
{
	struct opening *o = arg;

	o->status = gpumap_comm_open_opts(o->session, o->mesh, NULL, &by_nccl,
					  &o->comm);
	return NULL;
}

static bool opening_begin(struct opening *o, const char *mesh)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_SPARSE,
					    .arena_bytes = MIB };

	*o = (struct opening){ .mesh = mesh };
	o->map = story_attach(&agent);
	return OK(o->map != NULL) &&
	       EQ(gpumap_session_open(o->map, &opts, &o->session), 0) &&
	       EQ(pthread_create(&o->thread, NULL, open_it, o), 0);
}

/* Returns what has become of it. */
static int opening_end(struct opening *o)
{
	pthread_join(o->thread, NULL);
	gpumap_comm_close(o->comm);
	gpumap_session_close(o->session);
	gpumap_detach(o->map);
	return o->status;
}

/* Not by NCCL, which would open the one that is drained. */
static void the_others_work(void)
{
	static const uint32_t rows[] = { 0, 2, 3 };
	struct ranks g;

	EQ(collective_mesh_of(map, "m", rows, 3), 0);
	if (!nccl_open(session, "m", 10 * MIB, &g))
		return;
	EQ(gpumap_comm_flags(g.comm), 0);
	EQ(cards_once(&g, &whole, 97), 0);
	nccl_close(&g);
}

/* Cards that would meet for a minute are drained before it is over.  Where they
 * come at last, the others work without the one. */
static void a_drain_ends_the_meeting(const char *fault, bool they_come)
{
	struct nccl_drain drain;
	uint64_t until;
	struct opening o;
	int status;

	if (!nccl_begin(fault, "nccl = yes\nnccl-limit = 60s\n") ||
	    !opening_begin(&o, "cards"))
		return;
	story_nap(500000);
	until = story_now() + STORY_LIMIT_NS;
	if (!nccl_drain_begin(1, &drain))
		return;
	status = opening_end(&o);
	EQ(nccl_drain_end(&drain), 0);
	OK(status == -ENODEV || (they_come && status == 0));
	OK(story_now() < until);
	OK(!agent_logged(&agent, "event=worker_killed"));
	EQ(nccl_users(1), 0);
	if (they_come)
		the_others_work();
	EQ(nccl_users(1), 0);
	nccl_end();
}

/* Cards that meet have all cards of the node open, also the one that is
 * drained, and would until the limit. */
static void so_does_that_of_another_card(void)
{
	static const uint32_t rows[] = { 0, 2 };
	struct nccl_drain drain;
	struct opening o;
	uint64_t until;

	if (!nccl_begin("absent", "nccl = yes\nnccl-limit = 60s\n"))
		return;
	EQ(collective_mesh_of(map, "m", rows, 2), 0);
	until = story_now() + STORY_LIMIT_NS;
	if (!opening_begin(&o, "m"))
		return;
	while (nccl_openers(1) == 0 && story_now() < until)
		story_nap(1000);
	until = story_now() + STORY_LIMIT_NS;
	if (!nccl_drain_begin(1, &drain))
		return;
	EQ(opening_end(&o), -ESTALE);
	OK(story_now() < until);
	EQ(nccl_drain_end(&drain), 0);
	EQ(nccl_users(1), 0);
	nccl_end();
}

/* Workers that run already are asked first, and begin to meet. */
static void nobody_waits_for_who_cannot_come(void)
{
	struct nccl_drain drain;
	struct gpumap_comm *comm;
	uint64_t until;
	struct ranks g;

	if (!nccl_begin("", "nccl = yes\nnccl-limit = 60s\n") ||
	    !nccl_open(session, "cards", 10 * MIB, &g))
		return;
	nccl_is_well(&g);
	nccl_close(&g);
	if (!nccl_drain_begin(1, &drain))
		return;
	nccl_is_left(1);
	until = story_now() + STORY_LIMIT_NS;
	EQ(gpumap_comm_open_opts(session, "cards", NULL, &by_nccl, &comm),
	   -ENODEV);
	OK(story_now() < until);
	the_others_work();
	nccl_leave_session();
	EQ(nccl_drain_end(&drain), 0);
	nccl_end();
}

/* ---- when it is closed --------------------------------------------------- */

/* Ask until it is. */
static void is_drained_at_last(uint32_t row)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int status;

	do
		status = gpumap_device_drain(map, row);
	while (status == -ETIMEDOUT && story_now() < until);
	EQ(status, 0);
	EQ(nccl_users(row), 0);
}

/* Ask until it is told so: the row's own worker is named before the others. */
static bool waits_for_sessions(uint32_t row)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	bool is_told = false;

	while (!is_told && story_now() < until &&
	       gpumap_device_drain(map, row) == -ETIMEDOUT)
		is_told = strstr(gpumap_refusal(map),
				 "has every card open, by NCCL, until its "
				 "sessions end") != NULL;
	return is_told;
}

/* Not before the workers of the other cards have ended, which have it open for
 * as long as they have sessions. */
static void a_card_is_closed_by_all(void)
{
	struct nccl_drain drain;
	struct ranks g;

	if (!nccl_prepare("", "nccl = yes\n",
			  "[agent]\ndrain-row = 1s\n[host]\nrows = 1\n") ||
	    !nccl_start() || !nccl_open(session, "cards", 10 * MIB, &g))
		return;
	nccl_is_well(&g);
	nccl_close(&g);
	EQ(nccl_openers(1), 4);
	if (!nccl_drain_begin(1, &drain))
		return;
	nccl_is_left(1);
	EQ(nccl_openers(1), 3);
	OK(waits_for_sessions(1));
	EQ(nccl_openers(1), 3);
	nccl_leave_session();
	EQ(nccl_drain_end(&drain), -ETIMEDOUT);
	is_drained_at_last(1);

	EQ(gpumap_device_undrain(map, 1), 0);
	if (nccl_open_session() && nccl_open(session, "cards", 10 * MIB, &g)) {
		nccl_is_well(&g);
		nccl_close(&g);
	}
	nccl_end();
}

/* The row has no worker, and so has that of a card that is split. */
static void so_is_one_that_was_never_of_use(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	uint32_t rows[4], n = 0, bad = 4;
	struct ranks g;

	if (!nccl_prepare("", "nccl = yes\n",
			  "[agent]\ndrain-row = 1s\n[host]\nrows = 1\n") ||
	    !cuda_scene_add(&stage_scene, "row 1: exclusive process") ||
	    !nccl_start_agent())
		return;
	while (bad == 4 && story_now() < until) {
		for (uint32_t r = 0; r < 4; r++)
			if (story_device(map, r).state == GPUMAP_DEVICE_FAILED)
				bad = r;
		story_nap(1000);
	}
	for (uint32_t r = 0; r < 4; r++)
		if (r != bad)
			rows[n++] = r;
	EQ(collective_mesh_of(map, "m", rows, 2), 0);
	if (OK(bad < 4) && nccl_open(session, "m", 10 * MIB, &g)) {
		nccl_is_well(&g);
		nccl_close(&g);
		EQ(nccl_openers(bad), 2);
		OK(waits_for_sessions(bad));
		nccl_leave_session();
		is_drained_at_last(bad);
	}
	nccl_end();
}

/* The library is too old: no worker has begun to use it. */
static void others_sessions_stay_without_nccl(void)
{
	struct ranks g;

	if (!nccl_begin("version=21805", "nccl = yes\n") ||
	    !nccl_open(session, "cards", 10 * MIB, &g))
		return;
	EQ(gpumap_comm_flags(g.comm), 0);
	EQ(cards_once(&g, &whole, 97), 0);
	nccl_close(&g);
	EQ(gpumap_device_drain(map, 1), 0);
	EQ(nccl_users(1), 0);
	nccl_end();
}

TAP_CASE()
{
	a_drain_ends_the_meeting("absent", false);
	a_drain_ends_the_meeting("slow=1500", true);
	so_does_that_of_another_card();
	nobody_waits_for_who_cannot_come();
	who_leaves_waits_for_the_others();
	who_waits_is_not_ended();
	for_as_long_as_they_may_meet();
	a_card_is_closed_by_all();
	others_sessions_stay_without_nccl();
	so_is_one_that_was_never_of_use();
	stage_end(&agent);
	return tap_done();
}
