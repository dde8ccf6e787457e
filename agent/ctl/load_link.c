/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/ctl/load_link.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/ctl/ctl.h"

static int failed(const char *path, int error)
{
	return gm_ctl_failed("link %s: %s", path, strerror(error));
}

/* Is there a link of this command, or of an earlier one? */
static bool is_ours(const char *path)
{
	static const char begin[] = "/proc/";
	char target[sizeof(begin)];

	return readlink(path, target, sizeof(target)) >=
		       (ssize_t)sizeof(begin) - 1 &&
	       memcmp(target, begin, sizeof(begin) - 1) == 0;
}

/* In one step, also over the link of a process that was killed. */
static int make(struct gm_load_link *link, const char *folder)
{
	char fresh[PATH_MAX];
	struct stat facts;
	int n = snprintf(fresh, sizeof(fresh), "%s/.gpumap-%d", folder,
			 (int)getpid());

	if (n < 0 || (size_t)n >= sizeof(fresh))
		return failed(folder, ENAMETOOLONG);
	if (lstat(link->link, &facts) == 0 && !is_ours(link->link))
		return failed(link->link, EEXIST);
	if (symlink(link->path, fresh) != 0)
		return failed(fresh, errno);
	if (rename(fresh, link->link) != 0) {
		int error = errno;

		unlink(fresh);
		return failed(link->link, error);
	}
	return GM_EXIT_OK;
}

int gm_load_link_make(struct gm_load_link *link, int fd, const char *folder,
		      const char *name)
{
	int n, ret;

	link->fd = fd;
	snprintf(link->path, sizeof(link->path), "/proc/%d/fd/%d",
		 (int)getpid(), fd);
	if (folder == NULL)
		return GM_EXIT_OK;
	if (mkdir(folder, 0777) != 0 && errno != EEXIST)
		return failed(folder, errno);
	n = snprintf(link->link, sizeof(link->link), "%s/%s", folder, name);
	if (n < 0 || (size_t)n >= sizeof(link->link))
		ret = failed(folder, ENAMETOOLONG);
	else
		ret = make(link, folder);
	if (ret != GM_EXIT_OK)
		link->link[0] = '\0';
	return ret;
}

void gm_load_link_end(struct gm_load_link *link)
{
	char target[sizeof(link->path)];
	size_t n = strlen(link->path);

	if (link->link[0] != '\0' &&
	    readlink(link->link, target, sizeof(target)) == (ssize_t)n &&
	    memcmp(target, link->path, n) == 0)
		unlink(link->link);
	if (link->fd >= 0)
		close(link->fd);
}
