/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * peer_mapping - what the files that map memory of other rows share.
 *
 *	peer_access.c	requests, and pieces handed on
 *	peer_copy.c	how one comes to be
 *	peer_mapping.c	their end, and what they take
 */
#ifndef GM_DAEMON_SHARING_PEER_MAPPING_H
#define GM_DAEMON_SHARING_PEER_MAPPING_H

#include <stdbool.h>

#include "agent/daemon/sharing/peer_access.h"
#include "agent/daemon/workers/worker_request.h"

enum gm_peer_mapping_state {
	GM_PEER_MAPPING_EXPORTING,
	GM_PEER_MAPPING_PROVING,
	GM_PEER_MAPPING_TRYING,
	GM_PEER_MAPPING_IMPORTING,
	GM_PEER_MAPPING_LENDING,
	GM_PEER_MAPPING_BORROWING,
	GM_PEER_MAPPING_OPEN,
	GM_PEER_MAPPING_CLOSING
};

/* Freed when no request uses it and the session does not have it any more. */
struct gm_bounce_buffer {
	TAILQ_ENTRY(gm_bounce_buffer) entry;
	uint64_t id;
	uint32_t row; /* that borrows */
	uint32_t holds;
	bool is_retired; /* not in the session's list */
	int fd;
};

struct gm_peer_mapping {
	TAILQ_ENTRY(gm_peer_mapping) entry;
	struct gm_session *session;
	uint64_t handle;
	uint32_t row; /* of the jobs */
	enum gm_peer_mapping_state state;
	bool has_source; /* source is asked, or HELD: until its worker ends */
	bool has_proof;  /* proof was HELD */
	bool is_lost;    /* the source's worker ended while another was asked */
	bool is_forgotten;
	struct gm_worker_request source; /* EXPORT or LEND */
	struct gm_worker_request proof;  /* PROVE or TRY */
	struct gm_worker_request reach;  /* IMPORT or BORROW */
	uint64_t bytes;                  /* imported, or to be; else 0 */
	int fd;       /* of the export, until it was imported; -1 */
	int proof_fd; /* likewise */
	struct gm_bounce_buffer *stage; /* NULL: not by way of one */
};

/* End it.  Answers the connections that wait for that. */
void gm_peer_mapping_free(struct gm_peer_mapping *x);

/* Leave the source. */
void gm_peer_mapping_leave_source(struct gm_peer_mapping *x);

/* The way is known no more, begin to close it. */
void gm_peer_mapping_close(struct gm_peer_mapping *x);

/* One holder less; and no piece goes by way of it any more. */
void gm_bounce_buffer_drop(struct gm_session *session,
			   struct gm_bounce_buffer *stage);
void gm_bounce_buffer_retire(struct gm_session *session,
			     struct gm_bounce_buffer *stage);

void gm_peer_mappings_init(struct gm_peer_mappings *peer_mappings);

/* End those of a session that is being freed. */
void gm_peer_mappings_free(struct gm_session *session);

/* Bytes of a row's memory that other rows have imported for @user. */
uint64_t gm_peer_mappings_bytes(const struct gm_control_server *s, uint32_t row,
				const struct gm_user *user);

#endif
