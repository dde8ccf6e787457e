/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * host: every operator against a plain loop, in every vector width that this
 * CPU has, at every alignment and remainder, and nothing beside the elements
 * touched.
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "agent/device/device.h"
#include "agent/device/host_kernels.h"
#include "gpumap.h"
#include "tests/support/tap.h"

#define ROOM        2560u /* for the small cases, guard bytes included */
#define GUARD       128u
#define MAX_LENGTH  260u
#define MAX_OFFSET  64u
#define LARGE_ROOM  (20u << 20)
#define LARGE_BYTES (8u << 20) /* the highest threshold of host.c */

static uint64_t seed;

static uint64_t random64(void)
{
	/* splitmix64: every run sees the same bytes. */
	uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static void scribble(void *p, size_t bytes)
{
	unsigned char *to = p;

	for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
		uint64_t r = random64();

		memcpy(to + i, &r, sizeof(r));
	}
}

/* Floats of every kind: now and then zeroes, subnormals, infinities, NaN. */
static void scribble_floats(void *p, size_t bytes)
{
	static const uint32_t odd[] = { 0x80000000, 0,          1,
					0x807fffff, 0x7f800000, 0xff800000,
					0x7fc00001, 0x7f7fffff, 0x00800000 };
	unsigned char *to = p;

	for (size_t i = 0; i + 4 <= bytes; i += 4) {
		uint64_t r = random64();
		uint32_t bits = 0x3f000000 + (uint32_t)(r & 0x81ffffff);

		if (r >> 60 == 0)
			bits = odd[r >> 32 & 7];
		memcpy(to + i, &bits, sizeof(bits));
	}
}

static float load(const unsigned char *p)
{
	float f;

	memcpy(&f, p, sizeof(f));
	return f;
}

/* Through volatile, so that no compiler fuses what it may not fuse. */
static void reference(const struct gm_task *task, uint32_t each,
		      unsigned char *dst, const unsigned char *src)
{
	volatile float alpha = (float)task->alpha;

	for (uint64_t i = 0; i < task->n * each; i += each) {
		volatile float product;
		float f;

		switch (task->op) {
		case GPUMAP_OP_FILL:
			memcpy(dst + i, &task->pattern, each);
			break;
		case GPUMAP_OP_COPY:
			memcpy(dst + i, src + i, each);
			break;
		default:
			product = alpha * load(src + i);
			f = task->op == GPUMAP_OP_AXPY ? load(dst + i) + product
						       : product;
			memcpy(dst + i, &f, sizeof(f));
			break;
		}
	}
}

/* Bits, but for the payload of a NaN among the @n floats at @at. */
static bool same(const unsigned char *got, const unsigned char *want,
		 size_t room, size_t at, uint64_t n_floats)
{
	if (memcmp(got, want, at) != 0)
		return false;
	for (uint64_t i = 0; i < n_floats; i++, at += 4) {
		if (memcmp(got + at, want + at, 4) != 0 &&
		    !(isnan(load(got + at)) && isnan(load(want + at))))
			return false;
	}
	return memcmp(got + at, want + at, room - at) == 0;
}

enum loop { COPY, COPY_PAST, COPY_PAGES, FILL, FILL_PAST, SCALE, AXPY, LOOPS };

static const char *const loop_names[] = { "copy", "copy_past", "copy_pages",
					  "fill", "fill_past", "scale",
					  "axpy" };

static uint32_t op_of(enum loop loop)
{
	return loop <= COPY_PAGES  ? GPUMAP_OP_COPY
	       : loop <= FILL_PAST ? GPUMAP_OP_FILL
	       : loop == SCALE     ? GPUMAP_OP_SCALE
				   : GPUMAP_OP_AXPY;
}

static void call(const struct gm_host_kernels *k, enum loop loop,
		 const struct gm_task *task, uint32_t each)
{
	uint64_t pattern = gm_host_pattern(task->pattern, each);
	size_t bytes = task->n * each;

	switch (loop) {
	case COPY:
		k->copy(task->dst, task->src, bytes);
		break;
	case COPY_PAST:
		k->copy_past(task->dst, task->src, bytes);
		break;
	case COPY_PAGES:
		k->copy_pages(task->dst, task->src, bytes);
		break;
	case FILL:
		k->fill(task->dst, pattern, bytes);
		break;
	case FILL_PAST:
		k->fill_past(task->dst, pattern, bytes);
		break;
	case SCALE:
		k->scale[GPUMAP_DTYPE_F32](task->dst, task->src, task->alpha,
					   task->n);
		break;
	default:
		k->axpy[GPUMAP_DTYPE_F32](task->dst, task->src, task->alpha,
					  task->n);
		break;
	}
}

