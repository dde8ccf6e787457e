/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Memory of a device, against a peer in a thread: the jobs that may use it, how
 * it is made and freed, and what becomes of it when one side dies.
 */

#include <sys/wait.h>

#include "tests/support/peer/peer_session.h"

#define N 1000u

static uint64_t alloc_on(struct gpumap_session *s, uint32_t row, uint64_t bytes)
{
	uint64_t buffer = 0;

	EQ(gpumap_buffer_alloc(s, row, bytes, 0, GPUMAP_NO_DEADLINE, &buffer),
	   0);
	OK(buffer != 0);
	return buffer;
}

/* One job from its submission to its end; what came of it. */
static int run(struct gpumap_session *s, uint32_t row, struct gpumap_job job)
{
	struct gpumap_done done = { .status = 1 };
	int ret;

	job.cookie = 42;
	ret = gpumap_submit(s, row, &job, 1);
	if (ret != 0)
		return ret;
	ret = gpumap_wait(s, &done, 1, GPUMAP_NO_DEADLINE);
	return ret == 1 && done.cookie == 42 ? done.status : 1000 + ret;
}

static struct gpumap_job copy(uint64_t n)
{
	return (struct gpumap_job){ .op = GPUMAP_OP_COPY,
				    .dtype = GPUMAP_DTYPE_F32,
				    .n = n };
}

/* Wait until the peer has as many: a free has no answer. */
static bool settles_at(uint32_t n)
{
	for (int i = 0; i < 30000 && gm_get(&peer.n_buffers) != n; i++)
		usleep(1000);
	return gm_get(&peer.n_buffers) == n;
}

static void buffers_are_described(void)
{
	struct gpumap_buffer_info info = { .size = sizeof(info) };
	struct gpumap_session *s = open_session(16, 0);
	uint64_t a = alloc_on(s, 1, N);

	EQ(gpumap_buffer_info(s, a, &info), 0);
	EQ(info.bytes, N);
	EQ(info.row, 1);
	EQ(info.kind, GPUMAP_BUFFER_ALLOCATED);
	EQ(info.flags, 0);
	info.size = sizeof(info.size);
	EQ(gpumap_buffer_info(s, a, &info), -EINVAL);
	info.size = sizeof(info);
	EQ(gpumap_buffer_free(s, a), 0);
	EQ(gpumap_buffer_info(s, a, &info), -ESTALE);
	EQ(gpumap_buffer_info(s, 0, &info), -ERANGE);
	EQ(info.kind, GPUMAP_BUFFER_ALLOCATED); /* untouched by what failed */
	gpumap_session_close(s);
}

static void files_are_described(void)
{
	struct gpumap_buffer_info info = { .size = sizeof(info) };
	struct gpumap_session *s = open_session(16, 0);
	int fd = peer_memfd(8192, true);
	uint64_t memory = 0, source = 0;

	EQ(gpumap_buffer_register(s, fd, 4096, 100, GPUMAP_BUFFER_READ_ONLY,
				  &memory),
	   0);
	EQ(gpumap_buffer_info(s, memory, &info), 0);
	EQ(info.kind, GPUMAP_BUFFER_REGISTERED);
	EQ(info.bytes, 100);
	EQ(info.row, UINT32_MAX);
	EQ(info.flags, GPUMAP_BUFFER_READ_ONLY);
	EQ(gpumap_buffer_register_file(s, fd, 0, &source), 0);
	EQ(gpumap_buffer_info(s, source, &info), 0);
	EQ(info.kind, GPUMAP_BUFFER_FILE);
	EQ(info.bytes, 0);
	EQ(info.row, UINT32_MAX);
	EQ(info.flags, 0);
	close(fd);
	gpumap_session_close(s);
}

/* ---- jobs ---------------------------------------------------------------- */

