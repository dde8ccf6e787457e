/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * session - a client's place with the agent, and the memory of its queues.
 *
 * A connection becomes a session by SESSION_OPEN.  The agent makes its two
 * memfds, seals their size, has the pages of all queues, gives both to the
 * client and to workers, and never maps or changes them afterwards.  The
 * session is attached to each row that it uses (workers/supervisor.h).
 *
 * A session ends with its connection, with its client's process even where a
 * forked child still holds the connection, or when a worker finds that the
 * client breaks the protocol.  The session is freed when no worker has its
 * memory mapped any more.  Until its memory is free, the session and its bytes
 * count for its user's limits: the client may have kept a descriptor or a
 * mapping of it, so holes are punched (base/deferred_close.h).
 */
#ifndef GM_DAEMON_SESSIONS_SESSION_H
#define GM_DAEMON_SESSIONS_SESSION_H

#include <errno.h>

#include "agent/daemon/meshes/comms.h"
#include "agent/daemon/base/connection.h"
#include "agent/daemon/sessions/register.h"
#include "agent/daemon/sharing/peer_access.h"
#include "agent/daemon/sharing/share_request.h"
#include "agent/daemon/workers/supervisor.h"
#include "shm/layout.h"

/* A session's queue on one row. */
struct gm_session_queue {
	struct gm_attachment attachment;
	struct gm_session *session;
	uint32_t row;
};

struct gm_session {
	TAILQ_ENTRY(gm_session) entry;
	struct gm_control_server *server;
	struct gm_connection *connection; /* NULL once it is ending */
	struct gm_user *user;
	uint64_t id; /* never reused */
	pid_t pid;
	uint32_t depth;
	uint32_t n_rows; /* that the arena has ranges for */
	uint32_t n_queues;
	bool runs_programs;
	bool has_lent; /* own memory that another user may write for good */
	uint64_t range_bytes;
	uint64_t since_ns;
	struct gm_loading loading;
	int queues; /* memfds */
	int arena;
	struct gm_session_release *release; /* of their memory; see session.c */
	int wake[2]; /* a pollable session's pair: ours, the client's; or -1 */
	struct gm_registration_list registrations;
	struct gm_importer_list imports;
	struct gm_share_holder_list shares;
	struct gm_peer_mappings peer_mappings;
	struct gm_comms comms;
	struct gm_session_queue *queue[GM_ROWS];
};

/* Has the session a queue on the row?  Returns 0, -ENODEV with the words. */
static inline int gm_session_check_row(struct gm_connection *c, uint32_t row)
{
	if (row < c->session->n_rows && c->session->queue[row])
		return 0;
	return gm_connection_bad(c, -ENODEV,
				 "row %u: this session has no queue there; "
				 "open it first",
				 row);
}

/* End a session, and its connection; it is freed when it is attached to no row
 * any more, which may be before this returns. */
void gm_session_end(struct gm_session *session, const char *reason);
void gm_session_connection_dropped(struct gm_connection *c, const char *why);

/* Free it at once: no worker will speak of it any more. */
void gm_session_free(struct gm_session *session);

/* Handlers, see dispatch.h. */
int gm_session_handle_open(struct gm_connection *c, const struct gm_request *r);
int gm_session_handle_queue(struct gm_connection *c,
			    const struct gm_request *r);
int gm_session_handle_loading(struct gm_connection *c,
			      const struct gm_request *r);

/* Bytes of all ranges of its arena. */
uint64_t gm_session_arena_bytes(const struct gm_session *session);

#endif
