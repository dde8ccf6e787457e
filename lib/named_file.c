/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Open the files that an agent has put into /dev/shm (shm/names.h).
 *
 * Any user can make a file there.  So the library looks in the folder of one
 * user whose agent it would believe, and believes what that user owns and no
 * other may write.  No name leads to the files of a user that this user
 * namespace cannot tell from others: the agent hands those over.
 */

#include "lib/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/names.h"

#define OVERFLOW_UID "/proc/sys/kernel/overflowuid"

static bool is_of(const struct stat *st, uid_t owner)
{
	return st->st_uid == owner && (st->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

int gm_named_file_check(int fd, uid_t owner, struct stat *ret_facts)
{
	if (fstat(fd, ret_facts) != 0)
		return -errno;
	if (!S_ISREG(ret_facts->st_mode))
		return -EPROTO;
	return is_of(ret_facts, owner) ? 0 : -EPERM;
}

/* The kernel shows every uid without a mapping as this one. */
static uid_t overflow_uid(void)
{
	int fd = open(OVERFLOW_UID, O_RDONLY | O_CLOEXEC);
	char text[16] = "65534";
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	if (n > 0)
		text[n] = '\0';
	if (fd >= 0)
		close(fd);
	return (uid_t)strtoul(text, NULL, 10);
}

/* Everything in a folder of the owner, which no other may write, has been put
 * there by the owner. */
static int open_folder(uid_t owner)
{
	char path[GM_NAMES_BYTES];
	struct stat st;
	int fd;

	gm_names_user(path, owner);
	fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && is_of(&st, owner))
		return fd;
	close(fd);
	return -EPERM;
}

int gm_named_file_open(const struct gpumap *map, uid_t owner, const char *file)
{
	char path[GM_NAMES_BYTES];
	int folder, fd;

	if (owner != 0 && owner == overflow_uid())
		return -EPERM;
	folder = open_folder(owner);
	if (folder < 0)
		return folder;
	snprintf(path, sizeof(path), "%s/%s", map->instance, file);
	/* O_NONBLOCK: a fifo of this name must not block the open. */
	fd = openat(folder, path,
		    O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		fd = errno == ELOOP   ? -EPERM
		     : errno == ENXIO ? -EPROTO
				      : -errno;
	close(folder);
	return fd;
}
