/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * collective - executes this row's part, as a rank, of the collectives of its
 * sessions.
 *
 * gpumapd hands a group's page (agent/comm/comm_shm.h) to the workers of its
 * ranks; clients do not have it.  An entry that is a collective takes its turn
 * like any other and then stalls its session: no entry behind it is read until
 * it has ended.  Between turns the worker polls the parts in progress, and
 * advances each by a slice if possible.
 *
 * Bytes that a slice reads, and bytes copied to and from windows or between
 * devices, count in the rounds of the session and its user (queue/drr.h).  A
 * part whose user has used up the round is held until the next.  A rank that
 * waits pays nothing, and no round waits for it.  A held rank delays the others
 * at most until the round of its own row is over, which other rows do not
 * influence.
 *
 * While a worker waits for another rank it polls the page for some time, then
 * sets its bit in the lines of the ranks' rows and sleeps, as for waiting heads
 * (queue/dependency.h).  A rank that makes progress checks for bits and wakes
 * the waiters.  Polls every GM_WAIT_LOOK_NS, and at the next deadline, find
 * changes without a wakeup.
 *
 * A part that cannot begin, times out or is cancelled breaks the page, and so
 * does a rank that leaves: all ranks then end with that error.  For a worker
 * that died, gpumapd has the others FORGET the group.
 *
 * Each rank resolves memory in its own table of the session, so one rank's
 * arguments cannot lead another out of the session.  If any rank is not a host
 * row, all use windows (staged.h), and each accesses its own memory only.
 *
 * collective.c	records, parts, and the order in which they run
 * wait.c		waiting: polling, bits and sleep
 *
 * Edges: COMM.tell, see agent/comm/comm_shm.h; the bits are WAIT.tell's.
 */
#ifndef GM_WORKER_COLLECTIVE_COLLECTIVE_H
#define GM_WORKER_COLLECTIVE_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/worker/worker.h"

#define GM_GROUP_LOOKS 4u /* parts polled between turns */

/* Bytes that one slice reads of all ranks: with other awake sessions, and
 * without. */
#define GM_GROUP_SLICE (UINT64_C(128) << 10)
#define GM_GROUP_ALONE (UINT64_C(1) << 20)

struct gm_collective_member;

void gm_collective_init(struct gm_worker *worker);

/* Records of gpumapd.  Each is answered, now or later; @fd is taken over. */
void gm_collective_join(struct gm_worker *worker, const struct gm_wire *wire,
			int fd);
void gm_collective_forget(struct gm_worker *worker, const struct gm_wire *wire);

/*
 * gm_collective_begin - begin the session's request, which is a collective
 *
 * Returns	0: the session is stalled, and goes on by itself when the part
 *		has ended; -ESTALE: the session has no such group, or the group
 *		is broken
 */
int gm_collective_begin(struct gm_worker *worker,
			struct gm_worker_session *session);

/* A collective ends with @status without having begun: break its group. */
void gm_collective_refused(struct gm_worker_session *session,
			   const struct gm_decoded_entry *verdict, int status);

/* Advance parts that can go on.  Returns whether any did. */
bool gm_collective_pass(struct gm_worker *worker);

/* Is there a part that was not polled in this round yet? */
static inline bool gm_group_due(const struct gm_worker *worker)
{
	return worker->parts.n_seen < worker->parts.n;
}

/* Poll all parts again: the next round or another part has begun. */
static inline void gm_group_look_anew(struct gm_worker *worker)
{
	worker->parts.n_seen = 0;
	worker->parts.held = false;
}

/* End parts whose time is up or that are cancelled.  Called when the clock is
 * read. */
void gm_collective_look(struct gm_worker *worker);

/* No part can go on.  May the worker sleep, and for how long at most?  False:
 * poll again. */
bool gm_collective_may_sleep(struct gm_worker *worker, uint64_t *ret_ns);

/* Another worker has written this worker's eventfd. */
void gm_collective_notified(struct gm_worker *worker);

/* ---- for nccl_group.c ---------------------------------------------------- */

/* Release a member that is in no list: free it, now or later. */
void gm_collective_give_up(struct gm_worker *worker,
			   struct gm_collective_member *member);

/* The member's devices have connected, or have failed to. */
void gm_collective_met(struct gm_worker *worker,
		       struct gm_worker_session *session,
		       struct gm_collective_member *member);

/* The session leaves, or is served no longer. */
void gm_collective_leave(struct gm_worker *worker,
			 struct gm_worker_session *session);

#endif
