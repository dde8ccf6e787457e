/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda: the cases of every driver's rows on a CUDA row, and lanes of streams.
 */

#include <dlfcn.h>
#include <sched.h>

#include "agent/device/cuda.h"
#include "shm/atomic.h"
#include "tests/support/gpu_cases.h"
#include "tests/support/stand_in.h"

static struct bench b;

/* ---- lanes that wait ----------------------------------------------------- */

/* In a stream, nothing behind it before it is opened. */
struct gate {
	gm_a32 is_reached, is_open;
};

static void stand_at(void *data)
{
	const struct timespec rest = { 0, 1000000 };
	struct gate *gate = data;

	gm_put(&gate->is_reached, 1);
	while (!gm_get(&gate->is_open))
		nanosleep(&rest, NULL);
	gm_put_release(&gate->is_reached, 0);
}

/* A stream of the device's context; NULL is the default stream. */
static bool gate_stands(struct gate *ret_gate, struct CUstream_st *stream)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int (*launch)(struct CUstream_st *, void (*)(void *), void *) = NULL;
	uint64_t until = bench_now_ms() + BENCH_WAIT;

	if (library)
		launch = (__typeof__(launch))dlsym(library, "cuLaunchHostFunc");
	gm_put(&ret_gate->is_reached, 0);
	gm_put(&ret_gate->is_open, 0);
	if (!launch || launch(stream, stand_at, ret_gate) != 0)
		return false;
	while (!gm_get(&ret_gate->is_reached) && bench_now_ms() < until)
		sched_yield();
	return gm_get(&ret_gate->is_reached);
}

static void gate_open(struct gate *gate)
{
	gm_put(&gate->is_open, 1);
	while (gm_get_acquire(&gate->is_reached))
		sched_yield();
}

/* One that goes by lane @lane, and is no other's business. */
static struct gm_task task_of_lane(uint32_t lane)
{
	struct gm_task task = bench_task(&b, 1);

	if (lane == GM_GPU_BULK)
		task.n = GM_STREAM_SMALL_BYTES / 4 + 1;
	if (lane == GM_GPU_SOON || lane == GM_GPU_BULK)
		return task;
	task.op = GPUMAP_OP_COPY;
	if (lane == GM_GPU_IN)
		task.src = b.client;
	if (lane == GM_GPU_OUT)
		task.dst = b.client;
	return task;
}

static bool begins(uint32_t lane, struct gm_async_exec *ret_flight)
{
	struct gm_task task = task_of_lane(lane);

	return EQ(b.dev->backend->start(b.dev, &task, 0, task.n, NULL,
					ret_flight),
		  0) &&
	       EQ(ret_flight->lane, lane);
}

/* Each of them but @held, NULL for none, to its end. */
static bool lanes_go_on(const struct gm_async_exec *held)
{
	bool good = true;

	for (uint32_t i = 0; i < GM_GPU_LANES && good; i++) {
		struct gm_async_exec flight;

		if (!held || i != held->lane)
			good = begins(i, &flight) &&
			       EQ(bench_wait(&b, &flight), 0);
	}
	return good;
}

/* The default stream is the driver's own, and waits for all streams that wait
 * for it. */
static void no_lane_waits_for_the_default_stream(void)
{
	struct gate gate;

	if (!OK(gate_stands(&gate, NULL)))
		return;
	OK(lanes_go_on(NULL));
	gate_open(&gate);
}

static bool waits_alone(uint32_t lane)
{
	struct gm_cuda *cuda =
		(struct gm_cuda *)((struct gm_stream *)b.dev)->gpu;
	struct gm_async_exec flight;
	struct gate gate;
	bool good;

	if (!OK(gate_stands(&gate, cuda->lanes[lane].stream)))
		return false;
	good = begins(lane, &flight) && lanes_go_on(&flight) &&
	       EQ(b.dev->backend->ended(b.dev, &flight), 0);
	gate_open(&gate);
	return EQ(bench_wait(&b, &flight), 0) && good;
}

static void no_lane_waits_for_another(void)
{
	for (uint32_t i = 0; i < GM_GPU_LANES; i++)
		if (!OK(waits_alone(i)))
			return;
}

TAP_CASE_ARGS(argc, argv)
{
	(void)argc;
	stand_in_exec(argv);
	if (bench_is_open(&b, "cuda")) {
		gpu_cases_work(&b);
		gpu_cases_large(&b);
		gpu_cases_memory(&b);
		no_lane_waits_for_the_default_stream();
		no_lane_waits_for_another();
	}
	bench_close(&b);
	return tap_done();
}
