/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * stream_told: a driver whose own thread tells that marks have passed, late and
 * in any order, and a worker that sleeps for each of them: no wakeup is lost.
 */

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include "agent/device/stream.h"
#include "tests/support/dice.h"
#include "tests/support/tap.h"

#define ROUNDS     200000
#define MARKS      64
#define LANE_WORDS (GM_LINE / sizeof(gm_a64))
#define LATE_MS    20000

struct teller {
	struct gm_gpu gpu;
	gm_a64 words[GM_GPU_LANES * LANE_WORDS];
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	struct gm_async_exec marks[MARKS];
	uint32_t n;
	bool leaving;
};

/* ---- the driver ---------------------------------------------------------- */

/* All marks that there are, the last first. */
static void *tell_all(void *arg)
{
	struct teller *t = arg;
	struct gm_async_exec marks[MARKS];
	uint32_t n;

	pthread_mutex_lock(&t->mutex);
	while (!t->leaving || t->n > 0) {
		while (!t->leaving && t->n == 0)
			pthread_cond_wait(&t->cond, &t->mutex);
		n = t->n;
		memcpy(marks, t->marks, sizeof(marks));
		t->n = 0;
		pthread_mutex_unlock(&t->mutex);
		while (n-- > 0) {
			uint32_t lane = marks[n].lane;

			if (marks[n].value % 3 == 0)
				sched_yield();
			gm_stream_told(&t->gpu, &t->words[lane * LANE_WORDS],
				       marks[n].value);
		}
		pthread_mutex_lock(&t->mutex);
	}
	pthread_mutex_unlock(&t->mutex);
	return NULL;
}

static int teller_open(struct gm_gpu *gpu,
		       const struct gm_device_config *config, char *ret_took)
{
	struct teller *t = (struct teller *)gpu;

	(void)config;
	ret_took[0] = '\0';
	for (uint32_t i = 0; i < GM_GPU_LANES; i++)
		gpu->words[i] = &t->words[i * LANE_WORDS];
	pthread_mutex_init(&t->mutex, NULL);
	pthread_cond_init(&t->cond, NULL);
	return -pthread_create(&t->thread, NULL, tell_all, t);
}

static void teller_close(struct gm_gpu *gpu)
{
	struct teller *t = (struct teller *)gpu;

	pthread_mutex_lock(&t->mutex);
	t->leaving = true;
	pthread_cond_signal(&t->cond);
	pthread_mutex_unlock(&t->mutex);
	pthread_join(t->thread, NULL);
}

static int teller_bind(struct gm_gpu *gpu)
{
	(void)gpu;
	return 0;
}

static int teller_alloc(struct gm_gpu *gpu, uint64_t bytes, bool shareable,
			struct gm_gpu_mem **ret_mem)
{
	struct gm_gpu_mem *mem = calloc(1, sizeof(*mem));

	(void)gpu;
	(void)shareable;
	mem->host = calloc(1, bytes);
	mem->address = (uintptr_t)mem->host;
	mem->bytes = bytes;
	*ret_mem = mem;
	return 0;
}

static void teller_release(struct gm_gpu *gpu, struct gm_gpu_mem *mem)
{
	(void)gpu;
	free(mem->host);
	free(mem);
}

static int teller_copy(struct gm_gpu *gpu, uint32_t lane, struct gm_gpu_at to,
		       struct gm_gpu_at from, uint64_t bytes)
{
	(void)gpu;
	(void)lane;
	memcpy(to.mem->host + to.offset, from.mem->host + from.offset, bytes);
	return 0;
}

static int teller_fill(struct gm_gpu *gpu, uint32_t lane, struct gm_gpu_at to,
		       uint64_t bytes, uint8_t value)
{
	(void)gpu;
	(void)lane;
	memset(to.mem->host + to.offset, value, bytes);
	return 0;
}

static int teller_mark(struct gm_gpu *gpu, const struct gm_async_exec *mark)
{
	struct teller *t = (struct teller *)gpu;

	pthread_mutex_lock(&t->mutex);
	t->marks[t->n++] = *mark;
	pthread_cond_signal(&t->cond);
	pthread_mutex_unlock(&t->mutex);
	return 0;
}

static int teller_look(struct gm_gpu *gpu, uint32_t lane)
{
	(void)gpu;
	(void)lane;
	return 0;
}

static const struct gm_gpu_kernel *teller_find(struct gm_gpu *gpu, uint32_t op,
					       uint32_t dtype, uint32_t to)
{
	(void)gpu;
	(void)op;
	(void)dtype;
	(void)to;
	return NULL;
}

static const struct gm_gpu_ops ops = {
	.bytes = sizeof(struct teller),
	.open = teller_open,
	.close = teller_close,
	.bind = teller_bind,
	.alloc = teller_alloc,
	.release = teller_release,
	.copy = teller_copy,
	.fill = teller_fill,
	.mark = teller_mark,
	.look = teller_look,
	.finish = teller_look,
	.find = teller_find,
};

static const struct gm_backend backend = { GM_STREAM_CALLS(GM_STREAM_SET) };

/* ---- the worker ---------------------------------------------------------- */

/* Asleep until something has ended.  1; 0: nothing has, for so long. */
static int rest(struct gm_backend_device *dev, uint32_t *sleeps)
{
	struct pollfd fd = { .fd = dev->ended_fd, .events = POLLIN };
	uint64_t drained;
	int rc;

	if (read(dev->ended_fd, &drained, sizeof(drained)) < 0 &&
	    errno != EAGAIN)
		return -errno;
	rc = backend.arm(dev);
	*sleeps += rc == 0;
	return rc != 0 ? rc : poll(&fd, 1, LATE_MS);
}

static int sleep_for_all(struct gm_backend_device *dev, uint64_t address)
{
	struct gm_task task = { .op = GPUMAP_OP_COPY,
				.dst_address = address,
				.src_address = address + 64,
				.n = 8 };
	struct gm_async_exec flights[3];
	uint32_t begun = 0, ended = 0, sleeps = 0;

	while (ended < ROUNDS) {
		uint32_t most = 1 + (uint32_t)dice(3);
		int rc = 0;

		while (begun - ended < most && rc == 0) {
			rc = backend.start(dev, &task, 0, 8, NULL,
					   &flights[begun % 3]);
			if (rc == 0)
				begun++;
			else if (rc != -EAGAIN || begun == ended)
				return rc;
		}
		while ((rc = backend.ended(dev, &flights[ended % 3])) == 0) {
			if (rest(dev, &sleeps) != 1)
				return -ETIME;
		}
		if (rc != 1)
			return rc;
		ended++;
	}
	NOTE("%u slices, %u sleeps", ended, sleeps);
	while (ended < begun && backend.ended(dev, &flights[ended % 3]) == 0)
		if (rest(dev, &sleeps) != 1)
			return -ETIME;
	return sleeps > 0 ? 0 : -EAGAIN;
}

TAP_CASE()
{
	const struct gm_device_config config = { 0 };
	struct gm_backend_device *dev = NULL;
	struct gm_buffer *buffer = NULL;

	if (!EQ(gm_stream_open(&backend, &ops, &config, &dev), 0))
		return tap_done();
	EQ(backend.alloc(dev, 1, 4096, 0, &buffer), 0);
	if (buffer) {
		EQ(sleep_for_all(dev, buffer->address), 0);
		backend.free(dev, buffer);
	}
	backend.close(dev);
	return tap_done();
}
