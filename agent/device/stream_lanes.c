/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/stream.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

/* A word stays as it is when the device is lost, so who looks asks the driver
 * once in so many looks. */
#define LOOKS 4096u

/* ---- sleepers ------------------------------------------------------------ */

/* The slot to wait for, and its mark, or NULL: leave. */
static struct gm_stream_slot *next_wanted(struct gm_stream_lane *lane,
					  struct gm_async_exec *ret_mark)
{
	struct gm_stream_slot *slot = NULL;

	pthread_mutex_lock(&lane->mutex);
	while (!lane->leaving && !lane->wanted)
		pthread_cond_wait(&lane->cond, &lane->mutex);
	if (!lane->leaving) {
		slot = lane->wanted;
		*ret_mark = lane->mark;
		lane->wanted = NULL;
	}
	pthread_mutex_unlock(&lane->mutex);
	return slot;
}

/*
 * One lane's thread.  A wait that fails returns at once, then and ever after:
 * whatever the reason, the device is given up, or we should spin.
 */
static void *sleep_for(void *arg)
{
	struct gm_stream_lane *lane = arg;
	const struct gm_gpu_ops *ops = lane->stream->ops;
	struct gm_gpu *gpu = lane->stream->gpu;
	struct gm_stream_slot *slot;
	struct gm_async_exec mark;
	int rc = gm_stream_bind_thread(ops, gpu);

	while ((slot = next_wanted(lane, &mark)) != NULL) {
		if (rc == 0)
			rc = ops->wait(gpu, &mark);
		if (rc < 0)
			gm_stream_lose(gpu, 0, strerror(-rc));
		gm_put(&slot->watched, 0);
		gm_stream_tell(gpu);
	}
	return NULL;
}

static int start_sleeper(struct gm_stream_lane *lane)
{
	sigset_t all, saved;
	int rc;

	/* Signals are for the threads that expect them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	rc = pthread_create(&lane->sleeper, NULL, sleep_for, lane);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	lane->has_sleeper = rc == 0;
	return -rc;
}

static void stop_sleeper(struct gm_stream_lane *lane)
{
	if (!lane->has_sleeper)
		return;
	pthread_mutex_lock(&lane->mutex);
	lane->leaving = true;
	pthread_cond_signal(&lane->cond);
	pthread_mutex_unlock(&lane->mutex);
	pthread_join(lane->sleeper, NULL);
}

static void have_watched(struct gm_stream_lane *lane,
			 struct gm_stream_slot *slot)
{
	if (gm_get(&slot->watched))
		return;
	pthread_mutex_lock(&lane->mutex);
	if (lane->wanted) /* not begun, and over by now */
		gm_put(&lane->wanted->watched, 0);
	gm_put(&slot->watched, 1);
	lane->wanted = slot;
	lane->mark = slot->mark;
	pthread_cond_signal(&lane->cond);
	pthread_mutex_unlock(&lane->mutex);
}

/* ---- opening and closing ------------------------------------------------- */

int gm_stream_lanes_open(struct gm_stream *stream)
{
	int rc = 0;

	for (uint32_t i = 0; i < GM_GPU_LANES && rc == 0; i++) {
		struct gm_stream_lane *lane = &stream->lanes[i];

		lane->stream = stream;
		lane->word = stream->gpu->words[i];
		for (uint32_t j = 0; j < GM_GPU_MARKS; j++) {
			lane->slots[j].mark.lane = i;
			lane->slots[j].mark.slot = j;
		}
		pthread_mutex_init(&lane->mutex, NULL);
		pthread_cond_init(&lane->cond, NULL);
		if (stream->ops->wait)
			rc = start_sleeper(lane);
	}
	return rc;
}

void gm_stream_lanes_close(struct gm_stream *stream)
{
	for (uint32_t i = 0; i < GM_GPU_LANES; i++) {
		struct gm_stream_lane *lane = &stream->lanes[i];

		if (!lane->stream)
			continue;
		stop_sleeper(lane);
		pthread_cond_destroy(&lane->cond);
		pthread_mutex_destroy(&lane->mutex);
	}
}

/* ---- slices under way ---------------------------------------------------- */

struct gm_stream_slot *gm_stream_slot_of(struct gm_stream *stream,
					 const struct gm_async_exec *flight)
{
	struct gm_stream_slot *slot;

	if (!flight || flight->lane >= GM_GPU_LANES)
		return NULL;
	slot = &stream->lanes[flight->lane].slots[flight->slot];
	return slot->busy && slot->mark.value == flight->value ? slot : NULL;
}