static void jobs_reach_buffers(void)
{
	struct gpumap_session *s = open_session(16, 0);
	uint64_t a = alloc_on(s, 1, N * 4), b = alloc_on(s, 1, N * 4);
	float *x = floats(s, 1, N);
	struct gpumap_job job = fill(NULL, N, 3);

	OK(a != b);
	job.dst_buffer = a;
	EQ(run(s, 1, job), 0);
	job = fill(x, N, 1);
	EQ(run(s, 1, job), 0);
	/* x[10..19] = a[0..9], then into the middle of b, and back. */
	job = copy(10);
	job.dst = x + 10;
	job.src_buffer = a;
	EQ(run(s, 1, job), 0);
	OK(x[9] == 1 && x[10] == 3 && x[19] == 3 && x[20] == 1);
	job = copy(20);
	job.dst_buffer = b;
	job.dst_at = 4 * 100;
	job.src = x;
	EQ(run(s, 1, job), 0);
	job = (struct gpumap_job){ .op = GPUMAP_OP_AXPY,
				   .dtype = GPUMAP_DTYPE_F32,
				   .dst_buffer = b,
				   .dst_at = 4 * 100,
				   .src_buffer = a,
				   .src_at = 4 * 50,
				   .n = 20,
				   .alpha = 2 };
	EQ(run(s, 1, job), 0);
	job = copy(30);
	job.dst = x;
	job.src_buffer = b;
	job.src_at = 4 * 95;
	EQ(run(s, 1, job), 0);
	OK(x[4] == 0 && x[5] == 7 && x[14] == 7 && x[15] == 9 && x[24] == 9 &&
	   x[25] == 0);
	/* Pointers are of no account where there are buffers. */
	job = copy(N);
	job.dst_buffer = b;
	job.dst = &job;
	job.src_buffer = a;
	job.src = &job;
	EQ(run(s, 1, job), 0);
	EQ(gpumap_buffer_free(s, a), 0);
	EQ(gpumap_buffer_free(s, b), 0);
	EQ(gpumap_buffer_free(s, 0), 0);
	OK(settles_at(0));
	gpumap_session_close(s);
}

/* The last element of a buffer can be named, and none behind it. */
static void elements_have_their_size(void)
{
	static const struct {
		uint32_t dtype;
		uint32_t bytes;
	} of[] = {
		{ GPUMAP_DTYPE_U8, 1 },   { GPUMAP_DTYPE_F16, 2 },
		{ GPUMAP_DTYPE_BF16, 2 }, { GPUMAP_DTYPE_F32, 4 },
		{ GPUMAP_DTYPE_I32, 4 },  { GPUMAP_DTYPE_I64, 8 },
		{ GPUMAP_DTYPE_F64, 8 },  { GPUMAP_DTYPE_U16, 2 },
		{ GPUMAP_DTYPE_U32, 4 },  { GPUMAP_DTYPE_U64, 8 },
	};
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_done done;

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		struct gpumap_job job = { .op = GPUMAP_OP_FILL,
					  .dtype = of[i].dtype };
		uint64_t buffer = 0;

		EQ(gpumap_buffer_alloc(s, 0, 24 * of[i].bytes, 0,
				       GPUMAP_NO_DEADLINE, &buffer),
		   0);
		/* The peer need not know them all. */
		gm_put(&peer.status, (uint32_t)-EOPNOTSUPP);
		job.dst_buffer = buffer;
		job.dst_at = 7 * of[i].bytes;
		job.n = 18;
		if (!EQ(gpumap_submit(s, 0, &job, 1), -ERANGE))
			NOTE("dtype %u", of[i].dtype);
		job.n = 17;
		if (!EQ(gpumap_submit(s, 0, &job, 1), 0))
			NOTE("dtype %u", of[i].dtype);
		EQ(gpumap_wait(s, &done, 1, GPUMAP_NO_DEADLINE), 1);
		gm_put(&peer.status, 0);
		EQ(gpumap_buffer_free(s, buffer), 0);
	}
	gpumap_session_close(s);
}

