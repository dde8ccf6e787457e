/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Jobs, credit, arenas and scatter against a peer in a thread. */

#include "tests/support/peer/peer_session.h"

/* ---- jobs ---------------------------------------------------------------- */

static void jobs_are_done_in_order(void)
{
	struct gpumap_session *s = open_session(0, 0);
	float *x = floats(s, 1, 1000), *y = floats(s, 1, 1000);
	struct gpumap_job jobs[4] = { fill(x, 1000, 3), fill(y, 1000, 1) };
	struct gpumap_done done[8];
	int got = 0;

	jobs[2] = (struct gpumap_job){ .op = GPUMAP_OP_AXPY,
				       .dtype = GPUMAP_DTYPE_F32,
				       .dst = y,
				       .src = x,
				       .n = 1000,
				       .alpha = 2 };
	jobs[3] = (struct gpumap_job){ .op = GPUMAP_OP_COPY,
				       .dtype = GPUMAP_DTYPE_F32,
				       .dst = x,
				       .src = y,
				       .n = 500 };
	for (uint32_t i = 0; i < 4; i++)
		jobs[i].cookie = 100 + i;
	EQ(gpumap_submit(s, 1, jobs, 4), 0);
	while (got < 4) {
		int ret = gpumap_wait(s, done + got, 8 - (uint32_t)got,
				      GPUMAP_NO_DEADLINE);

		if (ret < 0) {
			EQ(ret, 0);
			break;
		}
		got += ret;
	}
	EQ(got, 4);
	for (uint32_t i = 0; i < 4; i++)
		OK(done[i].cookie == 100 + i && done[i].status == 0 &&
		   done[i].row == 1);
	OK(y[0] == 7 && y[999] == 7 && x[499] == 7 && x[500] == 3);
	EQ(gpumap_wait(s, done, 8, GPUMAP_NO_DEADLINE), -ENODATA);
	EQ(gpumap_poll(s, done, 8), 0);
	gpumap_session_close(s);
	gpumap_session_close(NULL);
}

static void wrong_jobs_are_not_submitted(void)
{
	struct gpumap_session *s = open_session(16, 0);
	float *x = floats(s, 0, 100);
	struct gpumap_job good = fill(x, 100, 1), bad[2] = { good, good };
	struct gpumap_session_counts counts = { .size = sizeof(counts) };
	float outside;

	EQ(gpumap_submit(s, 0, &good, 0), -EINVAL);
	EQ(gpumap_submit(s, 0, &good, 17), -EINVAL);
	EQ(gpumap_submit(s, PEER_ROWS, &good, 1), -ENODEV);
	bad[1].op = 200;
	EQ(gpumap_submit(s, 0, bad, 2), -EINVAL);
	bad[1] = good;
	bad[1].dtype = 99;
	EQ(gpumap_submit(s, 0, bad, 2), -EINVAL);
	bad[1].dtype = GPUMAP_DTYPE_BOOL; /* only tensors have it */
	EQ(gpumap_submit(s, 0, bad, 2), -EINVAL);
	bad[1].dtype = good.dtype;
	bad[1].op = GPUMAP_OP_FREE; /* no job's */
	EQ(gpumap_submit(s, 0, bad, 2), -EINVAL);
	bad[1].op = GPUMAP_OP_CAST;
	bad[1].to = 99;
	EQ(gpumap_submit(s, 0, bad, 2), -EINVAL);
	EQ(gpumap_scatter(s, &bad[1], NULL, NULL, 0), -EINVAL);
	bad[1] = good;
	bad[1].dst = &outside;
	EQ(gpumap_submit(s, 0, bad, 2), -ERANGE);
	bad[1].dst = NULL;
	EQ(gpumap_submit(s, 0, bad, 2), -ERANGE);
	bad[1] = good;
	bad[1].op = GPUMAP_OP_COPY; /* without a source */
	EQ(gpumap_submit(s, 0, bad, 2), -ERANGE);
	bad[1] = good;
	bad[1].spare[3] = 1; /* a field of a later version */
	EQ(gpumap_submit(s, 0, bad, 2), -EINVAL);
	EQ(gpumap_session_counts(s, &counts), 0);
	EQ(counts.submitted, 0);
	counts.size = SIZE_MAX;
	EQ(gpumap_session_counts(s, &counts), -E2BIG);
	gpumap_session_close(s);
}

