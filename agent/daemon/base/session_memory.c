/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/memory_file.h"
#include "agent/daemon/base/session_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <numaif.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEALS      (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define NODES      1024 /* most that Linux is built for */
#define NODE_WORDS (NODES / (8 * (int)sizeof(unsigned long)))

int gm_session_memory_open(const char *name, uint64_t bytes)
{
	int fd = gm_memory_file(name), error;

	if (fd < 0)
		return fd;
	if (ftruncate(fd, (off_t)bytes) == 0 &&
	    fcntl(fd, F_ADD_SEALS, SEALS) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

/* A policy of this thread, to be put back. */
struct policy {
	bool is_set;
	int mode;
	unsigned long nodes[NODE_WORDS];
};

/* The pages of a file come from where its first toucher likes them: that is
 * us, but it is a worker on another node who will use them.  A container may
 * forbid it, and one node is no choice: then nothing changes. */
static void prefer(int node, struct policy *ret_before)
{
	unsigned long nodes[NODE_WORDS] = { 0 };
	int word_bits = 8 * (int)sizeof(unsigned long);

	ret_before->is_set = false;
	if (node < 0 || node >= NODES ||
	    get_mempolicy(&ret_before->mode, ret_before->nodes, NODES, NULL,
			  0) != 0)
		return;
	nodes[node / word_bits] = 1ul << node % word_bits;
	ret_before->is_set = set_mempolicy(MPOL_PREFERRED, nodes, NODES) == 0;
}

static void restore(const struct policy *before)
{
	if (before->is_set)
		set_mempolicy(before->mode, before->nodes, NODES);
}

int gm_session_memory_fill(int fd, uint64_t at, uint64_t bytes, int node)
{
	struct policy before = { 0 };
	int error;

	prefer(node, &before);
	do {
		error = fallocate(fd, 0, (off_t)at, (off_t)bytes) ? -errno : 0;
	} while (error == -EINTR);
	restore(&before);
	return error;
}
