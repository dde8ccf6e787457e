/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda_reduce - SUM, MIN and MAX on CUDA rows.
 *
 * A launch reduces each chunk of 1024 elements to one element of the next
 * level.  A reducer keeps a chunk of each level, of level 1 GM_CUDA_CHUNKS, in
 * the lane's memory until they are full or the last.  All launches of a task
 * run on one lane in order, so no launch waits for another stream, and the next
 * task may take the reducer as soon as the last launch is issued.
 */

#include "agent/device/cuda_work.h"

#include <errno.h>

#define CHUNK       GM_OPERATOR_CHUNK
#define LEVEL_BYTES (CHUNK * sizeof(uint64_t))

_Static_assert(GM_CUDA_REDUCER_BYTES ==
		       (GM_CUDA_LEVELS + GM_CUDA_CHUNKS) * LEVEL_BYTES,
	       "one chunk of each level but the first, and of elements");
_Static_assert(CHUNK % GM_CUDA_CHUNKS == 0, "what level 1 carries fits");

/* The dtype of elements of level 1 and up. */
static uint32_t result_of(const struct gm_task *task)
{
	return gm_ops_result(task->op, task->dtype, task->to);
}

static struct CUfunc_st *function_of(const struct gm_cuda *cuda,
				     const struct gm_task *task, uint32_t level)
{
	return cuda->functions.of[gm_operators_of(task->op)]
				 [level ? result_of(task) : task->dtype];
}

bool gm_cuda_can_reduce(const struct gm_cuda *cuda, const struct gm_task *task)
{
	return function_of(cuda, task, 0) && function_of(cuda, task, 1);
}

/* ---- reducers ------------------------------------------------------------ */

int gm_cuda_reducer_take(struct gm_cuda *cuda, uint32_t lane,
			 const struct gm_task *task, uint64_t first,
			 struct gm_cuda_reducer **ret_reducer)
{
	struct gm_cuda_reducer *all = cuda->lanes[lane].reducers,
			       *unused = NULL;

	for (uint32_t i = 0; i < GM_CUDA_REDUCERS; i++) {
		if (all[i].task == task && all[i].next == first) {
			*ret_reducer = &all[i];
			return 0;
		}
		if (!all[i].task)
			unused = &all[i];
	}
	if (first > 0)
		return -ERANGE;
	if (!unused)
		return -EAGAIN;
	*unused = (struct gm_cuda_reducer){ .task = task, .at = unused->at };
	*ret_reducer = unused;
	return 0;
}

void gm_cuda_reducer_give_back(struct gm_cuda_reducer *reducer)
{
	reducer->task = NULL;
}

void gm_cuda_quit(struct gm_backend_device *dev, const struct gm_task *task)
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;

	for (uint32_t l = 0; l < GM_CUDA_LANES; l++) {
		for (uint32_t i = 0; i < GM_CUDA_REDUCERS; i++) {
			if (cuda->lanes[l].reducers[i].task == task)
				cuda->lanes[l].reducers[i].task = NULL;
		}
	}
}

/* ---- levels -------------------------------------------------------------- */

/* Elements that a level has room for. */
static uint32_t room_of(uint32_t level)
{
	return level == 1 ? GM_CUDA_CHUNKS * CHUNK : CHUNK;
}

/* Where the chunks of a level are filled, from 1; 0: elements that lie in two
 * registrations, side by side. */
static gm_cu_ptr level_at(const struct gm_cuda_reducer *r, uint32_t level)
{
	return r->at +
	       (level > 1 ? GM_CUDA_CHUNKS - 1 + level : level) * LEVEL_BYTES;
}

static gm_cu_ptr next_at(const struct gm_cuda_slice *s, uint32_t level)
{
	return level_at(s->reducer, level) +
	       s->reducer->filled[level] * s->dst.each;
}

/* The parameters of a launch. */
struct launch {
	gm_cu_ptr to, from;
	uint64_t n;
};

static int reduce(struct gm_cuda *cuda, const struct gm_cuda_slice *s,
		  uint32_t level, struct launch what,
		  struct CUstream_st *stream)
{
	void *params[] = { &what.to, &what.from, &what.n };

