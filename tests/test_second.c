/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Jobs that take two slots of their queue, against a peer in a thread. */

#include "client.h"

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
	for (int i = 0; i < 50000 && gm_get(&peer.served) == served; i++)
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

static void an_old_agent_is_not_asked(void)
{
	struct gm_header *header = file.segment.map.header;
	struct gpumap_job job = late(0, 1);
	struct gpumap_session *s;

	gm_put(&header->minor, GM_MINOR_MORE - 1);
	s = open_session(16, 0);
	EQ(gpumap_submit(s, 0, &job, 1), -EOPNOTSUPP);
	job.n = 10;
	EQ(gpumap_scatter(s, &job, NULL, NULL, 0), -EOPNOTSUPP);
	job.deadline_ns = GPUMAP_NO_DEADLINE;
	EQ(gpumap_submit(s, 0, &job, 1), 0);
	gpumap_session_close(s);
	/* One step younger: that still knows no operation from CAST on. */
	gm_put(&header->minor, GM_MINOR_CASTS - 1);
	s = open_session(16, 0);
	job.op = GPUMAP_OP_CAST;
	EQ(gpumap_submit(s, 0, &job, 1), -EOPNOTSUPP);
	EQ(gpumap_scatter(s, &job, NULL, NULL, 0), -EOPNOTSUPP);
	gpumap_session_close(s);
	gm_put(&header->minor, GM_LAYOUT_MINOR);
}

int main(void)
{
	if (!client_begin("second"))
		return tap_done();
	a_deadline_takes_the_room_of_two();
	it_ends_with_its_second_slot();
	positions_wrap_around_the_ring();
	a_scatter_may_have_a_deadline();
	the_agents_end_ends_both();
	a_second_slot_that_ends_first_is_a_lie();
	an_old_agent_is_not_asked();
	return client_end();
}
