/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda: kernels that clients bring, straight through the backend: larger than a
 * slice, in memory that the device reaches and in staging, and across two
 * registrations.  Each part is this program again, on a stand-in machine.
 */

#include "gpumap/program.h"
#include "tests/support/gpu_bench.h"
#include "tests/support/fake_machine.h"
#include "tests/support/program_kernels.h"

#define MIB (UINT64_C(1) << 20)

static const struct gm_backend *cuda = &gm_cuda_backend;
static const char text[] = KERNEL_ALL;
static struct bench b;
static struct gm_kernel *square;
static float alpha = 3;

static int open_it(void)
{
	char why[GM_KERNEL_WHY_BYTES] = "";
	int rc = bench_open(&b, NULL);

	if (rc == 0)
		rc = cuda->load_kernel(b.dev,
				       BENCH_TEXT(text, "gpumap_program"),
				       &square, why);
	if (rc != 0)
		printf("# %d %s\n", rc, why);
	return rc;
}

static int end(int line)
{
	if (square)
		cuda->unload_kernel(b.dev, square);
	bench_close(&b);
	return line;
}

static struct gm_task task_of(uint64_t n)
{
	return (struct gm_task){ .op = GPUMAP_OP_RUN,
				 .dtype = GPUMAP_DTYPE_F32,
				 .n = n,
				 .dst = b.client,
				 .src = b.client + BENCH_ROOM,
				 .pattern = 4 | UINT64_C(4) << 32,
				 .kernel = square,
				 .mask = &alpha,
				 .mask_n = sizeof(alpha) };
}

static float *floats(uint64_t at)
{
	return (float *)(void *)(b.client + at);
}

static bool is_squared(const float *dst, const float *src, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (dst[i] != alpha * src[i] * src[i])
			return false;
	return true;
}

/* 0 or what it ends with. */
static int run_it(const struct gm_task *task)
{
	struct gm_async_exec flight;
	int rc = bench_start(&b, task, 0, task->n, &flight);

	return rc < 0 ? rc : bench_wait(&b, &flight);
}

static void throw_it(uint64_t n)
{
	float *dst = floats(0), *src = floats(BENCH_ROOM);

	for (uint64_t i = 0; i < n; i++) {
		src[i] = (float)(i % 1021);
		dst[i] = -1;
	}
	dst[n] = -2;
}

static int a_tile_is_one_launch(void)
{
	uint64_t n = 5 * MIB / 4; /* more than a slice */
	struct gm_task task;
	struct gm_async_exec flight;

	WANT(open_it() == 0);
	throw_it(n);
	task = task_of(n);
	WANT(bench_start(&b, &task, 0, n - 1, &flight) == -ERANGE);
	WANT(bench_start(&b, &task, 1, n - 1, &flight) == -ERANGE);
	WANT(run_it(&task) == 0);
	WANT(is_squared(floats(0), floats(BENCH_ROOM), n));
	WANT(floats(0)[n] == -2);
	/* Without a kernel there is nothing to run. */
	task.kernel = NULL;
	WANT(bench_start(&b, &task, 0, n, &flight) == -EOPNOTSUPP);
	return end(0);
}

static int parameters_have_their_size(void)
{
	struct gm_task task;

	WANT(open_it() == 0);
	throw_it(100);
	task = task_of(100);
	task.mask_n = 3;
	WANT(run_it(&task) == -EINVAL);
	task.mask_n = 4096 - GPUMAP_KERNEL_PARAMS_AT + 1;
	task.mask = b.client;
	WANT(run_it(&task) == -EINVAL);
	task = task_of(100);
	WANT(run_it(&task) == 0);
	WANT(is_squared(floats(0), floats(BENCH_ROOM), 100));
	return end(0);
}

/* Up to a slice's bytes of each operand, and what is behind dst stays. */
static int staging_has_a_slice(void)
{
	const uint64_t most = MIB; /* floats of a slice */
	struct gm_task task;

	WANT(open_it() == 0);
	WANT(!b.region->address);
	throw_it(most);
	task = task_of(most);
	WANT(run_it(&task) == 0);
	WANT(is_squared(floats(0), floats(BENCH_ROOM), most));
	WANT(floats(0)[most] == -2);
	task = task_of(most + 1);
	WANT(run_it(&task) == -EOPNOTSUPP);
	/* Parts of dst that a program does not write stay as they were. */
	floats(0)[5] = 7;
	task = task_of(5);
	task.pattern = 4 | UINT64_C(8) << 32;
	WANT(run_it(&task) == 0);
	WANT(floats(0)[5] == 7);
	WANT(is_squared(floats(0), floats(BENCH_ROOM), 5));
	return end(0);
}

/* A slice finds the results and the parameters of the slice before it brought
 * back. */