static void without_credit_nothing_is_submitted(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_job nops[16] = { { .op = GPUMAP_OP_NOP } };
	struct gpumap_done done[16];
	int got = 0;

	for (uint32_t i = 0; i < 16; i++)
		nops[i].cookie = i;
	gm_put(&peer.hold, 1);
	EQ(gpumap_credit(s, 0), 16);
	EQ(gpumap_credit(s, PEER_ROWS), -ENODEV);
	EQ(gpumap_submit(s, 0, nops, 10), 0);
	EQ(gpumap_credit(s, 0), 6);
	EQ(gpumap_submit(s, 0, nops, 7), -EAGAIN);
	EQ(gpumap_submit(s, 0, nops + 10, 6), 0);
	EQ(gpumap_credit(s, 0), 0);
	EQ(gpumap_submit(s, 0, nops, 1), -EAGAIN);
	EQ(gpumap_poll(s, done, 16), 0);
	EQ(gpumap_wait(s, done, 16, soon()), -ETIME);
	EQ(gpumap_wait(s, done, 16, 0), -ETIME);
	gm_put(&peer.hold, 0);
	for (int i = 0; i < 16 && got >= 0 && got < 16; i++)
		got += gpumap_wait(s, done + got, 16 - (uint32_t)got,
				   GPUMAP_NO_DEADLINE);
	EQ(got, 16);
	EQ(done[15].cookie, 15);
	EQ(gpumap_credit(s, 0), 16);
	EQ(gpumap_submit(s, 0, nops, 16), 0);
	gpumap_session_close(s); /* with jobs in flight */
}

/* Jobs that end out of order free their slots out of order: one that is still
 * in flight keeps its own, and what would go into it has to wait. */
static void a_late_job_keeps_its_slot(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_done done[16];
	uint64_t sum = 0, want = 0;
	bool in_place = true;

	gm_put(&peer.backwards, 1);
	for (uint64_t i = 0, taken = 0; taken < 2000;) {
		struct gpumap_job nop = { .op = GPUMAP_OP_NOP, .cookie = i };
		int ret;

		while (i < 2000 && gpumap_submit(s, 2, &nop, 1) == 0) {
			want += i;
			nop.cookie = ++i;
		}
		ret = gpumap_wait(s, done, 3, GPUMAP_NO_DEADLINE);
		for (int k = 0; k < ret; k++)
			sum += done[k].cookie;
		in_place &= ret > 0;
		if (ret <= 0)
			break;
		taken += (uint64_t)ret;
	}
	OK(in_place);
	EQ(sum, want);
	gm_put(&peer.backwards, 0);
	gpumap_session_close(s);
}

/* Turns go round: a row with much to say does not silence another. */
static void rows_take_turns(void)
{
	struct gpumap_session *s = open_session(64, 0);
	struct gpumap_job nops[32] = { { .op = GPUMAP_OP_NOP } };
	struct gpumap_done done;
	uint32_t first_of[2] = { 99, 99 };

	gm_put(&peer.hold, 3);
	EQ(gpumap_submit(s, 0, nops, 32), 0);
	EQ(gpumap_submit(s, 1, nops, 2), 0);
	gm_put(&peer.served, 0);
	gm_put(&peer.hold, 0);
	while (gm_get(&peer.served) < 34)
		usleep(100);
	for (uint32_t i = 0; i < 34; i++) {
		EQ(gpumap_poll(s, &done, 1), 1);
		if (done.row < 2 && first_of[done.row] == 99)
			first_of[done.row] = i;
	}
	OK(first_of[0] < 2 && first_of[1] < 2);
	gpumap_session_close(s);
}

static void statuses_come_through(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP, .cookie = 5 };
	struct gpumap_done done;

	gm_put(&peer.status, (uint32_t)-EIO);
	EQ(gpumap_submit(s, 0, &nop, 1), 0);
	EQ(gpumap_wait(s, &done, 1, GPUMAP_NO_DEADLINE), 1);
	EQ(done.status, -EIO);
	gm_put(&peer.status, 0);
	gpumap_session_close(s);
}

/* While the worker is awake the client does not ring; when it sleeps, once per
 * sleep. */
static void doorbells_ring_for_sleepers(void)
{
	struct gpumap_session *s = open_session(64, 0);
	struct gpumap_session_counts counts = { .size = sizeof(counts) };
	struct gpumap_job nops[8] = { { .op = GPUMAP_OP_NOP } };
	struct gpumap_done done[8];
	bool good = true;

	for (int i = 0; i < 50; i++) {
		good &= gpumap_submit(s, 0, nops, 8) == 0;
		for (int got = 0; got < 8 && good;) {
			int ret = gpumap_wait(s, done, 8, GPUMAP_NO_DEADLINE);

			good &= ret > 0;
			got += ret;
		}
		if (i % 10 == 0)
			usleep(2000);
	}
	OK(good);
	EQ(gpumap_session_counts(s, &counts), 0);
	EQ(counts.submitted, 400);
	EQ(counts.completed, 400);
	OK(counts.doorbells >= 1 && counts.doorbells <= 50);
	gpumap_session_close(s);
}

