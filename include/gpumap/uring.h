/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/uring.h - wait for jobs in the caller's own io_uring.
 *
 * For a program whose only waiting is in an io_uring: it can wait for its jobs
 * there too.  The program needs liburing, and defines _GNU_SOURCE as liburing.h
 * wants it; libgpumap needs neither.
 *
 *	struct gpumap_uring jobs = { .session = session, .user_data = JOBS };
 *
 *	while (gpumap_uring_arm(&jobs, &ring) == 1)
 *		take(session);			gpumap_poll() until it is 0
 *	io_uring_submit_and_wait(&ring, 1);
 *	...for each completion queue entry:
 *	if (gpumap_uring_came(&jobs, cqe))
 *		take(session);
 *	...and arm again
 */
#ifndef GPUMAP_URING_H
#define GPUMAP_URING_H

#include <errno.h>
#include <poll.h>
#include <stdint.h>

#include <gpumap.h>
#include <liburing.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A session's place in one io_uring.  Zero what is not set here. */
struct gpumap_uring {
	struct gpumap_session *session; /* with GPUMAP_SESSION_POLLABLE */
	uint64_t user_data; /* of its completion queue entries, no other's */
	int is_polled;      /* a poll is in the ring; not the caller's to set */
};

/*
 * gpumap_uring_arm - have one completion queue entry made when a job has ended
 *
 * ring		the caller's own, the same at every call; at most one entry is
 *		prepared, and not submitted
 *
 * As gpumap_session_arm(), and as often as the caller likes: the ring has one
 * poll at most, until gpumap_uring_came() sees its entry.  The entry may come
 * once too often: gpumap_poll() takes nothing then.  No entry comes when the
 * agent dies, so do not wait for it longer than a second; the next call of this
 * function reports that.
 *
 * Returns	0		armed: submit, and wait
 *		1		do not wait: completions are there
 *		-EBUSY		the ring's submission queue is full: submit
 *				first
 *		-ENOTSUP, -ECONNRESET, -EPROTO, -EOWNERDEAD	as
 *				gpumap_session_arm()
 * Cost		as gpumap_session_arm()
 * Threads	the session's own thread, which also owns @ring
 */
static inline int gpumap_uring_arm(struct gpumap_uring *jobs,
				   struct io_uring *ring)
{
	int fd = gpumap_session_fd(jobs->session), ret;
	struct io_uring_sqe *sqe;

	if (fd < 0)
		return fd;
	if (!jobs->is_polled && io_uring_sq_space_left(ring) == 0)
		return -EBUSY;
	ret = gpumap_session_arm(jobs->session);
	if (ret != 0 || jobs->is_polled)
		return ret;
	sqe = io_uring_get_sqe(ring);
	io_uring_prep_poll_add(sqe, fd, POLLIN);
	io_uring_sqe_set_data64(sqe, jobs->user_data);
	jobs->is_polled = 1;
	return 0;
}

/*
 * gpumap_uring_came - is a completion queue entry that of the session's poll?
 *
 * Call it for each entry, or for those with the session's user_data.  After
 * gpumap_session_close() one more entry may come.
 *
 * Returns	1: take completions, and arm again before the next wait; 0: no
 * Cost		a compare
 * Threads	as gpumap_uring_arm()
 */
static inline int gpumap_uring_came(struct gpumap_uring *jobs,
				    const struct io_uring_cqe *cqe)
{
	if (cqe->user_data != jobs->user_data)
		return 0;
	jobs->is_polled = 0;
	return 1;
}

#ifdef __cplusplus
}
#endif
#endif
