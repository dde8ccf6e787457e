/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <stdlib.h>

#include "tests/fake/driver.h"

#define PRIORITY_GREATEST (-5)

CUresult fake_stream_get(struct fake_context *ctx, CUstream handle,
			 struct fake_stream **ret_stream)
{
	struct fake_stream *stream;

	if (!handle || handle == CU_STREAM_LEGACY) {
		*ret_stream = &ctx->legacy;
		return CUDA_SUCCESS;
	}
	/* The per-thread stream is nothing that gpumap may use by accident. */
	stream = fake_handle_get(FAKE_STREAM, (uint64_t)(uintptr_t)handle);
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_stream = stream;
	return CUDA_SUCCESS;
}

/* Enter, with a stream that may belong to another context than this one. */
static CUresult enter_stream(CUstream handle, struct fake_stream **ret_stream)
{
	struct fake_context *ctx;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	result = fake_stream_get(ctx, handle, ret_stream);
	return result ? fake_leave(result) : CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags,
				    int priority)
{
	struct fake_context *ctx;
	struct fake_stream *s;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	if (!stream || flags & ~(unsigned int)CU_STREAM_NON_BLOCKING)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	s = calloc(1, sizeof(*s));
	if (s)
		s->handle = fake_handle_new(FAKE_STREAM, s);
	if (!s || !s->handle) {
		free(s);
		return fake_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	s->ctx = ctx;
	s->flags = flags;
	s->priority = priority > 0                   ? 0
		      : priority < PRIORITY_GREATEST ? PRIORITY_GREATEST
						     : priority;
	s->lane = &ctx->lanes[ctx->next_lane++ % ctx->n_lanes];
	s->next = ctx->streams;
	ctx->streams = s;
	*stream = (CUstream)(uintptr_t)s->handle;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	return cuStreamCreateWithPriority(stream, flags, 0);
}

/* Operations still queued on it will run. */
CUresult cuStreamDestroy_v2(CUstream stream)
{
	struct fake_stream *s, **at;
	CUresult result = enter_stream(stream, &s);

	if (result)
		return result;
	if (s == &s->ctx->legacy)
		return fake_leave(CUDA_ERROR_INVALID_HANDLE);
	for (at = &s->ctx->streams; *at != s; at = &(*at)->next)
		;
	*at = s->next;
	fake_handle_drop(FAKE_STREAM, s->handle);
	fake_op_put(s->last);
	free(s);
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuStreamQuery(CUstream stream)
{
	struct fake_stream *s;
	CUresult result = enter_stream(stream, &s);

	if (result)
		return result;
	return fake_leave(s->last && !s->last->is_done ? CUDA_ERROR_NOT_READY
						       : CUDA_SUCCESS);
}

CUresult cuStreamSynchronize(CUstream stream)
{
	struct fake_stream *s;
	CUresult result = enter_stream(stream, &s);

	return result ? result : fake_leave(fake_stream_drain(s));
}

CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
	struct fake_stream *s;
	CUresult result = enter_stream(stream, &s);

	if (result)
		return result;
	if (!priority)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	*priority = s->priority;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags)
{
	struct fake_stream *s;
	CUresult result = enter_stream(stream, &s);

	if (result)
		return result;
	if (!flags)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	*flags = s->flags;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
	struct fake_stream *s;
	CUresult result = enter_stream(stream, &s);

	if (result)
		return result;
	if (!context)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	*context = (CUcontext)(uintptr_t)s->ctx->handle;
	return fake_leave(CUDA_SUCCESS);
}

struct call {
	CUhostFn function;
	void *data;
};

static CUresult run_call(struct fake_op *op)
{
	struct call *call = op->data;

	call->function(call->data);
	return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
	struct fake_stream *s;
	struct call *call;
	CUresult result = enter_stream(stream, &s);

	if (result)
		return result;
	if (!function)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	call = malloc(sizeof(*call));
	if (!call)
		return fake_leave(CUDA_ERROR_OUT_OF_MEMORY);
	*call = (struct call){ .function = function, .data = data };
	result = fake_enqueue(s, run_call, call, false, NULL, NULL);
	if (result)
		free(call);
	return fake_leave(result);
}