/* ---- arena --------------------------------------------------------------- */

static void arenas_are_per_row(void)
{
	struct gpumap_session *s = open_session(16, 0);
	char *a = (char *)floats(s, 0, 16), *b = (char *)floats(s, 1, 16);
	void *memory = NULL;

	EQ(b - a, PEER_RANGE);
	EQ(gpumap_alloc(s, 0, PEER_RANGE, &memory), -ENOMEM);
	EQ(gpumap_alloc(s, 0, 0, &memory), -EINVAL);
	EQ(gpumap_alloc(s, PEER_ROWS, 1, &memory), -ENODEV);
	OK(memory == NULL);
	EQ(gpumap_free(s, a + 64), -EINVAL);
	EQ(gpumap_free(s, &memory), -EINVAL);
	EQ(gpumap_free(s, a), 0);
	EQ(gpumap_free(s, a), -EINVAL);
	EQ(gpumap_free(s, NULL), 0);
	EQ(gpumap_alloc(s, 0, PEER_RANGE, &memory), 0);
	OK(memory == a);
	gpumap_session_close(s);
}

/* ---- scatter ------------------------------------------------------------- */

static void a_scatter_covers_every_element_once(void)
{
	struct gpumap_session *s = open_session(0, 0);
	float *y = floats(s, 0, 10007), *x = floats(s, 1, 10007);
	struct gpumap_job job = fill(x, 10007, 2);
	struct gpumap_tile tiles[4];
	bool right = true;

	EQ(gpumap_scatter(s, &job, NULL, NULL, 0), 2); /* rows 0 and 1 */
	job = fill(y, 10007, 5);
	EQ(gpumap_scatter(s, &job, NULL, tiles, 4), 2);
	EQ(tiles[0].row, 0);
	EQ(tiles[0].n, 7505); /* 3 to 1: 7505.25 and 2501.75 */
	EQ(tiles[1].first, 7505);
	EQ(tiles[1].n, 2502);
	EQ(tiles[2].n, 0);
	EQ(tiles[3].status, 0);
	job = (struct gpumap_job){ .op = GPUMAP_OP_AXPY,
				   .dtype = GPUMAP_DTYPE_F32,
				   .dst = y,
				   .src = x,
				   .n = 10007,
				   .alpha = 10 };
	EQ(gpumap_scatter(s, &job, NULL, tiles, 4), 2);
	for (uint32_t i = 0; i < 10007; i++)
		right &= y[i] == 25;
	OK(right);
	job.n = 0;
	EQ(gpumap_scatter(s, &job, NULL, tiles, 4), 0);
	gpumap_session_close(s);
}

static void a_scatter_goes_where_it_is_sent(void)
{
	static const uint32_t rows[] = { 2, 0, 1 }, twice[] = { 1, 1 },
			      far[] = { 0, 9 };
	static const double weights[] = { 1, 0, 1 };
	struct gpumap_scatter_opts opts = { .size = sizeof(opts),
					    .rows = rows,
					    .weights = weights,
					    .n_rows = 3 };
	struct gpumap_session *s = open_session(0, 0);
	float *x = floats(s, 0, 100);
	struct gpumap_job job = fill(x, 100, 2);
	struct gpumap_tile tiles[3];

	EQ(gpumap_scatter(s, &job, &opts, tiles, 3), 2);
	EQ(tiles[0].row, 2);
	EQ(tiles[0].n, 50);
	EQ(tiles[1].row, 1);
	EQ(tiles[1].first, 50);
	EQ(gpumap_scatter(s, &job, &opts, tiles, 1), -ENOBUFS);
	opts.weights = NULL; /* the scores */
	opts.rows = rows + 1;
	opts.n_rows = 2;
	EQ(gpumap_scatter(s, &job, &opts, tiles, 3), 2);
	EQ(tiles[0].n, 75);
	opts.rows = twice;
	EQ(gpumap_scatter(s, &job, &opts, tiles, 3), -EINVAL);
	opts.rows = far;
	EQ(gpumap_scatter(s, &job, &opts, tiles, 3), -ENODEV);
	opts.n_rows = 0;
	EQ(gpumap_scatter(s, &job, &opts, tiles, 3), -ENODEV);
	opts.rows = NULL;
	opts.n_rows = 2;
	EQ(gpumap_scatter(s, &job, &opts, tiles, 3), -EINVAL);
	opts.n_rows = 0;
	opts.flags = GPUMAP_SCATTER_FALLBACK << 1;
	EQ(gpumap_scatter(s, &job, &opts, tiles, 3), -E2BIG);
	job.n = UINT64_MAX / 2;
	EQ(gpumap_scatter(s, &job, NULL, tiles, 3), -ERANGE);
	job.op = GPUMAP_OP_NOP; /* which touches nothing, however much */
	EQ(gpumap_scatter(s, &job, NULL, tiles, 3), 2);
	EQ(tiles[0].n + tiles[1].n, UINT64_MAX / 2);
	gpumap_session_close(s);
}

