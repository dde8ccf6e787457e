/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Jobs that take two slots of their queue, with what those say, and jobs that
 * are taken back: against a peer in a thread. */

#include "lib/internal.h"
#include "tests/support/peer/peer_session.h"

static struct gpumap_job late(uint64_t cookie, uint64_t deadline_ns)
{
	return (struct gpumap_job){ .op = GPUMAP_OP_NOP,
				    .cookie = cookie,
				    .deadline_ns = deadline_ns };
}

/* Let the peer serve one entry of row 0, and no more. */
static void serve_one(void)
{
	uint32_t served = gm_get(&peer.served);

	gm_put(&peer.hold, 0);
	for (int i = 0; i < 300000 && gm_get(&peer.served) == served; i++)
		usleep(100);
	EQ(gm_get(&peer.hold), 1);
}

static void a_deadline_takes_the_room_of_two(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_job jobs[17];
	struct gpumap_done done[16];
	uint32_t seconds = gm_get(&peer.seconds);
	int got = 0, wrong = 0;

	for (uint32_t i = 0; i < 17; i++)
		jobs[i] = late(i, 1000 + i);
	gm_put(&peer.hold, 1);
	EQ(gpumap_submit(s, 0, jobs, 9), -EINVAL);
	EQ(gpumap_submit(s, 0, jobs, 7), 0);
	EQ(gpumap_submit(s, 0, jobs, 2), -EAGAIN);
	jobs[7] = late(7, GPUMAP_NO_DEADLINE); /* as good as none */
	jobs[8] = late(8, 0);
	EQ(gpumap_submit(s, 0, jobs + 7, 2), 0);
	EQ(gpumap_submit(s, 0, jobs + 8, 1), -EAGAIN);
	gm_put(&peer.hold, 0);
	while (got >= 0 && got < 9) {
		int n = gpumap_wait(s, done, 2, GPUMAP_NO_DEADLINE);

		for (int i = 0; i < n; i++)
			wrong +=
				done[i].cookie != (uint64_t)got + (uint64_t)i ||
				done[i].status != 0;
		got = n < 0 ? n : got + n;
	}
	EQ(got, 9);
	EQ(wrong, 0);
	EQ(gm_get(&peer.seconds) - seconds, 7);
	EQ(gm_get(&peer.deadline_ns), 1006);
	EQ(gpumap_poll(s, done, 16), 0);
	gpumap_session_close(s);
}

/* When a job is given back, all of its room is free. */
static void it_ends_with_its_second_slot(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_job job = late(5, 77), jobs[8];
	struct gpumap_done done[2];
	struct gpumap_session_counts counts = { .size = sizeof(counts) };

	for (uint32_t i = 0; i < 8; i++)
		jobs[i] = late(i, 1);
	gm_put(&peer.ration, 1);
	gm_put(&peer.hold, 1);
	EQ(gpumap_submit(s, 0, &job, 1), 0);
	gm_put(&peer.status, (uint32_t)-ETIME);
	serve_one();
	EQ(gpumap_poll(s, done, 2), 0);
	EQ(gpumap_submit(s, 0, jobs, 8), -EAGAIN);
	gm_put(&peer.status, 0);
	serve_one();
	EQ(gpumap_poll(s, done, 2), 1);
	EQ(done[0].cookie, 5);
	EQ(done[0].status, -ETIME);
	EQ(gpumap_session_counts(s, &counts), 0);
	EQ(counts.submitted, 1);
	EQ(counts.completed, 1);
	gm_put(&peer.ration, 0);
	EQ(gpumap_submit(s, 0, jobs, 8), 0);
	gm_put(&peer.hold, 0);
	gpumap_session_close(s); /* with all of them in flight */
}