struct gm_stream_slot *gm_stream_slot_free(struct gm_stream_lane *lane)
{
	if (lane->n_busy == GM_STREAM_UNDER_WAY)
		return NULL;
	for (uint32_t i = 0; i < GM_GPU_MARKS; i++) {
		struct gm_stream_slot *slot = &lane->slots[i];

		/* A mark is not made again while a thread waits for it,
		 * because that thread would wait for both. */
		if (!slot->busy && !gm_get(&slot->watched))
			return slot;
	}
	return NULL;
}

int gm_stream_slot_begin(struct gm_stream_lane *lane,
			 struct gm_stream_slot *slot,
			 struct gm_async_exec *ret_flight)
{
	int rc;

	slot->mark.value = ++lane->value;
	rc = lane->stream->ops->mark(lane->stream->gpu, &slot->mark);
	if (rc < 0)
		return rc;
	slot->queried = rc > 0;
	slot->busy = true;
	lane->n_busy++;
	*ret_flight = slot->mark;
	return 0;
}

bool gm_stream_slot_passed(struct gm_stream_lane *lane,
			   struct gm_stream_slot *slot)
{
	struct gm_stream *stream = lane->stream;

	/* LANE.word LANE.armed */
	if (lane->word && gm_get_ordered(lane->word) >= slot->mark.value)
		return true;
	return slot->queried &&
	       stream->ops->passed(stream->gpu, &slot->mark) > 0;
}

/* A later call gets the same answer. */
static int ended_before(const struct gm_stream *stream,
			const struct gm_async_exec *flight)
{
	for (uint32_t i = 0; i < GM_STREAM_FAILED; i++) {
		if (stream->failed[i].lane == flight->lane &&
		    stream->failed[i].value == flight->value)
			return -EIO;
	}
	return 1;
}

static int end(struct gm_stream *stream, const struct gm_async_exec *flight,
	       struct gm_stream_slot *slot)
{
	struct gm_stream_landing *landing = &slot->landing;

	if (landing->to)
		memcpy(landing->to, landing->from, landing->bytes);
	landing->to = NULL;
	stream->in_use &= ~slot->units;
	slot->busy = false;
	stream->lanes[flight->lane].n_busy--;
	if (!slot->failed)
		return 1;
	stream->failed[stream->n_failed++ % GM_STREAM_FAILED] = *flight;
	return -EIO;
}

/* Not yet; or never, because something went wrong on the device. */
static int look_closer(struct gm_stream *stream, uint32_t lane)
{
	if (!stream->ops->look || ++stream->n_looked % LOOKS != 0)
		return 0;
	return stream->ops->look(stream->gpu, lane) == -ENOTRECOVERABLE
		       ? -ENOTRECOVERABLE
		       : 0;
}

int gm_stream_ended(struct gm_backend_device *dev,
		    const struct gm_async_exec *flight)
{
	struct gm_stream *stream = (struct gm_stream *)dev;
	struct gm_stream_slot *slot;
	struct gm_stream_lane *lane;

	if (gm_stream_is_lost(stream->gpu))
		return -ENOTRECOVERABLE;
	slot = gm_stream_slot_of(stream, flight);
	if (!slot)
		return ended_before(stream, flight);
	lane = &stream->lanes[flight->lane];
	if (!slot->queried && gm_get_acquire(lane->word) < slot->mark.value)
		return look_closer(stream, flight->lane); /* LANE.word */
	if (gm_stream_slot_passed(lane, slot))
		return end(stream, flight, slot);
	return gm_stream_is_lost(stream->gpu) ? -ENOTRECOVERABLE : 0;
}

static struct gm_stream_slot *oldest(struct gm_stream_lane *lane)
{
	struct gm_stream_slot *first = NULL;

	for (uint32_t i = 0; i < GM_GPU_MARKS && lane->n_busy; i++) {
		struct gm_stream_slot *slot = &lane->slots[i];

		if (slot->busy &&
		    (!first || slot->mark.value < first->mark.value))
			first = slot;
	}
	return first;
}

int gm_stream_arm(struct gm_backend_device *dev)
{
	struct gm_stream *stream = (struct gm_stream *)dev;
	struct gm_stream_slot *slots[GM_GPU_LANES];
	bool is_told = !stream->ops->wait;

	if (is_told)
		gm_put_ordered(&stream->gpu->armed, 1); /* LANE.armed */
	for (uint32_t i = 0; i < GM_GPU_LANES; i++) {
		slots[i] = oldest(&stream->lanes[i]);
		if (slots[i] &&
		    gm_stream_slot_passed(&stream->lanes[i], slots[i]))
			return 1;
	}
	if (gm_stream_is_lost(stream->gpu))
		return -ENOTRECOVERABLE;
	for (uint32_t i = 0; i < GM_GPU_LANES && !is_told; i++) {
		if (slots[i])
			have_watched(&stream->lanes[i], slots[i]);
	}
	return 0;
}
