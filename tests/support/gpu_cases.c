/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/gpu_cases.h"

#include "agent/device/stream.h"

#define LINKS 60

static struct bench *b;

static void a_device_says_what_it_is(void)
{
	struct gm_device_memory memory = { 0 };

	EQ(b->dev->backend->memory(b->dev, &memory), 0);
	OK(memory.total > 0 && memory.free > 0 && memory.free < memory.total);
	OK(b->dev->slices > 1 && b->dev->slice_bytes > 0);
	OK(b->dev->ended_fd >= 0);
	OK(strstr(b->dev->took, "init_ms=") != NULL);
	OK(strstr(b->dev->took, "context_ms=") != NULL);
}

static void results_are_the_hosts(void)
{
	EQ(trials_failed(b, 1000), 0);
	b->sleeps = true;
	EQ(trials_failed(b, 40), 0);
	b->sleeps = false;
}

/* Subnormals, infinities and NaNs, halves of a last bit, and every dtype of
 * every operator, where elements begin at their size and where they do not. */
static void hard_numbers_are_the_hosts(void)
{
	static const uint32_t ops[] = {
		GPUMAP_OP_SCALE,    GPUMAP_OP_AXPY,      GPUMAP_OP_CAST,
		GPUMAP_OP_MASK_ADD, GPUMAP_OP_MASK_BOOL, GPUMAP_OP_SUM,
		GPUMAP_OP_MIN,      GPUMAP_OP_MAX,
	};
	int failed = 0;

	b->is_hard = true;
	for (uint32_t i = 0; i < 2 * 8 * GM_STREAM_DTYPES * GM_STREAM_DTYPES;
	     i++) {
		uint32_t each = i / 16 % GM_STREAM_DTYPES;
		uint32_t to = i / 16 / GM_STREAM_DTYPES;
		struct trial t = { .op = ops[i / 2 % 8],
				   .dtype = each,
				   .to = to,
				   .n = 900 + dice(400),
				   .at = { 64 + i % 2, 8 + 3 * (i % 2) },
				   .on_device = { i & 4, true } };
		bool has_to = gm_ops_has(t.op) & GM_OPS_TO;

		if (gm_ops_takes(t.op, t.dtype, t.to) != 0 || (!has_to && to))
			continue;
		t.to = has_to ? to : 0;
		if (gm_ops_has(t.op) & GM_OPS_MASK)
			t.mask_n = 100;
		failed += !trial_holds(b, &t);
	}
	EQ(failed, 0);
	b->is_hard = false;
}

static void all_dtypes_are_copied_and_filled(void)
{
	int failed = 0;

	for (uint32_t dtype = 0; gm_ops_dtype_bytes(dtype); dtype++) {
		struct trial t = { .op = GPUMAP_OP_FILL,
				   .dtype = dtype,
				   .n = 777,
				   .at = { 4096, 64 },
				   .on_device = { true, true } };

		failed += !trial_holds(b, &t);
		t.on_device[0] = false;
		failed += !trial_holds(b, &t);
		t.op = GPUMAP_OP_COPY;
		failed += !trial_holds(b, &t);
	}
	EQ(failed, 0);
}

/* At any address and of any length: for bytes there is no alignment. */
static void no_alignment_is_asked_for(void)
{
	int failed = 0;

	for (uint32_t i = 0; i < 24; i++) {
		struct trial t = { .op = i & 4 ? GPUMAP_OP_COPY
					       : GPUMAP_OP_FILL,
				   .dtype = GPUMAP_DTYPE_U8,
				   .n = 1 + dice(100),
				   .at = { 1 + dice(30), 1 + dice(30) },
				   .on_device = { i & 1, i & 2 } };

		failed += !trial_holds(b, &t);
	}
	EQ(failed, 0);
}

/* From any element on, of any number, to anywhere: what a kernel leaves over at
 * the end, and where its memory is beside a word. */
