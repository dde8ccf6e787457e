/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * peer_mapping - what the files that make crossings share.
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

enum gm_crossing_state {
	GM_CROSSING_EXPORTING,
	GM_CROSSING_PROVING,
	GM_CROSSING_TRYING,
	GM_CROSSING_IMPORTING,
	GM_CROSSING_LENDING,
	GM_CROSSING_BORROWING,
	GM_CROSSING_OPEN,
	GM_CROSSING_CLOSING
};

/* Freed when nobody has it and it is not the session's any more. */
struct gm_stage {
	TAILQ_ENTRY(gm_stage) entry;
	uint64_t id;
	uint32_t row; /* that borrows */
	uint32_t holds;
	bool is_retired; /* not in the session's list */
	int fd;
};

struct gm_crossing {
	TAILQ_ENTRY(gm_crossing) entry;
	struct gm_session *session;
	uint64_t handle;
	uint32_t row; /* of the jobs */
	enum gm_crossing_state state;
	bool has_source; /* source is asked, or HELD: until its worker ends */
	bool has_proof;  /* proof was HELD */
	bool is_lost;    /* the source's worker ended while another was asked */
	bool is_forgotten;
	struct gm_claim source; /* EXPORT or LEND */
	struct gm_claim proof;  /* PROVE or TRY */
	struct gm_claim reach;  /* IMPORT or BORROW */
	uint64_t bytes;         /* imported, or to be; else 0 */
	int fd;                 /* of the export, until it was imported; -1 */
	int proof_fd;           /* likewise */
	struct gm_stage *stage; /* NULL: not by way of one */
};

/* It is over.  Answers whoever waits for that. */
void gm_crossing_free(struct gm_crossing *x);

/* Leave the source. */
void gm_crossing_leave_source(struct gm_crossing *x);

/* The way is known no more, begin to close it. */
void gm_crossing_close(struct gm_crossing *x);

/* One holder less; and no piece goes by way of it any more. */
void gm_stage_drop(struct gm_session *session, struct gm_stage *stage);
void gm_stage_retire(struct gm_session *session, struct gm_stage *stage);

void gm_crossings_init(struct gm_crossings *crossings);

/* Of a session that is being freed. */
void gm_crossings_free(struct gm_session *session);

/* Bytes of a row's memory that other rows have imported for @user. */
uint64_t gm_crossings_bytes(const struct gm_control_server *s, uint32_t row,
			    const struct gm_user *user);

#endif
