/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * stream_reduce - SUM, MIN and MAX.
 *
 * A launch reduces each chunk of 1024 elements to one element of the next
 * level.  A reducer keeps a chunk of each level, of level 1 GM_STREAM_CHUNKS,
 * in the lane's memory until they are full or the last.  All launches of a task
 * run on one lane in order, so no launch waits for another lane, and the next
 * task may take the reducer as soon as the last launch is issued.
 */

#include "agent/device/stream.h"

#include <errno.h>

#define CHUNK       GM_REDUCE_CHUNK
#define LEVEL_BYTES (CHUNK * sizeof(uint64_t))

_Static_assert(GM_STREAM_REDUCER_BYTES ==
		       (GM_STREAM_LEVELS + GM_STREAM_CHUNKS) * LEVEL_BYTES,
	       "one chunk of each level but the first, and of elements");
_Static_assert(CHUNK % GM_STREAM_CHUNKS == 0, "what level 1 carries fits");

/* The dtype of elements of level 1 and up. */
static uint32_t result_of(const struct gm_task *task)
{
	return gm_ops_result(task->op, task->dtype, task->to);
}

static const struct gm_gpu_kernel *kernel_of(const struct gm_stream *stream,
					     const struct gm_task *task,
					     uint32_t level)
{
	return stream->kernels
		.of[task->op][level ? result_of(task) : task->dtype];
}

bool gm_stream_can_reduce(const struct gm_stream *stream,
			  const struct gm_task *task)
{
	return kernel_of(stream, task, 0) && kernel_of(stream, task, 1);
}

/* ---- reducers ------------------------------------------------------------ */

int gm_stream_reducer_take(struct gm_stream *stream, struct gm_stream_slice *s,
			   uint64_t first)
{
	struct gm_stream_reducer *all = stream->lanes[s->lane].reducers,
				 *unused = NULL;
	const struct gm_task *task = s->task;

	for (uint32_t i = 0; i < GM_STREAM_REDUCERS; i++) {
		if (all[i].task == task && all[i].next == first) {
			s->reducer = &all[i];
			return 0;
		}
		if (!all[i].task)
			unused = &all[i];
	}
	if (first > 0)
		return -ERANGE;
	if (!unused)
		return -EAGAIN;
	*unused = (struct gm_stream_reducer){ .task = task, .at = unused->at };
	s->reducer = unused;
	return 0;
}

void gm_stream_quit(struct gm_backend_device *dev, const struct gm_task *task)
{
	struct gm_stream *stream = (struct gm_stream *)dev;

	for (uint32_t l = 0; l < GM_GPU_LANES; l++) {
		for (uint32_t i = 0; i < GM_STREAM_REDUCERS; i++) {
			if (stream->lanes[l].reducers[i].task == task)
				stream->lanes[l].reducers[i].task = NULL;
		}
	}
}

/* ---- levels -------------------------------------------------------------- */

/* Elements that a level has room for. */
static uint32_t room_of(uint32_t level)
{
	return level == 1 ? GM_STREAM_CHUNKS * CHUNK : CHUNK;
}

static uint64_t chunks(uint64_t n)
{
	return n / CHUNK + (n % CHUNK != 0);
}

/* Where the chunks of a level are filled, from 1; 0: elements that lie in two
 * places, side by side. */
static struct gm_gpu_at level_at(const struct gm_stream_reducer *r,
				 uint32_t level)
{
	return gm_stream_plus(r->at, (level > 1 ? GM_STREAM_CHUNKS - 1 + level
						: level) *
					     LEVEL_BYTES);
}

static struct gm_gpu_at next_at(const struct gm_stream_slice *s, uint32_t level)
{
	return gm_stream_plus(level_at(s->reducer, level),
			      s->reducer->filled[level] * s->dst.each);
}

static int reduce(struct gm_stream *stream, const struct gm_stream_slice *s,
		  uint32_t level, struct gm_gpu_at to, struct gm_gpu_at from,
		  uint64_t n)
{
	struct gm_gpu_launch launch = {
		.kernel = kernel_of(stream, s->task, level),
		.n = n,
		.n_args = 3,
		.args = { gm_stream_operand(to, chunks(n), s->dst.each),
			  gm_stream_operand(from, n,
					    level ? s->dst.each : s->src.each),
			  gm_stream_number(n) },
	};

	return gm_stream_launch(stream, s, &launch);
}

/* A full level goes one level up; at the end of all elements every level does,
 * until one element is left, which is dst. */
static int carry(struct gm_stream *stream, const struct gm_stream_slice *s,
		 bool is_last)
{
	struct gm_stream_reducer *r = s->reducer;

	for (uint32_t l = 1; r->filled[l] == room_of(l) || is_last; l++) {
		bool ends = is_last && !r->passed[l] && r->filled[l] <= CHUNK;
		int rc = reduce(stream, s, l,
				ends ? s->dst.at : next_at(s, l + 1),
				level_at(r, l), r->filled[l]);

		if (rc < 0 || ends)
			return rc;
		r->filled[l + 1] += (uint32_t)chunks(r->filled[l]);
		r->passed[l] = true;
		r->filled[l] = 0;
	}
	return 0;
}

/* @n elements from @from on, for which level 1 has room. */
static int reduce_block(struct gm_stream *stream,
			const struct gm_stream_slice *s, struct gm_gpu_at from,
			uint64_t n, bool is_last)
{
	struct gm_stream_reducer *r = s->reducer;
	bool ends = is_last && r->next == 0 && n <= CHUNK;
	int rc =
		reduce(stream, s, 0, ends ? s->dst.at : next_at(s, 1), from, n);

	r->next += n;
	if (rc < 0 || ends)
		return rc;
	r->filled[1] += (uint32_t)chunks(n);
	return carry(stream, s, is_last);
}

/* ---- a slice ------------------------------------------------------------- */

/* As many elements as may be reduced from where they are: whole chunks, unless
 * they are the last; as many as level 1 has room for, at most. */
static uint64_t block(const struct gm_stream_slice *s, uint64_t left)
{
	uint64_t room = (room_of(1) - s->reducer->filled[1]) * (uint64_t)CHUNK;
	uint64_t here = s->src.left / s->src.each;

	left = left < room ? left : room;
	return here >= left ? left : here / CHUNK * CHUNK;
}

int gm_stream_reduce(struct gm_stream *stream, struct gm_stream_slice *s,
		     uint64_t *ret_issued)
{
	uint64_t left = s->n, n;
	int rc = 0;

	for (*ret_issued = 0; rc == 0 && left > 0; left -= n) {
		struct gm_gpu_at from = s->src.at;
		bool apart;

		n = block(s, left);
		apart = n == 0;
		if (apart) {
			n = left < CHUNK ? left : CHUNK;
			from = level_at(s->reducer, 0);
			rc = gm_stream_gather(stream, s->lane, from, &s->src,
					      n * s->src.each, n < left);
		}
		/* Some of several calls may be on the lane. */
		*ret_issued += n;
		if (rc == 0)
			rc = reduce_block(stream, s, from, n,
					  s->is_last && n == left);
		if (rc == 0 && n < left && !apart)
			rc = gm_stream_advance(stream, &s->src,
					       n * s->src.each);
	}
	return rc;
}