static void short_jobs_of_every_length(void)
{
	static const struct {
		uint32_t op, dtype, to, mask_n;
	} jobs[] = {
		{ GPUMAP_OP_SCALE, GPUMAP_DTYPE_F16, 0, 0 },
		{ GPUMAP_OP_AXPY, GPUMAP_DTYPE_BF16, 0, 0 },
		{ GPUMAP_OP_CAST, GPUMAP_DTYPE_BF16, GPUMAP_DTYPE_F32, 0 },
		{ GPUMAP_OP_CAST, GPUMAP_DTYPE_F32, GPUMAP_DTYPE_F16, 0 },
		{ GPUMAP_OP_FILL, GPUMAP_DTYPE_U16, 0, 0 },
		{ GPUMAP_OP_MASK_ADD, GPUMAP_DTYPE_F16, 0, 7 },
		{ GPUMAP_OP_MASK_BOOL, GPUMAP_DTYPE_BF16, 0, 5 },
		{ GPUMAP_OP_SUM, GPUMAP_DTYPE_F16, 0, 0 },
		{ GPUMAP_OP_MIN, GPUMAP_DTYPE_BF16, 0, 0 },
		{ GPUMAP_OP_MAX, GPUMAP_DTYPE_U16, 0, 0 },
	};
	const uint32_t n_jobs = sizeof(jobs) / sizeof(jobs[0]);
	int failed = 0;

	b->room = 2048;
	for (uint64_t i = 0; i < 68 * n_jobs; i++) {
		uint64_t n = i / n_jobs, k = i % n_jobs;
		struct trial t = {
			.op = jobs[k].op,
			.dtype = jobs[k].dtype,
			.to = jobs[k].to,
			.mask_n = jobs[k].mask_n,
			.n = n,
			.at = { 4 * (n % 9), 4 * (n * 5 % 7) },
			.on_device = { i & 1, i & 2 },
		};

		/* Those of 16 bits begin within a word as well. */
		if (gm_ops_dtype_bytes(gm_ops_result(t.op, t.dtype, t.to)) == 2)
			t.at[0] += 2;
		if (gm_ops_dtype_bytes(t.dtype) == 2)
			t.at[1] += 2 * (n % 2);
		failed += !trial_holds(b, &t);
	}
	EQ(failed, 0);
	b->room = BENCH_SMALL;
}

static void large_jobs_go_in_slices(void)
{
	uint64_t n = b->dev->slice_bytes / 4 + 100003;
	struct trial scale = { .op = GPUMAP_OP_SCALE,
			       .dtype = GPUMAP_DTYPE_F32,
			       .n = n,
			       .at = { 0, 8 },
			       .on_device = { true, false } };
	struct trial copy = { .op = GPUMAP_OP_COPY,
			      .dtype = GPUMAP_DTYPE_F32,
			      .n = n,
			      .at = { 16, 0 } };
	struct trial cast = {
		.op = GPUMAP_OP_CAST,
		.dtype = GPUMAP_DTYPE_F16,
		.to = GPUMAP_DTYPE_F32,
		.n = n,
		.at = { 4, 2 },
		.on_device = { false, true },
	};

	b->room = BENCH_LARGE;
	OK(trial_holds(b, &scale));
	OK(trial_holds(b, &copy));
	/* A slice is as long as its longer operand. */
	OK(trial_holds(b, &cast));
	cast.dtype = GPUMAP_DTYPE_F32;
	cast.to = GPUMAP_DTYPE_BF16;
	OK(trial_holds(b, &cast));
	b->sleeps = true;
	OK(trial_holds(b, &copy));
	b->sleeps = false;
	b->room = BENCH_SMALL;
}

