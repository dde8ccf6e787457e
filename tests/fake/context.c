/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/fake/driver.h"

#define CONTEXT_BYTES (UINT64_C(256) << 20)
#define STACK_MAX     32

/* Contexts of this thread, the current one last.  Handles: they may be gone. */
static __thread uint64_t stack[STACK_MAX];
static __thread unsigned int n_stack;

static uint64_t top(void)
{
	return n_stack ? stack[n_stack - 1] : 0;
}

static struct fake_context *context_of(CUcontext context)
{
	return fake_handle_get(FAKE_CONTEXT, (uint64_t)(uintptr_t)context);
}

static CUcontext handle_of(uint64_t handle)
{
	return (CUcontext)(uintptr_t)handle;
}

CUresult fake_current(struct fake_context **ret_ctx)
{
	struct fake_context *ctx;

	if (!top())
		return CUDA_ERROR_INVALID_CONTEXT;
	ctx = fake_handle_get(FAKE_CONTEXT, top());
	if (!ctx)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ret_ctx = ctx;
	return CUDA_SUCCESS;
}

CUresult fake_context_drain(struct fake_context *ctx)
{
	while (ctx->pending && !fake_health(ctx->dev))
		fake_wait();
	return fake_health(ctx->dev);
}

static void take(struct fake_context *ctx)
{
	while (ctx->is_taken)
		fake_wait();
	ctx->is_taken = true;
	fake_lock(&fake.hw);
	fake.hw.board->gpus[ctx->dev->gpu].locks++;
	fake_unlock(&fake.hw);
}

static void give(struct fake_context *ctx)
{
	ctx->is_taken = false;
	pthread_cond_broadcast(&fake_moved);
}

CUresult fake_context_calm(struct fake_context *ctx)
{
	take(ctx);
	while (ctx->kernels && !fake_health(ctx->dev))
		fake_wait();
	give(ctx);
	return fake_health(ctx->dev);
}

CUresult fake_context_alone(struct fake_context *ctx)
{
	CUresult result;

	take(ctx);
	result = fake_context_drain(ctx);
	give(ctx);
	return result;
}

void fake_context_sleep(struct fake_context *ctx, uint64_t ns)
{
	if (ns == 0)
		return;
	take(ctx);
	fake_lock(&fake.hw);
	fake_sleep_ns(ns);
	fake_unlock(&fake.hw);
	give(ctx);
}

/* Whether another process has the card, where only one may. */
static bool is_taken(const struct fake_device *dev)
{
	for (size_t i = 0; i < FAKE_PROCESSES; i++) {
		const struct fake_process *p = &fake.hw.board->processes[i];

		if (p != fake.hw.self && p->serial && !p->is_nvml &&
		    p->holds & UINT32_C(1) << dev->gpu)
			return true;
	}
	return false;
}

static CUresult take_card(struct fake_device *dev)
{
	const struct fake_gpu *gpu = &fake.hw.board->gpus[dev->gpu];

	fake_sweep(&fake.hw);
	if (gpu->compute_mode == CU_COMPUTEMODE_PROHIBITED)
		return CUDA_ERROR_UNKNOWN;
	if (gpu->compute_mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS &&
	    is_taken(dev))
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	if (!fake_charge(&fake.hw, dev->gpu, CONTEXT_BYTES))
		return CUDA_ERROR_OUT_OF_MEMORY;
	fake.hw.self->holds |= UINT32_C(1) << dev->gpu;
	return CUDA_SUCCESS;
}

static void open_node(struct fake_device *dev)
{
	const struct fake_board *board = fake.hw.board;
	char path[FAKE_NODE_BYTES];

	if (dev->node >= 0 || !board->dev[0])
		return;
	fake_node(board->dev, &board->gpus[dev->gpu], 0, path);
	dev->node = open(path, O_RDWR | O_CLOEXEC);
}

static unsigned int lanes_wanted(void)
{
	const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
	long n = text ? strtol(text, NULL, 10) : 0;

	return n >= 1 && n <= FAKE_LANES_MAX ? (unsigned int)n : 8;
}

static void set_lanes(struct fake_context *ctx)
{
	ctx->n_lanes = lanes_wanted();
	for (unsigned int i = 0; i < ctx->n_lanes; i++) {
		ctx->lanes[i].ctx = ctx;
		ctx->lanes[i].last = &ctx->lanes[i].first;
	}
	ctx->legacy.ctx = ctx;
	ctx->legacy.lane = &ctx->lanes[0];
	ctx->next_lane = 1;
}

static CUresult create(struct fake_device *dev, unsigned int flags,
		       struct fake_context **ret_ctx)
{
	struct fake_context *ctx;
	CUresult result = fake_health(dev);

	if (result)
		return result;
	fake_lock(&fake.hw);
	result = take_card(dev);
	fake_unlock(&fake.hw);
	if (result)
		return result;

