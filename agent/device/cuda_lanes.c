/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/cuda.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/cuda/cuerror.h"

/* A word stays as it is when the context is lost, so who looks asks the driver
 * once in so many looks. */
#define LOOKS 4096u

#define WORDS (GM_LINE / sizeof(gm_a64)) /* from one lane's word to the next */

/* ---- sleepers ------------------------------------------------------------ */

void gm_cuda_tell(struct gm_cuda *cuda)
{
	const uint64_t one = 1;
	ssize_t n;

	if (cuda->dev.ended_fd < 0)
		return;
	/* The write fails when the counter is at its end, after 2^64 times:
	 * then it is readable already. */
	n = write(cuda->dev.ended_fd, &one, sizeof(one));
	(void)n;
}

/* The slot to wait for, or NULL: leave. */
static struct gm_cuda_slot *next_wanted(struct gm_cuda_lane *lane)
{
	struct gm_cuda_slot *slot = NULL;

	pthread_mutex_lock(&lane->mutex);
	while (!lane->leaving && !lane->wanted)
		pthread_cond_wait(&lane->cond, &lane->mutex);
	if (!lane->leaving) {
		slot = lane->wanted;
		lane->wanted = NULL;
	}
	pthread_mutex_unlock(&lane->mutex);
	return slot;
}

/*
 * One lane's thread.  A wait that fails returns at once, then and ever after:
 * whatever the reason, the context is given up, or we should spin.
 */
static void *sleep_for(void *arg)
{
	struct gm_cuda_lane *lane = arg;
	struct gm_cuda *cuda = lane->cuda;
	const struct gm_driver *cu = cuda->driver;
	struct gm_cuda_slot *slot;
	gm_cu_result result;

	result = cu->cuCtxSetCurrent(cuda->ctx);
	while ((slot = next_wanted(lane)) != NULL) {
		if (result == GM_CU_SUCCESS)
			result = cu->cuEventSynchronize(slot->event);
		if (result != GM_CU_SUCCESS)
			gm_cuda_lose(cuda, result);
		gm_put(&slot->watched, 0);
		gm_cuda_tell(cuda);
	}
	(void)cu->cuCtxSetCurrent(NULL);
	return NULL;
}

static int start_sleeper(struct gm_cuda_lane *lane)
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

static void stop_sleeper(struct gm_cuda_lane *lane)
{
	if (!lane->has_sleeper)
		return;
	pthread_mutex_lock(&lane->mutex);
	lane->leaving = true;
	pthread_cond_signal(&lane->cond);
	pthread_mutex_unlock(&lane->mutex);
	pthread_join(lane->sleeper, NULL);
}

static void have_watched(struct gm_cuda_lane *lane, struct gm_cuda_slot *slot)
{
	if (gm_get(&slot->watched))
		return;
	pthread_mutex_lock(&lane->mutex);
	if (lane->wanted) /* not begun, and over by now */
		gm_put(&lane->wanted->watched, 0);
	gm_put(&slot->watched, 1);
	lane->wanted = slot;
	pthread_cond_signal(&lane->cond);
	pthread_mutex_unlock(&lane->mutex);
}

/* ---- opening and closing ------------------------------------------------- */

static int open_slots(struct gm_cuda *cuda, struct gm_cuda_lane *lane)
{
	int rc = 0;

	for (uint32_t i = 0; i < GM_CUDA_SLOTS && rc == 0; i++)
		rc = gm_cuda_check(cuda,
				   cuda->driver->cuEventCreate(
					   &lane->slots[i].event,
					   GM_CU_EVENT_BLOCKING_SYNC |
						   GM_CU_EVENT_DISABLE_TIMING));
	return rc;
}

static int open_lane(struct gm_cuda *cuda, struct gm_cuda_lane *lane,
		     int priority)
{
	int rc;

	lane->cuda = cuda;
	pthread_mutex_init(&lane->mutex, NULL);
	pthread_cond_init(&lane->cond, NULL);
	rc = gm_cuda_check(cuda, cuda->driver->cuStreamCreateWithPriority(
					 &lane->stream,
					 GM_CU_STREAM_NON_BLOCKING, priority));
	if (rc == 0)
		rc = open_slots(cuda, lane);
	if (rc == 0)
		rc = start_sleeper(lane);
	return rc;
}

