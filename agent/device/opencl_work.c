/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * opencl_work - work on lanes, and the marks behind it.
 *
 * A library may fail a command after it has taken it, and end what comes behind
 * it well; and it calls back from several threads, in any order.  So a mark has
 * a record of the events of its work and of what that is behind: the mark
 * before it on its lane, and the one of another lane that after() named.  A
 * callback asks all of these events, which have ended by then, before it tells
 * that its mark has passed.  Those that it finds sound are not asked again.  A
 * device with work that has not ended by then, in spite of the order, is lost.
 *
 * Records are counted, under the lock of the box, which is never held while the
 * library is called: it may hold locks of its own while it calls back.
 */

#include "agent/device/opencl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAUSE_NS    200000 /* while callbacks are awaited */
#define LOST_PAUSES 5000   /* so many, and no more come */
#define ROOM_FIRST  4u     /* events of a mark */
/* Marks that are under way, all lanes' and one more. */
#define UNDER_WAY (GM_GPU_LANES * GM_GPU_MARKS + 1)

struct gm_opencl_work {
	struct gm_opencl_box *box;
	uint32_t lane;
	uint64_t value;
	gm_cl last;    /* the mark's event */
	gm_cl *events; /* of its other work */
	uint32_t n, room;
	/* Under the box's lock. */
	uint32_t refs;
	bool is_sound; /* all of it has ended well, and what it is behind */
	struct gm_opencl_work *before[2];
	struct gm_opencl_work *next; /* of those that have no users left */
};

/* For callbacks, which may come when the device is closed. */
struct gm_opencl_box {
	pthread_mutex_t lock;
	struct gm_opencl *opencl; /* NULL: closed */
	uint32_t refs;            /* the device, and callbacks that will come */
};

/* ---- records ------------------------------------------------------------- */

static struct gm_opencl_work *refer(struct gm_opencl_work *work)
{
	if (!work || work->is_sound)
		return NULL;
	work->refs++;
	return work;
}

static void drop(struct gm_opencl_work *work, struct gm_opencl_work **unused)
{
	if (!work || --work->refs > 0)
		return;
	work->next = *unused;
	*unused = work;
	for (int i = 0; i < 2; i++)
		drop(work->before[i], unused);
}

/* @cl NULL: the device is closed, and its events are left alone. */
static void release(const struct gm_opencl_calls *cl,
		    struct gm_opencl_work *unused)
{
	struct gm_opencl_work *work;

	while ((work = unused) != NULL) {
		unused = work->next;
		if (work->last && cl)
			(void)cl->clReleaseEvent(work->last);
		for (uint32_t i = 0; cl && i < work->n; i++)
			if (work->events[i])
				(void)cl->clReleaseEvent(work->events[i]);
		free(work->events);
		free(work);
	}
}

/* Has room for one event more; NULL: there is no memory. */
static struct gm_opencl_work *open_work(struct gm_opencl *opencl, uint32_t lane)
{
	struct gm_opencl_work *work = opencl->lanes[lane].open;
	uint32_t room;
	gm_cl *events;

	if (!work) {
		work = calloc(1, sizeof(*work));
		if (!work)
			return NULL;
		*work = (struct gm_opencl_work){ .box = opencl->box,
						 .lane = lane,
						 .refs = 1 };
		opencl->lanes[lane].open = work;
	}
	/* A call that was refused has left none. */
	while (work->n > 0 && !work->events[work->n - 1])
		work->n--;
	if (work->n < work->room)
		return work;
	room = work->room ? 2 * work->room : ROOM_FIRST;
	events = realloc(work->events, room * sizeof(*events));
	if (!events)
		return NULL;
	work->events = events;
	work->room = room;
	return work;
}

/* ---- callbacks ----------------------------------------------------------- */

/* Add a record and those that it is behind, but for sound ones. */
static void gather(struct gm_opencl_work *work,
		   struct gm_opencl_work *all[UNDER_WAY], uint32_t *n)
{
	uint32_t i = 0;

	if (!work || work->is_sound)
		return;
	while (i < *n && all[i] != work)
		i++;
	if (i < *n || *n == UNDER_WAY)
		return;
	work->refs++;
	all[(*n)++] = work;
	for (int k = 0; k < 2; k++)
		gather(work->before[k], all, n);
}

