/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/exporter/textfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fail(const char *path)
{
	fprintf(stderr, "gpumap-exporter: %s: %s\n", path, strerror(errno));
	return false;
}

/* node_exporter reads files that end in .prom: not the temporary one.  A group
 * or other users may read the file as the umask says. */
static int open_beside(const char *path, char ret_path[PATH_MAX])
{
	mode_t mask = umask(0);
	int fd;

	umask(mask);
	if (snprintf(ret_path, PATH_MAX, "%s.XXXXXX", path) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = mkostemp(ret_path, O_CLOEXEC);
	if (fd >= 0)
		fchmod(fd, 0666 & ~mask);
	return fd;
}

static bool store(int fd, const char *text, size_t bytes)
{
	while (bytes > 0) {
		ssize_t n = write(fd, text, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		text += n;
		bytes -= (size_t)n;
	}
	return true;
}

bool gm_textfile_write(struct gm_target *target, bool usage, const char *path)
{
	struct gm_metrics_opts opts = { .usage = usage };
	char beside[PATH_MAX];
	size_t bytes;
	char *text = gm_metrics_write(target, &opts, &bytes);
	bool done;
	int fd;

	errno = ENOMEM;
	if (text == NULL)
		return fail(path);
	fd = open_beside(path, beside);
	if (fd < 0) {
		free(text);
		return fail(path);
	}
	done = store(fd, text, bytes);
	free(text);
	done = close(fd) == 0 && done && rename(beside, path) == 0;
	if (done)
		return true;
	fail(path);
	unlink(beside);
	return false;
}
