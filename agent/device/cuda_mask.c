/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda_mask - finds or stages the mask of a slice.
 *
 * Memory of the device, and client memory that was registered in one piece, is
 * read in place, all of it: kernels begin it again.  From any other memory a
 * slice gets the elements that it meets, in the order in which it meets them
 * or, where the mask is shorter, all: in staging of its own or, where all
 * memory was registered and there is no staging, in memory of its lane.
 */

#include "agent/device/cuda_work.h"

#include <string.h>

/* Where a slice that begins with the element @first begins in the mask. */
static uint64_t begin_at(const struct gm_task *task, uint64_t first)
{
	return (task->mask_first + first % task->mask_n) % task->mask_n;
}

/* The memory was registered at once, so it has one address. */
static bool is_whole(struct gm_cuda *cuda, const struct gm_task *task,
		     uint64_t bytes, gm_cu_ptr *ret_at)
{
	struct gm_cuda_piece piece;
	uint64_t offset;

	if (gm_cuda_piece_at(cuda, task->mask, &piece) < 0 || !piece.at)
		return false;
	offset = (uintptr_t)task->mask - piece.from;
	*ret_at = piece.at + offset;
	return bytes <= piece.bytes - offset;
}

static bool has_staging(struct gm_cuda *cuda)
{
	bool has;

	pthread_mutex_lock(&cuda->lock);
	has = cuda->staging != NULL;
	pthread_mutex_unlock(&cuda->lock);
	return has;
}

int gm_cuda_mask_find(struct gm_cuda *cuda, struct gm_cuda_slice *s,
		      uint64_t first)
{
	const struct gm_task *task = s->task;

	s->mask_n = task->mask_n;
	s->mask_at = begin_at(task, first);
	s->mask.at = task->mask_address;
	if (!task->mask)
		return 0;
	if (is_whole(cuda, task, s->mask_n * s->mask.each, &s->mask.at))
		return 0;
	s->mask.client = (char *)(uintptr_t)task->mask;
	return has_staging(cuda) ? gm_cuda_take_unit(cuda, &s->mask) : 0;
}

/* The elements that are met begin anew at 0, unless all of them are there. */
static uint64_t cut(struct gm_cuda_slice *s, uint64_t *ret_at)
{
	bool is_all = s->mask_n <= s->n;

	*ret_at = is_all ? 0 : s->mask_at;
	if (!is_all)
		s->mask_at = 0;
	return is_all ? s->mask_n : s->n;
}

void gm_cuda_mask_stage(struct gm_cuda_slice *s)
{
	uint64_t at, left = cut(s, &at), n = s->task->mask_n, count;
	uint32_t each = s->mask.each;
	char *to = s->mask.host;

	s->mask_n = left;
	for (; left > 0; left -= count, at = 0) {
		count = left < n - at ? left : n - at;
		memcpy(to, s->mask.client + at * each, count * each);
		to += count * each;
	}
}

/* Bytes that may lie in several pieces. */
static int copy(struct gm_cuda *cuda, gm_cu_ptr to, const char *from,
		uint64_t bytes, struct CUstream_st *stream)
{
	struct gm_cuda_piece piece;
	uint64_t offset, count;
	int rc = 0;

	for (; rc == 0 && bytes > 0; bytes -= count) {
		rc = gm_cuda_piece_at(cuda, from, &piece);
		if (rc < 0)
			return rc;
		offset = (uintptr_t)from - piece.from;
		count = piece.bytes - offset;
		count = bytes < count ? bytes : count;
		rc = gm_cuda_check(cuda, cuda->driver->cuMemcpyDtoDAsync(
						 to, piece.at + offset, count,
						 stream));
		to += count;
		from += count;
	}
	return rc;
}

int gm_cuda_mask_gather(struct gm_cuda *cuda, struct gm_cuda_slice *s,
			gm_cu_ptr to, struct CUstream_st *stream)
{
	uint64_t at, left = cut(s, &at), n = s->task->mask_n, count;
	uint32_t each = s->mask.each;
	int rc = 0;

	s->mask_n = left;
	s->mask.at = to;
	for (; rc == 0 && left > 0; left -= count, at = 0) {
		count = left < n - at ? left : n - at;
		rc = copy(cuda, to, s->mask.client + at * each, count * each,
			  stream);
		to += count * each;
	}
	return rc;
}