static gm_cl_int status_of(const struct gm_opencl_calls *cl, gm_cl event)
{
	gm_cl_int status = GM_CL_COMPLETE, error = GM_CL_SUCCESS;

	if (event)
		error = cl->clGetEventInfo(event,
					   GM_CL_EVENT_COMMAND_EXECUTION_STATUS,
					   sizeof(status), &status, NULL);
	return error != GM_CL_SUCCESS ? error : status;
}

/* Returns GM_CL_COMPLETE; else what the first event says that has failed or
 * not ended.  PoCL calls back for an event that failed as if it had not. */
static gm_cl_int ask(const struct gm_opencl_calls *cl,
		     const struct gm_opencl_work *work)
{
	gm_cl_int status = status_of(cl, work->last);

	for (uint32_t i = 0; i < work->n && status == GM_CL_COMPLETE; i++)
		status = status_of(cl, work->events[i]);
	return status;
}

static void settle(struct gm_opencl_work *work, struct gm_opencl_work **unused)
{
	work->is_sound = true;
	for (int i = 0; i < 2; i++) {
		drop(work->before[i], unused);
		work->before[i] = NULL;
	}
}

/* Returns GM_CL_COMPLETE, or why this mark has not passed. */
static gm_cl_int check(const struct gm_opencl_calls *cl,
		       struct gm_opencl_work *work)
{
	struct gm_opencl_work *all[UNDER_WAY], *unused = NULL;
	gm_cl_int status = GM_CL_COMPLETE;
	uint32_t n = 0;

	pthread_mutex_lock(&work->box->lock);
	gather(work, all, &n);
	pthread_mutex_unlock(&work->box->lock);
	for (uint32_t i = 0; i < n && status == GM_CL_COMPLETE; i++)
		status = ask(cl, all[i]);
	pthread_mutex_lock(&work->box->lock);
	for (uint32_t i = 0; i < n; i++) {
		if (status == GM_CL_COMPLETE)
			settle(all[i], &unused);
		drop(all[i], &unused);
	}
	pthread_mutex_unlock(&work->box->lock);
	release(cl, unused);
	return status;
}

/* Gives the lock back.  The device may be closed then, and its memory gone. */
static void leave(struct gm_opencl_box *box)
{
	bool is_last = --box->refs == 0;

	pthread_mutex_unlock(&box->lock);
	if (!is_last)
		return;
	pthread_mutex_destroy(&box->lock);
	free(box);
}

/* On a thread of the library's, or within the call that asked for it. */
static void tell(gm_cl event, gm_cl_int status, void *arg)
{
	struct gm_opencl_work *work = arg, *unused = NULL;
	struct gm_opencl_box *box = work->box;
	const struct gm_opencl_calls *cl;
	struct gm_opencl *opencl;

	(void)event;
	pthread_mutex_lock(&box->lock);
	cl = box->opencl ? box->opencl->cl : NULL;
	pthread_mutex_unlock(&box->lock);
	if (cl && status == GM_CL_COMPLETE)
		status = check(cl, work);
	pthread_mutex_lock(&box->lock);
	opencl = box->opencl;
	if (opencl && status != GM_CL_COMPLETE)
		(void)gm_opencl_lose(opencl, status);
	else if (opencl)
		gm_stream_told(&opencl->gpu, opencl->lanes[work->lane].word,
			       work->value);
	drop(work, &unused);
	pthread_mutex_unlock(&box->lock);
	release(cl, unused);
	pthread_mutex_lock(&box->lock);
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
 * A device that is lost may say nothing any more. */
static void await_callbacks(struct gm_opencl *opencl)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	struct gm_opencl_box *box = opencl->box;
	uint32_t n = 0;

	pthread_mutex_lock(&box->lock);
	while (box->refs > 1 &&
	       (!gm_stream_is_lost(&opencl->gpu) || n++ < LOST_PAUSES)) {
		pthread_mutex_unlock(&box->lock);
		nanosleep(&pause, NULL);
		pthread_mutex_lock(&box->lock);
	}
	box->opencl = NULL;
	pthread_mutex_unlock(&box->lock);
}

