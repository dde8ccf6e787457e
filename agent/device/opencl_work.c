/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * opencl_work - work on lanes, and the marks behind it.
 *
 * A library may fail a command after it has taken it, and end what comes behind
 * it well; and it calls back from several threads, in any order.  So a mark
 * keeps the events of its work, and the value of the lane that after() named.
 * By the callback of a mark the library says that all this has ended, and what
 * is before it on its lane: a thread asks all these events, in their order,
 * before it tells that their marks have passed.  A device with work that has
 * not ended by then, in spite of the order, is lost.
 *
 * The lock is never held while the library is called: it may hold locks of its
 * own while it calls back.  One thread at a time asks; others leave it what
 * they were told.
 */

#include "agent/device/opencl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAUSE_NS   200000 /* while callbacks are awaited */
#define ROOM_FIRST 4u     /* events of a mark */
#define WORD_STEP  (GM_LINE / sizeof(gm_a64))

/* The work before a mark, which dispatch changes when the mark has passed. */
struct work {
	uint32_t lane;
	uint64_t value;
	gm_cl *events; /* the last is the mark's */
	uint32_t n, room;
	uint32_t after_lane; /* waited for, with: */
	uint64_t after;      /* or 0 */
};

struct lane {
	struct work open; /* without a mark yet; its own thread's */
	/* Under lock. */
	struct work marks[GM_GPU_MARKS];
	uint64_t ended; /* the library says that this mark's work has, */
	uint64_t told;  /* and it was found sound */
};

/* For callbacks, which may come when the device is closed. */
struct gm_opencl_box {
	pthread_mutex_t lock;
	struct gm_opencl *opencl; /* NULL: closed */
	uint32_t refs;            /* the device, and callbacks that will come */
	bool is_asking;           /* a thread is */
	struct lane lanes[GM_GPU_LANES + 1]; /* and GM_GPU_SLOW */
};

/* A mark, to its callback. */
struct call {
	struct gm_opencl_box *box;
	uint32_t lane;
	uint64_t value;
};

/* ---- events -------------------------------------------------------------- */

static void release(const struct gm_opencl_calls *cl, struct work *work)
{
	for (; work->n > 0; work->n--)
		if (work->events[work->n - 1])
			(void)cl->clReleaseEvent(work->events[work->n - 1]);
}

/* Returns GM_CL_COMPLETE; else what the first event says that has failed or
 * not ended.  PoCL calls back for an event that failed as if it had not. */
static gm_cl_int ask(const struct gm_opencl_calls *cl, const struct work *work)
{
	gm_cl_int status = GM_CL_COMPLETE, error = GM_CL_SUCCESS;

	for (uint32_t i = 0; i < work->n && status == GM_CL_COMPLETE; i++) {
		if (work->events[i])
			error = cl->clGetEventInfo(
				work->events[i],
				GM_CL_EVENT_COMMAND_EXECUTION_STATUS,
				sizeof(status), &status, NULL);
		if (error != GM_CL_SUCCESS)
			status = error;
	}
	return status;
}

gm_cl *gm_opencl_event(struct gm_opencl *opencl, uint32_t lane)
{
	struct work *work = &opencl->box->lanes[lane].open;
	uint32_t room = work->room ? 2 * work->room : ROOM_FIRST;
	gm_cl *event, *events;

	/* A call that was refused has left none. */
	while (work->n > 0 && !work->events[work->n - 1])
		work->n--;
	if (work->n == work->room) {
		events = realloc(work->events, room * sizeof(*events));
		if (!events) {
			(void)gm_stream_lose(&opencl->gpu, 0, strerror(ENOMEM));
			return NULL; /* the work has none */
		}
		work->events = events;
		work->room = room;
	}
	event = &work->events[work->n++];
	*event = NULL;
	return event;
}

/* Nothing else tells that work on GM_GPU_SLOW has failed. */
int gm_opencl_drain(struct gm_opencl *opencl, uint32_t lane)
{
	const struct gm_opencl_calls *cl = opencl->cl;
	struct work *work = &opencl->box->lanes[lane].open;
	gm_cl_int error = cl->clFinish(opencl->queues[lane]);

	if (error == GM_CL_SUCCESS)
		error = ask(cl, work);
	release(cl, work);
	return error == GM_CL_SUCCESS ? 0
				      : gm_stream_lose_by(&opencl->gpu, error);
}

/* ---- callbacks ----------------------------------------------------------- */

/* The next mark to ask for: of this lane, or of another that it is behind. */
static struct work *next_of(struct gm_opencl_box *box, uint32_t at)
{
	struct lane *lane = &box->lanes[at], *other;
	struct work *next = NULL;