static void wrong_buffers_are_not_submitted(void)
{
	struct gpumap_session *s = open_session(16, 0), *t;
	uint64_t a = alloc_on(s, 1, N * 4), gone = alloc_on(s, 1, 64);
	struct gpumap_session_counts before = { .size = sizeof(before) }, after;
	struct gpumap_job good = copy(1), job;
	const struct {
		uint64_t handle;
		int error;
	} forged[] = {
		{ gone, -ESTALE },                    /* given back */
		{ a + 1, -ESTALE },                   /* another place */
		{ a + (UINT64_C(1) << 32), -ESTALE }, /* another generation */
		{ a ^ UINT64_C(1) << 22, -ESTALE },   /* another row */
		{ a ^ UINT64_C(1) << 30, -ESTALE },   /* another kind */
		{ a + (UINT64_C(2) << 32), -EPERM },  /* not given out */
		{ a - (UINT64_C(1) << 32), -EPERM },  /* by this session */
		{ gm_handle_make(gm_handle_generation(a), 0, 1, 0x3fffff),
		  -ERANGE },
		{ UINT64_MAX, -ERANGE },
		{ 1, -ERANGE },
	};

	good.dst = floats(s, 1, N);
	good.src = good.dst;
	EQ(gpumap_buffer_free(s, gone), 0);
	OK(settles_at(1));
	EQ(gpumap_session_counts(s, &before), 0);
	after = before;
	for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
		job = good;
		job.dst_buffer = forged[i].handle;
		EQ(gpumap_submit(s, 1, &job, 1), forged[i].error);
		job = good;
		job.src_buffer = forged[i].handle;
		EQ(gpumap_submit(s, 1, &job, 1), forged[i].error);
		EQ(gpumap_buffer_free(s, forged[i].handle), forged[i].error);
		EQ(gpumap_buffer_unregister(s, forged[i].handle),
		   forged[i].error);
		EQ(gpumap_buffer_unexport(s, forged[i].handle),
		   forged[i].error);
	}
	EQ(gpumap_session_counts(s, &after), 0);
	EQ(after.submitted, before.submitted);
	/* Another session's is nothing here. */
	t = open_session(16, 0);
	job = fill(NULL, 1, 0);
	job.dst_buffer = a;
	EQ(gpumap_submit(t, 1, &job, 1), -EPERM);
	EQ(gpumap_buffer_free(t, a), -EPERM);
	gpumap_session_close(t);
	gpumap_session_close(s);
}

static void wrong_jobs_on_buffers_are_not_submitted(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_session_counts before = { .size = sizeof(before) }, after;
	uint64_t a = alloc_on(s, 1, N * 4);
	struct gpumap_job good = copy(1), job;

	good.dst = floats(s, 1, N);
	good.src = good.dst;
	EQ(gpumap_session_counts(s, &before), 0);
	after = before;
	/* Elements that end behind the last, or wrap. */
	job = good;
	job.src_buffer = a;
	job.n = N;
	job.src_at = 1;
	EQ(gpumap_submit(s, 1, &job, 1), -ERANGE);
	job.src_at = UINT64_MAX - 3;
	job.n = 1;
	EQ(gpumap_submit(s, 1, &job, 1), -ERANGE);
	job.src_at = 0;
	job.n = UINT64_MAX / 4 + 2;
	EQ(gpumap_submit(s, 1, &job, 1), -ERANGE);
	job.n = 1;
	job.dst = NULL; /* the other operand is checked as always */
	EQ(gpumap_submit(s, 1, &job, 1), -ERANGE);
	job = good;
	job.dst_buffer = a;
	EQ(gpumap_submit(s, 0, &job, 1), -EOPNOTSUPP);
	/* Requests that make and free buffers are no jobs. */
	job.op = GPUMAP_OP_ALLOC;
	EQ(gpumap_submit(s, 1, &job, 1), -EINVAL);
	job.op = GPUMAP_OP_FREE;
	EQ(gpumap_submit(s, 1, &job, 1), -EINVAL);
	EQ(gpumap_session_counts(s, &after), 0);
	EQ(after.submitted, before.submitted);
	gpumap_session_close(s);
}

/* ---- allocation ---------------------------------------------------------- */

