/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Jobs that a part of a session submits for itself. */

#include "lib/internal.h"

int gm_part_state(const struct gpumap_session *session)
{
	return gm_session_usable(session);
}

struct gpumap *gm_part_map(const struct gpumap_session *session)
{
	return session->map;
}

int gm_part_open_row(struct gpumap_session *session, uint32_t row)
{
	struct gm_queue_pair *pair;

	return gm_session_pair(session, row, &pair);
}

uint32_t gm_part_incarnation(const struct gpumap_session *session, uint32_t row)
{
	const struct gm_queue_pair *pair = session->pairs[row];

	return pair != NULL ? gm_get(&pair->queue->incarnation) : 0;
}

bool gm_part_row_is_idle(const struct gpumap_session *session, uint32_t row)
{
	return session->pairs[row] == NULL || session->pairs[row]->live == 0;
}

static void push(struct gpumap_session *s, struct gm_queue_pair *pair,
		 struct gpumap_job *job, struct gm_ending *ending)
{
	job->cookie = (uintptr_t)ending;
	gm_session_tell_cpu(s);
	gm_pair_push(s, pair, job, 1, GM_TICKET_PART, true);
}

int gm_part_submit(struct gpumap_session *session, uint32_t row,
		   const struct gpumap_job *job, struct gm_ending *ending)
{
	struct gpumap_job ours = *job;
	struct gm_queue_pair *pair;
	int ret = gm_session_pair(session, row, &pair);

	if (ret == 0)
		ret = gm_job_check(session, row, job);
	if (ret != 0)
		return ret;
	if (!gm_pair_begin(session, pair, gm_jobs_slots(job, 1)))
		return 1;
	ret = gm_buffers_show(session, row, job, 1);
	if (ret == 0)
		push(session, pair, &ours, ending);
	return ret;
}

int gm_part_alloc(struct gpumap_session *session, uint32_t row, uint64_t bytes,
		  uint32_t flags, struct gm_ending *ending,
		  uint64_t *ret_buffer)
{
	struct gm_client_buffer *buffer;
	struct gpumap_job job = { .op = GPUMAP_OP_ALLOC,
				  .dtype = GPUMAP_DTYPE_U8,
				  .n = bytes,
				  .pattern = flags };
	struct gm_queue_pair *pair;
	int ret = gm_session_pair(session, row, &pair);

	if (ret != 0)
		return ret;
	/* The second credit is for a FREE. */
	if (!gm_pair_begin(session, pair, 2))
		return 1;
	ret = gm_buffers_take(session, GM_BUFFER_DEVICE, row, &buffer);
	if (ret != 0)
		return ret;
	buffer->bytes = bytes;
	buffer->flags = flags;
	*ret_buffer = job.dst_buffer = buffer->handle;
	push(session, pair, &job, ending);
	return 0;
}

void gm_part_alloc_failed(struct gpumap_session *session, uint64_t buffer)
{
	gm_buffers_left(session, gm_handle_index(buffer));
}

int gm_part_export(struct gpumap_session *session, uint64_t buffer,
		   uint32_t flags)
{
	struct gm_client_buffer *mine = gm_buffer_find(session, buffer);
	uint64_t id;

	return mine != NULL ? gm_buffer_export(session, mine, flags, &id)
			    : -ESTALE;
}
