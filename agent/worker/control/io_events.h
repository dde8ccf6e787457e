/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * io_events - what comes in through the worker's io_uring: gpumapd's records,
 * the doorbells of parked queues, and what is read from files.
 */
#ifndef GM_WORKER_CONTROL_IO_EVENTS_H
#define GM_WORKER_CONTROL_IO_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/worker/worker.h"

/* Start to listen to gpumapd. */
void gm_events_start(struct gm_worker *worker);

/* Is there something?  Two loads.  A ring with deferred task work shows only
 * a flag until it is entered. */
static inline bool gm_events_due(struct gm_worker *worker)
{
	struct io_uring *ring = &worker->ring;

	return io_uring_cq_ready(ring) ||
	       (IO_URING_READ_ONCE(*ring->sq.kflags) &
		(IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW));
}

/* @fd is readable when another row has told us something. */
void gm_events_listen_to_waker(struct gm_worker *worker, int fd);

/* Handle what there is, some hundred at most. */
void gm_events_handle(struct gm_worker *worker);

/* The session broke the contract, session->why says how: serve it no longer
 * and tell gpumapd.  Once is enough. */
void gm_events_violated(struct gm_worker *worker,
			struct gm_worker_session *session);

/* A registration of the session has come, or will not: begin it with the last
 * of those that it awaits. */
void gm_events_has_awaited(struct gm_worker *worker,
			   struct gm_worker_session *session);

/* Tell gpumapd, now or when it listens, with a descriptor, which is closed
 * then, or -1. */
void gm_events_say(struct gm_worker *worker, const struct gm_wire *wire,
		   int fd);

/* Have the kernel read, in a thread of its own: gm_load_read_ended()
 * follows. */
void gm_events_read(struct gm_worker *worker, int fd, void *at, uint32_t bytes,
		    uint64_t from, uint32_t piece);

/* Have the kernel close a file of a client's, whose end may take long. */
void gm_events_close(struct gm_worker *worker, int fd);

/* The device is of no use any more: say why, and end this process.  What was
 * not told to clients yet the undertaker tells them. */
void gm_events_failed(struct gm_worker *worker) __attribute__((noreturn));

/* Look at the rings of those that are not listened to, and listen to them
 * again when their time is over. */
void gm_events_look(struct gm_worker *worker);

#endif
