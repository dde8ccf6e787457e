/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/stale_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/read_file.h"

pid_t gm_stale_worker_holder(const char *lock_path)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = open(lock_path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	int error;

	/* The row had no worker yet; or the next one will report what is
	 * wrong with the file. */
	if (fd < 0)
		return 0;
	error = fcntl(fd, F_GETLK, &lock);
	close(fd);
	if (error != 0 || lock.l_type == F_UNLCK)
		return 0;
	return lock.l_pid > 0 ? lock.l_pid : -1;
}

/* Was the process started to hold this lock?  Its command line is the only
 * evidence about a process that may not be dumped. */
static bool is_worker_of(pid_t pid, const char *lock_path)
{
	char path[32], text[8192];
	size_t at = 0;
	bool is_next = false;
	int n;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	n = gm_read_file(path, text, sizeof(text));
	while (n > 0 && at < (size_t)n) {
		if (is_next && strcmp(text + at, lock_path) == 0)
			return true;
		is_next = strcmp(text + at, "--lock") == 0;
		at += strlen(text + at) + 1;
	}
	return false;
}

/* Open the pidfd first: all checks after that are about the process that the
 * pidfd refers to.  Returns 1 when the process has released the lock. */
static int end(const char *lock_path, pid_t pid)
{
	int fd, ret = 0;

	if (pid <= 0)
		return -EPERM;
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return errno == ESRCH ? 1 : -errno;
	if (gm_stale_worker_holder(lock_path) != pid)
		ret = 1;
	else if (!is_worker_of(pid, lock_path))
		ret = -EPERM;
	else if (syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) != 0)
		ret = errno == ESRCH ? 1 : -errno;
	close(fd);
	return ret;
}

int gm_stale_worker_abandon(uint32_t row, const char *lock_path, pid_t pid)
{
	/* The next worker makes the file again, which is another file, and the
	 * lock is the old one's. */
	if (unlink(lock_path) != 0 && errno != ENOENT)
		return -errno;
	gm_log(GM_LOG_WARNING, "worker_abandoned", "row=%u pid=%d lock=%s", row,
	       (int)pid, gm_quote(lock_path).text);
	return 0;
}

int gm_stale_worker_end(uint32_t row, const char *lock_path, pid_t pid)
{
	int ret = end(lock_path, pid);

	if (ret == 0)
		gm_log(GM_LOG_WARNING, "stale_worker_killed",
		       "row=%u pid=%d lock=%s", row, (int)pid,
		       gm_quote(lock_path).text);
	if (ret < 0)
		gm_log(GM_LOG_ERROR, "stale_worker_left",
		       "row=%u pid=%d lock=%s error=%s remedy=%s", row,
		       (int)pid, gm_quote(lock_path).text,
		       gm_quote(strerror(-ret)).text,
		       gm_quote("find out what holds the lock, and end it")
			       .text);
	return ret < 0 ? ret : 0;
}
