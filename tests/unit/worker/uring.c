/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* uring: a worker's ring polls, reads and closes.  Operations that its filter
 * of system calls forbids must not be had from the ring instead. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/worker/worker.h"
#include "tests/support/tap.h"

static struct io_uring ring;

/* The result of the entry that was made last. */
static int result(void)
{
	struct io_uring_cqe *cqe;
	int res;

	if (io_uring_submit_and_wait(&ring, 1) < 0 ||
	    io_uring_peek_cqe(&ring, &cqe) != 0)
		return -ENODATA;
	res = cqe->res;
	io_uring_cqe_seen(&ring, cqe);
	return res;
}

static void it_polls(void)
{
	int bell = eventfd(1, EFD_CLOEXEC);
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	io_uring_prep_poll_multishot(sqe, bell, POLLIN);
	io_uring_sqe_set_data64(sqe, 7);
	OK((result() & POLLIN) != 0);
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_cancel64(sqe, 7, 0);
	EQ(result() + result(), -ECANCELED); /* of the poll, and its end */
	close(bell);
}

static void it_reads_and_closes(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	char byte = 1;

	io_uring_prep_read(sqe, fd, &byte, 1, 0);
	io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
	EQ(result(), 1);
	EQ(byte, 0);
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_close(sqe, fd);
	EQ(result(), 0);
	EQ(fcntl(fd, F_GETFD), -1);
}

static void it_writes_nothing(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	io_uring_prep_write(sqe, fd, "", 1, 0);
	EQ(result(), -EACCES);
	close(fd);
}

static void it_opens_nothing(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	io_uring_prep_openat(sqe, AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC,
			     0);
	EQ(result(), -EACCES);
}

static void it_sends_nothing(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
	int pair[2];

	EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
	io_uring_prep_send(sqe, pair[0], "", 1, 0);
	EQ(result(), -EACCES);
	close(pair[0]);
	close(pair[1]);
}

static void it_stays_so(void)
{
	struct io_uring_restriction any = { .opcode = IORING_RESTRICTION_SQE_OP,
					    .sqe_op = IORING_OP_OPENAT };

	EQ(syscall(SYS_io_uring_register, ring.ring_fd,
		   IORING_REGISTER_RESTRICTIONS, &any, 1),
	   -1);
	EQ(syscall(SYS_io_uring_register, ring.ring_fd,
		   IORING_REGISTER_PERSONALITY, NULL, 0),
	   -1);
	EQ(errno, EACCES);
}

TAP_CASE()
{
	const char *why = "";
	int rc = gm_uring_open(&ring, &why);

	if (rc < 0) {
		SKIP(12, why);
		return tap_done();
	}
	it_polls();
	it_reads_and_closes();
	it_writes_nothing();
	it_opens_nothing();
	it_sends_nothing();
	it_stays_so();
	io_uring_queue_exit(&ring);
	return tap_done();
}
