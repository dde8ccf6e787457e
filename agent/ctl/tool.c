/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Become the program of a command that is written in Python. */

#include "agent/ctl/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Let the program call this gpumapctl, whatever the PATH has. */
static void export_own_path(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n <= 0) {
		unsetenv("GPUMAP_CTL_PATH");
		return;
	}
	path[n] = '\0';
	setenv("GPUMAP_CTL_PATH", path, 1);
}

int gm_ctl_tool(char **argv, int at)
{
	const char *name = argv[at], *folder = getenv("GPUMAP_EXEC_PATH");
	char path[PATH_MAX];
	int error;

	if (folder == NULL)
		folder = GM_PKGLIBEXECDIR;
	if ((size_t)snprintf(path, sizeof(path), "%s/gpumapctl-%s", folder,
			     name) >= sizeof(path))
		return gm_ctl_wrong("GPUMAP_EXEC_PATH is too long");
	export_own_path();
	/* Also those that stand for closed ones. */
	for (int fd = 0; fd < 3; fd++)
		fcntl(fd, F_SETFD, 0);
	/* The options before the name stay, in front of those behind it. */
	for (int i = at; i > 1; i--)
		argv[i] = argv[i - 1];
	argv[1] = path;
	execv(path, argv + 1);
	error = errno;
	if (error == ENOENT && access(path, F_OK) == 0)
		fprintf(stderr,
			"gpumapctl: %s needs the Python that the first line of "
			"%s names: install it (Debian, Fedora: python3)\n",
			name, path);
	else if (error == ENOENT)
		fprintf(stderr,
			"gpumapctl: %s is a program in Python, and there is no "
			"%s: install the package python3-gpumap, or build "
			"gpumap where Python 3.11 and its headers are\n",
			name, path);
	else
		fprintf(stderr, "gpumapctl: cannot run %s: %s\n", path,
			strerror(error));
	return GM_EXIT_FAILED;
}
