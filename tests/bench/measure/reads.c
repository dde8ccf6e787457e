/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/bench/measure/reads.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdbool.h>
#include <unistd.h>

#include "tests/bench/measure/ticks.h"

/* A registered buffer has at most a GiB. */
#define REGISTERED_MAX (UINT64_C(1) << 30)

static void begin(const struct gm_reads *r, struct io_uring *ring, uint64_t at,
		  bool fixed)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	if (fixed)
		io_uring_prep_read_fixed(sqe, r->fd, r->to + at, r->block, at,
					 0);
	else
		io_uring_prep_read(sqe, r->fd, r->to + at, r->block, at);
}

static int run(const struct gm_reads *r, struct io_uring *ring, bool fixed)
{
	uint64_t asked = 0, got = 0;
	uint32_t flying = 0;

	while (got < r->bytes) {
		struct io_uring_cqe *cqe;
		unsigned head, n = 0;
		int ret;

		for (; flying < r->depth && asked < r->bytes; flying++) {
			begin(r, ring, asked, fixed);
			asked += r->block;
		}
		ret = io_uring_submit_and_wait(ring, 1);
		if (ret < 0 && ret != -EINTR)
			return ret;
		io_uring_for_each_cqe(ring, head, cqe)
		{
			if (cqe->res != (int)r->block)
				return cqe->res < 0 ? cqe->res : -EIO;
			n++;
		}
		io_uring_cq_advance(ring, n);
		flying -= n;
		got += (uint64_t)n * r->block;
	}
	return 0;
}

int gm_reads_ring(const struct gm_reads *reads, double *ret_ns)
{
	struct iovec all = { reads->to, reads->bytes };
	struct io_uring ring;
	bool fixed;
	uint64_t from;
	int ret = io_uring_queue_init(GM_READS_DEPTH, &ring, 0);

	if (ret < 0)
		return ret;
	fixed = reads->bytes <= REGISTERED_MAX &&
		io_uring_register_buffers(&ring, &all, 1) == 0;
	from = gm_ticks();
	ret = run(reads, &ring, fixed);
	*ret_ns = (double)(gm_ticks() - from) * gm_ticks_ns();
	io_uring_queue_exit(&ring);
	return ret;
}

int gm_reads_plain(const struct gm_reads *reads, double *ret_ns)
{
	uint64_t from, at = 0;

	posix_fadvise(reads->fd, 0, 0, POSIX_FADV_DONTNEED);
	from = gm_ticks();
	while (at < reads->bytes) {
		ssize_t got = pread(reads->fd, reads->to + at, reads->block,
				    (off_t)at);

		if (got < 0 && errno != EINTR)
			return -errno;
		if (got == 0)
			return -EIO;
		at += got > 0 ? (uint64_t)got : 0;
	}
	*ret_ns = (double)(gm_ticks() - from) * gm_ticks_ns();
	return 0;
}
