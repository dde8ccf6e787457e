/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * io_events - handles events of the worker's io_uring: gpumapd's records,
 * doorbells of parked queues, and reads of files.
 */
#ifndef GM_WORKER_CONTROL_IO_EVENTS_H
#define GM_WORKER_CONTROL_IO_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/worker/worker.h"

/* Start to poll gpumapd's socket, the slow thread and the device. */
void gm_io_events_start(struct gm_worker *worker);

/* Is an event pending?  Few loads.  A ring with deferred task work only sets a
 * flag until it is entered. */
static inline bool gm_events_due(struct gm_worker *worker)
{
	struct io_uring *ring = &worker->ring;

	return gm_io_backlog_waits(&worker->backlog) ||
	       io_uring_cq_ready(ring) ||
	       (IO_URING_READ_ONCE(*ring->sq.kflags) &
		(IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW));
}

/* Poll @fd, which another row's worker makes readable to wake this one. */
void gm_io_events_listen_to_waker(struct gm_worker *worker, int fd);

/* Handle pending events, at most EVENTS_MAX. */
void gm_io_events_handle(struct gm_worker *worker);

/* The session broke the contract, session->why says how: stop serving it and
 * notify gpumapd.  Further calls have no effect. */
void gm_io_events_violated(struct gm_worker *worker,
			   struct gm_worker_session *session);

/* A registration that the session awaits has arrived or failed: begin the
 * session after the last one. */
void gm_io_events_has_awaited(struct gm_worker *worker,
			      struct gm_worker_session *session);

/* Send a record to gpumapd, now or when it has room, with a descriptor, which
 * is closed afterwards, or -1. */
void gm_io_events_say(struct gm_worker *worker, const struct gm_wire *wire,
		      int fd);

/* Start a read in a thread of the kernel.  gm_load_read_ended() follows. */
void gm_io_events_read(struct gm_worker *worker, int fd, void *at,
		       uint32_t bytes, uint64_t from, uint32_t piece);

/* End a read early where the kernel can: one that waits for its turn, for an
 * event, or interruptibly.  gm_load_read_ended() follows as without it. */
void gm_io_events_cancel_read(struct gm_worker *worker, uint32_t piece);

/* Have the kernel close a client's file, because close() may take long. */
void gm_io_events_close(struct gm_worker *worker, int fd);

/* The device has failed: report why, and end this process.  The recovery
 * process publishes the completions that are missing. */
void gm_io_events_failed(struct gm_worker *worker) __attribute__((noreturn));

/* Poll the rings of sessions whose doorbell is ignored, and listen to it again
 * when its time is over. */
void gm_io_events_look(struct gm_worker *worker);

#endif
