/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <stdlib.h>

#include "tests/fake/driver.h"

struct event {
	uint64_t handle;
	struct event *next;
	struct fake_context *ctx;
	struct fake_op *op; /* of its last record, NULL before the first */
	unsigned int flags;
};

static struct event *events;

static CUresult enter_event(CUevent handle, struct event **ret_event)
{
	struct fake_context *ctx;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	*ret_event = fake_handle_get(FAKE_EVENT, (uint64_t)(uintptr_t)handle);
	return *ret_event ? CUDA_SUCCESS
			  : fake_leave(CUDA_ERROR_INVALID_HANDLE);
}

static void destroy(struct event **at)
{
	struct event *event = *at;

	*at = event->next;
	fake_handle_drop(FAKE_EVENT, event->handle);
	fake_op_put(event->op);
	free(event);
}

void fake_events_forget(struct fake_context *ctx)
{
	struct event **at = &events;

	while (*at) {
		if ((*at)->ctx == ctx)
			destroy(at);
		else
			at = &(*at)->next;
	}
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	const unsigned int known = CU_EVENT_BLOCKING_SYNC |
				   CU_EVENT_DISABLE_TIMING |
				   CU_EVENT_INTERPROCESS;
	struct fake_context *ctx;
	struct event *e;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	/* Events for other processes keep no time. */
	if (!event || flags & ~known ||
	    (flags & CU_EVENT_INTERPROCESS &&
	     !(flags & CU_EVENT_DISABLE_TIMING)))
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	e = calloc(1, sizeof(*e));
	if (e)
		e->handle = fake_handle_new(FAKE_EVENT, e);
	if (!e || !e->handle) {
		free(e);
		return fake_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	e->ctx = ctx;
	e->flags = flags;
	e->next = events;
	events = e;
	*event = (CUevent)(uintptr_t)e->handle;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuEventDestroy_v2(CUevent event)
{
	struct event *e, **at = &events;
	CUresult result = enter_event(event, &e);

	if (result)
		return result;
	while (*at != e)
		at = &(*at)->next;
	destroy(at);
	return fake_leave(CUDA_SUCCESS);
}

static CUresult pass(struct fake_op *op)
{
	return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	struct fake_stream *s;
	struct fake_op *op;
	struct event *e;
	CUresult result = enter_event(event, &e);

	if (result)
		return result;
	result = fake_stream_get(e->ctx, stream, &s);
	if (!result && s->ctx != e->ctx)
		result = CUDA_ERROR_INVALID_HANDLE;
	if (!result)
		result = fake_enqueue(s, pass, NULL, false, NULL, &op);
	if (!result) {
		fake_op_put(e->op);
		e->op = op;
	}
	return fake_leave(result);
}

CUresult cuEventQuery(CUevent event)
{
	struct event *e;
	CUresult result = enter_event(event, &e);

	if (result)
		return result;
	return fake_leave(e->op && !e->op->is_done ? CUDA_ERROR_NOT_READY
						   : CUDA_SUCCESS);
}

CUresult cuEventSynchronize(CUevent event)
{
	struct event *e;
	CUresult result = enter_event(event, &e);

	if (result)
		return result;
	return fake_leave(e->op ? fake_op_wait(e->op) : CUDA_SUCCESS);
}

/* A wait is for the record that was last when it was asked for. */
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	struct fake_context *ctx;
	struct fake_stream *s;
	struct event *e;
	CUresult result;

	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = enter_event(event, &e);
	if (result)
		return result;
	result = fake_current(&ctx);
	if (!result)
		result = fake_stream_get(ctx, stream, &s);
	if (!result && e->op)
		result = fake_enqueue(s, pass, NULL, false, e->op, NULL);
	return fake_leave(result);
}

CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
	struct event *a, *b;
	CUresult result = enter_event(start, &a);

	if (result)
		return result;
	b = fake_handle_get(FAKE_EVENT, (uint64_t)(uintptr_t)end);
	if (!b || !a->op || !b->op || a->ctx != b->ctx ||
	    (a->flags | b->flags) & CU_EVENT_DISABLE_TIMING)
		return fake_leave(CUDA_ERROR_INVALID_HANDLE);
	if (!ms)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	if (!a->op->is_done || !b->op->is_done)
		return fake_leave(CUDA_ERROR_NOT_READY);
	*ms = (float)((double)(int64_t)(b->op->ended - a->op->ended) / 1e6);
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	return cuEventElapsedTime_v2(ms, start, end);
}