	ctx = calloc(1, sizeof(*ctx));
	if (ctx)
		ctx->handle = fake_handle_new(FAKE_CONTEXT, ctx);
	if (!ctx || !ctx->handle) {
		free(ctx);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	ctx->dev = dev;
	ctx->flags = flags;
	set_lanes(ctx);
	ctx->next = fake.contexts;
	fake.contexts = ctx;
	dev->contexts++;
	open_node(dev);
	*ret_ctx = ctx;
	return CUDA_SUCCESS;
}

static void leave_card(struct fake_device *dev)
{
	fake_lock(&fake.hw);
	fake_refund(&fake.hw, dev->gpu, CONTEXT_BYTES);
	if (--dev->contexts == 0)
		fake.hw.self->holds &= ~(UINT32_C(1) << dev->gpu);
	fake_unlock(&fake.hw);
	if (dev->contexts == 0 && dev->node >= 0) {
		close(dev->node);
		dev->node = -1;
	}
}

static void destroy(struct fake_context *ctx)
{
	struct fake_context **at = &fake.contexts;

	fake_handle_drop(FAKE_CONTEXT, ctx->handle);
	fake_lanes_stop(ctx);
	while (ctx->streams) {
		struct fake_stream *s = ctx->streams;

		ctx->streams = s->next;
		fake_handle_drop(FAKE_STREAM, s->handle);
		fake_op_put(s->last);
		free(s);
	}
	fake_op_put(ctx->legacy.last);
	fake_modules_forget(ctx);
	fake_events_forget(ctx);
	fake_memory_forget(ctx);
	while (*at != ctx)
		at = &(*at)->next;
	*at = ctx->next;
	if (ctx->is_primary)
		ctx->dev->primary = NULL;
	leave_card(ctx->dev);
	free(ctx);
}

static CUresult push(uint64_t handle)
{
	if (n_stack == STACK_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack[n_stack++] = handle;
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	struct fake_device *dev;
	CUresult result = fake_enter();

	if (result)
		return result;
	dev = fake_device(device);
	if (!context || !dev)
		return fake_leave(dev ? CUDA_ERROR_INVALID_VALUE
				      : CUDA_ERROR_INVALID_DEVICE);
	if (!dev->primary) {
		result = create(dev, dev->primary_flags, &dev->primary);
		if (!result)
			dev->primary->is_primary = true;
	} else {
		result = fake_health(dev);
	}
	if (!result) {
		dev->primary->uses++;
		*context = handle_of(dev->primary->handle);
	}
	return fake_leave(result);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	struct fake_device *dev;
	CUresult result = fake_enter();

	if (result)
		return result;
	dev = fake_device(device);
	if (!dev)
		return fake_leave(CUDA_ERROR_INVALID_DEVICE);
	if (!dev->primary)
		return fake_leave(CUDA_ERROR_INVALID_CONTEXT);
	if (dev->primary->uses > 1) {
		dev->primary->uses--;
		return fake_leave(fake_health(dev));
	}
	result = fake_context_drain(dev->primary);
	if (!result)
		destroy(dev->primary);
	return fake_leave(result);
}

static bool are_flags(unsigned int flags)
{
	unsigned int wait = flags & CU_CTX_SCHED_MASK;

	return !(flags & ~(unsigned int)CU_CTX_FLAGS_MASK) &&
	       (wait & (wait - 1)) == 0;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
	struct fake_device *dev;
	CUresult result = fake_enter();

	if (result)
		return result;
	dev = fake_device(device);
	if (!dev)
		return fake_leave(CUDA_ERROR_INVALID_DEVICE);
	if (!are_flags(flags))
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	dev->primary_flags = flags;
	if (dev->primary)
		dev->primary->flags = flags;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags,
				    int *active)
{
	struct fake_device *dev;
	CUresult result = fake_enter();

	if (result)
		return result;
	dev = fake_device(device);
	if (!dev || !flags || !active)
		return fake_leave(dev ? CUDA_ERROR_INVALID_VALUE
				      : CUDA_ERROR_INVALID_DEVICE);
	*flags = dev->primary_flags;
	*active = dev->primary != NULL;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params,
			unsigned int flags, CUdevice device)
{
	struct fake_context *ctx;
	struct fake_device *dev;
	CUresult result;

	if (params)
		return CUDA_ERROR_NOT_SUPPORTED;
	result = fake_enter();
	if (result)
		return result;
	dev = fake_device(device);
	if (!dev)
		return fake_leave(CUDA_ERROR_INVALID_DEVICE);
	if (!context || !are_flags(flags))
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	result = create(dev, flags, &ctx);
	if (!result)
		result = push(ctx->handle);
	if (!result)
		*context = handle_of(ctx->handle);
	return fake_leave(result);
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	return cuCtxCreate_v4(context, NULL, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
	struct fake_context *ctx;
	CUresult result = fake_enter();

	if (result)
		return result;
	ctx = context_of(context);
	if (!ctx || ctx->is_primary)
		return fake_leave(CUDA_ERROR_INVALID_CONTEXT);
	result = fake_context_drain(ctx);
	if (result)
		return fake_leave(result);
	if (top() == ctx->handle)
		n_stack--;
	destroy(ctx);
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	CUresult result = fake_enter();

	if (result)
		return result;
	result = context_of(context) ? push((uint64_t)(uintptr_t)context)
				     : CUDA_ERROR_INVALID_CONTEXT;
	return fake_leave(result);
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	CUresult result = fake_enter();

	if (result)
		return result;
	if (!n_stack)
		return fake_leave(CUDA_ERROR_INVALID_CONTEXT);
	if (context)
		*context = handle_of(top());
	n_stack--;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	CUresult result = fake_enter();

	if (result)
		return result;
	if (context && !context_of(context))
		return fake_leave(CUDA_ERROR_INVALID_CONTEXT);
	if (n_stack)
		n_stack--;
	if (context)
		result = push((uint64_t)(uintptr_t)context);
	return fake_leave(result);
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
	CUresult result = fake_enter();

	if (result)
		return result;
	if (!context)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	*context = handle_of(top());
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	struct fake_context *ctx;
	CUresult result = fake_enter();

	if (result)
		return result;
	result = fake_current(&ctx);
	if (!result && !device)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		*device = ctx->dev->ordinal;
	return fake_leave(result);
}

CUresult cuCtxSynchronize(void)
{
	struct fake_context *ctx;
	CUresult result = fake_enter_context(&ctx);

	return result ? result : fake_leave(fake_context_drain(ctx));
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	struct fake_context *ctx;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return fake_leave(CUDA_SUCCESS);
}