/* Over as many slices as there are: what one leaves the next goes on with. */
static void large_reductions_go_in_slices(void)
{
	static const struct {
		uint32_t op, dtype, each;
	} jobs[] = {
		{ GPUMAP_OP_SUM, GPUMAP_DTYPE_F16, 2 },
		{ GPUMAP_OP_SUM, GPUMAP_DTYPE_F32, 4 },
		{ GPUMAP_OP_SUM, GPUMAP_DTYPE_F64, 8 },
		{ GPUMAP_OP_SUM, GPUMAP_DTYPE_U8, 1 },
		{ GPUMAP_OP_MIN, GPUMAP_DTYPE_BF16, 2 },
		{ GPUMAP_OP_MAX, GPUMAP_DTYPE_I32, 4 },
	};

	b->room = BENCH_LARGE;
	for (uint32_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		struct trial t = {
			.op = jobs[i].op,
			.dtype = jobs[i].dtype,
			.n = BENCH_LARGE / jobs[i].each - dice(2000),
			.on_device = { i & 1, i & 2 },
		};

		OK(trial_holds(b, &t));
		/* All levels end with a full chunk. */
		t.n = UINT64_C(1) << 20;
		if (t.n * jobs[i].each <= BENCH_LARGE)
			OK(trial_holds(b, &t));
		t.n++;
		if (t.n * jobs[i].each <= BENCH_LARGE)
			OK(trial_holds(b, &t));
	}
	b->room = BENCH_SMALL;
}

/* More than level 1 has room for, in one slice and in several. */
static void reductions_fill_all_of_a_level(void)
{
	static const uint64_t more[] = { 0, 1, 3 << 19 };
	uint64_t own_bytes = b->dev->own_bytes;
	struct trial t = { .op = GPUMAP_OP_SUM,
			   .dtype = GPUMAP_DTYPE_U8,
			   .on_device = { true, true } };

	b->room = BENCH_ROOM;
	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
		t.n = (UINT64_C(16) << 20) + more[i];
		b->dev->own_bytes = own_bytes;
		OK(trial_holds(b, &t));
		b->dev->own_bytes = UINT64_C(3) << 20;
		OK(trial_holds(b, &t));
	}
	b->dev->own_bytes = own_bytes;
	b->room = BENCH_SMALL;
}

/* Masks longer and shorter than a slice, anywhere. */
static void large_masks_go_in_slices(void)
{
	static const uint32_t lengths[] = { 3, 1000, 300000, 1200000 };

	b->room = BENCH_LARGE;
	for (uint32_t i = 0; i < 8; i++) {
		struct trial t = {
			.op = i & 1 ? GPUMAP_OP_MASK_ADD : GPUMAP_OP_MASK_BOOL,
			.dtype = GPUMAP_DTYPE_F16,
			.n = UINT64_C(1500000) + dice(2000),
			.on_device = { i & 2, i & 4 },
			.mask_n = lengths[i / 2],
		};

		OK(trial_holds(b, &t));
	}
	/* The slices of a mask over the bus are short. */
	b->mask_is_here = true;
	for (uint32_t i = 0; i < 2; i++) {
		struct trial t = {
			.op = GPUMAP_OP_MASK_ADD,
			.dtype = GPUMAP_DTYPE_F16,
			.n = UINT64_C(2200000),
			.on_device = { true, true },
			.mask_n = lengths[i + 1],
		};

		OK(trial_holds(b, &t));
	}
	b->mask_is_here = false;
	b->room = BENCH_SMALL;
}

/* Tasks that are not gone on with take room until they are given up, and one
 * that is refused leaves none behind. */
static void reductions_are_given_up(void)
{
	const struct gm_backend *cuda = b->dev->backend;
	struct gm_task tasks[33];
	struct gm_async_exec flight;
	uint32_t n;
	int rc = 0;

	for (n = 0; n < 33 && rc == 0; n++) {
		tasks[n] = bench_task(b, 1);
		tasks[n].op = GPUMAP_OP_SUM;
		tasks[n].n = 4096;
		rc = cuda->start(b->dev, &tasks[n], 0, 1024, NULL, &flight);
		if (rc == 0)
			rc = bench_wait(b, &flight);
	}
	EQ(rc, -EAGAIN);
	n--;
	EQ(cuda->start(b->dev, &tasks[n], 0, 1024, NULL, &flight), -EAGAIN);
	/* Those that are there go on, one after the other. */
	EQ(cuda->start(b->dev, &tasks[1], 2048, 1024, NULL, &flight), -ERANGE);
	EQ(cuda->start(b->dev, &tasks[1], 1000, 1024, NULL, &flight), -ERANGE);
	EQ(cuda->start(b->dev, &tasks[1], 1024, 3072, NULL, &flight), 0);
	EQ(bench_wait(b, &flight), 0);
	EQ(cuda->start(b->dev, &tasks[n], 0, 1024, NULL, &flight), 0);
	EQ(bench_wait(b, &flight), 0);
	for (uint32_t i = 0; i <= n; i++)
		cuda->quit(b->dev, &tasks[i]);
	EQ(cuda->start(b->dev, &tasks[n], 1024, 1024, NULL, &flight), -ERANGE);
	EQ(trials_failed(b, 100), 0);
}