static void positions_wrap_around_the_ring(void)
{
	struct gpumap_session *s = open_session(16, 0);
	uint64_t next = 0, taken = 0;
	struct gpumap_done done[16];
	int wrong = 0;

	while (taken < 3000) {
		struct gpumap_job jobs[3];
		int n;

		/* Some with, some without, so that pairs lie over the seam. */
		for (uint32_t i = 0; i < 3; i++)
			jobs[i] = late(next + i, (next + i) % 3 != 0);
		while (next < 3000 && gpumap_submit(s, 1, jobs, 3) == 0) {
			next += 3;
			for (uint32_t i = 0; i < 3; i++)
				jobs[i] = late(next + i, (next + i) % 3 != 0);
		}
		n = gpumap_wait(s, done, 16, GPUMAP_NO_DEADLINE);
		if (!OK(n > 0))
			break;
		for (int i = 0; i < n; i++)
			wrong += done[i].cookie != taken++;
	}
	EQ(wrong, 0);
	EQ(gpumap_wait(s, done, 16, GPUMAP_NO_DEADLINE), -ENODATA);
	gpumap_session_close(s);
}

static void a_scatter_may_have_a_deadline(void)
{
	struct gpumap_session *s = open_session(16, 0);
	uint32_t seconds = gm_get(&peer.seconds);
	struct gpumap_job job = late(0, 4711), fill[14];
	struct gpumap_tile tiles[2];

	job.n = 10;
	EQ(gpumap_scatter(s, &job, NULL, tiles, 2), 2);
	EQ(gm_get(&peer.seconds) - seconds, 2);
	EQ(gm_get(&peer.deadline_ns), 4711);
	for (uint32_t i = 0; i < 14; i++)
		fill[i] = late(i, 0);
	gm_put(&peer.hold, 3);
	EQ(gpumap_submit(s, 0, fill, 14), 0);
	EQ(gpumap_submit(s, 0, fill, 1), 0);
	EQ(gpumap_scatter(s, &job, NULL, tiles, 2), -EAGAIN);
	gm_put(&peer.hold, 0);
	gpumap_session_close(s);
}

static void the_agents_end_ends_both(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_job jobs[3] = { late(0, 1), late(1, 1), late(2, 0) };
	struct gpumap_done done[8];
	uint32_t served = gm_get(&peer.served);

	gm_put(&peer.hold, 1);
	gm_put(&peer.ration, 1);
	gm_put(&peer.status, (uint32_t)-EINVAL);
	EQ(gpumap_submit(s, 0, jobs, 3), 0);
	serve_one();
	EQ(gm_get(&peer.served) - served, 1);
	gm_put(&peer.hang_up, 1);
	EQ(gpumap_wait(s, done, 8, GPUMAP_NO_DEADLINE), 3);
	/* The first had ended, by all that counts. */
	EQ(done[0].status, -EINVAL);
	EQ(done[1].status, -ECONNRESET);
	EQ(done[2].status, -ECONNRESET);
	EQ(gpumap_wait(s, done, 8, GPUMAP_NO_DEADLINE), -ECONNRESET);
	gm_put(&peer.ration, 0);
	gm_put(&peer.status, 0);
	gm_put(&peer.hold, 0);
	gpumap_session_close(s);
}

static void a_second_slot_that_ends_first_is_a_lie(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_job job = late(0, 1);
	struct gpumap_done done;

	gm_put(&peer.hold, 1);
	EQ(gpumap_submit(s, 0, &job, 1), 0);
	gm_put(&peer.backwards, 1);
	gm_put(&peer.hold, 0);
	EQ(gpumap_wait(s, &done, 1, GPUMAP_NO_DEADLINE), -EPROTO);
	gm_put(&peer.backwards, 0);
	gpumap_session_close(s);
}

/* ---- waits --------------------------------------------------------------- */

static struct gpumap_job waiting(const struct gpumap_time *waits, uint32_t n)
{
	return (struct gpumap_job){ .op = GPUMAP_OP_NOP,
				    .waits = waits,
				    .n_waits = n };
}

