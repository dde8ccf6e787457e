/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A process is killed while its kernel spins, again and again: how long until
 * it is gone, until its memory is back, and until another has begun where it
 * was, step by step.
 */

#include <fcntl.h>

#include "tests/gpu/gpu.h"

#define BYTES    (256 * GPU_MIB)
#define ROUNDS   20
#define PATIENCE 60e3 /* ms */

static size_t free_bytes(void)
{
	size_t bytes = 0, total = 0;

	cu.cuMemGetInfo_v2(&bytes, &total);
	return bytes;
}

/* ---- the part ----------------------------------------------------------- */

struct times {
	double init_ms, context_ms, module_ms;
};

static double step(double *from)
{
	double now = contract_now_ms(), took = now - *from;

	*from = now;
	return took;
}

static int spin(char **argv)
{
	double from = contract_now_ms();
	CUdeviceptr word = 0, memory = 0;
	void *params[] = { &word };
	CUcontext context;
	struct times t;
	CUmodule module;
	CUfunction f;

	WANT(!contract_load(argv) && !cu.cuInit(0));
	t.init_ms = step(&from);
	WANT(!cu.cuDevicePrimaryCtxRetain(&context, 0) &&
	     !cu.cuCtxSetCurrent(context));
	t.context_ms = step(&from);
	WANT(!cu.cuModuleLoadData(&module, CONTRACT_KERNELS) &&
	     !cu.cuModuleGetFunction(&f, module, "contract_spin"));
	t.module_ms = step(&from);
	WANT(!cu.cuMemAlloc_v2(&memory, BYTES));
	WANT(!cu.cuMemAlloc_v2(&word, 4096));
	WANT(!cu.cuMemsetD32_v2(word, 0, 1024) && !cu.cuCtxSynchronize());
	WANT(!cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	contract_rest_ms(20);
	WANT(cu.cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY);
	WANT(gpu_tell(GPU_PART_SOCKET, &t, sizeof(t), -1));
	for (;;)
		pause();
}

/* ---- the test ----------------------------------------------------------- */

struct figures {
	double init[ROUNDS], context[ROUNDS], module[ROUNDS], exit[ROUNDS],
		memory[ROUNDS];
	size_t n;
};

static bool kill_one(struct figures *f, size_t before)
{
	struct gpu_part part = { .socket = -1 };
	struct times t;
	double from;

	if (!OK(gpu_part_begin("spin", 0, &part)))
		return false;
	if (!OK(gpu_hear(part.socket, &t, sizeof(t), NULL))) {
		gpu_part_end(&part);
		return false;
	}
	OK(free_bytes() + BYTES <= before);
	from = contract_now_ms();
	kill(part.pid, SIGKILL);
	EQ(gpu_part_end(&part), -SIGKILL);
	f->exit[f->n] = contract_now_ms() - from;
	while (free_bytes() < before && contract_now_ms() - from < PATIENCE)
		contract_rest_ms(1);
	f->memory[f->n] = contract_now_ms() - from;
	f->init[f->n] = t.init_ms;
	f->context[f->n] = t.context_ms;
	f->module[f->n] = t.module_ms;
	f->n++;
	return EQ(free_bytes() >= before, true);
}

TAP_CASE_ARGS(argc, argv)
{
	static struct figures f;
	size_t before, rounds;

	if (argc == 3)
		return spin(argv);
	if (!gpu_begin(argv) || !contract_context())
		return tap_done();
	before = free_bytes();
	rounds = (size_t)gpu_rounds(ROUNDS, 2);
	while (f.n < rounds && kill_one(&f, before))
		;
	EQ(f.n, rounds);
	FACT("\"killed_under_a_kernel_ms\":{%s,%s}",
	     gpu_spread("exit", f.exit, f.n),
	     gpu_spread("memory_back", f.memory, f.n));
	FACT("\"begun_again_ms\":{%s,%s,%s}", gpu_spread("init", f.init, f.n),
	     gpu_spread("context", f.context, f.n),
	     gpu_spread("module", f.module, f.n));
	contract_end_context();
	return tap_done();
}