/*
 * A word goes to the device, is doubled, comes back and goes out again, each by
 * a lane of its own: unless each waits for the one before, it is not doubled
 * every time.
 */
static void lanes_wait_for_each_other(void)
{
	float *client = (float *)(void *)b->client;
	struct gm_task links[] = {
		{ .op = GPUMAP_OP_COPY, .src = client },
		{ .op = GPUMAP_OP_COPY },
		{ .op = GPUMAP_OP_AXPY },
		{ .op = GPUMAP_OP_COPY, .dst = client },
	};
	struct gm_async_exec flights[LINKS];
	int failed = 0, ended = 0;

	for (int i = 0; i < 4; i++) {
		links[i].dtype = GPUMAP_DTYPE_F32;
		links[i].n = 1;
		links[i].alpha = 1;
		links[i].dst_address = b->buffer[i == 1]->address;
		links[i].src_address = b->buffer[i == 2]->address;
	}
	*client = 1;
	for (int i = 0; i < LINKS && failed == 0; i++) {
		int rc;

		while ((rc = bench_start(b, &links[i % 4], 0, 1,
					 &flights[i])) == -EAGAIN &&
		       ended < i)
			failed += bench_wait(b, &flights[ended++]) != 0;
		failed += rc != 0;
	}
	while (failed == 0 && ended < LINKS)
		failed += bench_wait(b, &flights[ended++]) != 0;
	EQ(failed, 0);
	EQ((int)*client, 1 << (LINKS / 4));
}

/* Each new session finds room, and none takes more than there is. */
static void a_lane_has_an_end(void)
{
	struct gm_async_exec flights[64];
	struct gm_task task = bench_task(b, 1);
	uint32_t n = 0;
	int rc = 0, failed = 0;

	while (n < 64 && rc == 0) {
		rc = b->dev->backend->start(b->dev, &task, 0, task.n, NULL,
					    &flights[n]);
		n += rc == 0;
	}
	EQ(rc, -EAGAIN);
	OK(n > b->dev->slices);
	for (uint32_t i = 0; i < n; i++)
		failed += bench_wait(b, &flights[i]) != 0;
	EQ(failed, 0);
	EQ(b->dev->backend->start(b->dev, &task, 0, task.n, NULL, &flights[0]),
	   0);
	EQ(bench_wait(b, &flights[0]), 0);
	/* The slice may be polled again. */
	EQ(b->dev->backend->ended(b->dev, &flights[0]), 1);
}

/* Nothing is done, and not before what came before. */
static void a_nop_ends_in_its_place(void)
{
	const struct gm_task nop = { .op = GPUMAP_OP_NOP };
	struct gm_task task = bench_task(b, 1);
	struct gm_async_exec first, second;

	EQ(b->dev->backend->start(b->dev, &nop, 0, 0, NULL, &first), 0);
	EQ(b->dev->backend->ended(b->dev, &first), 1);
	EQ(b->dev->backend->start(b->dev, &task, 0, task.n, NULL, &first), 0);
	EQ(b->dev->backend->start(b->dev, &nop, 0, 0, &first, &second), 0);
	EQ(bench_wait(b, &first), 0);
	EQ(b->dev->backend->ended(b->dev, &second), 1);
}