	return gm_cuda_check(
		cuda, gm_cuda_launch(cuda, function_of(cuda, s->task, level),
				     gm_operators_of(s->task->op), what.n,
				     params, stream));
}

/* A full level goes one level up; at the end of all elements every level does,
 * until one element is left, which is dst. */
static int carry(struct gm_cuda *cuda, const struct gm_cuda_slice *s,
		 bool is_last, struct CUstream_st *stream)
{
	struct gm_cuda_reducer *r = s->reducer;

	for (uint32_t l = 1; r->filled[l] == room_of(l) || is_last; l++) {
		bool ends = is_last && !r->passed[l] && r->filled[l] <= CHUNK;
		struct launch what = { ends ? s->dst.at : next_at(s, l + 1),
				       level_at(r, l), r->filled[l] };
		int rc = reduce(cuda, s, l, what, stream);

		if (rc < 0 || ends)
			return rc;
		r->filled[l + 1] += (uint32_t)gm_operators_chunks(what.n);
		r->passed[l] = true;
		r->filled[l] = 0;
	}
	return 0;
}

/* @n elements from @from on, for which level 1 has room. */
static int reduce_block(struct gm_cuda *cuda, const struct gm_cuda_slice *s,
			gm_cu_ptr from, uint64_t n, bool is_last,
			struct CUstream_st *stream)
{
	struct gm_cuda_reducer *r = s->reducer;
	bool ends = is_last && r->next == 0 && n <= CHUNK;
	struct launch what = { ends ? s->dst.at : next_at(s, 1), from, n };
	int rc = reduce(cuda, s, 0, what, stream);

	r->next += n;
	if (rc < 0 || ends)
		return rc;
	r->filled[1] += (uint32_t)gm_operators_chunks(n);
	return carry(cuda, s, is_last, stream);
}

/* ---- a slice ------------------------------------------------------------- */

/* A chunk that lies in more than one registration, brought together. */
static int gather(struct gm_cuda *cuda, struct gm_cuda_slice *s, uint64_t n,
		  bool goes_on, struct CUstream_st *stream)
{
	gm_cu_ptr to = level_at(s->reducer, 0);
	uint64_t left = n * s->src.each, bytes;
	int rc = 0;

	for (; rc == 0 && left > 0; left -= bytes, to += bytes) {
		bytes = left < s->src.left ? left : s->src.left;
		rc = gm_cuda_check(cuda, cuda->driver->cuMemcpyDtoDAsync(
						 to, s->src.at, bytes, stream));
		if (rc == 0 && (bytes < left || goes_on))
			rc = gm_cuda_advance(cuda, &s->src, bytes, false);
	}
	return rc;
}

/* As many elements as may be reduced from where they are: whole chunks, unless
 * they are the last; as many as level 1 has room for, at most. */
static uint64_t block(const struct gm_cuda_slice *s, uint64_t left)
{
	uint64_t room = (room_of(1) - s->reducer->filled[1]) * (uint64_t)CHUNK;
	uint64_t here = s->src.left / s->src.each;

	left = left < room ? left : room;
	return here >= left ? left : here / CHUNK * CHUNK;
}

int gm_cuda_reduce(struct gm_cuda *cuda, struct gm_cuda_slice *s,
		   struct CUstream_st *stream, uint64_t *ret_issued)
{
	uint64_t left = s->n, n;
	int rc = 0;

	for (*ret_issued = 0; rc == 0 && left > 0; left -= n) {
		gm_cu_ptr from = s->src.at;
		bool apart;

		n = block(s, left);
		apart = n == 0;
		if (apart) {
			n = left < CHUNK ? left : CHUNK;
			from = level_at(s->reducer, 0);
			rc = gather(cuda, s, n, n < left, stream);
		}
		/* Some of several calls may be on the lane. */
		*ret_issued += n;
		if (rc == 0)
			rc = reduce_block(cuda, s, from, n,
					  s->is_last && n == left, stream);
		if (rc == 0 && n < left && !apart)
			rc = gm_cuda_advance(cuda, &s->src, n * s->src.each,
					     false);
	}
	return rc;
}
