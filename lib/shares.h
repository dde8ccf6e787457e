/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* shares - export a session's buffers to other sessions, and import theirs. */
#ifndef GM_LIB_SHARES_H
#define GM_LIB_SHARES_H

#include "lib/internal.h"

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

/* Free the shares of a session that ends.  The agent ends its part with the
 * session. */
void gm_shares_fini(struct gpumap_session *session);

#endif
