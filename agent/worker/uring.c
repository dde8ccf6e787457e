/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/io/load.h"
#include "agent/worker/worker.h"

#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

/* More than one call of gm_io_events_handle() can request. */
#define SQ_ENTRIES 1024u

/* Each doorbell may ring several times between two calls, and a full queue ends
 * multishot polls: four entries for each possible poll.  128 KiB. */
#define CQ_ENTRIES (8u * GM_JOURNAL_PLACES)

#define SINGLE_DEFERRED \
	(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN)

/* Flags to try, best first: Linux 6.1, 5.19, any. */
static const unsigned tries[] = {
	SINGLE_DEFERRED | IORING_SETUP_TASKRUN_FLAG,
	IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
	0,
};

/* The operations that the loop uses (control/io_events.c).  A filter of system
 * calls does not see the operations of a ring: without this list an attacker
 * that controls the worker could open files and connect through it
 * (control/sandbox.h).  The list is in force from here on, because the ring
 * starts disabled. */
static int restrict_to_list(struct io_uring *ring)
{
	struct io_uring_restriction list[] = {
		{ .opcode = IORING_RESTRICTION_SQE_OP,
		  .sqe_op = IORING_OP_POLL_ADD },
		{ .opcode = IORING_RESTRICTION_SQE_OP,
		  .sqe_op = IORING_OP_ASYNC_CANCEL },
		{ .opcode = IORING_RESTRICTION_SQE_OP,
		  .sqe_op = IORING_OP_READ },
		{ .opcode = IORING_RESTRICTION_SQE_OP,
		  .sqe_op = IORING_OP_CLOSE },
		{ .opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED,
		  .sqe_flags = IOSQE_ASYNC },
	};
	int fd = ring->ring_fd;

	/* Some versions of liburing do not export these two calls. */
	if (syscall(SYS_io_uring_register, fd, IORING_REGISTER_RESTRICTIONS,
		    list, N_OF(list)) < 0 ||
	    syscall(SYS_io_uring_register, fd, IORING_REGISTER_ENABLE_RINGS,
		    NULL, 0) < 0)
		return -errno;
	return 0;
}

/* Reads that never end must not keep other reads from their threads.  So allow
 * as many threads as the loader can have reads in progress, which is more than
 * the kernel's default of four per CPU.  Linux 5.15 does not know this call and
 * uses its own limit. */
static void allow_readers(struct io_uring *ring)
{
	unsigned most[2] = { GM_LOAD_READS_MAX, 0 }; /* 0: unchanged */

	syscall(SYS_io_uring_register, ring->ring_fd,
		IORING_REGISTER_IOWQ_MAX_WORKERS, most, N_OF(most));
}

/* Value of kernel.io_uring_disabled (Linux 6.6): 0 for no process, 1 for all
 * unprivileged ones, 2 for all. */
static int disabled_for(void)
{
	FILE *f = fopen("/proc/sys/kernel/io_uring_disabled", "re");
	int value = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%d", &value) != 1)
		value = 0;
	fclose(f);
	return value;
}

static const char *why_refused(int rc)
{
	if (rc == -ENOMEM)
		return "io_uring refused: raise RLIMIT_MEMLOCK (LimitMEMLOCK=)";
	if (rc == -ENOSYS)
		return "io_uring missing: kernel without CONFIG_IO_URING, or a "
		       "seccomp profile hides it";
	if (rc == -EPERM && disabled_for() == 2)
		return "io_uring refused: set sysctl kernel.io_uring_disabled "
		       "to 0 or 1";
	if (rc == -EPERM && disabled_for() == 1)
		return "io_uring refused: run as root, or set sysctl "
		       "kernel.io_uring_group to our group";
	if (rc == -EPERM)
		return "io_uring refused: allow io_uring_setup, _enter, "
		       "_register in the container's seccomp profile";
	return "io_uring could not be set up";
}

int gm_uring_open(struct io_uring *ring, const char **ret_why)
{
	int rc = -EINVAL;

	for (size_t i = 0; i < N_OF(tries) && rc == -EINVAL; i++) {
		struct io_uring_params params = {
			.flags = tries[i] | IORING_SETUP_CQSIZE |
				 IORING_SETUP_R_DISABLED,
			.cq_entries = CQ_ENTRIES,
		};

		rc = io_uring_queue_init_params(SQ_ENTRIES, ring, &params);
	}
	if (rc == 0 && !(ring->features & IORING_FEAT_EXT_ARG)) {
		io_uring_queue_exit(ring);
		*ret_why = "io_uring is too old: Linux 5.11 or newer is needed";
		return -ENOSYS;
	}
	if (rc < 0) {
		*ret_why = why_refused(rc);
		return rc;
	}
	allow_readers(ring);
	rc = restrict_to_list(ring);
	if (rc < 0) {
		io_uring_queue_exit(ring);
		*ret_why = "io_uring cannot be restricted: allow "
			   "io_uring_register in the container's seccomp "
			   "profile";
	}
	return rc;
}