static void what_cannot_be_had_leaves_nothing(void)
{
	struct gpumap_session *s = open_session(16, 0);
	const uint64_t soon_enough = GPUMAP_NO_DEADLINE;
	uint64_t buffer = 7;

	EQ(gpumap_buffer_alloc(s, 1, 0, 0, soon_enough, &buffer), -EINVAL);
	EQ(gpumap_buffer_alloc(s, 1, 1, GPUMAP_BUFFER_READ_ONLY, soon_enough,
			       &buffer),
	   -EINVAL);
	EQ(gpumap_buffer_alloc(
		   s, 1, 1, GPUMAP_BUFFER_READ_ONLY | GPUMAP_BUFFER_EXPORTABLE,
		   soon_enough, &buffer),
	   -EINVAL);
	EQ(gpumap_buffer_register(
		   s, 0, 0, 1,
		   GPUMAP_BUFFER_READ_ONLY | GPUMAP_BUFFER_EXPORTABLE, &buffer),
	   -EINVAL);
	EQ(gpumap_buffer_import(
		   s, 1, GPUMAP_BUFFER_READ_ONLY | GPUMAP_BUFFER_EXPORTABLE,
		   &buffer),
	   -EINVAL);
	EQ(gpumap_buffer_alloc(s, 1, 1, 4, soon_enough, &buffer), -E2BIG);
	EQ(gpumap_buffer_alloc(s, PEER_ROWS, 1, 0, soon_enough, &buffer),
	   -ENODEV);
	EQ(gpumap_buffer_alloc(s, 1, PEER_DEVICE + 1, 0, soon_enough, &buffer),
	   -ENOMEM);
	gm_put(&peer.status, (uint32_t)-EDQUOT);
	for (int i = 0; i < 5000; i++)
		if (gpumap_buffer_alloc(s, 1, 1, 0, soon_enough, &buffer) !=
		    -EDQUOT) {
			OK(!"an allocation that is refused leaves a place");
			break;
		}
	gm_put(&peer.status, 0);
	EQ(buffer, 7);
	EQ(gm_get(&peer.n_buffers), 0);
	buffer = alloc_on(s, 1, 1);
	EQ(gm_get(&peer.n_buffers), 1);
	gpumap_session_close(s);
}

/* The worker answers when the caller is gone: nothing may be left over, and the
 * place not be given to another before. */
static void an_allocation_that_is_late_is_freed(void)
{
	struct gpumap_session *s = open_session(16, 0);
	uint64_t late = 0, other;

	EQ(gpumap_buffer_free(s, alloc_on(s, 1, 64)), 0);
	OK(settles_at(0));
	gm_put(&peer.hold, 2);
	EQ(gpumap_buffer_alloc(s, 1, 64, 0, soon(), &late), -ETIME);
	EQ(late, 0);
	EQ(gpumap_buffer_alloc(s, 1, 64, 0, 0, &late), -ETIME);
	gm_put(&peer.hold, 0);
	/* Behind both, and behind what frees them. */
	other = alloc_on(s, 1, 64);
	EQ(gm_get(&peer.n_buffers), 1);
	EQ(gpumap_buffer_free(s, other), 0);
	OK(settles_at(0));
	EQ(gpumap_poll(s, &(struct gpumap_done){ 0 }, 1), 0);
	gpumap_session_close(s);
}

static void allocating_takes_credit(void)
{
	struct gpumap_session *s = open_session(16, 0);
	uint64_t a = alloc_on(s, 0, 64), b = 0;
	struct gpumap_job nops[16] = { { .op = GPUMAP_OP_NOP } };
	struct gpumap_done done[16];
	int got = 0;

	gm_put(&peer.hold, 1);
	EQ(gpumap_submit(s, 0, nops, 15), 0);
	EQ(gpumap_buffer_alloc(s, 0, 64, 0, GPUMAP_NO_DEADLINE, &b), -EAGAIN);
	EQ(gpumap_submit(s, 0, nops, 1), 0);
	EQ(gpumap_buffer_free(s, a), -EAGAIN);
	gm_put(&peer.hold, 0);
	for (int ret = 1; ret > 0 && got < 16; got += ret)
		ret = gpumap_wait(s, done, 16, GPUMAP_NO_DEADLINE);
	EQ(got, 16);
	/* Jobs that end meanwhile stay for gpumap_poll(). */
	nops[0].cookie = 5;
	EQ(gpumap_submit(s, 0, nops, 1), 0);
	b = alloc_on(s, 0, 64);
	EQ(gpumap_poll(s, done, 16), 1);
	EQ(done[0].cookie, 5);
	EQ(gpumap_buffer_free(s, a), 0);
	EQ(gpumap_buffer_free(s, b), 0);
	OK(settles_at(0));
	gpumap_session_close(s);
}

