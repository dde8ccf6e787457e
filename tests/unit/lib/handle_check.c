/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Jobs that copy from another row's memory, against a peer in a thread: what of
 * it is asked of the agent, how often, and what may be submitted at all.
 */

#include "tests/support/peer/peer_session.h"

#define N 1000u

static uint64_t alloc_on(struct gpumap_session *s, uint32_t row)
{
	uint64_t buffer = 0;

	EQ(gpumap_buffer_alloc(s, row, N * 4, 0, GPUMAP_NO_DEADLINE, &buffer),
	   0);
	return buffer;
}

static struct gpumap_job copy_of(float *to, uint64_t from, uint64_t n)
{
	return (struct gpumap_job){ .op = GPUMAP_OP_COPY,
				    .dtype = GPUMAP_DTYPE_F32,
				    .dst = to,
				    .src_buffer = from,
				    .n = n };
}

static uint64_t filled(struct gpumap_session *s, uint32_t row, float value)
{
	struct gpumap_job job = fill(NULL, N, value);

	job.dst_buffer = alloc_on(s, row);
	EQ(run_job(s, row, &job), 0);
	return job.dst_buffer;
}

static void a_row_is_told_once(void)
{
	uint32_t before = gm_get(&peer.reached);
	struct gpumap_session *s = open_session(16, 0);
	uint64_t a = filled(s, 1, 3), b = filled(s, 1, 4);
	float *x = floats(s, 0, N);
	struct gpumap_job jobs[3] = { copy_of(x, a, 10), copy_of(x + 10, b, 10),
				      copy_of(x + 20, a, 10) };

	for (int i = 0; i < 3; i++)
		EQ(run_job(s, 0, &jobs[i]), 0);
	OK(x[9] == 3 && x[10] == 4 && x[20] == 3);
	EQ(gm_get(&peer.reached), before + 2);
	EQ(run_job(s, 2, &jobs[0]), 0);
	EQ(gm_get(&peer.reached), before + 3);
	/* The row itself needs no telling. */
	EQ(run_job(s, 1, &jobs[0]), 0);
	EQ(gm_get(&peer.reached), before + 3);
	gpumap_session_close(s);
}

static void the_next_worker_is_told_again(void)
{
	uint32_t before = gm_get(&peer.reached);
	struct gpumap_session *s = open_session(16, 0);
	uint64_t a = filled(s, 1, 5);
	float *x = floats(s, 0, N);
	struct gpumap_job job = copy_of(x, a, N);

	EQ(run_job(s, 0, &job), 0);
	gm_put(&peer.die, 1);
	while (gm_get(&peer.die) != 0)
		usleep(1000);
	EQ(run_job(s, 0, &job), 0);
	OK(x[N - 1] == 5);
	EQ(gm_get(&peer.reached), before + 2);
	/* The buffer is gone with the worker of the source, on every row. */
	gm_put(&peer.die, 2);
	while (gm_get(&peer.die) != 0)
		usleep(1000);
	EQ(run_job(s, 0, &job), -ESTALE);
	EQ(gm_get(&peer.reached), before + 2);
	gpumap_session_close(s);
}

/* The row has another worker when the agent has answered for one operand: that
 * worker was not told of the other, which is alive nevertheless. */
static void a_job_is_for_one_worker(void)
{
	struct gpumap_session *s = open_session(16, 0);
	uint64_t a = filled(s, 1, 9), fresh = 0;
	struct gpumap_job job = copy_of(floats(s, 0, N), a, N);
	int fd = peer_memfd(N * 4, true);

	EQ(run_job(s, 0, &job), 0);
	EQ(gpumap_buffer_register(s, fd, 0, N * 4, 0, &fresh), 0);
	close(fd);
	job.dst_buffer = fresh;
	gm_put(&peer.die_asked, 1);
	EQ(run_job(s, 0, &job), -EIO);
	EQ(run_job(s, 0, &job), 0);
	gpumap_session_close(s);
}

static void a_free_ends_it_first(void)
{
	uint32_t before = gm_get(&peer.unreached);
	struct gpumap_session *s = open_session(16, 0);
	uint64_t a = filled(s, 1, 6), b = filled(s, 1, 7);
	struct gpumap_job job = copy_of(floats(s, 0, N), a, N);

	EQ(run_job(s, 0, &job), 0);
	EQ(gpumap_buffer_free(s, a), 0);
	EQ(gm_get(&peer.unreached), before + 1);
	EQ(run_job(s, 0, &job), -ESTALE);
	/* A buffer that no row has been told of. */
	EQ(gpumap_buffer_free(s, b), 0);
	EQ(gm_get(&peer.unreached), before + 1);
	gpumap_session_close(s);
}

static void a_refusal_submits_nothing(void)
{
	struct gpumap_session_counts before = { .size = sizeof(before) };
	struct gpumap_session_counts after = { .size = sizeof(after) };
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_job job = copy_of(floats(s, 0, N), filled(s, 1, 8), N);

	EQ(gpumap_session_counts(s, &before), 0);
	gm_put(&peer.refuse, (uint32_t)-EDQUOT);
	EQ(gpumap_submit(s, 0, &job, 1), -EDQUOT);
	EQ(strcmp(gpumap_refusal(map), "not this buffer"), 0);
	EQ(gpumap_session_counts(s, &after), 0);
	EQ(after.submitted, before.submitted);
	gm_put(&peer.refuse, 0);
	EQ(run_job(s, 0, &job), 0);
	gpumap_session_close(s);
}

static void only_the_source_of_a_copy_may_be_elsewhere(void)
{
	uint32_t before = gm_get(&peer.reached);
	struct gpumap_session *s = open_session(16, 0);
	uint64_t mine = filled(s, 0, 1), theirs = filled(s, 1, 2);
	struct gpumap_job job = copy_of(NULL, mine, N);

	job.dst_buffer = theirs;
	EQ(gpumap_submit(s, 0, &job, 1), -EOPNOTSUPP);
	OK(strstr(gpumap_refusal(map), "submit the job to that row") != NULL);
	job.dst_buffer = mine;
	job.src_buffer = theirs;
	for (uint32_t op = GPUMAP_OP_SCALE; op <= GPUMAP_OP_AXPY; op++) {
		job.op = op;
		EQ(gpumap_submit(s, 0, &job, 1), -EOPNOTSUPP);
		OK(strstr(gpumap_refusal(map), "COPY it to this row") != NULL);
	}
	job.op = GPUMAP_OP_COPY;
	job.src_at = 4;
	EQ(gpumap_submit(s, 0, &job, 1), -ERANGE);
	EQ(gm_get(&peer.reached), before);
	job.src_at = 0;
	EQ(run_job(s, 0, &job), 0);
	gpumap_session_close(s);
}

TAP_CASE()
{
	if (!client_begin("named"))
		return tap_done();
	a_row_is_told_once();
	the_next_worker_is_told_again();
	a_job_is_for_one_worker();
	a_free_ends_it_first();
	a_refusal_submits_nothing();
	only_the_source_of_a_copy_may_be_elsewhere();
	return client_end();
}
