/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/uring.h - wait for jobs in the caller's own io_uring.
 *
 * For a program whose only waiting is in an io_uring: it can wait for its jobs
 * there too.  The program needs liburing, and defines _GNU_SOURCE as liburing.h
 * wants it; libgpumap needs neither.
 *
 *	while (gpumap_uring_arm(&ring, session, JOBS) == 1)
 *		take(session);			gpumap_poll() until it is 0
 *	io_uring_submit_and_wait(&ring, 1);
 *	...a completion with user_data JOBS: take(session), and arm again
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

/*
 * gpumap_uring_arm - have one completion queue entry made when a job has ended
 *
 * ring		the caller's own; one entry is prepared, not submitted
 * session	opened with GPUMAP_SESSION_POLLABLE
 * user_data	of the completion queue entry
 *
 * The entry comes once, and may come once too often: gpumap_poll() takes
 * nothing then.  No entry comes when the agent dies, so do not wait for it
 * longer than a second; the next call of this function reports that.
 *
 * Returns	0		armed: submit, and wait
 *		1		do not wait: completions are there; nothing was
 *				prepared
 *		-EBUSY		the ring's submission queue is full: submit
 *				first
 *		-ENOTSUP, -ECONNRESET, -EPROTO, -EOWNERDEAD	as
 *				gpumap_session_arm()
 * Cost		as gpumap_session_arm()
 * Threads	the session's own thread, which also owns @ring
 */
static inline int gpumap_uring_arm(struct io_uring *ring,
				   struct gpumap_session *session,
				   uint64_t user_data)
{
	int fd = gpumap_session_fd(session), ret;
	struct io_uring_sqe *sqe;

	if (fd < 0)
		return fd;
	if (io_uring_sq_space_left(ring) == 0)
		return -EBUSY;
	ret = gpumap_session_arm(session);
	if (ret != 0)
		return ret;
	sqe = io_uring_get_sqe(ring);
	io_uring_prep_poll_add(sqe, fd, POLLIN);
	io_uring_sqe_set_data64(sqe, user_data);
	return 0;
}

#ifdef __cplusplus
}
#endif
#endif
