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
					: gm_ops_dtype_bytes(job->dtype);
}

/* May a job that runs a program be submitted?  Returns as gm_buffers_check(),
 * and -EINVAL where it names none. */
int gm_programs_check(const struct gpumap_session *session, uint32_t row,
		      const struct gpumap_job *job);

/* Tell a row of a program; an image goes along.  Returns as
 * gm_session_call(). */
int gm_program_show(struct gpumap_session *session, uint32_t row,
		    const struct gm_client_buffer *program);

#endif
