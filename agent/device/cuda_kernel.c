/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda_kernel - programs that a client has brought, on CUDA rows.
 *
 * A kernel is launched with one buffer of parameters, whose size the driver
 * checks: the parameters that a client declares need not match those that a
 * launch by pointers would read.
 */

#include "agent/device/cuda_work.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cuda/cuerror.h"
#include "gpumap/program.h"

#define THREADS    GPUMAP_KERNEL_THREADS
#define BLOCKS_MAX (INT32_MAX / THREADS)
/* Blocks of a multiprocessor: as of the built-in operators. */
#define UNIT_BLOCKS  8u
#define FIRST_PARAMS 3u    /* dst, src, n */
#define PARAMS_MAX   4096u /* of a launch, on any card */

_Static_assert(FIRST_PARAMS * sizeof(uint64_t) == GPUMAP_KERNEL_PARAMS_AT,
	       "what a kernel's own parameters follow");

struct gm_kernel {
	struct CUmod_st *module;
	struct CUfunc_st *fn;
};

/* ---- coming and going ---------------------------------------------------- */

/* The compiler's message, in one line. */
static void flatten(char *log)
{
	size_t n = 0;

	for (const char *at = log; *at; at++) {
		bool is_blank = (unsigned char)*at <= ' ';

		if (is_blank && (n == 0 || log[n - 1] == ' '))
			continue;
		log[n++] = (char)(is_blank ? ' ' : *at);
	}
	log[n && log[n - 1] == ' ' ? n - 1 : n] = '\0';
}

gm_cu_result gm_cuda_compile(struct gm_cuda *cuda, const void *image,
			     struct CUmod_st **ret_module,
			     char ret_log[GM_CUDA_LOG_BYTES])
{
	uint32_t options[] = { GM_CU_JIT_ERROR_LOG_BUFFER,
			       GM_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
	void *values[] = { ret_log,
			   (void *)(uintptr_t)(GM_CUDA_LOG_BYTES - 1) };
	struct CUmod_st *module = NULL;
	gm_cu_result result;

	memset(ret_log, 0, GM_CUDA_LOG_BYTES);
	result = cuda->driver->cuModuleLoadDataEx(&module, image, 2, options,
						  values);
	ret_log[GM_CUDA_LOG_BYTES - 1] = '\0';
	flatten(ret_log);
	if (result == GM_CU_SUCCESS)
		*ret_module = module;
	return result;
}

/* The compiler's own words are worth more than what we know of the number. */
static int refuse(struct gm_cuda *cuda, gm_cu_result result, const char *log,
		  char *ret_why)
{
	if (log[0])
		snprintf(ret_why, GM_KERNEL_WHY_BYTES, "CUDA %u %s: %s", result,
			 gm_cuerror_name(result), log);
	else
		gm_cuda_explain(result, "", ret_why, GM_KERNEL_WHY_BYTES);
	return gm_cuda_suspect(cuda, result);
}

int gm_cuda_load_kernel(struct gm_backend_device *dev, const void *image,
			const char *name, struct gm_kernel **ret_kernel,
			char ret_why[GM_KERNEL_WHY_BYTES])
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;
	char log[GM_CUDA_LOG_BYTES];
	struct gm_kernel *kernel;
	gm_cu_result result;
	int rc = gm_cuda_bind(cuda);

	if (rc < 0)
		return rc;
	kernel = calloc(1, sizeof(*kernel));
	if (!kernel)
		return -ENOMEM;
	result = gm_cuda_compile(cuda, image, &kernel->module, log);
	if (result != GM_CU_SUCCESS) {
		free(kernel);
		return refuse(cuda, result, log, ret_why);
	}
	result = cuda->driver->cuModuleGetFunction(&kernel->fn, kernel->module,
						   name);
	if (result == GM_CU_SUCCESS) {
		*ret_kernel = kernel;
		return 0;
	}
	rc = refuse(cuda, result, "", ret_why);
	if (rc == -ENOENT)
		snprintf(ret_why, GM_KERNEL_WHY_BYTES,
			 "it has no kernel %s: extern \"C\" __global__, or "
			 ".visible .entry, of that name",
			 name);
	gm_cuda_unload_kernel(dev, kernel);
	return rc;
}

void gm_cuda_unload_kernel(struct gm_backend_device *dev,
			   struct gm_kernel *kernel)
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;

	/* With the context goes what it has. */
	if (gm_cuda_bind(cuda) == 0)
		(void)gm_cuda_check(
			cuda, cuda->driver->cuModuleUnload(kernel->module));
	free(kernel);
}

/* ---- running ------------------------------------------------------------- */

static uint32_t blocks_for(const struct gm_cuda *cuda, uint64_t n)
{
	uint64_t blocks = n / THREADS + (n % THREADS != 0);
	uint64_t most = (uint64_t)cuda->units * UNIT_BLOCKS;

	if (most > BLOCKS_MAX)
		most = BLOCKS_MAX;
	return (uint32_t)(blocks < most ? blocks : most);
}

/* The kernel knows one address of it, and no more. */
static bool is_one_piece(const struct gm_cuda_slice *s,
			 const struct gm_cuda_side *side)
{
	return !side->each || side->left / side->each >= s->n;
}

int gm_cuda_run(struct gm_cuda *cuda, struct gm_cuda_slice *s,
		struct CUstream_st *stream)
{
	const struct gm_task *task = s->task;
	uint64_t words[PARAMS_MAX / sizeof(uint64_t)];
	const uint64_t first[FIRST_PARAMS] = { s->dst.at, s->src.at, s->n };
	size_t bytes = sizeof(first) + task->mask_n;
	void *extra[] = { GM_CU_LAUNCH_PARAM_BUFFER_POINTER, words,
			  GM_CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			  GM_CU_LAUNCH_PARAM_END };

	if (!is_one_piece(s, &s->dst) || !is_one_piece(s, &s->src))
		return -EOPNOTSUPP;
	if (bytes > sizeof(words))
		return -EINVAL;
	memcpy(words, first, sizeof(first));
	memcpy(words + FIRST_PARAMS, task->mask, task->mask_n);
	return gm_cuda_suspect(
		cuda, cuda->driver->cuLaunchKernel(
			      task->kernel->fn, blocks_for(cuda, s->n), 1, 1,
			      THREADS, 1, 1, 0, stream, NULL, extra));
}