static int it_follows_what_is_before(void)
{
	struct gm_task copy = { .op = GPUMAP_OP_COPY,
				.dtype = GPUMAP_DTYPE_F32 },
		       task;
	struct gm_async_exec first, second;
	int rc;

	WANT(open_it() == 0);
	throw_it(1000);
	/* alpha itself comes out of a copy. */
	floats(BENCH_ROOM)[2000] = 5;
	floats(0)[2000] = 0;
	copy.n = 1;
	copy.dst = floats(0) + 2000;
	copy.src = floats(BENCH_ROOM) + 2000;
	task = task_of(1000);
	task.mask = floats(0) + 2000;
	WANT(bench_start(&b, &copy, 0, 1, &first) == 0);
	while ((rc = bench_start(&b, &task, 0, 1000, &second)) == -EAGAIN)
		WANT(bench_wait(&b, &first) == 0);
	WANT(rc == 0);
	WANT(bench_wait(&b, &second) == 0);
	alpha = 5;
	WANT(is_squared(floats(0), floats(BENCH_ROOM), 1000));
	return end(0);
}

/* A kernel has one address of each operand: two registrations have two. */
static int an_operand_is_one_piece(void)
{
	struct gm_region *left = NULL, *right = NULL;
	char *at;
	struct gm_task task;

	WANT(open_it() == 0);
	at = bench_map(2 * MIB);
	WANT(at != NULL);
	WANT(cuda->reach(b.dev, at, MIB, true, &left) == 0);
	WANT(cuda->reach(b.dev, at + MIB, MIB, true, &right) == 0);
	throw_it(1000);
	task = task_of(1000);
	task.dst = at + MIB - 4000;
	WANT(run_it(&task) == 0);
	WANT(is_squared(task.dst, floats(BENCH_ROOM), 1000));
	task.dst = at + MIB - 3996;
	WANT(run_it(&task) == -EOPNOTSUPP);
	task.dst = at + MIB;
	WANT(run_it(&task) == 0);
	WANT(is_squared(task.dst, floats(BENCH_ROOM), 1000));
	cuda->unreach(b.dev, left);
	cuda->unreach(b.dev, right);
	munmap(at, 2 * MIB);
	return end(0);
}

static int images_are_refused(void)
{
	char why[GM_KERNEL_WHY_BYTES] = "";
	struct gm_kernel *other = NULL;
	struct gm_task task;

	WANT(open_it() == 0);
	WANT(cuda->load_kernel(b.dev, BENCH_TEXT("odd", "x"), &other, why) ==
	     -ENOEXEC);
	WANT(strstr(why, "218 INVALID_PTX: ptxas"));
	WANT(!strpbrk(why, "\n\t"));
	WANT(cuda->load_kernel(b.dev, BENCH_TEXT(text, "x"), &other, why) ==
	     -ENOENT);
	WANT(strstr(why, "no kernel x"));
	WANT(!other);
	/* The kernel takes other parameters than the test has. */
	WANT(cuda->load_kernel(b.dev, BENCH_TEXT(text, "program_trap"), &other,
			       why) == 0);
	cuda->unload_kernel(b.dev, other);
	throw_it(10);
	task = task_of(10);
	WANT(run_it(&task) == 0);
	return end(0);
}

static int jit_that_fails_is_the_images_fault(void)
{
	char why[GM_KERNEL_WHY_BYTES] = "";
	struct gm_kernel *other = NULL;

	WANT(bench_open(&b, NULL) == 0);
	WANT(cuda->load_kernel(b.dev, BENCH_TEXT(text, "gpumap_program"),
			       &other, why) == -ENOEXEC);
	WANT(strstr(why, "JIT_COMPILER_NOT_FOUND"));
	WANT(strstr(why, "libnvidia-ptxjitcompiler"));
	return end(0);
}

static int its_fault_is_the_contexts_end(void)
{
	char why[GM_KERNEL_WHY_BYTES] = "";
	struct gm_kernel *trap = NULL;
	struct gm_task task;
	int code = 0;

	WANT(open_it() == 0);
	WANT(cuda->load_kernel(b.dev, BENCH_TEXT(text, "program_trap"), &trap,
			       why) == 0);
	task = task_of(10);
	task.kernel = trap;
	task.mask_n = 0;
	WANT(run_it(&task) == -ENOTRECOVERABLE);
	cuda->fault(b.dev, &code);
	WANT(code == 719);
	task = task_of(10);
	WANT(run_it(&task) == -ENOTRECOVERABLE);
	WANT(cuda->load_kernel(b.dev, BENCH_TEXT(text, "program_trap"), &trap,
			       why) == -ENOTRECOVERABLE);
	cuda->unload_kernel(b.dev, trap);
	return end(0);
}

/* ---- scenes -------------------------------------------------------------- */

static const struct scene_part parts[] = {
	{ "a_tile_is_one_launch", NULL, a_tile_is_one_launch },
	{ "parameters_have_their_size", NULL, parameters_have_their_size },
	{ "staging_has_a_slice", "attribute 99 is 0", staging_has_a_slice },
	{ "it_follows", "copies take 5 ms", it_follows_what_is_before },
	{ "it_follows_staged", "attribute 99 is 0; copies take 5 ms",
	  it_follows_what_is_before },
	{ "an_operand_is_one_piece", NULL, an_operand_is_one_piece },
	{ "images_are_refused", NULL, images_are_refused },
	{ "jit_that_fails", "jit fails 221",
	  jit_that_fails_is_the_images_fault },
	{ "its_fault", NULL, its_fault_is_the_contexts_end },
};

TAP_CASE_ARGS(argc, argv)
{
	return scene_main(argc, argv, "tests/.libs/operators_kernels.so", parts,
			  sizeof(parts) / sizeof(parts[0]));
}
