/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* mask_use - masks as operands of jobs. */
#ifndef GM_LIB_MASK_USE_H
#define GM_LIB_MASK_USE_H

#include "lib/internal.h"

/* Tell a row of a mask.  Returns as gm_session_call(). */
int gm_mask_show(struct gpumap_session *session, uint32_t row,
		 const struct gm_client_buffer *mask);

/* Has the mask the dtype that the job requires?  Returns 0 or -EINVAL. */
int gm_mask_fits(const struct gpumap_session *session,
		 const struct gpumap_job *job);

#endif
