/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* shares - what others may have of a session's buffers, and it of theirs. */
#ifndef GM_LIB_SHARES_H
#define GM_LIB_SHARES_H

#include "lib/internal.h"

/* An export of this session's as its own: @flags are GM_EXPORT_*.  Returns as
 * gm_session_call(), or -EPROTO. */
int gm_buffer_export(struct gpumap_session *session,
		     struct gm_client_buffer *buffer, uint32_t flags,
		     uint64_t *ret_export);

/* It ends, unless it has already.  Returns as gm_session_call(). */
int gm_buffer_end_export(struct gpumap_session *session,
			 struct gm_client_buffer *buffer);

/* What has this id as a buffer of this session.  Returns as
 * gpumap_buffer_import(). */
int gm_buffer_import(struct gpumap_session *session, uint64_t export_id,
		     uint32_t flags, struct gm_client_buffer **ret_buffer);

/* Of a session that ends: what the agent has of them ends with that. */
void gm_shares_fini(struct gpumap_session *session);

#endif
