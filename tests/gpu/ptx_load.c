/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The checked-in PTX of the operators, from a cold cache and from a warm one:
 * the time of each step of a worker's start.  contract/operators.c checks the
 * operators' results.
 */

#include <dirent.h>
#include <fcntl.h>

#include "agent/cuda/operators.h"
#include "tests/gpu/gpu.h"

struct times {
	double init_ms, context_ms, module_ms;
	CUresult result;
	char log[512];
};

/* ---- the part ----------------------------------------------------------- */

static CUresult load(struct times *t)
{
	CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER,
				   CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
	void *values[] = { t->log, (void *)(uintptr_t)sizeof(t->log) };
	double from = contract_now_ms();
	CUcontext context;
	CUmodule module;
	CUresult result;

	result = cu.cuInit(0);
	t->init_ms = contract_now_ms() - from;
	from = contract_now_ms();
	if (!result)
		result = cu.cuDevicePrimaryCtxRetain(&context, 0);
	if (!result)
		result = cu.cuCtxSetCurrent(context);
	t->context_ms = contract_now_ms() - from;
	from = contract_now_ms();
	if (!result)
		result = cu.cuModuleLoadDataEx(&module, gm_operators_ptx, 2,
					       options, values);
	t->module_ms = contract_now_ms() - from;
	if (!result)
		result = cu.cuModuleUnload(module);
	if (!result)
		result = cu.cuCtxSetCurrent(NULL);
	return result ? result : cu.cuDevicePrimaryCtxRelease_v2(0);
}

static int play(char **argv)
{
	struct times times = { .log = "" };

	if (contract_load(argv))
		return 251;
	times.result = load(&times);
	WANT(gpu_tell(GPU_PART_SOCKET, &times, sizeof(times), -1));
	return 0;
}

/* ---- the test ----------------------------------------------------------- */

static void load_once(const char *cache)
{
	struct times times = { .result = CUDA_ERROR_UNKNOWN };
	struct gpu_part part = { .socket = -1 };

	if (!OK(gpu_part_begin("load", 0, &part)))
		return;
	OK(gpu_hear(part.socket, &times, sizeof(times), NULL));
	EQ(gpu_part_end(&part), 0);
	if (!EQ(times.result, CUDA_SUCCESS))
		NOTE("%s", times.log);
	FACT("\"cache\":\"%s\",\"init_ms\":%.1f,\"context_ms\":%.1f,"
	     "\"module_ms\":%.1f",
	     cache, times.init_ms, times.context_ms, times.module_ms);
}

/* The cache is ours alone, and of two levels. */
static void remove_tree(const char *path, int depth)
{
	struct dirent *entry;
	char below[512];
	DIR *dir = opendir(path);

	while (dir && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
		if (unlink(below) && depth > 0)
			remove_tree(below, depth - 1);
	}
	if (dir)
		closedir(dir);
	rmdir(path);
}

TAP_CASE_ARGS(argc, argv)
{
	char cache[] = "/tmp/gpumap-cache.XXXXXX";

	if (argc == 3)
		return play(argv);
	if (!gpu_begin(argv) || !OK(mkdtemp(cache) != NULL))
		return tap_done();
	setenv("CUDA_CACHE_PATH", cache, 1);
	setenv("CUDA_CACHE_DISABLE", "0", 1);
	load_once("cold");
	for (int i = 0; i < 3; i++)
		load_once("warm");
	remove_tree(cache, 4);
	return tap_done();
}