static void what_was_not_submitted_is_not_waited_for(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_time t[5] = { { 0 } };
	struct gpumap_job job = waiting(t, 5), nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_done done[4];

	EQ(gpumap_submitted(s, 1, &t[0]), 0);
	EQ(t[0].row, 1);
	EQ(t[0].value, 0);
	EQ(gpumap_submitted(s, 99, &t[1]), -ENODEV);
	EQ(gpumap_submit(s, 0, &job, 1), -EINVAL); /* five */
	job = waiting(NULL, 1);
	EQ(gpumap_submit(s, 0, &job, 1), -EINVAL);
	job = waiting(t, 1);
	t[0].value = 1;
	EQ(gpumap_submit(s, 0, &job, 1), -EINVAL);
	EQ(gpumap_submit(s, 1, &job, 1), -EINVAL); /* itself */
	t[0] = (struct gpumap_time){ .row = 99 };
	EQ(gpumap_submit(s, 0, &job, 1), -EINVAL);
	t[0] = (struct gpumap_time){ .reserved = 1 };
	EQ(gpumap_submit(s, 0, &job, 1), -EINVAL);
	job.n = 10;
	EQ(gpumap_scatter(s, &job, NULL, NULL, 0), -EINVAL);
	t[0] = (struct gpumap_time){ 0 };
	EQ(gpumap_submit(s, 0, &job, 1), 0);
	EQ(gpumap_wait(s, done, 4, GPUMAP_NO_DEADLINE), 1);
	EQ(gpumap_submit(s, 0, &nop, 1), 0);
	EQ(gpumap_submitted(s, 0, &t[0]), 0);
	EQ(t[0].value, 3); /* slots */
	EQ(gpumap_wait(s, done, 4, GPUMAP_NO_DEADLINE), 1);
	gpumap_session_close(s);
}

static void what_has_ended_is_not_waited_for(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_time t[3];
	struct gpumap_job job = waiting(t, 3);
	struct gpumap_done done[4];
	uint64_t in_flight;

	EQ(gpumap_submit(s, 1, &nop, 1), 0);
	EQ(gpumap_submitted(s, 1, &t[0]), 0); /* ends before */
	EQ(gpumap_wait(s, done, 4, GPUMAP_NO_DEADLINE), 1);
	EQ(gpumap_submit(s, 0, &nop, 1), 0);
	EQ(gpumap_submitted(s, 0, &t[1]), 0); /* of the same row */
	gm_put(&peer.hold, 2);
	EQ(gpumap_submit(s, 1, &nop, 1), 0);
	EQ(gpumap_submitted(s, 1, &t[2]), 0); /* is in flight */
	EQ(t[2].value, 2);
	EQ(gpumap_submit(s, 0, &job, 1), 0);
	for (int i = 0; i < 2; i++)
		EQ(gpumap_wait(s, done, 1, GPUMAP_NO_DEADLINE), 1);
	EQ(gm_get(&peer.n_waits), 1);
	in_flight = gm_get(&peer.wait[0]);
	EQ(gm_time_row(in_flight), 1);
	EQ(gm_time_lane(in_flight), 0);
	OK(gm_time_of_incarnation(in_flight) != GM_TIME_DEAD);
	EQ(in_flight & (GM_TIME_VALUES - 1), 2);
	EQ(gm_get(&peer.wait[1]), 0);
	gm_put(&peer.hold, 0);
	EQ(gpumap_wait(s, done, 4, GPUMAP_NO_DEADLINE), 1);
	gpumap_session_close(s);
}

/* A wait names who was to do it: not the worker that came after. */
static void a_wait_names_the_worker_of_then(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_time t;
	struct gpumap_job job = waiting(&t, 1);
	struct gpumap_done done[4];
	uint32_t then, now;

	gm_put(&peer.hold, 2);
	EQ(gpumap_submit(s, 1, &nop, 1), 0);
	EQ(gpumap_submitted(s, 1, &t), 0);
	EQ(gpumap_submit(s, 0, &job, 1), 0);
	EQ(gpumap_wait(s, done, 1, GPUMAP_NO_DEADLINE), 1);
	then = gm_time_of_incarnation(gm_get(&peer.wait[0]));
	gm_put(&peer.die, 2);
	while (gm_get(&peer.die) != 0)
		usleep(100);
	EQ(gpumap_submit(s, 0, &job, 1), 0);
	EQ(gpumap_wait(s, done, 1, GPUMAP_NO_DEADLINE), 1);
	EQ(gm_time_of_incarnation(gm_get(&peer.wait[0])), then);
	EQ(gpumap_submit(s, 1, &nop, 1), 0);
	EQ(gpumap_submitted(s, 1, &t), 0);
	EQ(gpumap_submit(s, 0, &job, 1), 0);
	EQ(gpumap_wait(s, done, 1, GPUMAP_NO_DEADLINE), 1);
	now = gm_time_of_incarnation(gm_get(&peer.wait[0]));
	EQ(now, then + 1);
	gm_put(&peer.hold, 0);
	gpumap_session_close(s);
}

