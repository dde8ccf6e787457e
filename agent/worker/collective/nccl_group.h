/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * nccl_group - runs collectives with NCCL directly between the devices of a
 * group.
 *
 * Such a group also has windows, for collectives that its devices cannot do.
 * Each member has its own thread for calls that wait for other devices, so
 * waiting in one group does not delay leaving another.
 *
 * Setup: after JOIN the thread of each rank publishes its NCCL version in the
 * group's page (agent/comm/comm_shm.h).  If all are equal, rank 0 publishes the
 * NCCL id, and the ranks connect within a limit.  The first rank that is sure
 * of the outcome writes it to one word of the page, so either all ranks have a
 * communicator or none has.  A rank that cannot connect writes that at once,
 * and the others stop waiting.  JOINED is sent after that.
 *
 * Collectives: each begins with a meeting in the page.  There all ranks learn
 * whether they ask for the same operation and whether all memory is in the
 * devices.  If so, each rank starts it on its device; otherwise it goes through
 * the windows.  No device waits for a rank that has not arrived.  Two groups
 * with a device in common start their collectives in the same order on all
 * rows, like the collectives of one session (comms.h).
 *
 * SEND: its two ranks meet alone, in their cell and with their own numbers.
 * SEND takes no ticket of the group, as tickets must be equal at every rank,
 * and no other rank is held up.  The order is correct without a ticket.  A
 * session submits each collective to all rows that it needs before the next
 * one, and a row runs one at a time until its end.  Two rows that share two
 * collectives therefore begin the same one first, and the one submitted first
 * among the unfinished can always go on.  NCCL requires no more: a send needs
 * its receive, of the same type and count, and only the two ranks connect for
 * it.  A rank's calls run in order in its stream, whatever other ranks do
 * meanwhile.
 *
 * Leaving: a rank that has to leave before all have connected breaks the group,
 * and gpumapd does so if a rank does not come.  No collective has started then,
 * so the other ranks stop connecting at once, and the group is not opened.  A
 * rank whose device has finished publishes that in the page.  A draining rank
 * leaves its communicator when all ranks have finished, or after the limit.  A
 * collective that ended well at one rank thus ends well at all ranks that can
 * finish it.
 *
 * Abort: a device that waits for another is recovered only by an abort at every
 * rank, and an abort may wait for the aborts of all ranks.  A rank that finds
 * its group broken wakes the ranks without a part in progress, and they leave
 * too.  The thread calls abort because it may hang; gpumapd ends a worker whose
 * abort hangs.  The part ends after the abort: a client's memory is not written
 * after its entry has ended.
 */
#ifndef GM_WORKER_COLLECTIVE_NCCL_GROUP_H
#define GM_WORKER_COLLECTIVE_NCCL_GROUP_H

#include "agent/worker/collective/member.h"

/* Poll interval while the worker sleeps and a collective runs on the device. */
#define GM_NCCL_GROUP_LOOK_NS UINT64_C(100000)

/* Poll interval while groups delay a drain. */
#define GM_NCCL_GROUP_HOLD_NS UINT64_C(1000000)

/* Prepare a rank of a group that is to use NCCL.  Never fails: a rank that
 * cannot take part publishes that in the page. */
void gm_nccl_group_prepare(struct gm_worker *worker,
			   struct gm_collective_member *member);

/* Connect the device to the other ranks' devices.  gm_collective_met()
 * follows. */
void gm_nccl_init(struct gm_worker *worker,
		  struct gm_collective_member *member);

/* Nothing of @member is in progress: leave the communicator.  Returns whether
 * @member may be freed; if not, gm_collective_give_up() is called again. */
bool gm_nccl_group_leave(struct gm_collective_member *member);

/* The worker begins to drain: break groups that are still connecting, so that
 * other devices do not wait for this one. */
void gm_nccl_group_drain(struct gm_worker *worker);

/* Do other devices still run a collective that this one has finished, and
 * thereby delay the drain?  Leaving their communicator now would make them
 * fail. */
bool gm_nccl_group_holds(struct gm_worker *worker);

/* Last step of a drain: break the remaining groups, wake their other ranks and
 * leave.  Returns whether none is left. */
bool gm_nccl_group_disband(struct gm_worker *worker);

/* If the group is broken, wake all of its ranks, because each has to leave and
 * ranks without a part in progress do not notice by themselves.  A rank that
 * leaves calls this. */
void gm_nccl_group_call(const struct gm_collective_member *member);

/* Leave the communicators of broken groups.  Called when the clock is read. */
void gm_nccl_group_look(struct gm_worker *worker);

/* Take part in the collective that the session requests.  The member of
 * @session->part has windows. */
void gm_nccl_group_begin(struct gm_worker_session *session);

/* Like gm_comm_step().  Also returns -EAGAIN while the device or a copy is at
 * work. */
int gm_nccl_group_step(struct gm_worker *worker,
		       struct gm_worker_session *session, uint64_t budget,
		       bool *ret_told);

/* Is the session's part running on the device?  Its end causes no wakeup. */
bool gm_nccl_group_runs(const struct gm_worker_session *session);

/* No part runs on the device any more.  A row has one such part at most. */
void gm_nccl_group_over(struct gm_worker *worker);

/* ---- nccl_group_init.c --------------------------------------------------- */

/* Acquire a thread for a member, and start it if needed.  NULL: none is
 * free. */
struct gm_nccl_group_thread *
gm_nccl_group_thread_take(struct gm_worker *worker);

/* A finished job of one of the threads, NULL for none. */
struct gm_blocking_job *gm_nccl_group_done(struct gm_worker *worker);

/* Has any of the threads a job? */
bool gm_nccl_group_is_busy(const struct gm_worker *worker);

/* Wait until the threads have finished their jobs, and end the threads. */
void gm_nccl_group_stop(struct gm_worker *worker);

/* Publish that this rank cannot connect: then no rank does. */
void gm_nccl_group_cannot(const struct gm_collective_member *member);

/* Runs in @member's thread: connect to the other ranks within @limit_ns, in
 * which no time counts while the machine stands still.  Sets @member->formed to
 * the communicator, at all ranks or at none. */
void gm_nccl_group_come(struct gm_collective_member *member,
			struct gm_backend_device *dev, uint64_t limit_ns);

#endif
