/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <stdlib.h>
#include <string.h>

#include "tests/fake/module.h"

#define SHARED_MAX 49152u

struct work {
	struct fake_launch launch;
	const struct fake_kernel *kernel;
	unsigned int n_params;
	const void *params[FAKE_PARAMS_MAX];
	uint64_t bytes[]; /* of the parameters */
};

static void *reach(struct fake_launch *launch, uint64_t address, uint64_t bytes,
		   unsigned int align, bool is_write)
{
	struct fake_context *ctx = launch->driver;
	CUresult health;
	void *at = NULL;

	pthread_mutex_lock(&fake_mutex);
	health = ctx->is_stopping ? CUDA_ERROR_UNKNOWN : fake_health(ctx->dev);
	if (!health)
		at = fake_space_reach(ctx, address, bytes, is_write);
	pthread_mutex_unlock(&fake_mutex);
	if (address % align)
		launch->error = CUDA_ERROR_MISALIGNED_ADDRESS;
	else if (!at)
		launch->error =
			health ? (int)health : CUDA_ERROR_ILLEGAL_ADDRESS;
	return launch->error ? NULL : at;
}

static CUresult run_work(struct fake_op *op)
{
	struct work *work = op->data;
	CUresult result = fake_strike(op->ctx, FAKE_ON_LAUNCH);

	if (result)
		return result;
	work->launch.driver = op->ctx;
	work->kernel->run(&work->launch, work->params);
	return (CUresult)work->launch.error;
}

static bool are_dims(const CUlaunchConfig *c)
{
	uint64_t threads = (uint64_t)c->blockDimX * c->blockDimY * c->blockDimZ;

	return c->gridDimX && c->gridDimY && c->gridDimZ && threads &&
	       threads <= 1024 && c->blockDimX <= 1024 &&
	       c->blockDimY <= 1024 && c->blockDimZ <= 64 &&
	       c->gridDimX <= INT32_MAX && c->gridDimY <= 65535 &&
	       c->gridDimZ <= 65535 && c->sharedMemBytes <= SHARED_MAX;
}

/* The buffer of @extra, NULL where it is none or has another size. */
static const void *buffer_of(void **extra, unsigned int bytes)
{
	const void *buffer = NULL;
	size_t n = 0;

	for (; extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
		if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[1];
		else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			n = *(const size_t *)extra[1];
		else
			return NULL;
	}
	return n == bytes ? buffer : NULL;
}

/* Parameters are copied before the call returns. */
static struct work *pack(const CUlaunchConfig *c, const struct fake_function *f,
			 void **params, void **extra)
{
	const struct fake_entry *entry = f->entry;
	const void *buffer = extra ? buffer_of(extra, entry->bytes) : NULL;
	struct work *work = calloc(1, sizeof(*work) + entry->bytes + 8);

	if (!work)
		return NULL;
	work->launch = (struct fake_launch){
		.grid = { c->gridDimX, c->gridDimY, c->gridDimZ },
		.block = { c->blockDimX, c->blockDimY, c->blockDimZ },
		.reach = reach,
	};
	work->kernel = f->kernel;
	work->n_params = entry->n_params;
	for (unsigned int i = 0; i < entry->n_params; i++) {
		void *to = (char *)work->bytes + entry->offsets[i];

		memcpy(to,
		       buffer ? (const char *)buffer + entry->offsets[i]
			      : params[i],
		       entry->sizes[i]);
		work->params[i] = to;
	}
	return work;
}

static bool have_params(const struct fake_entry *entry, void **params,
			void **extra)
{
	if (params && extra)
		return false;
	if (extra)
		return buffer_of(extra, entry->bytes) != NULL;
	for (unsigned int i = 0; i < entry->n_params; i++)
		if (!params || !params[i])
			return false;
	return true;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
			  void **params, void **extra)
{
	struct fake_context *ctx;
	struct fake_function *f;
	struct fake_stream *s;
	struct work *work;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	f = fake_handle_get(FAKE_FUNCTION, (uintptr_t)function);
	if (!f)
		return fake_leave(CUDA_ERROR_INVALID_HANDLE);
	if (!config || !are_dims(config) ||
	    !have_params(f->entry, params, extra))
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	result = fake_stream_get(ctx, config->hStream, &s);
	if (!result && f->module->ctx && f->module->ctx != s->ctx)
		result = CUDA_ERROR_INVALID_HANDLE;
	if (result)
		return fake_leave(result);
	if (!fake_code_fits(&f->module->code,
			    &fake.hw.board->gpus[s->ctx->dev->gpu]))
		return fake_leave(CUDA_ERROR_NO_BINARY_FOR_GPU);
	work = pack(config, f, params, extra);
	if (!work)
		return fake_leave(CUDA_ERROR_OUT_OF_MEMORY);
	result = fake_enqueue(s, run_work, work, true, NULL, NULL);
	if (result)
		free(work);
	return fake_leave(result);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x,
			unsigned int grid_y, unsigned int grid_z,
			unsigned int block_x, unsigned int block_y,
			unsigned int block_z, unsigned int shared_bytes,
			CUstream stream, void **params, void **extra)
{
	const CUlaunchConfig config = {
		.gridDimX = grid_x,
		.gridDimY = grid_y,
		.gridDimZ = grid_z,
		.blockDimX = block_x,
		.blockDimY = block_y,
		.blockDimZ = block_z,
		.sharedMemBytes = shared_bytes,
		.hStream = stream,
	};

	return cuLaunchKernelEx(&config, function, params, extra);
}
