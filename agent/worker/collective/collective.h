/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * collective - this row as a rank of the groups of its sessions.
 *
 * gpumapd hands a group's page (agent/comm/comm_shm.h) to the workers of its
 * ranks; clients do not have it. An entry that is this rank's part of a
 * collective takes its turn like any other, and then the session is stalled:
 * nothing behind it is read until it has ended. Between the turns of all others
 * each part that is under way is looked at, and goes on by a slice where it
 * can.
 *
 * What a slice has read, and what goes to windows and back or from card to
 * card, is of the rounds of the session and of its user as any job is
 * (queue/drr.h): a part whose user has nothing left of the round is held until
 * the next.  A rank that waits has nothing to pay, and no round waits for it;
 * one that is held holds the others no longer than until the round of its own
 * row is over, which no other row has a say in.
 *
 * Who waits for another rank watches the page for a while, then sets its bit in
 * the line of each of their rows and sleeps, as heads that wait do
 * (queue/dependency.h), and is woken the same way; who has come on looks for
 * bits. A look at every GM_WAIT_LOOK_NS, and at the next deadline, finds what
 * nobody tells.
 *
 * A part that does not begin, or whose time is up, or that its client cancels,
 * breaks the page, and so does whoever leaves: then all ranks end with that
 * error.  A rank that has died does so by gpumapd, which has the others FORGET
 * the group.
 *
 * Entries name memory as any do, and each rank finds it in its own table of the
 * session: what one rank says of its memory cannot lead another out of the
 * session.  Where one of the ranks is no host row all of them go by way of
 * windows (staged.h), and each looks at its own memory only.
 *
 *	collective.c		records, parts, and whose turn it is
 *	wait.c	nobody's
 *
 * Edges: COMM.tell, see agent/comm/comm_shm.h; the bits are WAIT.tell's.
 */
#ifndef GM_WORKER_COLLECTIVE_COLLECTIVE_H
#define GM_WORKER_COLLECTIVE_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/worker/worker.h"

#define GM_GROUP_LOOKS 4u /* at parts, between turns */

/* Bytes that one slice reads of all ranks: beside sessions that are awake, and
 * beside none. */
#define GM_GROUP_SLICE (UINT64_C(128) << 10)
#define GM_GROUP_ALONE (UINT64_C(1) << 20)

struct gm_collective_member;

void gm_group_init(struct gm_worker *worker);

/* Records of gpumapd.  Each is answered, now or later; @fd is taken over. */
void gm_group_join(struct gm_worker *worker, const struct gm_wire *wire,
		   int fd);
void gm_group_forget(struct gm_worker *worker, const struct gm_wire *wire);

/*
 * gm_group_begin - have @session->errand done, which is a collective
 *
 * Returns	0: the session is stalled, and goes on by itself; -ESTALE: it is
 *		of no group, or of one that is broken
 */
int gm_group_begin(struct gm_worker *worker, struct gm_worker_session *session);

/* A collective ends with @status and was never begun. */
void gm_group_refused(struct gm_worker_session *session,
		      const struct gm_decoded_entry *verdict, int status);

/* Go on with those that can.  Returns whether anything was done. */
bool gm_group_pass(struct gm_worker *worker);

/* Might one of them go on in this round, that nobody has looked at yet? */
static inline bool gm_group_due(const struct gm_worker *worker)
{
	return worker->parts.n_seen < worker->parts.n;
}

/* The next round has begun, or another part. */
static inline void gm_group_look_anew(struct gm_worker *worker)
{
	worker->parts.n_seen = 0;
	worker->parts.held = false;
}

/* At a reading of the clock: whose time is up? */
void gm_group_look(struct gm_worker *worker);

/* Nothing can go on.  May the worker sleep, and how long at most?  False: look
 * again. */
bool gm_group_may_sleep(struct gm_worker *worker, uint64_t *ret_ns);

/* Somebody has woken us. */
void gm_collective_notified(struct gm_worker *worker);

/* ---- for nccl_group.c ---------------------------------------------------- */

/* It is in no list any more: free it, now or later. */
void gm_group_give_up(struct gm_worker *worker,
		      struct gm_collective_member *member);

/* Its devices have met, or will not. */
void gm_group_met(struct gm_worker *worker, struct gm_worker_session *session,
		  struct gm_collective_member *member);

/* The session leaves, or is served no longer. */
void gm_group_leave(struct gm_worker *worker,
		    struct gm_worker_session *session);

#endif
