/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/segment/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/common/log.h"

#define ATTEMPTS 3

int gm_folder_path(char ret_path[GM_NAMES_BYTES], const char *instance,
		   const char *file)
{
	if (!gm_names_check_instance(instance))
		return -EINVAL;
	gm_names_file(ret_path, geteuid(), instance, file);
	return 0;
}

bool gm_folder_has(int fd)
{
	struct stat st;

	return fstat(fd, &st) != 0 || st.st_nlink > 0;
}

/* mkdir() alone would wait for those who list the directory above, also where
 * the folder is there. */
static int open_or_make(const char *path)
{
	const int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
	int fd = open(path, flags);

	if (fd < 0 && errno == ENOENT) {
		if (mkdir(path, GM_NAMES_MODE) != 0 && errno != EEXIST)
			return -errno;
		fd = open(path, flags);
	}
	return fd >= 0 ? fd : -errno;
}

/* Returns 0, or -EEXIST: another user has the name, ret_uid, or a file. */
static int make_one(const char *path, uid_t *ret_uid)
{
	int fd = open_or_make(path), ret = 0;
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) != 0)
		ret = -errno;
	close(fd);
	if (ret != 0)
		return ret;
	*ret_uid = st.st_uid;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return -EEXIST;
	if ((st.st_mode & 07777) != GM_NAMES_MODE &&
	    chmod(path, GM_NAMES_MODE) != 0)
		return -errno;
	return 0;
}

static int exchange(const char *path, const char *with)
{
	return renameat2(AT_FDCWD, path, AT_FDCWD, with, RENAME_EXCHANGE) == 0
		       ? 0
		       : -errno;
}

/* A new folder of ours changes places with what is there, so that the name is
 * never free for another.  /dev/shm is sticky: only root can move a file of
 * another user. */
static int move_aside(const char *path)
{
	char aside[GM_NAMES_BYTES + 8];
	struct stat st;
	int ret;

	snprintf(aside, sizeof(aside), "%s.XXXXXX", path);
	if (mkdtemp(aside) == NULL)
		return -errno;
	ret = exchange(aside, path);
	/* Another agent of ours may have been faster: its folder stays. */
	if (ret == 0 && lstat(aside, &st) == 0 && st.st_uid == geteuid())
		ret = exchange(aside, path) == 0 ? -EAGAIN : -errno;
	if (ret == 0)
		gm_log(GM_LOG_WARNING, "moved_aside", "path=%s uid=%u to=%s",
		       path, (unsigned int)st.st_uid, aside);
	else
		rmdir(aside);
	return ret == -EAGAIN ? 0 : ret;
}

static int not_made(const char *path, int error, char *ret_why)
{
	const char *remedy = error == -ENOENT  ? ": mount a tmpfs on /dev/shm"
			     : error == -EROFS ? ": mount /dev/shm for writing"
			     : error == -EACCES
				     ? ": run as the user who may write there"
				     : "";

	return gm_why(ret_why, error, "%s: %s%s", path, strerror(-error),
		      remedy);
}

static int make_user(const char *path, char *ret_why)
{
	uid_t uid = (uid_t)-1;
	int ret = make_one(path, &uid);

	if (ret == -EEXIST && move_aside(path) == 0)
		ret = make_one(path, &uid);
	if (ret == -EEXIST)
		return gm_why(
			ret_why, -EPERM,
			"%s is not a folder of uid %u, but uid %u's: "
			"have root remove it, or run with a %s of its own",
			path, (unsigned int)geteuid(), (unsigned int)uid,
			GM_NAMES_SHM);
	return ret == 0 ? 0 : not_made(path, ret, ret_why);
}

static int make_instance(const char *path, char *ret_why)
{
	uid_t uid;
	int ret = make_one(path, &uid);

	if (ret == -EEXIST)
		return gm_why(
			ret_why, -EPERM,
			"%s is not a folder of uid %u: remove it, or take "
			"another --instance",
			path, (unsigned int)geteuid());
	return ret == 0 ? 0 : not_made(path, ret, ret_why);
}

int gm_folder_make(const char *instance, char ret_why[GM_WHY_BYTES])
{
	char user[GM_NAMES_BYTES], path[GM_NAMES_BYTES];
	int ret;

	if (gm_folder_path(path, instance, "") != 0)
		return gm_why(
			ret_why, -EINVAL,
			"an instance has 1 to %u bytes and no '/', and is "
			"neither . nor ..",
			GM_NAMES_INSTANCE);
	gm_names_user(user, geteuid());
	/* An empty folder may be removed at any time, also by a package. */
	for (int i = 0; i < ATTEMPTS; i++) {
		ret = make_user(user, ret_why);
		if (ret == 0)
			ret = make_instance(path, ret_why);
		if (ret != -ENOENT)
			break;
	}
	return ret;
}
