/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Check the handles that jobs name as far as this library knows them, and tell
 * a row of each handle when a job first uses it there.
 */

#include "lib/internal.h"

#include <errno.h>
#include <string.h>

struct gm_client_buffer *gm_buffer_find(const struct gpumap_session *session,
					uint64_t handle)
{
	uint32_t index = gm_handle_index(handle);

	if (handle == 0 || index >= session->buffers.room ||
	    session->buffers.table[index].handle != handle)
		return NULL;
	return &session->buffers.table[index];
}

int gm_buffer_missing(const struct gpumap_session *session, uint64_t handle)
{
	const struct gm_client_buffers *b = &session->buffers;
	uint32_t generation = gm_handle_generation(handle);

	if (generation == 0 || gm_handle_index(handle) >= GM_BUFFERS_MAX ||
	    gm_handle_row(handle) >= session->n_rows)
		return gm_refuse(session->map, -ERANGE,
				 "there can be no such buffer: name it by what "
				 "its call has given");
	if (generation - b->first < b->made)
		return gm_refuse(session->map, -ESTALE,
				 "this name was given back: have it anew");
	return gm_refuse(session->map, -EPERM, "%s",
			 gm_handle_kind(handle) == GM_BUFFER_DEVICE
				 ? "the buffer is another session's: export or "
				   "share it there, and import it here"
				 : "the name is another session's: register or "
				   "load it in this one");
}

/* ---- checks ------------------------------------------------------------- */

static bool is_another_rows(uint64_t handle, uint32_t row)
{
	return handle != 0 && gm_handle_kind(handle) == GM_BUFFER_DEVICE &&
	       gm_handle_row(handle) != row;
}

/* Memory of another row: only copies read it, and nothing writes it. */
static int check_row(const struct gpumap_session *s, uint32_t row,
		     uint64_t handle, uint32_t op, bool is_written)
{
	if (!is_another_rows(handle, row) ||
	    (!is_written && op == GPUMAP_OP_COPY))
		return 0;
	return gm_refuse(s->map, -EOPNOTSUPP, "%s",
			 is_written ? "the destination is memory of another "
				      "row: submit the job to that row"
				    : "the source is memory of another row, "
				      "which can only be copied from: COPY it "
				      "to this row first");
}

static bool is_file(uint64_t handle)
{
	return gm_handle_kind(handle) == GM_BUFFER_FILE;
}

static bool is_program(uint64_t handle)
{
	return gm_handle_kind(handle) == GM_BUFFER_PROGRAM;
}

/* @what: the kind of thing that an operand names. */
static int refuse_kind(const struct gpumap_session *s, const char *what)
{
	return gm_refuse(s->map, -EINVAL,
			 "an operand is %s: name memory, and a file only as "
			 "what LOAD reads",
			 what);
}

/* Check an operand that lies in a buffer: past its end it never reaches,
 * whatever lies there in memory or in the file. */
static int check_memory(const struct gpumap_session *s, uint32_t row,
			uint32_t op, const struct gm_operand *o)
{
	const struct gm_client_buffer *buffer = gm_buffer_find(s, o->buffer);
	int ret;

	if (buffer == NULL)
		return gm_buffer_missing(s, o->buffer);
	if (is_program(o->buffer))
		return refuse_kind(s, "a program");
	ret = check_row(s, row, o->buffer, op, o->is_written);
	if (ret != 0)
		return ret;
	if (o->is_written && (buffer->flags & GPUMAP_BUFFER_READ_ONLY) != 0)
		return gm_refuse(s->map, -EACCES,
				 "the destination is READ_ONLY: write to "
				 "another buffer");
	if (o->at > buffer->bytes ||
	    o->n > (buffer->bytes - o->at) / o->element)
		return gm_refuse(
			s->map, -ERANGE,
			"%llu elements of %u bytes from %llu on go beyond the "
			"end of their buffer, which has %llu bytes: what a job "
			"names lies in one, so register all of it at once",
			(unsigned long long)o->n, o->element,
			(unsigned long long)o->at,
			(unsigned long long)buffer->bytes);
	return 0;
}

int gm_buffers_check_one(const struct gpumap_session *session, uint32_t row,
			 uint32_t op, const struct gm_operand *operand)
{
	if (operand->buffer != 0 && is_file(operand->buffer))
		return refuse_kind(session, "a file");
	if (operand->buffer != 0)
		return check_memory(session, row, op, operand);
	if (gm_in_arena(session, operand->memory))
		return 0;
	return gm_refuse(session->map, -ERANGE,
			 "an operand is no memory of this session's: take it "
			 "from gpumap_alloc(), or name a buffer");
}

