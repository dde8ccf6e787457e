/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * async_exec - serves queues of a device that computes while the worker does
 * other work.
 *
 * An entry that is read is recorded in the journal and split into slices for
 * the device.  Slices start in the order of their entries, and each is given
 * the slice that it must not overtake.  The device sets how many slices of a
 * session may be in flight.  An entry ends when all of its slices and all
 * entries before it have ended, so entries take effect and end in the order in
 * which they came.
 *
 * The next entry is read when all slices of the last have started.  Fewer
 * entries than the ring's depth are in flight, which is what the journal can
 * hold.
 *
 * Three kinds of entries are fences: no entry behind a fence is read until the
 * fence is over.  ALLOC, LOAD and a COPY out of borrowed memory begin when all
 * entries before them have ended, and later entries may name their result.  A
 * task in a part of the arena that is not mapped for the device waits for the
 * mapping; parts are mapped when an entry first names them.
 *
 * A session with slices in flight may be parked like any other: its client
 * rings the doorbell, and the worker polls the device from time to time or gets
 * its notification (device.h, arm).
 */
#ifndef GM_WORKER_QUEUE_ASYNC_EXEC_H
#define GM_WORKER_QUEUE_ASYNC_EXEC_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/worker/worker.h"

/* Limit of one session, even if the device allows more. */
#define GM_ASYNC_EXEC_SLICES 32u

/* Prepare the session for asynchronous execution, after gm_session_take_over().
 * Returns 0 or -ENOMEM. */
int gm_async_exec_open(struct gm_worker_session *session,
		       const struct gm_backend_device *dev);

/* Would a turn of the session do any work? */
bool gm_async_exec_due(struct gm_worker *worker,
		       struct gm_worker_session *session);

/* Would a turn that starts no new work end an entry? */
bool gm_async_exec_has_ended(const struct gm_worker *worker,
			     const struct gm_worker_session *session);

/* Does a session of @user with credit left in its round have as many slices in
 * flight as it may have?  Then the round between the sessions of @user is not
 * over.  With NULL: the same for the sessions of all users, and for loads, by
 * the rounds between users. */
bool gm_async_exec_is_owed(const struct gm_worker *worker,
			   const struct gm_row_user *user);

/* Hold a session whose work has to wait for such another session.  The session
 * need not be awake until gm_async_exec_poll() finds that it may go on. Returns
 * whether the session is held. */
bool gm_async_exec_hold(struct gm_worker *worker,
			struct gm_worker_session *session);

/* Serve one turn, as gm_quantum_serve().  A session that is @spent starts
 * nothing. */
void gm_async_exec_serve(struct gm_worker *worker,
			 struct gm_worker_session *session);

/* The fence of a stalled session is over, with this status. */
void gm_async_exec_finish(struct gm_worker_session *session, int32_t status);

/* The part of the arena that a task waits for is mapped for the device, or
 * cannot be mapped. */
void gm_async_exec_reached(struct gm_worker *worker,
			   struct gm_worker_session *session, int32_t status);

/* Position of the oldest entry that has not ended. */
uint32_t gm_async_exec_oldest(const struct gm_worker_session *session);

/* Does the session have slices in flight? */
bool gm_async_exec_waits(const struct gm_worker_session *session);

/* Can the session read no entry before the device has ended a slice?  Then the
 * client does not need to ring the doorbell. */
bool gm_async_exec_full(const struct gm_worker *worker,
			const struct gm_worker_session *session);

/* The session leaves: start no more slices of it. */
void gm_async_exec_leave(struct gm_worker *worker,
			 struct gm_worker_session *session);

/* Poll the device for sessions that get no turns.  Wake those that have
 * completions to publish, and store in the journal since when the oldest slice
 * is in flight. */
void gm_async_exec_poll(struct gm_worker *worker);

/* Do the same between two rounds.  Returns whether a session was woken. */
bool gm_async_exec_wake(struct gm_worker *worker);

/* The device has notified the worker: slices have ended, or the device has
 * failed. */
void gm_async_exec_notified(struct gm_worker *worker);

/* Called before the worker sleeps.  Returns whether it may sleep: from then on,
 * slices that end wake the worker. */
bool gm_async_exec_may_sleep(struct gm_worker *worker);

/* Gap statistics to use while the session has slices in flight, NULL if it has
 * none. */
struct gm_doorbell_spin *gm_async_exec_spin(struct gm_worker_session *session);

#endif