/* All that a scatter over rows 0 and 1 says, one of which fails. */
static int scatter_failing(struct gpumap_session *s, uint32_t failing,
			   int32_t status, struct gpumap_tile tiles[2],
			   uint32_t *ret_served)
{
	struct gpumap_scatter_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SCATTER_FALLBACK };
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP, .n = 100 };
	uint32_t before = gm_get(&peer.served);
	int ret;

	gm_put(&peer.sound, ~failing);
	gm_put(&peer.status, (uint32_t)status);
	ret = gpumap_scatter(s, &nop, &opts, tiles, 2);
	gm_put(&peer.status, 0);
	gm_put(&peer.sound, 0);
	*ret_served = gm_get(&peer.served) - before;
	return ret;
}

/* An error of the row is tried on another row, once; an error of the job would
 * be the same there. */
static void only_a_rows_fault_is_made_up_for(void)
{
	static const int32_t rows_own[] = { -EIO, -ENODEV, -EOPNOTSUPP,
					    -ENOMEM };
	static const int32_t jobs_own[] = { -EINVAL,    -ERANGE,    -ESTALE,
					    -EREMOTEIO, -ENODATA,   -EACCES,
					    -ETIME,     -ECANCELED, -EFAULT };
	struct gpumap_session *s = open_session(0, 0);
	struct gpumap_tile tiles[2];
	uint32_t served;

	for (uint32_t i = 0; i < sizeof(rows_own) / sizeof(*rows_own); i++) {
		/* Row 0 is READY, and the first: not the one to ask again. */
		for (uint32_t row = 0; row < 2; row++) {
			EQ(scatter_failing(s, 1u << row, rows_own[i], tiles,
					   &served),
			   2);
			EQ(tiles[row].row, 1 - row);
			EQ(tiles[row].status, 0);
			EQ(tiles[row].n, row == 0 ? 75 : 25);
			EQ(served, 3);
		}
	}
	for (uint32_t i = 0; i < sizeof(jobs_own) / sizeof(*jobs_own); i++) {
		EQ(scatter_failing(s, 2, jobs_own[i], tiles, &served),
		   jobs_own[i]);
		OK(tiles[0].row == 0 && tiles[0].status == 0);
		OK(tiles[1].row == 1 && tiles[1].status == jobs_own[i]);
		EQ(served, 2);
	}
	/* Where no row is left the error stays. */
	EQ(scatter_failing(s, 3, -EIO, tiles, &served), -EIO);
	OK(tiles[0].status == -EIO && tiles[1].status == -EIO);
	EQ(served, 2);
	gpumap_session_close(s);
}

/* Credit of every row is there before anything is submitted to any. */
static void a_scatter_without_credit_submits_nothing(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_job nops[16] = { { .op = GPUMAP_OP_NOP } };
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP, .n = 100 };
	struct gpumap_session_counts counts = { .size = sizeof(counts) };
	struct gpumap_done done[16];
	int n = 0;

	for (uint32_t full = 0; full < 2; full++) {
		gm_put(&peer.hold, 1u << full);
		EQ(gpumap_submit(s, full, nops, 16), 0);
		EQ(gpumap_scatter(s, &nop, NULL, NULL, 0), -EAGAIN);
		EQ(gpumap_session_counts(s, &counts), 0);
		EQ(counts.submitted, 16 * (full + 1) + 2 * full);
		gm_put(&peer.hold, 0);
		for (n = 0; n < 16;) {
			int got = gpumap_wait(s, done, 16, GPUMAP_NO_DEADLINE);

			if (!OK(got > 0))
				break;
			n += got;
		}
		EQ(gpumap_scatter(s, &nop, NULL, NULL, 0), 2);
	}
	gpumap_session_close(s);
}