/* ---- taken back ---------------------------------------------------------- */

static void what_is_taken_back_is_marked(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_job nops[3] = { { .op = GPUMAP_OP_NOP } };
	struct gpumap_session_counts counts = { .size = sizeof(counts) };
	struct gpumap_done done[4];
	struct gm_timeline *timeline;
	int got = 0;

	EQ(gpumap_cancel(s, 99), -ENODEV);
	EQ(gpumap_cancel(s, 2), 0); /* nothing is there */
	gm_put(&peer.hold, 4);
	EQ(gpumap_submit(s, 2, nops, 3), 0);
	/* The peer's own thread keeps what it has of the queue. */
	timeline = s->pairs[2]->timeline;
	EQ(gm_get(&timeline->cancel), 0);
	EQ(gpumap_cancel(s, 2), 0);
	EQ(gm_get(&timeline->cancel), gm_cancel_make(3));
	EQ(gpumap_session_counts(s, &counts), 0);
	OK(counts.doorbells >= 1);
	EQ(gpumap_submit(s, 2, nops, 1), 0);
	EQ(gm_get(&timeline->cancel), gm_cancel_make(3));
	gm_put(&peer.hold, 0);
	while (got >= 0 && got < 4)
		got += gpumap_wait(s, done, 4, GPUMAP_NO_DEADLINE);
	/* Once round the ring it would be true again. */
	EQ(gpumap_submit(s, 2, nops, 1), 0);
	EQ(gm_get(&timeline->cancel), 0);
	gpumap_session_close(s);
}

static void a_mark_reaches_back_only(void)
{
	OK(!gm_cancel_reaches(0, 0, 16));
	OK(!gm_cancel_reaches(0, UINT32_MAX, 16));
	OK(gm_cancel_reaches(gm_cancel_make(10), 9, 16));
	OK(!gm_cancel_reaches(gm_cancel_make(10), 10, 16));
	OK(!gm_cancel_reaches(gm_cancel_make(10), 11, 16));
	OK(gm_cancel_reaches(gm_cancel_make(3), UINT32_MAX - 12, 16));
	OK(!gm_cancel_reaches(gm_cancel_make(3), UINT32_MAX - 13, 16));
}

static void values_go_round(void)
{
	uint64_t last = GM_TIME_VALUES - 1;

	OK(gm_time_reached(5, 5));
	OK(gm_time_reached(6, 5));
	OK(!gm_time_reached(5, 6));
	OK(gm_time_reached(3, last - 3));
	OK(!gm_time_reached(last - 3, 3));
	EQ(gm_time_widen(last, 3), 3);
	EQ(gm_time_widen(UINT64_C(5) << 32, UINT32_MAX),
	   (UINT64_C(5) << 32) - 1);
	EQ(gm_time_widen(UINT64_C(0x7fffffffff), 1), UINT64_C(0x8000000001));
	for (uint32_t i = 0; i < 600; i++)
		if (gm_time_incarnation(i) == GM_TIME_DEAD ||
		    gm_time_incarnation(i) > 255 ||
		    gm_time_incarnation(i) == gm_time_incarnation(i + 1))
			OK(!"two incarnations of one name");
}

TAP_CASE()
{
	if (!client_begin("second"))
		return tap_done();
	a_deadline_takes_the_room_of_two();
	it_ends_with_its_second_slot();
	positions_wrap_around_the_ring();
	a_scatter_may_have_a_deadline();
	the_agents_end_ends_both();
	a_second_slot_that_ends_first_is_a_lie();
	what_was_not_submitted_is_not_waited_for();
	what_has_ended_is_not_waited_for();
	a_wait_names_the_worker_of_then();
	what_is_taken_back_is_marked();
	a_mark_reaches_back_only();
	values_go_round();
	return client_end();
}