/* In memory that the driver has pinned and no client can see. */
static int open_words(struct gm_cuda *cuda)
{
	char *host;
	gm_cu_ptr at;
	int rc;

	if (!cuda->can_write_words)
		return 0;
	rc = gm_cuda_pin(cuda, (uint64_t)GM_CUDA_LANES * GM_LINE, &host, &at);
	if (rc < 0)
		return rc;
	memset(host, 0, (size_t)GM_CUDA_LANES * GM_LINE);
	cuda->words = (gm_a64 *)(void *)host;
	for (uint32_t i = 0; i < GM_CUDA_LANES; i++) {
		cuda->lanes[i].word = cuda->words + i * WORDS;
		cuda->lanes[i].word_at = at + (gm_cu_ptr)i * GM_LINE;
	}
	return 0;
}

int gm_cuda_lanes_open(struct gm_cuda *cuda)
{
	int least = 0, greatest = 0, rc;

	cuda->dev.ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (cuda->dev.ended_fd < 0)
		return -errno;
	rc = gm_cuda_check(cuda, cuda->driver->cuCtxGetStreamPriorityRange(
					 &least, &greatest));
	if (rc == 0)
		rc = open_words(cuda);
	for (uint32_t i = 0; i < GM_CUDA_LANES && rc == 0; i++)
		rc = open_lane(cuda, &cuda->lanes[i],
			       i == GM_CUDA_SOON ? greatest : least);
	return rc;
}

static void close_lane(struct gm_cuda *cuda, struct gm_cuda_lane *lane)
{
	const struct gm_driver *cu = cuda->driver;

	if (!lane->cuda)
		return;
	stop_sleeper(lane);
	for (uint32_t i = 0; i < GM_CUDA_SLOTS; i++) {
		if (lane->slots[i].event)
			(void)cu->cuEventDestroy(lane->slots[i].event);
	}
	if (lane->stream)
		(void)cu->cuStreamDestroy(lane->stream);
	pthread_cond_destroy(&lane->cond);
	pthread_mutex_destroy(&lane->mutex);
}

void gm_cuda_lanes_close(struct gm_cuda *cuda)
{
	for (uint32_t i = 0; i < GM_CUDA_LANES; i++)
		close_lane(cuda, &cuda->lanes[i]);
	if (cuda->words)
		(void)cuda->driver->cuMemFreeHost((void *)cuda->words);
	if (cuda->dev.ended_fd >= 0)
		close(cuda->dev.ended_fd);
	cuda->dev.ended_fd = -1;
}

/* ---- slices under way ---------------------------------------------------- */

struct gm_cuda_slot *gm_cuda_slot_of(struct gm_cuda *cuda,
				     const struct gm_async_exec *flight)
{
	struct gm_cuda_slot *slot;

	if (!flight || flight->lane >= GM_CUDA_LANES)
		return NULL;
	slot = &cuda->lanes[flight->lane].slots[flight->slot];
	return slot->busy && slot->value == flight->value ? slot : NULL;
}

struct gm_cuda_slot *gm_cuda_slot_free(struct gm_cuda_lane *lane)
{
	if (lane->n_busy == GM_CUDA_UNDER_WAY)
		return NULL;
	for (uint32_t i = 0; i < GM_CUDA_SLOTS; i++) {
		struct gm_cuda_slot *slot = &lane->slots[i];

		/* An event is not recorded again while a thread waits for it,
		 * because that thread would wait for both. */
		if (!slot->busy && !gm_get(&slot->watched))
			return slot;
	}
	return NULL;
}

/* Without its word a slice is no less under way, and has its event. */
static int write_word(struct gm_cuda *cuda, struct gm_cuda_lane *lane,
		      struct gm_cuda_slot *slot)
{
	union gm_cu_mem_op op = { .size = { 0 } };
	int rc;

	slot->queried = true;
	if (!lane->word)
		return 0;
	op.value = (struct gm_cu_value_op){
		.operation = GM_CU_STREAM_MEM_OP_WRITE_VALUE_64,
		.address = lane->word_at,
		.value = slot->value,
		.flags = GM_CU_STREAM_WRITE_VALUE_DEFAULT,
	};
	rc = gm_cuda_check(cuda, cuda->driver->cuStreamBatchMemOp(lane->stream,
								  1, &op, 0));
	slot->queried = rc < 0;
	return rc == -ENOTRECOVERABLE ? rc : 0;
}

int gm_cuda_slot_begin(struct gm_cuda *cuda, struct gm_cuda_lane *lane,
		       struct gm_cuda_slot *slot,
		       struct gm_async_exec *ret_flight)
{
	gm_cu_result result;
	int rc;