/* A program that never takes a completion is not held up by its own frees. */
static void frees_cost_no_credit_for_long(void)
{
	struct gpumap_session *s = open_session(16, 0);
	uint64_t last = 0;
	bool grows = true, good = true;

	for (int i = 0; i < 5000 && good; i++) {
		uint64_t buffer = 0;

		good = gpumap_buffer_alloc(s, (uint32_t)i % 3, 64, 0,
					   GPUMAP_NO_DEADLINE, &buffer) == 0 &&
		       gpumap_buffer_free(s, buffer) == 0;
		grows &= gm_handle_generation(buffer) > last;
		last = gm_handle_generation(buffer);
	}
	OK(good);
	OK(grows);
	OK(settles_at(0));
	gpumap_session_close(s);
}

/* Nor one that only frees: what the worker has done counts. */
static void frees_alone_cost_no_credit_for_long(void)
{
	struct gpumap_session *s = open_session(16, 0);
	uint64_t buffers[50];
	int left = 50;

	for (int i = 0; i < 50; i++)
		buffers[i] = alloc_on(s, 1, 64);
	for (int i = 0; i < 30000 && left > 0; i++) {
		int ret = gpumap_buffer_free(s, buffers[left - 1]);

		if (ret == -EAGAIN)
			usleep(1000);
		else if (ret == 0)
			left--;
		else
			break;
	}
	EQ(left, 0);
	OK(settles_at(0));
	gpumap_session_close(s);
}

static void a_free_waits_for_the_jobs_before_it(void)
{
	struct gpumap_session *s = open_session(16, 0);
	uint64_t a = alloc_on(s, 1, N * 4);
	float *x = floats(s, 1, N);
	struct gpumap_job jobs[2] = { fill(NULL, N, 5), copy(N) };
	struct gpumap_done done[2];
	int got = 0;

	x[N - 1] = 0;
	jobs[0].dst_buffer = a;
	jobs[1].dst = x;
	jobs[1].src_buffer = a;
	gm_put(&peer.hold, 2);
	EQ(gpumap_submit(s, 1, jobs, 2), 0);
	EQ(gpumap_buffer_free(s, a), 0);
	EQ(gpumap_submit(s, 1, jobs, 2), -ESTALE);
	gm_put(&peer.hold, 0);
	while (got >= 0 && got < 2)
		got += gpumap_wait(s, done + got, 2 - (uint32_t)got,
				   GPUMAP_NO_DEADLINE);
	OK(done[0].status == 0 && done[1].status == 0);
	OK(x[N - 1] == 5);
	EQ(gpumap_wait(s, done, 2, GPUMAP_NO_DEADLINE), -ENODATA);
	OK(settles_at(0));
	gpumap_session_close(s);
}

static void there_is_a_most(void)
{
	static uint64_t buffers[GM_BUFFERS_MAX];
	struct gpumap_session *s = open_session(64, 0);
	uint64_t more = 0;
	bool good = true;

	for (uint32_t i = 0; i < GM_BUFFERS_MAX && good; i++)
		good = gpumap_buffer_alloc(s, 0, 8, 0, GPUMAP_NO_DEADLINE,
					   &buffers[i]) == 0;
	OK(good);
	EQ(gpumap_buffer_alloc(s, 0, 8, 0, GPUMAP_NO_DEADLINE, &more), -EDQUOT);
	OK(strstr(gpumap_refusal(map), "4096") != NULL);
	EQ(gpumap_buffer_free(s, buffers[77]), 0);
	/* Its place is there once the worker has let go of it. */
	OK(settles_at(GM_BUFFERS_MAX - 1));
	EQ(gpumap_buffer_alloc(s, 0, 8, 0, GPUMAP_NO_DEADLINE, &more), 0);
	EQ(gm_handle_index(more), gm_handle_index(buffers[77]));
	EQ(gpumap_buffer_free(s, buffers[77]), -ESTALE);
	gpumap_session_close(s);
}

/* ---- deaths -------------------------------------------------------------- */

