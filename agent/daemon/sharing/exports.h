/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * exports - buffers of one session that others may have as well.
 *
 * An export is a descriptor that a row's worker has made of one of its buffers,
 * and that stands for the memory: a process that has it keeps the memory, and
 * can write it.  So only sessions that the policy names get it.  Its bytes are
 * charged to the uid that has exported it as long as the agent, a session that
 * has imported it, or a connection that was given the descriptor has it.  The
 * number of imports, and the amount of others' exports, are charged to the
 * importer (export_accounting.h).
 *
 * A buffer can be imported until its session forgets it or ends, or its worker
 * dies; a buffer that has a name as long as it has the name (share_request.h),
 * by sessions that have opened that.
 */
#ifndef GM_DAEMON_SHARING_EXPORTS_H
#define GM_DAEMON_SHARING_EXPORTS_H

#include "agent/daemon/base/connection.h"

struct gm_daemon;
struct gm_row_bytes;

/* May @uid have so many bytes of a row more that others can map?  Returns 0, or
 * -EDQUOT with the reason. */
int gm_exports_admit(const struct gm_control_server *s, uint32_t row,
		     const struct gm_user *user, uint64_t bytes,
		     char ret_why[GM_WHY_BYTES]);

/* Can another user withhold memory that workers access for this session, by a
 * descriptor that it got of an export? */
bool gm_exports_are_others(const struct gm_session *session);

/* End those of a session that is being freed. */
void gm_exports_free(struct gm_session *session);

/* This connection ends: what it was given descriptors of is let go. */
void gm_exports_connection_dropped(struct gm_connection *c, const char *why);

/* This connection's client is given a descriptor of the export, which can be
 * had.  Returns 0, or -EACCES, -EDQUOT or -ENOMEM. */
int gm_export_lend(struct gm_connection *c, struct gm_export *export);

/* FORGET of what this session has exported or imported.  Returns 0 when
 * @request was answered or will be; -ENOENT. */
int gm_export_forget(struct gm_connection *c, const struct gm_control *request,
		     uint64_t handle);

/* Handlers, see sessions/dispatch.h. */
int gm_export_handle(struct gm_connection *c, const struct gm_request *r);
int gm_exports_import_handle(struct gm_connection *c,
			     const struct gm_request *r);

#endif