static unsigned char dst[ROOM], want[ROOM], src[ROOM], src_before[ROOM];

/* One length at one pair of alignments. */
static bool one_case(const struct gm_host_kernels *k, enum loop loop,
		     uint32_t each, uint64_t n, size_t to, size_t from)
{
	bool floats = loop == SCALE || loop == AXPY;
	struct gm_task task = { .op = op_of(loop),
				.dst = dst + GUARD + to,
				.src = src + GUARD + from,
				.n = n };

	if (op_of(loop) == GPUMAP_OP_FILL)
		task.pattern = random64();
	else
		task.alpha = (double)(int32_t)random64() / 3e8;
	memcpy(want, dst, sizeof(want));
	reference(&task, each, want + GUARD + to, src + GUARD + from);
	call(k, loop, &task, each);
	return same(dst, want, sizeof(dst), GUARD + to, floats ? n : 0);
}

static bool every_length_and_offset(const struct gm_host_kernels *k,
				    enum loop loop, uint32_t each)
{
	for (uint64_t n = 0; n <= MAX_LENGTH; n++) {
		scribble_floats(dst, sizeof(dst));
		scribble_floats(src, sizeof(src));
		memcpy(src_before, src, sizeof(src));
		for (size_t to = 0; to <= MAX_OFFSET; to++) {
			size_t from = (to * 7 + n * 3) % (MAX_OFFSET + 1);

			if (!one_case(k, loop, each, n, to, from)) {
				NOTE("%" PRIu64 " elements of %u bytes, dst at "
				     "+%zu, src at +%zu",
				     n, each, to, from);
				return false;
			}
		}
		if (memcmp(src, src_before, sizeof(src)) != 0)
			return false;
	}
	return true;
}

static void every_loop_is_exact(const struct gm_host_kernels *k)
{
	static const uint32_t widths[] = { 1, 2, 4, 8 };

	for (enum loop loop = 0; loop < LOOPS; loop++) {
		char what[64];
		bool pass = true;

		snprintf(what, sizeof(what), "%s %s is exact", k->name,
			 loop_names[loop]);
		if (loop == SCALE || loop == AXPY)
			pass = every_length_and_offset(k, loop, 4);
		for (size_t w = 0; w < 4 && loop < SCALE; w++)
			pass = pass &&
			       every_length_and_offset(k, loop, widths[w]);
		tap_check(pass, what, __FILE__, __LINE__);
	}
}

static unsigned char *large_dst, *large_want, *large_src;

/* Lengths about the block of pages that is copied side by side. */
static void long_copies_are_exact(const struct gm_host_kernels *k)
{
	bool pass = true;

	for (int i = 0; i < 300 && pass; i++) {
		size_t n = random64() % 5 * 16384 + random64() % 600;
		size_t to = GUARD + random64() % 65;
		size_t from = GUARD + random64() % 4096;
		size_t room = n + 2 * GUARD + 64;

		memset(large_dst, 0xa5, room);
		memset(large_want, 0xa5, room);
		memcpy(large_want + to, large_src + from, n);
		(i % 2 ? k->copy_past : k->copy_pages)(large_dst + to,
						       large_src + from, n);
		pass = memcmp(large_dst, large_want, room) == 0;
		if (!pass)
			NOTE("%zu bytes, dst at +%zu, src at +%zu", n, to,
			     from);
	}
	OK(pass);
}

static struct gm_backend_device *dev;

