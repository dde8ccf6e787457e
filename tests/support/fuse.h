/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * fuse.h - a file system with one file, whose reads do what a test says.
 *
 * A child serves it.  The child answers a read with the bytes of load_file.h,
 * at once or later, from some offset on with an error, or not at all.  Only the
 * child has the descriptor: its end ends every call that waits.
 */
#ifndef GM_TEST_SUPPORT_FUSE_H
#define GM_TEST_SUPPORT_FUSE_H

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/support/load_file.h"

#define FUSE_FILE_BYTES (16 * MIB)

/* In flags2: files that are opened with direct_io may be mapped shared. */

/* Shared with the child. */
struct fuse_orders {
	uint64_t fails_from; /* offset of the first byte that is not read */
	int32_t error;       /* that it is not read with, 0: no answer at all */
	uint64_t unanswered; /* written by the child */
	uint32_t open_flags; /* FOPEN_* */
	uint32_t most; /* bytes of an answer, 0: as many as are asked for */
	uint32_t head_bytes; /* that the file begins with, instead of its own */
	char head[1024];
	bool refuses_direct; /* reads past the cache */
	bool maps_direct;    /* see above; writes are never answered */
	uint32_t n_written;  /* so many; written by the child */
	bool holds; /* reads are to wait until the next request after, */
	uint64_t holds_from;    /* those that reach beyond this offset */
	uint32_t held;          /* so many do; written by the child */
	uint32_t held_bytes;    /* of the largest */
	uint32_t n_read;        /* that were answered; written by the child */
	bool interruptible;     /* reads that are never answered end with -EINTR
			      * where the kernel asks for it, */
	uint32_t n_interrupted; /* so many did; written by the child */
};

struct fuse {
	volatile struct fuse_orders *orders;
	char folder[128];
	int fd;
	pid_t pid;
};

void fuse_end(struct fuse *f);

/* Returns whether it may be had here; then end it. */
bool fuse_begin_as(struct fuse *f, const char *folder, bool maps_direct);
bool fuse_begin(struct fuse *f, const char *folder);
int fuse_open_for(const struct fuse *f, int mode);
int fuse_open(const struct fuse *f);

#endif
