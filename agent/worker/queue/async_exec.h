/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * async_exec - turns of a queue whose device computes while we do other things.
 *
 * An entry that is read becomes a line of slices for the device, and is taken
 * into the journal.  Slices are started in the order of their entries, each
 * told which one it must not overtake, and at most as many of a session are
 * under way as the device says; an entry ends when the device has ended all of
 * its slices and everything before it has ended.  So entries take effect and
 * end in the order in which they came, whatever else goes on beside them.
 *
 * The next entry is read when all slices of the last have been started.  Those
 * in flight are less than a depth, which is what the journal can hold.
 *
 * Three kinds of entries are fences: nothing behind them is read before they
 * are down.  ALLOC, LOAD and a COPY out of what is borrowed begin once
 * everything before them has ended, and what is behind may name what they make.
 * A task in a part of the arena that the device does not reach yet waits until
 * it does; parts are had as they are named.
 *
 * A session with slices under way may be parked as any other: its client rings,
 * and the device is looked at from time to time, or tells (device.h, arm).
 */
#ifndef GM_WORKER_QUEUE_ASYNC_EXEC_H
#define GM_WORKER_QUEUE_ASYNC_EXEC_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/worker/worker.h"

#define GM_ASYNC_EXEC_SLICES 32u /* of one session, whatever the device says */

/* Make the session ready for it, after gm_session_take_over().  Returns 0 or
 * -ENOMEM. */
int gm_async_exec_open(struct gm_worker_session *session,
		       const struct gm_backend_device *dev);

/* Would a turn get anywhere? */
bool gm_async_exec_due(struct gm_worker *worker,
		       struct gm_worker_session *session);

/* Would it, though nothing more may be begun? */
bool gm_async_exec_has_ended(const struct gm_worker *worker,
			     const struct gm_worker_session *session);

/* Has another session, or a load, something left of its round, and as much
 * under way as it may have?  One of @guest's, by the rounds of his sessions;
 * NULL: anybody's, by those of the users.  Then a round is not over. */
bool gm_async_exec_is_owed(const struct gm_worker *worker,
			   const struct gm_guest *guest);

/* A session has work that has to wait for such another: it need not be awake
 * until gm_async_exec_poll() finds that it need not wait. Returns whether it is
 * so. */
bool gm_async_exec_hold(struct gm_worker *worker,
			struct gm_worker_session *session);

/* One turn, as gm_turn_serve(); one that is @spent starts nothing. */
void gm_async_exec_serve(struct gm_worker *worker,
			 struct gm_worker_session *session);

/* The fence of a session that was stalled is down, with this status. */
void gm_async_exec_finish(struct gm_worker_session *session, int32_t status);

/* The part of the arena that a task waits for is reached, or cannot be. */
void gm_async_exec_reached(struct gm_worker *worker,
			   struct gm_worker_session *session, int32_t status);

/* Position of the oldest entry that has not ended. */
uint32_t gm_async_exec_oldest(const struct gm_worker_session *session);

/* Has the device anything of it? */
bool gm_async_exec_waits(const struct gm_worker_session *session);

/* Can it read nothing before the device has ended something?  Then nobody needs
 * to ring for it. */
bool gm_async_exec_full(const struct gm_worker *worker,
			const struct gm_worker_session *session);

/* Start no more of it: it leaves. */
void gm_async_exec_leave(struct gm_worker *worker,
			 struct gm_worker_session *session);

/* Look what the device has ended of sessions that get no turns, wake those
 * whose client can be told, and say since when the oldest slice is under
 * way. */
void gm_async_exec_poll(struct gm_worker *worker);

/* The same, between two rounds.  Returns whether that has woken anybody. */
bool gm_async_exec_wake(struct gm_worker *worker);

/* The device told: of slices that ended, or of its own end. */
void gm_async_exec_notified(struct gm_worker *worker);

/* Before the worker sleeps.  Returns whether it may: what the device ends then
 * wakes it. */
bool gm_async_exec_may_sleep(struct gm_worker *worker);

/* What the session's gaps are learned in while the device has something of it,
 * NULL otherwise. */
struct gm_doorbell_spin *gm_async_exec_spin(struct gm_worker_session *session);

#endif