/* All of a task, in slices of odd sizes, the last of them first. */
static int run_in_slices(const struct gm_task *task)
{
	uint64_t end = task->n;

	while (end) {
		uint64_t count = random64() % (512u << 10);
		int rc;

		count = count < end ? count : end;
		end -= count;
		rc = gm_host_backend.run(dev, task, end, count);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static void large_task(uint32_t op, uint32_t dtype, uint64_t bytes,
		       size_t shift)
{
	uint32_t each = gm_ops_dtype_bytes(dtype);
	struct gm_task task = { .op = op,
				.dtype = dtype,
				.dst = large_dst + GUARD + shift,
				.src = large_src + GUARD,
				.n = bytes / each };
	uint64_t floats = op == GPUMAP_OP_SCALE || op == GPUMAP_OP_AXPY;

	if (op == GPUMAP_OP_FILL)
		task.pattern = random64();
	else
		task.alpha = -1.7;
	memcpy(large_want, large_dst, LARGE_ROOM);
	reference(&task, each, large_want + GUARD + shift, large_src + GUARD);
	EQ(run_in_slices(&task), 0);
	if (!OK(same(large_dst, large_want, LARGE_ROOM, GUARD + shift,
		     floats * task.n)))
		NOTE("%s of dtype %u, %" PRIu64 " bytes, dst at +%zu",
		     gm_ops_name(op), dtype, bytes, shift);
}

static void large_tasks_are_exact_in_any_slices(void)
{
	/* Both sides of the threshold, whatever this machine's caches are. */
	static const uint64_t sizes[] = { 200003, LARGE_BYTES - 8,
					  LARGE_BYTES + 8200 };

	for (size_t i = 0; i < 3; i++) {
		large_task(GPUMAP_OP_COPY, GPUMAP_DTYPE_U8, sizes[i], 0);
		large_task(GPUMAP_OP_COPY, GPUMAP_DTYPE_F64, sizes[i], 3);
		large_task(GPUMAP_OP_FILL, GPUMAP_DTYPE_U8, sizes[i], 1);
		large_task(GPUMAP_OP_FILL, GPUMAP_DTYPE_BF16, sizes[i], 2);
		large_task(GPUMAP_OP_FILL, GPUMAP_DTYPE_I32, sizes[i], 5);
		large_task(GPUMAP_OP_FILL, GPUMAP_DTYPE_U64, sizes[i], 0);
		large_task(GPUMAP_OP_SCALE, GPUMAP_DTYPE_F32, sizes[i], 4);
		large_task(GPUMAP_OP_AXPY, GPUMAP_DTYPE_F32, sizes[i], 7);
	}
}

static void in_place_is_allowed_where_said(void)
{
	float x[37], want_scale[37], want_axpy[37];
	struct gm_task task = { .op = GPUMAP_OP_SCALE,
				.dtype = GPUMAP_DTYPE_F32,
				.dst = x,
				.src = x,
				.n = 37,
				.alpha = 0.3 };

	for (int i = 0; i < 37; i++) {
		volatile float product = 0.3f * (float)(i + 1);
		volatile float again = 0.3f * product;

		x[i] = (float)(i + 1);
		want_scale[i] = product;
		want_axpy[i] = product + again;
	}
	OK(!gm_task_overlaps(&task));
	EQ(gm_host_backend.run(dev, &task, 0, 37), 0);
	OK(memcmp(x, want_scale, sizeof(x)) == 0);
	task.op = GPUMAP_OP_AXPY;
	OK(!gm_task_overlaps(&task));
	EQ(gm_host_backend.run(dev, &task, 0, 37), 0);
	OK(memcmp(x, want_axpy, sizeof(x)) == 0);
}

static void overlap_is_seen(void)
{
	static unsigned char b[64];
	struct gm_task task = { .op = GPUMAP_OP_COPY,
				.dtype = GPUMAP_DTYPE_F32,
				.dst = b,
				.src = b,
				.n = 4 };

	OK(gm_task_overlaps(&task));
	task.src = b + 15;
	OK(gm_task_overlaps(&task));
	task.src = b + 16;
	OK(!gm_task_overlaps(&task));
	task.dst = b + 31;
	OK(gm_task_overlaps(&task));
	task.dst = b + 32;
	OK(!gm_task_overlaps(&task));
	task.op = GPUMAP_OP_SCALE;
	task.dst = b + 20;
	OK(gm_task_overlaps(&task));
	task.op = GPUMAP_OP_FILL;
	OK(!gm_task_overlaps(&task));
	task = (struct gm_task){ .op = GPUMAP_OP_COPY, .dst = b, .src = b };
	OK(!gm_task_overlaps(&task));
	/* Operands of two sizes: 4 halves of 8 bytes, 4 floats of 16. */
	task = (struct gm_task){ .op = GPUMAP_OP_CAST,
				 .dtype = GPUMAP_DTYPE_F32,
				 .to = GPUMAP_DTYPE_F16,
				 .dst = b + 32,
				 .src = b + 32,
				 .n = 4 };
	OK(gm_task_overlaps(&task));
	task.src = b + 40;
	OK(!gm_task_overlaps(&task));
	task.src = b + 39;
	OK(gm_task_overlaps(&task));
	task.src = b + 17;
	OK(gm_task_overlaps(&task));
	task.src = b + 16;
	OK(!gm_task_overlaps(&task));
}

static void wrong_tasks_are_refused(void)
{
	unsigned char before[8] = "unwrite", now[8] = "unwrite";
	struct gm_task task = { .op = GPUMAP_OP_FILL,
				.dtype = GPUMAP_DTYPE_U8,
				.dst = now,
				.n = 8,
				.pattern = 'x' };

	EQ(gm_host_backend.run(dev, &task, 8, 1), -ERANGE);
	EQ(gm_host_backend.run(dev, &task, 1, UINT64_MAX), -ERANGE);
	EQ(gm_host_backend.run(dev, &task, UINT64_MAX, 2), -ERANGE);
	EQ(gm_host_backend.run(dev, &task, 8, 0), 0);
	task.op = 200;
	EQ(gm_host_backend.run(dev, &task, 0, 8), -EOPNOTSUPP);
	task.op = GPUMAP_OP_ALLOC; /* nothing that a device computes */
	EQ(gm_host_backend.run(dev, &task, 0, 8), -EINVAL);
	task.op = GPUMAP_OP_COPY;
	task.dtype = GPUMAP_DTYPE_U64 + 1;
	EQ(gm_host_backend.run(dev, &task, 0, 8), -EINVAL);
	task.op = GPUMAP_OP_SCALE;
	task.dtype = GPUMAP_DTYPE_I64;
	EQ(gm_host_backend.run(dev, &task, 0, 1), -EINVAL);
	task = (struct gm_task){ .op = GPUMAP_OP_NOP };
	EQ(gm_host_backend.run(dev, &task, 0, 0), 0);
	OK(memcmp(before, now, sizeof(now)) == 0);
}

static void operands_have_sizes_of_their_own(void)
{
	struct gm_task task = { .op = GPUMAP_OP_CAST,
				.dtype = GPUMAP_DTYPE_F32,
				.to = GPUMAP_DTYPE_BF16,
				.n = 3 };
	struct gm_task_sizes sizes = { .dst = 7 };

	EQ(gm_task_sizes(&task, &sizes), 0);
	OK(sizes.dst == 6 && sizes.dst_each == 2);
	OK(sizes.src == 12 && sizes.src_each == 4);
	EQ(sizes.each, 4);
	task.to = 99;
	EQ(gm_task_sizes(&task, &sizes), -EINVAL);
	task.op = GPUMAP_OP_FILL;
	EQ(gm_task_sizes(&task, &sizes), 0);
	OK(sizes.dst == 12 && sizes.src == 0 && sizes.src_each == 0);
	task.n = UINT64_C(1) << 61;
	EQ(gm_task_sizes(&task, &sizes), -EOVERFLOW);
	task.n = UINT64_MAX;
	EQ(gm_task_sizes(&task, &sizes), -EOVERFLOW);
	task.dtype = 99;
	EQ(gm_task_sizes(&task, &sizes), -EINVAL);
	EQ(sizes.dst, 12);
}

static void memory_is_told(void)
{
	struct gm_device_config config = { .node = 4095 };
	struct gm_device_memory all = { 0 }, half = { 0 };
	struct gm_backend_device *other = NULL;

	EQ(gm_host_backend.open(&config, &other), -ENODEV);
	OK(!other);
	gm_host_backend.close(NULL);
	EQ(gm_host_backend.memory(dev, &all), 0);
	OK(all.total > 0);
	OK(all.free > 0 && all.free <= all.total);
	config = (struct gm_device_config){ .parts = 2 };
	if (!EQ(gm_host_backend.open(&config, &other), 0))
		return;
	EQ(gm_host_backend.memory(other, &half), 0);
	EQ(half.total, all.total / 2);
	gm_host_backend.close(other);
}

TAP_CASE()
{
	struct gm_device_config config = { 0 };

	large_dst = malloc(LARGE_ROOM);
	large_want = malloc(LARGE_ROOM);
	large_src = malloc(LARGE_ROOM);
	if (!large_dst || !large_want || !large_src ||
	    !EQ(gm_host_backend.open(&config, &dev), 0))
		return 1;
	scribble(large_dst, LARGE_ROOM);
	scribble_floats(large_src, LARGE_ROOM);

	for (int i = 0; gm_host_kernels_all[i]; i++) {
		const struct gm_host_kernels *k = gm_host_kernels_all[i];

		if (!k->usable()) {
			SKIP(LOOPS + 1, "this CPU has not these vectors");
			continue;
		}
		every_loop_is_exact(k);
		long_copies_are_exact(k);
	}
	scribble_floats(large_dst, LARGE_ROOM);
	large_tasks_are_exact_in_any_slices();
	in_place_is_allowed_where_said();
	overlap_is_seen();
	wrong_tasks_are_refused();
	operands_have_sizes_of_their_own();
	memory_is_told();

	gm_host_backend.close(dev);
	free(large_dst);
	free(large_want);
	free(large_src);
	return tap_done();
}
