/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Operations, in order on a few lanes per context.
 *
 * A card has few queues, so streams share them: an operation behind another
 * stream's waiting one waits too.  Operations run late, and lanes at different
 * speeds, so that code that does not wait fails.
 */

#include <signal.h>
#include <stdlib.h>

#include "tests/fake/driver.h"

#define JITTER_NS 100000

struct fake_op *fake_op_get(struct fake_op *op)
{
	if (op)
		op->refs++;
	return op;
}

static void forget_order(struct fake_op *op)
{
	for (unsigned int i = 0; i < op->n_after; i++)
		fake_op_put(op->after[i]);
	free(op->after);
	op->after = NULL;
	op->n_after = 0;
}

void fake_op_put(struct fake_op *op)
{
	if (!op || --op->refs)
		return;
	forget_order(op);
	free(op->data);
	free(op);
}

/* The numbers of a poor die will do. */
static uint64_t jitter_ns(void)
{
	static uint64_t dice = UINT64_C(88172645463325252);

	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return dice % 4 ? 0 : dice / 4 % JITTER_NS;
}

static bool is_ready(const struct fake_op *op)
{
	for (unsigned int i = 0; i < op->n_after; i++)
		if (!op->after[i]->is_done)
			return false;
	return true;
}

/* The error that all later calls return; 0 for those that are not told, or not
 * by this call. */
static uint32_t xid_of(CUresult error)
{
	switch (error) {
	case CUDA_ERROR_ILLEGAL_ADDRESS:
		return 31;
	case CUDA_ERROR_ECC_UNCORRECTABLE:
		return 48;
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
		return 74;
	case CUDA_ERROR_CONTAINED:
		return 94;
	case CUDA_ERROR_UNKNOWN:
		return 0;
	default:
		return 13;
	}
}

static void strike(struct fake_context *ctx, CUresult error)
{
	uint32_t xid = xid_of(error);

	if (ctx->dev->error)
		return;
	ctx->dev->error = error;
	if (!xid)
		return;
	fake_lock(&fake.hw);
	fake_xid_post(&fake.hw, ctx->dev->gpu, xid, fake.pid);
	fake_unlock(&fake.hw);
}

static void run(struct fake_op *op)
{
	struct fake_context *ctx = op->ctx;
	uint64_t late_ns = jitter_ns();
	CUresult error;

	ctx->kernels += op->is_kernel;
	pthread_mutex_unlock(&fake_mutex);
	fake_sleep_ns(late_ns);
	error = op->run(op);
	pthread_mutex_lock(&fake_mutex);
	ctx->kernels -= op->is_kernel;
	if (error)
		strike(ctx, error);
}

/* A holder that keeps the operation for its end keeps none of its
 * predecessors. */
static void finish(struct fake_lane *lane, struct fake_op *op)
{
	lane->first = op->next;
	if (!lane->first)
		lane->last = &lane->first;
	op->ended = fake_now_ns();
	op->is_done = true;
	forget_order(op);
	op->ctx->pending--;
	fake_op_put(op);
	pthread_cond_broadcast(&fake_moved);
}

static void *serve(void *data)
{
	struct fake_lane *lane = data;
	struct fake_context *ctx = lane->ctx;

	pthread_mutex_lock(&fake_mutex);
	while (lane->first || !ctx->is_stopping) {
		struct fake_op *op = lane->first;
		bool is_dead = fake_health(ctx->dev) != CUDA_SUCCESS;

		if (!op || (!is_dead && !is_ready(op))) {
			fake_wait();
			continue;
		}
		/* After a fault nothing happens in memory any more. */
		if (!is_dead)
			run(op);
		finish(lane, op);
	}
	pthread_mutex_unlock(&fake_mutex);
	return NULL;
}

/* A thread of ours takes none of its process's signals. */
static bool start(struct fake_lane *lane)
{
	sigset_t all, saved;

	if (lane->has_thread)
		return true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	lane->has_thread =
		pthread_create(&lane->thread, NULL, serve, lane) == 0;
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	return lane->has_thread;
}

static void add_after(struct fake_op *op, struct fake_op *before)
{
	if (before && !before->is_done)
		op->after[op->n_after++] = fake_op_get(before);
}

/*
 * The legacy stream begins after what every blocking stream has been given,
 * and these after what it has been given.
 */
static bool set_order(struct fake_op *op, struct fake_stream *stream,
		      struct fake_op *also)
{
	struct fake_context *ctx = op->ctx;
	unsigned int most = 2;

	for (struct fake_stream *s = ctx->streams; s; s = s->next)
		most++;
	op->after = calloc(most, sizeof(*op->after));
	if (!op->after)
		return false;
	add_after(op, also);
	if (stream != &ctx->legacy) {
		if (!(stream->flags & CU_STREAM_NON_BLOCKING))
			add_after(op, ctx->legacy.last);
		return true;
	}
	for (struct fake_stream *s = ctx->streams; s; s = s->next)
		if (!(s->flags & CU_STREAM_NON_BLOCKING))
			add_after(op, s->last);
	return true;
}

CUresult fake_enqueue(struct fake_stream *stream, fake_run *run_op, void *data,
		      bool is_kernel, struct fake_op *also,
		      struct fake_op **ret_op)
{
	struct fake_lane *lane = stream->lane;
	struct fake_op *op = calloc(1, sizeof(*op));

	if (op) {
		op->ctx = stream->ctx;
		op->refs = 1; /* of the lane */
		op->is_kernel = is_kernel;
		op->run = run_op;
		op->data = data;
	}
	if (!op || !set_order(op, stream, also) || !start(lane)) {
		if (op)
			op->data = NULL; /* the caller's still */
		fake_op_put(op);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	fake_op_put(stream->last);
	stream->last = fake_op_get(op);
	if (ret_op)
		*ret_op = fake_op_get(op);
	*lane->last = op;
	lane->last = &op->next;
	stream->ctx->pending++;
	pthread_cond_broadcast(&fake_moved);
	return CUDA_SUCCESS;
}

CUresult fake_op_wait(struct fake_op *op)
{
	struct fake_device *dev = op->ctx->dev;

	fake_op_get(op);
	while (!op->is_done && !fake_health(dev))
		fake_wait();
	fake_op_put(op);
	return fake_health(dev);
}

CUresult fake_stream_drain(struct fake_stream *stream)
{
	struct fake_device *dev = stream->ctx->dev;
	struct fake_op *last = stream->last;

	return last ? fake_op_wait(last) : fake_health(dev);
}

void fake_lanes_stop(struct fake_context *ctx)
{
	ctx->is_stopping = true;
	pthread_cond_broadcast(&fake_moved);
	for (unsigned int i = 0; i < ctx->n_lanes; i++) {
		struct fake_lane *lane = &ctx->lanes[i];

		if (!lane->has_thread)
			continue;
		pthread_mutex_unlock(&fake_mutex);
		pthread_join(lane->thread, NULL);
		pthread_mutex_lock(&fake_mutex);
		lane->has_thread = false;
	}
}