void gm_opencl_work_close(struct gm_opencl *opencl)
{
	const struct gm_opencl_calls *cl = opencl->cl;
	struct gm_opencl_work *unused = NULL;

	if (!opencl->box)
		return;
	await_callbacks(opencl);
	pthread_mutex_lock(&opencl->box->lock);
	for (uint32_t i = 0; i < GM_GPU_LANES; i++) {
		struct gm_opencl_lane *lane = &opencl->lanes[i];

		drop(lane->open, &unused);
		drop(lane->newest, &unused);
		for (uint32_t j = 0; j < GM_GPU_MARKS; j++)
			drop(lane->marks[j], &unused);
	}
	leave(opencl->box);
	release(cl, unused);
	for (uint32_t i = 0; i < GM_GPU_MARKS; i++)
		if (opencl->slow[i])
			(void)cl->clReleaseEvent(opencl->slow[i]);
}

/* ---- work ---------------------------------------------------------------- */

/* Nothing else tells that work on GM_GPU_SLOW has failed. */
static void wait_for(struct gm_opencl *opencl, gm_cl *event)
{
	if (!*event)
		return;
	(void)GM_OPENCL_CALL(opencl, clWaitForEvents, 1, event);
	(void)opencl->cl->clReleaseEvent(*event);
	*event = NULL;
}

gm_cl *gm_opencl_event(struct gm_opencl *opencl, uint32_t lane)
{
	struct gm_opencl_work *work;
	gm_cl *event;

	if (lane == GM_GPU_SLOW) {
		event = &opencl->slow[opencl->n_slow++ % GM_GPU_MARKS];
		wait_for(opencl, event);
		return event;
	}
	work = open_work(opencl, lane);
	if (!work) {
		(void)gm_stream_lose(&opencl->gpu, 0, strerror(ENOMEM));
		return NULL; /* the work has none */
	}
	event = &work->events[work->n++];
	*event = NULL;
	return event;
}

void gm_opencl_drain(struct gm_opencl *opencl, uint32_t lane)
{
	const struct gm_opencl_calls *cl = opencl->cl;
	struct gm_opencl_work *work = opencl->lanes[lane].open;
	gm_cl_int error = cl->clFinish(opencl->lanes[lane].queue);
	gm_cl event;

	while (work && work->n > 0) {
		event = work->events[--work->n];
		if (error == GM_CL_SUCCESS)
			error = status_of(cl, event);
		if (event)
			(void)cl->clReleaseEvent(event);
	}
	if (error != GM_CL_SUCCESS)
		(void)gm_opencl_lose(opencl, error);
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
	const struct gm_opencl_calls *cl = opencl->cl;
	gm_cl queue = opencl->lanes[lane].queue;
	gm_cl *event = gm_opencl_event(opencl, lane);
	char *dst = host_of(to), *src = host_of(from);
	gm_cl_int error;

	if (dst)
		error = cl->clEnqueueReadBuffer(queue,
						gm_opencl_memory_of(from.mem),
						0, from.offset, bytes, dst, 0,
						NULL, event);
	else if (src)
		error = cl->clEnqueueWriteBuffer(queue,
						 gm_opencl_memory_of(to.mem), 0,
						 to.offset, bytes, src, 0, NULL,
						 event);
	else
		error = cl->clEnqueueCopyBuffer(queue,
						gm_opencl_memory_of(from.mem),
						gm_opencl_memory_of(to.mem),
						from.offset, to.offset, bytes,
						0, NULL, event);
	return gm_opencl_check(opencl, error);
}

int gm_opencl_fill(struct gm_gpu *gpu, uint32_t lane, struct gm_gpu_at to,
		   uint64_t bytes, uint8_t value)
{
	struct gm_opencl *opencl = (struct gm_opencl *)gpu;

	return GM_OPENCL_CALL(opencl, clEnqueueFillBuffer,
			      opencl->lanes[lane].queue,
			      gm_opencl_memory_of(to.mem), &value,
			      sizeof(value), to.offset, bytes, 0, NULL,
			      gm_opencl_event(opencl, lane));
}

