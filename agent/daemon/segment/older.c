/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/segment/older.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "shm/names.h"

#define LOCK "lock" /* of the instance; those of rows end with ".lock" */

static bool is_lock(const char *name)
{
	size_t n = strlen(name), suffix = strlen("." LOCK);

	return strcmp(name, LOCK) == 0 ||
	       (n > suffix && strcmp(name + n - suffix, "." LOCK) == 0);
}

/* Returns 0; the pid of the process that has the lock; or -1: not known. */
static pid_t find_holder(int folder, const char *name)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = openat(folder, name,
			O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int ret = fd >= 0 ? fcntl(fd, F_GETLK, &lock) : -1;

	if (fd >= 0)
		close(fd);
	if (ret != 0)
		return -1;
	return lock.l_type == F_UNLCK ? 0 : lock.l_pid > 0 ? lock.l_pid : -1;
}

/* Take the instance's lock.  Returns the descriptor, or -1. */
static int take(int folder)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = openat(folder, LOCK,
			O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0 && fcntl(fd, F_SETLK, &lock) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static bool is_in_use(DIR *files, const char *path)
{
	const struct dirent *entry;

	while ((entry = readdir(files)) != NULL) {
		pid_t pid;

		if (strcmp(entry->d_name, LOCK) == 0 || !is_lock(entry->d_name))
			continue;
		pid = find_holder(dirfd(files), entry->d_name);
		if (pid == 0)
			continue;
		gm_log(GM_LOG_WARNING, "older_stays", "path=%s/%s by_pid=%d",
		       path, entry->d_name, (int)pid);
		return true;
	}
	rewinddir(files);
	return false;
}

/* With the instance's lock taken. */
static void remove_all(DIR *files, const char *path)
{
	const struct dirent *entry;
	unsigned int n = 0;

	if (is_in_use(files, path))
		return;
	while ((entry = readdir(files)) != NULL)
		n += strcmp(entry->d_name, LOCK) != 0 &&
		     unlinkat(dirfd(files), entry->d_name, 0) == 0;
	if (n > 0)
		gm_log(GM_LOG_INFO, "older_removed", "path=%s files=%u", path,
		       n);
}

static DIR *open_folder(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	DIR *files = NULL;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid())
		files = fdopendir(fd);
	if (files == NULL && fd >= 0)
		close(fd);
	return files;
}

void gm_older_remove(const char *instance)
{
	for (unsigned int major = 1; major < GM_LAYOUT_MAJOR; major++) {
		char path[GM_NAMES_BYTES];
		DIR *files;
		int lock;

		snprintf(path, sizeof(path), GM_NAMES_SHM "/gpumap.%u.uid%u/%s",
			 major, (unsigned int)geteuid(), instance);
		files = open_folder(path);
		if (files == NULL)
			continue;
		lock = take(dirfd(files));
		if (lock >= 0) {
			remove_all(files, path);
			close(lock);
		}
		closedir(files);
	}
}
