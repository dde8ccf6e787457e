/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Processes that take long to die.  A real driver cleans up after a killed
 * process for as long as it takes, and until then the process is there, its
 * memory counted.  Here `stand-in linger` watches the process as a debugger
 * does and detains it on its way out.
 */

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fake/driver.h"

extern char **environ;

/* The tool lies one folder above the libraries. */
static bool find_tool(char path[PATH_MAX])
{
	char library[PATH_MAX];
	Dl_info info;

	if (!dladdr(&fake, &info) || strlen(info.dli_fname) >= PATH_MAX)
		return false;
	strcpy(library, info.dli_fname);
	return snprintf(path, PATH_MAX, "%s/../stand-in", dirname(library)) <
	       PATH_MAX;
}

void fake_exit_slowly(uint64_t ns)
{
	char path[PATH_MAX], who[16], how_long[24];
	char verb[] = "linger", line[64];
	char *const argv[] = { path, verb, who, how_long, NULL };
	int status = -1;
	pid_t pid;

	snprintf(who, sizeof(who), "%d", getpid());
	snprintf(how_long, sizeof(how_long), "%lu", ns);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	if (find_tool(path) &&
	    posix_spawn(&pid, path, NULL, NULL, argv, environ) == 0 &&
	    waitpid(pid, &status, 0) == pid && status == 0)
		return;
	snprintf(line, sizeof(line), "pid %s cannot be made to linger", who);
	fprintf(stderr, "stand-in: %s\n", line);
	fake_lock(&fake.hw);
	fake_note(&fake.hw, line);
	fake_unlock(&fake.hw);
}
