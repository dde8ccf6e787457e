/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * nccl_group - collectives that the devices of a group do among themselves.
 *
 * A group that is to has windows all the same, and uses them for what its
 * devices cannot do.  Each of its members has a thread of its own that may wait
 * for other devices: what one group waits for holds up nobody who has to leave
 * another.  When a rank has joined, that thread says in its seat of the group's
 * page (agent/comm/comm_shm.h) what the device would do it with. Where all say
 * the same, rank 0 leaves there what they meet by, and they meet, within a
 * limit. What becomes of it is one word of the page, which whoever is sure of
 * it first writes, so all ranks have a clique or none has: who cannot meet says
 * so at once, and nobody waits for him. Only then gpumapd is told that the rank
 * has joined.
 *
 * Each collective begins with a meeting in the page.  All ranks learn there
 * whether all ask for the same, and whether all of their memory is the devices'
 * own: if so they start it on their devices, and if not it goes by way of
 * windows.  No device waits for one whose rank has not come, and what two
 * groups have on one device is begun in the same order everywhere, as it is of
 * one session (comms.h).
 *
 * Of a SEND the two ranks meet alone, in their cell, with numbers of their own:
 * it has no ticket of the group's, which are the same at every rank, and nobody
 * else is held.  The order is right without one.  The session submits each of
 * its collectives to all the rows that it needs before the next, and a row
 * has one of them at a time, until its end: so of any two that two rows have
 * in common both begin the same one first, and of all that have not ended the
 * one that was submitted first can always go on.  NCCL asks for no more: a send
 * needs its receive, of the same type and number, and the two ranks alone
 * connect for it; a rank's calls run one after another in its stream, and what
 * other ranks of the communicator do meanwhile is nothing to it.
 *
 * Who has to leave before all have met breaks the group, and so does gpumapd
 * where a rank will not come: nothing has been begun on it, and the others end
 * their meeting at once.  The group is not opened then.
 *
 * A rank whose device is through says so in the page.  One that drains leaves
 * its clique when all are, or after the limit: what has ended well at one rank
 * does so at all that can.
 *
 * A device that waits for another one can be had back only by an abort, at
 * every rank, and an abort may wait for those of all ranks: whoever finds a
 * group broken wakes those who have no part in what goes on, and they leave
 * too.  That is a thread's, for it may hang, and gpumapd ends a worker where it
 * does.  The part ends after it: nothing is written to a
 * client's memory behind the end of its entry.
 */
#ifndef GM_WORKER_COLLECTIVE_NCCL_GROUP_H
#define GM_WORKER_COLLECTIVE_NCCL_GROUP_H

#include "agent/worker/collective/member.h"

/* Between looks at a device that is at it, asleep. */
#define GM_NCCL_GROUP_LOOK_NS UINT64_C(100000)

/* Likewise at those that hold up a drain. */
#define GM_NCCL_GROUP_HOLD_NS UINT64_C(1000000)

/* A rank of a group that is to have a clique joins.  Never fails: it says that
 * it cannot, where it cannot. */
void gm_nccl_group_prepare(struct gm_worker *worker,
			   struct gm_collective_member *member);

/* Have the device meet the others.  gm_group_met() follows. */
void gm_nccl_init(struct gm_worker *worker,
		  struct gm_collective_member *member);

/* Nothing of @member is under way.  Returns whether it may be freed; if not,
 * gm_group_give_up() is called again. */
bool gm_nccl_group_leave(struct gm_collective_member *member);

/* The worker begins to drain.  Devices that are to meet ours need not wait for
 * it: their groups break. */
void gm_nccl_group_drain(struct gm_worker *worker);

/* Do devices of others hold up the drain, which are not through with what ours
 * has ended?  What would be taken from them now is theirs to end well. */
bool gm_nccl_group_holds(const struct gm_worker *worker);

/* The worker has drained but for this: break what groups are left, call their
 * other ranks and leave.  Returns whether none is left. */
bool gm_nccl_group_disband(struct gm_worker *worker);

/* Nobody waits for a rank that has no part in what goes on: if the group is
 * broken, wake them all, for each has to leave.  Whoever leaves does so. */
void gm_nccl_group_call(const struct gm_collective_member *member);

/* At a reading of the clock: leave those of groups that are broken. */
void gm_nccl_group_look(struct gm_worker *worker);

/* Of @session->part, whose member has windows: take part in what
 * @session->errand asks for. */
void gm_nccl_group_begin(struct gm_worker_session *session);

/* As gm_comm_step(); -EAGAIN also while the device, or a copy, is under way. */
int gm_nccl_group_step(struct gm_worker *worker,
		       struct gm_worker_session *session, uint64_t budget,
		       bool *ret_told);

/* Is its part on the device?  Nobody tells when it has ended. */
bool gm_nccl_group_runs(const struct gm_worker_session *session);

/* No part that goes on is on the device: a row has one at most. */
void gm_nccl_group_over(struct gm_worker *worker);

/* ---- nccl_init.c ------------------------------------------------------- */

/* A thread for a member.  It may be started first.  NULL: there is none. */
struct gm_nccl_group_thread *
gm_nccl_group_thread_take(struct gm_worker *worker);

/* A job that one of them has ended, NULL for none. */
struct gm_slow_job *gm_nccl_group_done(struct gm_worker *worker);

/* Has any of them something to do? */
bool gm_nccl_group_is_busy(const struct gm_worker *worker);

/* Wait until they have done everything, and end them. */
void gm_nccl_group_stop(struct gm_worker *worker);

/* This rank will not meet the others, so nobody does. */
void gm_nccl_group_cannot(const struct gm_collective_member *member);

/* In @member's thread: meet the others, until then.  @member->formed has the
 * device's end of the clique, at all ranks or at none. */
void gm_nccl_group_come(struct gm_collective_member *member,
			struct gm_backend_device *dev, uint64_t until_ns);

#endif
