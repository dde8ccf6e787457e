/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * staged - a collective in which ranks take part whose memory the others do not
 * have: that of cards.
 *
 * It goes around in rounds, pieces of a window's size at most, the same at
 * every rank.  Of each round a rank brings its piece to one of its windows
 * (agent/comm/comm_shm.h), all do the collective with what is in the windows,
 * in place, and each brings what it got to its own memory. While one window
 * goes around the other is emptied and filled, by the slow thread; what is
 * mapped and small is copied at once.
 *
 * The first round says of how much it is the first, so ranks that ask for
 * different things find out in it, as those do whose memory is not there.  A
 * copy that fails later on breaks the group.  A part ends when none of its
 * copies is under way any more: nothing is written to a client's memory behind
 * the end of its entry.
 */
#ifndef GM_WORKER_COLLECTIVE_STAGED_H
#define GM_WORKER_COLLECTIVE_STAGED_H

#include "agent/worker/collective/member.h"

/* Copied at once, where it is mapped. */
#define GM_STAGED_SMALL (UINT64_C(64) << 10)

/* Of @session->part, whose member is set and has windows: what comm.reach
 * is. */
void *gm_staged_reach(void *member, uint32_t rank, struct gm_comm_place place,
		      uint64_t bytes, bool writes);

/* Take part in what @session->errand asks for. */
void gm_staged_begin(struct gm_worker_session *session);

/* As gm_comm_step(); -EAGAIN also while copies are under way. */
int gm_staged_step(struct gm_worker *worker, struct gm_worker_session *session,
		   uint64_t budget, bool *ret_told);

#endif
