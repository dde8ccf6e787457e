/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/segment/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/daemon/segment/folder.h"

/* Without O_CREAT first: the kernel forbids that on files of others in sticky
 * directories, and then says no more than "permission denied". */
static int open_lock(const char *path)
{
	int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	int fd = open(path, flags);

	if (fd < 0 && errno == ENOENT)
		fd = open(path, flags | O_CREAT, 0600);
	return fd >= 0 ? fd : -errno;
}

/* The holder may let go between our two questions; then its pid is 0. */
static pid_t holder(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
		return 0;
	return lock.l_pid;
}

static int take(int fd, const char *path, const char *instance, char *ret_why)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct stat st;

	if (fstat(fd, &st) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
		snprintf(ret_why, GM_WHY_BYTES,
			 "%s belongs to uid %u: run as that user, remove the "
			 "file, or take another --instance",
			 path, (unsigned int)st.st_uid);
		return -EPERM;
	}
	if (fcntl(fd, F_SETLK, &lock) == 0)
		return 0;
	if (errno != EACCES && errno != EAGAIN)
		return -errno;
	snprintf(ret_why, GM_WHY_BYTES,
		 "process %d runs instance %s: stop it, or take another "
		 "--instance",
		 (int)holder(fd), instance);
	return -EBUSY;
}

int gm_lock_take(const char *instance, char ret_why[GM_WHY_BYTES])
{
	char path[GM_NAMES_BYTES];
	int fd, ret;

	ret = gm_folder_make(instance, ret_why);
	if (ret != 0)
		return ret;
	gm_folder_path(path, instance, "lock");
	fd = open_lock(path);
	if (fd == -ELOOP)
		return gm_why(ret_why, -EPERM, "%s is a link: remove it", path);
	if (fd < 0)
		return gm_why(ret_why, fd, "%s: %s", path, strerror(-fd));
	ret_why[0] = '\0';
	ret = take(fd, path, instance, ret_why);
	if (ret == 0)
		return fd;
	if (ret_why[0] == '\0')
		snprintf(ret_why, GM_WHY_BYTES, "%s: %s", path, strerror(-ret));
	close(fd);
	return ret;
}
