/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * stream_mask - finds or stages the mask of a slice.
 *
 * Memory of the device, and client memory that is reached in one piece, is read
 * in place, all of it: kernels begin it again.  From any other memory a slice
 * gets the elements that it meets, in the order in which it meets them or,
 * where the mask is shorter, all: in staging of its own or, where all memory is
 * reached and there is no staging, in memory of its lane.
 */

#include "agent/device/stream.h"

#include <string.h>

/* Where a slice that begins with the element @first begins in the mask. */
static uint64_t begin_at(const struct gm_task *task, uint64_t first)
{
	return (task->mask_first + first % task->mask_n) % task->mask_n;
}

int gm_stream_mask_find(struct gm_stream *stream, struct gm_stream_slice *s,
			uint64_t first)
{
	const struct gm_task *task = s->task;
	char *client = (char *)(uintptr_t)task->mask;
	int rc;

	s->mask_n = task->mask_n;
	s->mask_at = begin_at(task, first);
	s->mask.client = client;
	s->mask.address = client ? (uintptr_t)client : task->mask_address;
	rc = gm_stream_locate(stream, &s->mask);
	if (!client)
		return rc;
	if (rc == 0 && s->mask_n * s->mask.each <= s->mask.left) {
		s->mask.client = NULL; /* it has one address */
		return 0;
	}
	return stream->staging ? gm_stream_take_unit(stream, &s->mask) : 0;
}

/* The elements that are met begin anew at 0, unless all of them are there. */
static uint64_t cut(struct gm_stream_slice *s, uint64_t *ret_at)
{
	bool is_all = s->mask_n <= s->n;

	*ret_at = is_all ? 0 : s->mask_at;
	if (!is_all)
		s->mask_at = 0;
	return is_all ? s->mask_n : s->n;
}

void gm_stream_mask_stage(struct gm_stream_slice *s)
{
	uint64_t at, left = cut(s, &at), n = s->task->mask_n, count;
	uint32_t each = s->mask.each;
	char *to = gm_stream_unit(&s->mask);

	s->mask_n = left;
	for (; left > 0; left -= count, at = 0) {
		count = left < n - at ? left : n - at;
		memcpy(to, s->mask.client + at * each, count * each);
		to += count * each;
	}
}

int gm_stream_mask_gather(struct gm_stream *stream, struct gm_stream_slice *s)
{
	struct gm_gpu_at to = stream->lanes[s->lane].bounce;
	uint64_t at, left = cut(s, &at), n = s->task->mask_n, count;
	uint32_t each = s->mask.each;
	int rc = 0;

	s->mask_n = left;
	s->mask.at = to;
	for (; rc == 0 && left > 0; left -= count, at = 0) {
		struct gm_stream_side from = {
			.client = s->mask.client,
			.address = (uintptr_t)s->mask.client + at * each,
		};

		count = left < n - at ? left : n - at;
		rc = gm_stream_advance(stream, &from, 0);
		if (rc == 0)
			rc = gm_stream_gather(stream, s->lane, to, &from,
					      count * each, false);
		to.offset += count * each;
	}
	return rc;
}
