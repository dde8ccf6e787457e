/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * programs - what RUN runs, masks that jobs name, and what both take of
 * buffers.
 */
#ifndef GM_PROGRAMS_H
#define GM_PROGRAMS_H

#include "lib/internal.h"

/* Bytes of an element of src, or of an item. */
static inline uint32_t gm_job_src_bytes(const struct gpumap_job *job)
{
	return job->op == GPUMAP_OP_RUN ? job->src_item_bytes
					: gm_dtype_bytes(job->dtype);
}

/* May a job that runs a program be submitted?  Returns as gm_buffers_judge(),
 * and -EINVAL where it names none. */
int gm_programs_judge(const struct gpumap_session *session, uint32_t row,
		      const struct gpumap_job *job);

/* Tell a row of a program; an image goes along.  Returns as
 * gm_session_call(). */
int gm_program_show(struct gpumap_session *session, uint32_t row,
		    const struct gm_client_buffer *program);

/* Tell a row of a mask.  Returns as gm_session_call(). */
int gm_mask_show(struct gpumap_session *session, uint32_t row,
		 const struct gm_client_buffer *mask);

/* Is the mask of such a job of the dtype that the job wants?  0 or -EINVAL. */
int gm_mask_fits(const struct gpumap_session *session,
		 const struct gpumap_job *job);

/* One operand of RUN a job: at @at of a buffer, or at @memory of the arena. */
int gm_buffers_judge_one(const struct gpumap_session *session, uint32_t row,
			 uint32_t op, uint64_t buffer, uint64_t at,
			 const void *memory, uint64_t n, uint32_t element,
			 bool is_written);

/* The agent lets go of it; that it has gone by itself is no failure. */
int gm_buffer_forget(struct gpumap_session *session, uint64_t handle);

/* The handle is free again. */
void gm_buffer_drop(struct gm_client_buffer *buffer);

#endif