int gm_buffers_check(const struct gpumap_session *session, uint32_t row,
		     const struct gpumap_job *job)
{
	const struct gm_operand operands[] = {
		{ .buffer = job->dst_buffer,
		  .at = job->dst_at,
		  .memory = job->dst,
		  .n = gm_job_dst_n(job),
		  .element = gm_job_dst_bytes(job),
		  .is_written = true },
		{ .buffer = job->src_buffer,
		  .at = job->src_at,
		  .memory = job->src,
		  .n = job->n,
		  .element = gm_ops_dtype_bytes(job->dtype) },
		{ .buffer = job->mask_buffer,
		  .at = job->mask_at,
		  .memory = job->mask,
		  .n = job->mask_n,
		  .element = gm_ops_mask_bytes(job->op, job->dtype) },
	};
	static const uint32_t parts[] = { GM_OPS_DST, GM_OPS_SRC, GM_OPS_MASK };
	uint32_t has = gm_ops_has(job->op);
	int ret = 0;

	if ((has & GM_OPS_DST) == 0)
		return 0;
	if (is_file(job->dst_buffer) ||
	    ((has & GM_OPS_SRC) != 0 &&
	     is_file(job->src_buffer) != (job->op == GPUMAP_OP_LOAD)))
		return refuse_kind(session, "a file, or none of LOAD");
	for (int i = 0; ret == 0 && i < 3 && (has & parts[i]) != 0; i++)
		ret = is_file(operands[i].buffer) && parts[i] == GM_OPS_SRC
			      ? check_memory(session, row, job->op,
					     &operands[i])
			      : gm_buffers_check_one(session, row, job->op,
						     &operands[i]);
	return ret == 0 && (has & GM_OPS_MASK) != 0 ? gm_mask_fits(session, job)
						    : ret;
}

bool gm_buffers_cross(uint32_t row, const struct gpumap_job *job)
{
	return (gm_ops_has(job->op) & GM_OPS_SRC) != 0 &&
	       is_another_rows(job->src_buffer, row);
}

/* ---- telling rows ------------------------------------------------------- */

static int show_registered(struct gpumap_session *s, uint32_t row,
			   const struct gm_client_buffer *buffer)
{
	struct gm_register body = { .handle = buffer->handle,
				    .at = buffer->at,
				    .bytes = is_file(buffer->handle)
						     ? 0
						     : buffer->bytes,
				    .row = row,
				    .flags = buffer->flags };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_REGISTER, body),
				.carries = &buffer->fd };

	return gm_session_call(s, &call, 0);
}

static int show_another_rows(struct gpumap_session *s, uint32_t row,
			     struct gm_client_buffer *buffer)
{
	struct gm_reach body = { .handle = buffer->handle, .row = row };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_REACH, body) };
	int ret = gm_session_call(s, &call, 0);

	buffer->reached |= ret == 0;
	return ret;
}

static int show(struct gpumap_session *s, uint32_t row, uint64_t handle)
{
	struct gm_client_buffer *buffer = gm_buffer_find(s, handle);
	uint64_t bit = UINT64_C(1) << row % 64;
	int ret;

	if (buffer == NULL || (buffer->rows[row / 64] & bit) != 0)
		return 0;
	if (is_program(handle))
		ret = gm_program_show(s, row, buffer);
	else if (buffer->is_mask)
		ret = gm_mask_show(s, row, buffer);
	else if (gm_handle_kind(handle) != GM_BUFFER_DEVICE)
		ret = show_registered(s, row, buffer);
	else if (is_another_rows(handle, row))
		ret = show_another_rows(s, row, buffer);
	else
		return 0;
	if (ret == 0)
		buffer->rows[row / 64] |= bit;
	return ret;
}

/* The agent itself tells a row's next worker of most handles that the row was
 * told of, but not of other rows' memory nor of masks on a device. */
void gm_buffers_hide(struct gpumap_session *session, uint32_t row)
{
	struct gm_client_buffers *b = &session->buffers;

	for (uint32_t i = 0; i < b->room; i++)
		if (b->table[i].is_mask ||
		    is_another_rows(b->table[i].handle, row))
			b->table[i].rows[row / 64] &=
				~(UINT64_C(1) << row % 64);
}

int gm_buffers_show(struct gpumap_session *session, uint32_t row,
		    const struct gpumap_job *jobs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t has = gm_ops_has(jobs[i].op);
		int ret = 0;

		if ((has & GM_OPS_DST) != 0)
			ret = show(session, row, jobs[i].dst_buffer);
		if (ret == 0 && (has & GM_OPS_SRC) != 0)
			ret = show(session, row, jobs[i].src_buffer);
		if (ret == 0 && (has & GM_OPS_MASK) != 0)
			ret = show(session, row, jobs[i].mask_buffer);
		if (ret == 0 && (has & GM_OPS_PROGRAM) != 0)
			ret = show(session, row, jobs[i].program);
		if (ret != 0)
			return ret;
	}
	return 0;
}

bool gm_buffer_is_shown(const struct gm_client_buffer *buffer)
{
	for (uint32_t i = 0; i < GM_ROWS / 64; i++)
		if (buffer->rows[i] != 0)
			return true;
	return false;
}

int gm_buffer_end_reach(struct gpumap_session *session,
			struct gm_client_buffer *buffer)
{
	struct gm_unreach body = { .handle = buffer->handle };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_UNREACH, body) };
	int ret = buffer->reached ? gm_session_call(session, &call, 0) : 0;

	if (ret == 0) {
		memset(buffer->rows, 0, sizeof(buffer->rows));
		buffer->reached = false;
	}
	return ret;
}
