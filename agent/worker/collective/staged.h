/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * staged - runs a collective through windows, for ranks whose memory the other
 * ranks cannot map, as device memory.
 *
 * The collective runs in rounds.  Each round moves a piece of at most a
 * window's size, the same at every rank.  Per round a rank copies its piece to
 * one of its windows (agent/comm/comm_shm.h), all ranks run the collective in
 * place on the windows, and each rank copies its result to its own memory.
 * While one window is in a round, the slow thread empties and fills the other.
 * Small copies of mapped memory are made at once.
 *
 * The first round carries the size of the whole collective.  Ranks that ask for
 * different collectives or lack their memory detect that in it.  A copy that
 * fails later breaks the group.  A part ends when none of its copies is in
 * progress any more: a client's memory is not written after its entry has
 * ended.
 */
#ifndef GM_WORKER_COLLECTIVE_STAGED_H
#define GM_WORKER_COLLECTIVE_STAGED_H

#include "agent/worker/collective/member.h"

/* Copies of mapped memory up to this size are made at once. */
#define GM_STAGED_SMALL (UINT64_C(64) << 10)

/* The comm.reach function of members with windows. */
void *gm_staged_reach(void *member, uint32_t rank, struct gm_comm_place place,
		      uint64_t bytes, bool writes);

/* Take part in the collective that the session requests. */
void gm_staged_begin(struct gm_worker_session *session);

/* Like gm_comm_step().  Also returns -EAGAIN while copies are in progress. */
int gm_staged_step(struct gm_worker *worker, struct gm_worker_session *session,
		   uint64_t budget, bool *ret_told);

#endif
