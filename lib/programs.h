/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * programs - check and tell rows of programs and masks that jobs name, with the
 * functions of buffers that these need.
 */
#ifndef GM_PROGRAMS_H
#define GM_PROGRAMS_H

#include "lib/internal.h"

/* Bytes of an element of src; of RUN: of an item. */
static inline uint32_t gm_job_src_bytes(const struct gpumap_job *job)
{
	return job->op == GPUMAP_OP_RUN ? job->src_item_bytes
					: gm_dtype_bytes(job->dtype);
}

/* May a job that runs a program be submitted?  Returns as gm_buffers_check(),
 * and -EINVAL where it names none. */
int gm_programs_check(const struct gpumap_session *session, uint32_t row,
		      const struct gpumap_job *job);

/* Tell a row of a program; an image goes along.  Returns as
 * gm_session_call(). */
int gm_program_show(struct gpumap_session *session, uint32_t row,
		    const struct gm_client_buffer *program);

/* Tell a row of a mask.  Returns as gm_session_call(). */
int gm_mask_show(struct gpumap_session *session, uint32_t row,
		 const struct gm_client_buffer *mask);

/* Has the mask the dtype that the job requires?  Returns 0 or -EINVAL. */
int gm_mask_fits(const struct gpumap_session *session,
		 const struct gpumap_job *job);

/* An operand of a job. */
struct gm_operand {
	uint64_t buffer; /* 0: the operand is at @memory in the arena */
	uint64_t at;     /* in the buffer */
	const void *memory;
	uint64_t n;
	uint32_t element; /* bytes of each of @n */
	bool is_written;
};

/* Check one operand of a RUN or of a collective on a row. */
int gm_buffers_check_one(const struct gpumap_session *session, uint32_t row,
			 uint32_t op, const struct gm_operand *operand);

/* Have the agent forget a buffer.  No failure if the agent has forgotten it
 * already. */
int gm_buffer_forget(struct gpumap_session *session, uint64_t handle);

/* Free the handle. */
void gm_buffer_drop(struct gm_client_buffer *buffer);

#endif
