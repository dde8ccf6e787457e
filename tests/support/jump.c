/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/jump.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/atomic.h"

#define PAGE     4096
#define VARIABLE "GPUMAP_FAKE_CLOCK"

static gm_a64 *clocks;
static char file[64];
static char of_agent[PATH_MAX];
static char scripts[2][PATH_MAX];

static bool make_file(void)
{
	int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	void *page;

	if (fd < 0 || ftruncate(fd, PAGE) != 0)
		return false;
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (page == MAP_FAILED)
		return false;
	clocks = page;
	return true;
}

bool jump_exec(char **argv)
{
	const char *top = getenv("abs_top_builddir");
	const char *others = getenv("ASAN_OPTIONS");
	char path[PATH_MAX], value[PATH_MAX];

	/* The pid stays. */
	snprintf(file, sizeof(file), "/dev/shm/gpumap-clock.%d", (int)getpid());
	if (!make_file())
		return false;
	if (getenv(VARIABLE) != NULL)
		return true;
	snprintf(path, sizeof(path), "%s/tests/fake/.libs/clock.so",
		 top != NULL ? top : ".");
	setenv("LD_PRELOAD", path, 1);
	snprintf(value, sizeof(value), "%d:%s", JUMP_CLIENT, file);
	setenv(VARIABLE, value, 1);
	/* The sanitizer would be the first. */
	snprintf(value, sizeof(value), "%s:verify_asan_link_order=0",
		 others != NULL ? others : "");
	setenv("ASAN_OPTIONS", value, 1);
	if (access(path, R_OK) == 0)
		execv("/proc/self/exe", argv);
	return false;
}

/* The agent gives its children an environment of their own. */
static const char *script(const struct agent *a, const char *hold,
			  const char *variable, enum jump_who who)
{
	const char *program = getenv(variable);
	char *path = scripts[who == JUMP_PROBE];
	FILE *to;

	snprintf(path, PATH_MAX, "%s/%s", a->dir, variable);
	to = fopen(path, "we");
	if (to == NULL)
		return NULL;
	fprintf(to,
		"#!/bin/sh\n"
		"export LD_PRELOAD='%s' ASAN_OPTIONS='%s' " VARIABLE "=%d:%s\n"
		"case \" $* \" in *\" --recover \"*) ;; *)\n"
		"	while [ -e %s ]; do sleep 0.1; done ;;\n"
		"esac\n"
		"exec %s \"$@\"\n",
		getenv("LD_PRELOAD"), getenv("ASAN_OPTIONS"), who, file, hold,
		program != NULL ? program : "false");
	fclose(to);
	return chmod(path, 0755) == 0 ? path : NULL;
}

bool jump_agent(struct agent *a, const char *hold)
{
	int n = 0;

	while (a->env[n] != NULL)
		n++;
	snprintf(of_agent, sizeof(of_agent), VARIABLE "=%d:%s", JUMP_AGENT,
		 file);
	a->env[n] = of_agent;
	a->worker = script(a, hold, "GPUMAP_WORKER", JUMP_WORKER);
	a->probe = script(a, hold, "GPUMAP_PROBE", JUMP_PROBE);
	return a->worker != NULL && a->probe != NULL;
}

void jump(unsigned int who, int64_t seconds)
{
	for (int i = 0; i < JUMPS; i++)
		if ((who >> i & 1) != 0)
			gm_put(&clocks[i],
			       gm_get(&clocks[i]) + (uint64_t)seconds);
}

void jump_end(void)
{
	unlink(file);
}
