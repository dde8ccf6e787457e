/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* buffers - the buffers of a session, and their exports and imports. */
#ifndef GM_LIB_BUFFERS_H
#define GM_LIB_BUFFERS_H

#include "lib/internal.h"

/* Have the agent forget a buffer.  No failure if the agent has forgotten it
 * already. */
int gm_buffer_forget(struct gpumap_session *session, uint64_t handle);

/* Free the handle. */
void gm_buffer_drop(struct gm_client_buffer *buffer);

/* Export a buffer of this session: @flags are GM_EXPORT_*.  Returns as
 * gm_session_call(), or -EPROTO. */
int gm_buffer_export(struct gpumap_session *session,
		     struct gm_client_buffer *buffer, uint32_t flags,
		     uint64_t *ret_export);

/* End a buffer's export, unless it has ended already.  Returns as
 * gm_session_call(). */
int gm_buffer_end_export(struct gpumap_session *session,
			 struct gm_client_buffer *buffer);

/* Import the buffer of this id into this session.  Returns as
 * gpumap_buffer_import(). */
int gm_buffer_import(struct gpumap_session *session, uint64_t export_id,
		     uint32_t flags, struct gm_client_buffer **ret_buffer);

#endif
