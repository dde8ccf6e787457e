/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/segment/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A mount of this one file, without a place in any directory.  The file may
 * have lost its name. */
static int clone_read_only(int file)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY |
					       MOUNT_ATTR_NOSUID |
					       MOUNT_ATTR_NODEV |
					       MOUNT_ATTR_NOEXEC };
	int tree = (int)syscall(SYS_open_tree, file, "",
				OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
					AT_EMPTY_PATH);
	int error;

	if (tree < 0)
		return -errno;
	if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr,
		    sizeof(attr)) == 0)
		return tree;
	error = -errno;
	close(tree);
	return error;
}

int gm_mount_open(int file)
{
	int tree = clone_read_only(file);
	int fd;

	if (tree < 0)
		return tree;
	fd = gm_mount_reopen(tree);
	close(tree);
	return fd;
}

int gm_mount_reopen(int file)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", file);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	return fd >= 0 ? fd : -errno;
}

bool gm_mount_is_harmless(uid_t uid, uid_t ours)
{
	return uid != 0 && uid != ours;
}