	for (uint32_t i = 0; i < GM_GPU_MARKS; i++) {
		struct work *work = &lane->marks[i];

		if (work->value > lane->told && work->value <= lane->ended &&
		    (!next || work->value < next->value))
			next = work;
	}
	if (!next)
		return NULL;
	other = &box->lanes[next->after_lane];
	if (next->after <= other->told)
		return next;
	if (next->after > other->ended)
		other->ended = next->after;
	return next_of(box, next->after_lane);
}

static struct work *next(struct gm_opencl_box *box)
{
	struct work *work = NULL;

	if (!box->opencl || gm_stream_is_lost(&box->opencl->gpu))
		return NULL;
	for (uint32_t i = 0; i < GM_GPU_LANES && !work; i++)
		work = next_of(box, i);
	return work;
}

/* Under lock, but while the library is asked. */
static void ask_all(struct gm_opencl_box *box)
{
	const struct gm_opencl_calls *cl;
	struct work *work;
	gm_cl_int status;

	while ((work = next(box)) != NULL) {
		cl = box->opencl->cl;
		pthread_mutex_unlock(&box->lock);
		status = ask(cl, work);
		pthread_mutex_lock(&box->lock);
		if (!box->opencl)
			return;
		if (status != GM_CL_COMPLETE) {
			(void)gm_stream_lose_by(&box->opencl->gpu, status);
			return;
		}
		box->lanes[work->lane].told = work->value;
		gm_stream_told(&box->opencl->gpu,
			       box->opencl->words + work->lane * WORD_STEP,
			       work->value);
	}
}

/* Gives the lock back.  The device may be closed then, and its memory gone. */
static void leave(struct gm_opencl_box *box)
{
	bool is_last = --box->refs == 0;

	pthread_mutex_unlock(&box->lock);
	if (!is_last)
		return;
	pthread_mutex_destroy(&box->lock);
	for (uint32_t i = 0; i <= GM_GPU_SLOW; i++) {
		free(box->lanes[i].open.events);
		for (uint32_t j = 0; j < GM_GPU_MARKS; j++)
			free(box->lanes[i].marks[j].events);
	}
	free(box);
}

/* On a thread of the library's, or within the call that asked for it. */
static void tell(gm_cl event, gm_cl_int status, void *arg)
{
	struct call *call = arg;
	struct gm_opencl_box *box = call->box;
	struct lane *lane = &box->lanes[call->lane];

	(void)event;
	pthread_mutex_lock(&box->lock);
	if (box->opencl && status != GM_CL_COMPLETE)
		(void)gm_stream_lose_by(&box->opencl->gpu, status);
	if (call->value > lane->ended)
		lane->ended = call->value;
	free(call);
	if (!box->is_asking) {
		box->is_asking = true;
		ask_all(box);
		box->is_asking = false;
	}
	leave(box);
}

int gm_opencl_work_open(struct gm_opencl *opencl)
{
	struct gm_opencl_box *box = calloc(1, sizeof(*box));

	if (!box)
		return -ENOMEM;
	pthread_mutex_init(&box->lock, NULL);
	box->opencl = opencl;
	box->refs = 1;
	opencl->box = box;
	return 0;
}

/* All work has ended, and of a library's threads some may be about to say so.
 * Those of a device that is lost are not waited for, and its events stay. */
void gm_opencl_work_close(struct gm_opencl *opencl)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	bool is_lost = gm_stream_is_lost(&opencl->gpu);
	struct gm_opencl_box *box = opencl->box;

	if (!box)
		return;
	pthread_mutex_lock(&box->lock);
	while (box->refs > 1 && !is_lost) {
		pthread_mutex_unlock(&box->lock);
		nanosleep(&pause, NULL);
		pthread_mutex_lock(&box->lock);
	}
	box->opencl = NULL;
	for (uint32_t i = 0; i < GM_GPU_LANES && !is_lost; i++) {
		release(opencl->cl, &box->lanes[i].open);
		for (uint32_t j = 0; j < GM_GPU_MARKS; j++)
			release(opencl->cl, &box->lanes[i].marks[j]);
	}
	leave(box);
}

/* ---- work ---------------------------------------------------------------- */

gm_cl_int gm_opencl_move(struct gm_opencl *opencl, uint32_t lane,
			 struct gm_gpu_at at, char *host, uint64_t bytes,
			 bool is_back)
{
	const struct gm_opencl_calls *cl = opencl->cl;
	gm_cl queue = opencl->queues[lane];
	gm_cl memory = gm_opencl_memory_of(at.mem);
	gm_cl *event = gm_opencl_event(opencl, lane);

	return is_back ? cl->clEnqueueReadBuffer(queue, memory, 0, at.offset,
						 bytes, host, 0, NULL, event)
		       : cl->clEnqueueWriteBuffer(queue, memory, 0, at.offset,
						  bytes, host, 0, NULL, event);
}