static void rows_that_are_not_ready_are_left_out(void)
{
	struct gpumap_session *s = open_session(0, 0);
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP, .n = 10 };
	struct gpumap_tile tiles[3];

	moving(0, GPUMAP_DEVICE_FAILED, 3);
	EQ(gpumap_scatter(s, &nop, NULL, tiles, 3), 1);
	EQ(tiles[0].row, 1);
	moving(1, GPUMAP_DEVICE_LOST, 1);
	EQ(gpumap_scatter(s, &nop, NULL, tiles, 3), -ENODEV);
	moving(0, GPUMAP_DEVICE_READY, 3);
	moving(1, GPUMAP_DEVICE_READY, 1);
	EQ(gpumap_scatter(s, &nop, NULL, tiles, 3), 2);
	gpumap_session_close(s);
}

/* Jobs that end while a scatter waits stay for the next poll, and keep their
 * credit until then. */
static void other_jobs_wait_for_the_poll(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP, .n = 10 };
	struct gpumap_done done[32];
	bool good = true;

	for (nop.cookie = 0; nop.cookie < 15; nop.cookie++)
		good &= gpumap_submit(s, 0, &nop, 1) == 0;
	OK(good);
	EQ(gpumap_scatter(s, &nop, NULL, NULL, 0), 2);
	EQ(gpumap_submit(s, 0, &nop, 1), -EAGAIN);
	EQ(gpumap_scatter(s, &nop, NULL, NULL, 0), -EAGAIN);
	EQ(gpumap_poll(s, done, 4), 4);
	EQ(done[3].cookie, 3);
	EQ(gpumap_scatter(s, &nop, NULL, NULL, 0), 2);
	for (int got = 4; got < 15;) {
		int ret = gpumap_wait(s, done, 32, GPUMAP_NO_DEADLINE);

		if (ret < 0) {
			EQ(ret, 1);
			break;
		}
		got += ret;
	}
	EQ(gpumap_wait(s, done, 32, GPUMAP_NO_DEADLINE), -ENODATA);
	gpumap_session_close(s);
}

static void a_scatter_that_is_late_leaves_its_tiles(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_scatter_opts opts = { .size = sizeof(opts) };
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP, .n = 10 };
	struct gpumap_session_counts counts = { .size = sizeof(counts) };
	uint64_t limit_ns = 20000000, n = 2;
	struct gpumap_tile tiles[2];
	struct gpumap_done done;
	bool silent = true;
	int tries = 0;

	EQ(gpumap_scatter(s, &nop, NULL, NULL, 0), 2);
	gm_put(&peer.hold, 2);
	/* On a slow machine it may be the time of the first tile, too. */
	do {
		opts.deadline_ns = soon() + limit_ns;
		EQ(gpumap_scatter(s, &nop, &opts, tiles, 2), -ETIME);
		limit_ns *= 4;
		n += 2;
	} while (tiles[0].status == -ETIME && n < 14);
	EQ(tiles[0].status, 0);
	EQ(tiles[1].status, -ETIME);
	EQ(gpumap_wait(s, &done, 1, GPUMAP_NO_DEADLINE), -ENODATA);
	gm_put(&peer.hold, 0);
	/* Their ends are not reported, and give their credit back. */
	do {
		silent &= gpumap_poll(s, &done, 1) == 0;
		silent &= gpumap_session_counts(s, &counts) == 0;
		usleep(1000);
	} while (counts.completed < n && tries++ < 30000);
	OK(silent);
	EQ(counts.completed, n);
	gpumap_session_close(s);
}

static void the_first_failure_is_the_scatters(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP, .n = 10 };
	struct gpumap_tile tiles[2];

	gm_put(&peer.status, (uint32_t)-EIO);
	EQ(gpumap_scatter(s, &nop, NULL, tiles, 2), -EIO);
	EQ(tiles[0].status, -EIO);
	EQ(tiles[1].status, -EIO);
	gm_put(&peer.status, 0);
	EQ(gpumap_scatter(s, &nop, NULL, tiles, 2), 2);
	gpumap_session_close(s);
}

TAP_CASE()
{
	if (!client_begin("client"))
		return tap_done();
	jobs_are_done_in_order();
	wrong_jobs_are_not_submitted();
	without_credit_nothing_is_submitted();
	a_late_job_keeps_its_slot();
	rows_take_turns();
	statuses_come_through();
	doorbells_ring_for_sleepers();
	arenas_are_per_row();
	a_scatter_covers_every_element_once();
	a_scatter_goes_where_it_is_sent();
	only_a_rows_fault_is_made_up_for();
	a_scatter_without_credit_submits_nothing();
	rows_that_are_not_ready_are_left_out();
	other_jobs_wait_for_the_poll();
	a_scatter_that_is_late_leaves_its_tiles();
	the_first_failure_is_the_scatters();
	return client_end();
}