/* ---- marks --------------------------------------------------------------- */

/* The event of the last work, or of a marker where there was none. */
static gm_cl_int find_last(struct gm_opencl *opencl,
			   struct gm_opencl_work *work)
{
	if (work->n > 0)
		work->last = work->events[--work->n];
	if (work->last)
		return GM_CL_SUCCESS;
	return opencl->cl->clEnqueueMarkerWithWaitList(
		opencl->lanes[work->lane].queue, 0, NULL, &work->last);
}

int gm_opencl_mark(struct gm_gpu *gpu, const struct gm_async_exec *mark)
{
	struct gm_opencl *opencl = (struct gm_opencl *)gpu;
	struct gm_opencl_lane *lane = &opencl->lanes[mark->lane];
	struct gm_opencl_work *work = open_work(opencl, mark->lane),
			      *unused = NULL;
	gm_cl_int error;

	if (!work)
		return gm_stream_lose(gpu, 0, strerror(ENOMEM));
	error = find_last(opencl, work);
	if (error != GM_CL_SUCCESS)
		return gm_opencl_lose(opencl, error);
	pthread_mutex_lock(&opencl->box->lock);
	lane->open = NULL;
	work->value = mark->value;
	work->before[0] = refer(lane->newest);
	drop(lane->newest, &unused);
	drop(lane->marks[mark->slot], &unused);
	lane->newest = lane->marks[mark->slot] = work;
	work->refs = 3; /* these two, and the callback */
	opencl->box->refs++;
	pthread_mutex_unlock(&opencl->box->lock);
	release(opencl->cl, unused);
	error = opencl->cl->clSetEventCallback(work->last, GM_CL_COMPLETE, tell,
					       work);
	if (error != GM_CL_SUCCESS) {
		pthread_mutex_lock(&opencl->box->lock);
		work->refs--;
		leave(opencl->box);
	} else {
		error = opencl->cl->clFlush(lane->queue);
	}
	return error == GM_CL_SUCCESS ? 0 : gm_opencl_lose(opencl, error);
}

int gm_opencl_after(struct gm_gpu *gpu, uint32_t lane,
		    const struct gm_async_exec *mark)
{
	struct gm_opencl *opencl = (struct gm_opencl *)gpu;
	struct gm_opencl_work *before =
		opencl->lanes[mark->lane].marks[mark->slot];
	struct gm_opencl_work *work = open_work(opencl, lane), *unused = NULL;

	if (!work)
		return gm_stream_lose(gpu, 0, strerror(ENOMEM));
	pthread_mutex_lock(&opencl->box->lock);
	drop(work->before[1], &unused); /* of a slice that did not begin */
	work->before[1] = refer(before);
	pthread_mutex_unlock(&opencl->box->lock);
	release(opencl->cl, unused);
	return GM_OPENCL_CALL(opencl, clEnqueueBarrierWithWaitList,
			      opencl->lanes[lane].queue, 1, &before->last,
			      NULL);
}

/* An error comes by a callback. */
int gm_opencl_look(struct gm_gpu *gpu, uint32_t lane)
{
	(void)lane;
	return gm_stream_is_lost(gpu) ? -ENOTRECOVERABLE : 0;
}

int gm_opencl_finish(struct gm_gpu *gpu, uint32_t lane)
{
	struct gm_opencl *opencl = (struct gm_opencl *)gpu;
	uint32_t last = lane == GM_GPU_ALL ? GM_GPU_SLOW : lane;
	int rc = 0;

	/* Its library may wait for work that never ends. */
	if (gm_stream_is_lost(gpu))
		return -ENOTRECOVERABLE;
	for (uint32_t i = lane == GM_GPU_ALL ? 0 : lane; i <= last; i++) {
		int one = GM_OPENCL_CALL(opencl, clFinish,
					 opencl->lanes[i].queue);

		rc = rc < 0 ? rc : one;
	}
	for (uint32_t i = 0; i < GM_GPU_MARKS; i++)
		wait_for(opencl, &opencl->slow[i]);
	return gm_stream_is_lost(gpu) ? -ENOTRECOVERABLE : rc;
}