	slot->value = ++lane->value;
	rc = write_word(cuda, lane, slot);
	if (rc < 0)
		return rc;
	result = cuda->driver->cuEventRecord(slot->event, lane->stream);
	/* Memory of work that is in progress and cannot be waited for is never
	 * safe to free. */
	if (result != GM_CU_SUCCESS)
		return gm_cuda_lose(cuda, result);
	slot->busy = true;
	lane->n_busy++;
	*ret_flight = (struct gm_async_exec){
		.lane = (uint32_t)(lane - cuda->lanes),
		.slot = (uint32_t)(slot - lane->slots),
		.value = slot->value,
	};
	return 0;
}

static bool event_passed(struct gm_cuda *cuda, struct gm_cuda_slot *slot)
{
	gm_cu_result result = cuda->driver->cuEventQuery(slot->event);

	if (result != GM_CU_SUCCESS && result != GM_CU_NOT_READY)
		gm_cuda_lose(cuda, result);
	return result == GM_CU_SUCCESS;
}

bool gm_cuda_slot_passed(struct gm_cuda *cuda, struct gm_cuda_lane *lane,
			 struct gm_cuda_slot *slot)
{
	if (lane->word && gm_get_acquire(lane->word) >= slot->value)
		return true; /* LANE.word */
	return slot->queried && event_passed(cuda, slot);
}

/* A later call gets the same answer. */
static int ended_before(const struct gm_cuda *cuda,
			const struct gm_async_exec *flight)
{
	for (uint32_t i = 0; i < GM_CUDA_FAILED; i++) {
		if (cuda->failed[i].lane == flight->lane &&
		    cuda->failed[i].value == flight->value)
			return -EIO;
	}
	return 1;
}

static int end(struct gm_cuda *cuda, const struct gm_async_exec *flight,
	       struct gm_cuda_slot *slot)
{
	struct gm_cuda_landing *landing = &slot->landing;

	if (landing->to)
		memcpy(landing->to, landing->from, landing->bytes);
	landing->to = NULL;
	cuda->in_use &= ~slot->units;
	slot->busy = false;
	cuda->lanes[flight->lane].n_busy--;
	if (!slot->failed)
		return 1;
	cuda->failed[cuda->n_failed++ % GM_CUDA_FAILED] = *flight;
	return -EIO;
}

/* Not yet; or never, because something went wrong on the device. */
static int look_closer(struct gm_cuda *cuda, struct gm_cuda_lane *lane)
{
	gm_cu_result result;

	if (++cuda->n_looked % LOOKS != 0)
		return 0;
	result = cuda->driver->cuStreamQuery(lane->stream);
	if (result == GM_CU_SUCCESS || result == GM_CU_NOT_READY)
		return 0;
	return gm_cuda_check(cuda, result) == -ENOTRECOVERABLE
		       ? -ENOTRECOVERABLE
		       : 0;
}

int gm_cuda_ended(struct gm_backend_device *dev,
		  const struct gm_async_exec *flight)
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;
	struct gm_cuda_slot *slot;
	struct gm_cuda_lane *lane;

	if (gm_cuda_is_lost(cuda))
		return -ENOTRECOVERABLE;
	slot = gm_cuda_slot_of(cuda, flight);
	if (!slot)
		return ended_before(cuda, flight);
	lane = &cuda->lanes[flight->lane];
	if (!slot->queried && gm_get_acquire(lane->word) < slot->value)
		return look_closer(cuda, lane); /* LANE.word */
	if (gm_cuda_slot_passed(cuda, lane, slot))
		return end(cuda, flight, slot);
	return gm_cuda_is_lost(cuda) ? -ENOTRECOVERABLE : 0;
}

static struct gm_cuda_slot *oldest(struct gm_cuda_lane *lane)
{
	struct gm_cuda_slot *first = NULL;

	for (uint32_t i = 0; i < GM_CUDA_SLOTS && lane->n_busy; i++) {
		struct gm_cuda_slot *slot = &lane->slots[i];

		if (slot->busy && (!first || slot->value < first->value))
			first = slot;
	}
	return first;
}

int gm_cuda_arm(struct gm_backend_device *dev)
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;
	struct gm_cuda_slot *slots[GM_CUDA_LANES];

	for (uint32_t i = 0; i < GM_CUDA_LANES; i++) {
		slots[i] = oldest(&cuda->lanes[i]);
		if (slots[i] &&
		    gm_cuda_slot_passed(cuda, &cuda->lanes[i], slots[i]))
			return 1;
	}
	if (gm_cuda_is_lost(cuda))
		return -ENOTRECOVERABLE;
	for (uint32_t i = 0; i < GM_CUDA_LANES; i++) {
		if (slots[i])
			have_watched(&cuda->lanes[i], slots[i]);
	}
	return 0;
}