/* As the processor has it, where the device has not; else NULL. */
static char *host_of(struct gm_gpu_at at)
{
	return at.mem ? gm_opencl_twin_of(at) : (char *)(uintptr_t)at.offset;
}

int gm_opencl_copy(struct gm_gpu *gpu, uint32_t lane, struct gm_gpu_at to,
		   struct gm_gpu_at from, uint64_t bytes)
{
	struct gm_opencl *opencl = (struct gm_opencl *)gpu;
	char *dst = host_of(to), *src = host_of(from);
	gm_cl_int error;

	if (dst || src)
		error = gm_opencl_move(opencl, lane, dst ? from : to,
				       dst ? dst : src, bytes, dst != NULL);
	else
		error = opencl->cl->clEnqueueCopyBuffer(
			opencl->queues[lane], gm_opencl_memory_of(from.mem),
			gm_opencl_memory_of(to.mem), from.offset, to.offset,
			bytes, 0, NULL, gm_opencl_event(opencl, lane));
	return gm_stream_check(gpu, error);
}

int gm_opencl_fill(struct gm_gpu *gpu, uint32_t lane, struct gm_gpu_at to,
		   uint64_t bytes, uint8_t value)
{
	struct gm_opencl *opencl = (struct gm_opencl *)gpu;

	return GM_OPENCL_CALL(opencl, clEnqueueFillBuffer, opencl->queues[lane],
			      gm_opencl_memory_of(to.mem), &value,
			      sizeof(value), to.offset, bytes, 0, NULL,
			      gm_opencl_event(opencl, lane));
}

/* ---- marks --------------------------------------------------------------- */

/* A mark is the event of the last work, or of a marker where there was none.
 * Its work takes the place of that of the slot's last mark. */
int gm_opencl_mark(struct gm_gpu *gpu, const struct gm_async_exec *mark)
{
	struct gm_opencl *opencl = (struct gm_opencl *)gpu;
	const struct gm_opencl_calls *cl = opencl->cl;
	struct gm_opencl_box *box = opencl->box;
	struct lane *lane = &box->lanes[mark->lane];
	struct work *open = &lane->open, old;
	gm_cl queue = opencl->queues[mark->lane];
	struct call *call = malloc(sizeof(*call));
	gm_cl_int error = GM_CL_SUCCESS;
	gm_cl *event = open->n > 0 ? &open->events[open->n - 1] : NULL;

	if (!event || !*event)
		event = gm_opencl_event(opencl, mark->lane);
	if (!event || !call) {
		free(call);
		return gm_stream_lose(gpu, 0, strerror(ENOMEM));
	}
	if (!*event)
		error = cl->clEnqueueMarkerWithWaitList(queue, 0, NULL, event);
	*call = (struct call){ box, mark->lane, mark->value };
	open->lane = mark->lane;
	open->value = mark->value;
	pthread_mutex_lock(&box->lock);
	old = lane->marks[mark->slot];
	lane->marks[mark->slot] = *open;
	box->refs++;
	pthread_mutex_unlock(&box->lock);
	release(cl, &old);
	*open = (struct work){ .events = old.events, .room = old.room };
	if (error == GM_CL_SUCCESS)
		error = cl->clSetEventCallback(*event, GM_CL_COMPLETE, tell,
					       call);
	if (error == GM_CL_SUCCESS) {
		error = cl->clFlush(queue);
	} else {
		free(call);
		pthread_mutex_lock(&box->lock);
		leave(box);
	}
	return error == GM_CL_SUCCESS ? 0
				      : gm_stream_lose_by(&opencl->gpu, error);
}

int gm_opencl_after(struct gm_gpu *gpu, uint32_t lane,
		    const struct gm_async_exec *mark)
{
	struct gm_opencl *opencl = (struct gm_opencl *)gpu;
	const struct work *before =
		&opencl->box->lanes[mark->lane].marks[mark->slot];
	struct work *work = &opencl->box->lanes[lane].open;

	work->after_lane = mark->lane;
	work->after = mark->value;
	return GM_OPENCL_CALL(opencl, clEnqueueBarrierWithWaitList,
			      opencl->queues[lane], 1,
			      &before->events[before->n - 1], NULL);
}

int gm_opencl_finish(struct gm_gpu *gpu, uint32_t lane)
{
	uint32_t last = lane == GM_GPU_ALL ? GM_GPU_SLOW : lane;
	int rc = 0;

	/* The library of a device that is lost may wait for ever. */
	for (uint32_t i = lane == GM_GPU_ALL ? 0 : lane; i <= last; i++)
		rc = gm_stream_is_lost(gpu)
			     ? -ENOTRECOVERABLE
			     : gm_opencl_drain((struct gm_opencl *)gpu, i);
	return rc;
}