static void buffers_die_with_their_worker(void)
{
	struct gpumap_session *s = open_session(16, 0);
	uint64_t a = alloc_on(s, 0, 64), b = alloc_on(s, 1, 64), c;
	struct gpumap_job on_a = fill(NULL, 1, 1), on_b = on_a;

	on_a.dst_buffer = a;
	on_b.dst_buffer = b;
	gm_put(&peer.die, 1);
	while (gm_get(&peer.die) != 0)
		usleep(100);
	EQ(run(s, 0, on_a), -ESTALE);
	EQ(run(s, 1, on_b), 0);
	c = alloc_on(s, 0, 64);
	EQ(run(s, 0, on_a), -ESTALE);
	on_a.dst_buffer = c;
	EQ(run(s, 0, on_a), 0);
	EQ(gpumap_buffer_free(s, a), 0);
	EQ(gpumap_buffer_free(s, a), -ESTALE);
	EQ(gpumap_buffer_free(s, b), 0);
	EQ(gpumap_buffer_free(s, c), 0);
	OK(settles_at(0));
	gpumap_session_close(s);
}

static void the_agents_end_ends_allocations(void)
{
	struct gpumap_session *s = open_session(16, 0);
	uint64_t a = alloc_on(s, 0, 64), b = 7;
	struct gpumap_job job = fill(NULL, 1, 1);
	int fd = peer_memfd(4096, true);

	job.dst_buffer = a;
	gm_put(&peer.hold, 1);
	gm_put(&peer.hang_up, 1);
	EQ(gpumap_buffer_alloc(s, 0, 64, 0, GPUMAP_NO_DEADLINE, &b),
	   -ECONNRESET);
	EQ(b, 7);
	EQ(gpumap_buffer_alloc(s, 0, 64, 0, GPUMAP_NO_DEADLINE, &b),
	   -ECONNRESET);
	EQ(gpumap_submit(s, 0, &job, 1), -ECONNRESET);
	EQ(gpumap_buffer_free(s, a), -ECONNRESET);
	EQ(gpumap_buffer_register(s, fd, 0, 64, 0, &b), -ECONNRESET);
	EQ(gpumap_buffer_unregister(s, a), -ECONNRESET);
	EQ(gpumap_buffer_unexport(s, a), -ECONNRESET);
	EQ(gpumap_buffer_export(s, a, &b), -ECONNRESET);
	EQ(gpumap_buffer_import(s, 1, 0, &b), -ECONNRESET);
	gm_put(&peer.hold, 0);
	close(fd);
	gpumap_session_close(s);
}

static int child_says(struct gpumap_session *s, uint64_t a)
{
	uint64_t b;

	if (gpumap_buffer_alloc(s, 0, 64, 0, 0, &b) != -EOWNERDEAD ||
	    gpumap_buffer_free(s, a) != -EOWNERDEAD)
		return 1;
	if (gpumap_buffer_register(s, 0, 0, 64, 0, &b) != -EOWNERDEAD ||
	    gpumap_buffer_unregister(s, a) != -EOWNERDEAD ||
	    gpumap_buffer_unexport(s, a) != -EOWNERDEAD)
		return 2;
	if (gpumap_buffer_export(s, a, &b) != -EOWNERDEAD ||
	    gpumap_buffer_import(s, 1, 0, &b) != -EOWNERDEAD)
		return 3;
	if (gpumap_device_drain(map, 0) != -EOWNERDEAD ||
	    gpumap_device_undrain(map, 0) != -EOWNERDEAD)
		return 4;
	gpumap_session_close(s);
	return 0;
}

static void a_child_has_no_buffers(void)
{
	struct gpumap_session *s = open_session(16, 0);
	uint64_t a = alloc_on(s, 0, 64);
	struct gpumap_job job = fill(NULL, 1, 1);
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		_exit(child_says(s, a));
	waitpid(child, &status, 0);
	OK(WIFEXITED(status));
	EQ(WEXITSTATUS(status), 0);
	job.dst_buffer = a;
	EQ(run(s, 0, job), 0);
	gpumap_session_close(s);
}

TAP_CASE()
{
	if (!client_begin("buffers"))
		return tap_done();
	buffers_are_described();
	files_are_described();
	jobs_reach_buffers();
	elements_have_their_size();
	wrong_buffers_are_not_submitted();
	wrong_jobs_on_buffers_are_not_submitted();
	what_cannot_be_had_leaves_nothing();
	an_allocation_that_is_late_is_freed();
	allocating_takes_credit();
	frees_cost_no_credit_for_long();
	frees_alone_cost_no_credit_for_long();
	a_free_waits_for_the_jobs_before_it();
	there_is_a_most();
	buffers_die_with_their_worker();
	the_agents_end_ends_allocations();
	a_child_has_no_buffers();
	return client_end();
}