static void what_is_wrong_is_refused(void)
{
	struct gm_task task = bench_task(b, 1);
	struct gm_async_exec flight = { .value = 77 };
	struct gm_buffer *buffer = NULL;
	char local[64];

	EQ(b->dev->backend->start(b->dev, &task, 1, task.n, NULL, &flight),
	   -ERANGE);
	task.n = b->dev->own_bytes / 4 + 1;
	EQ(b->dev->backend->start(b->dev, &task, 0, task.n, NULL, &flight),
	   -ERANGE);
	/* A slice that is not all in its own memory is shorter. */
	task.src = b->client;
	if (b->dev->own_bytes > b->dev->slice_bytes)
		EQ(b->dev->backend->start(b->dev, &task, 0, task.n - 1, NULL,
					  &flight),
		   -ERANGE);
	task = bench_task(b, 1);
	task.op = GPUMAP_OP_AXPY;
	task.dtype = GPUMAP_DTYPE_I64;
	EQ(b->dev->backend->start(b->dev, &task, 0, task.n, NULL, &flight),
	   -EINVAL);
	task.op = 200;
	EQ(b->dev->backend->start(b->dev, &task, 0, task.n, NULL, &flight),
	   -EOPNOTSUPP);
	/* Memory that the device was never told of. */
	task = (struct gm_task){ .op = GPUMAP_OP_COPY,
				 .dst = local,
				 .src_address = b->buffer[0]->address,
				 .n = sizeof(local) };
	EQ(b->dev->backend->start(b->dev, &task, 0, task.n, NULL, &flight),
	   -EINVAL);
	/* Memory of the device that is no buffer's, or is no more. */
	task.dst = NULL;
	task.dst_address = 4096;
	EQ(b->dev->backend->start(b->dev, &task, 0, task.n, NULL, &flight),
	   -EINVAL);
	/* One that has a slab of its own, which goes with it. */
	EQ(b->dev->backend->alloc(b->dev, 1, UINT64_C(9) << 20, 0, &buffer), 0);
	if (buffer) {
		task.dst_address = buffer->address;
		EQ(bench_run(b, &task), 0);
		b->dev->backend->free(b->dev, buffer);
		EQ(b->dev->backend->start(b->dev, &task, 0, task.n, NULL,
					  &flight),
		   -EINVAL);
	}
	EQ(flight.value, 77);
	OK(trials_failed(b, 100) == 0);
}

/* A sleeping worker is woken by a slice that ends, whichever lane it is on. */
static void sleepers_are_woken(void)
{
	struct gm_task task = trial_copy(b, 0, true);
	int failed = 0;

	b->sleeps = true;
	for (int i = 0; i < 50; i++) {
		struct gm_async_exec flight;

		task.n = 1 + dice(4096);
		failed += bench_start(b, &task, 0, task.n, &flight) ||
			  bench_wait(b, &flight);
	}
	b->sleeps = false;
	EQ(failed, 0);
}

void gpu_cases_work(struct bench *bench)
{
	b = bench;
	a_device_says_what_it_is();
	results_are_the_hosts();
	hard_numbers_are_the_hosts();
	all_dtypes_are_copied_and_filled();
	no_alignment_is_asked_for();
	short_jobs_of_every_length();
	if (!b->copies_alone) {
		reductions_are_given_up();
		lanes_wait_for_each_other();
	}
	a_lane_has_an_end();
	a_nop_ends_in_its_place();
	what_is_wrong_is_refused();
	sleepers_are_woken();
}

/* In the device's own memory, where a computation may take longer. */
static void a_large_copy_is_one_slice(void)
{
	struct gm_task task = bench_task(b, 1);
	struct gm_async_exec flight;

	task.op = GPUMAP_OP_COPY;
	task.n = (UINT64_C(16) << 20) / 4;
	OK(gm_device_slice(b->dev, &task) >= 4 * task.n);
	EQ(bench_start(b, &task, 0, task.n, &flight), 0);
	EQ(bench_wait(b, &flight), 0);
}

void gpu_cases_large(struct bench *bench)
{
	b = bench;
	a_large_copy_is_one_slice();
	large_jobs_go_in_slices();
	large_reductions_go_in_slices();
	reductions_fill_all_of_a_level();
	large_masks_go_in_slices();
}
