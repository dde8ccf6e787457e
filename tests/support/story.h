/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * story - what the stories share that kill one process and look at the others:
 * rounds, times for the reader of the log, jobs that prove what they did, and
 * what a process holds of a session's memory.
 */
#ifndef GM_TEST_SUPPORT_STORY_H
#define GM_TEST_SUPPORT_STORY_H

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpumap.h"
#include "tests/support/agent.h"
#include "tests/support/process.h"
#include "tests/support/tap.h"

#ifdef STAGE_CUDA
#define STORY_ROUNDS 6
#else
#define STORY_ROUNDS 20
#endif
#define STORY_LIMIT_NS UINT64_C(30000000000) /* against hanging */

/* GM_ROUNDS of them in the torture target. */
static inline int story_rounds(void)
{
	const char *rounds = getenv("GM_ROUNDS");
	int n = rounds ? atoi(rounds) : 0;

	return n > 0 ? n : STORY_ROUNDS;
}

static inline uint64_t story_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline void story_nap(long us)
{
	struct timespec left = { us / 1000000, us % 1000000 * 1000 };

	while (nanosleep(&left, &left) != 0)
		;
}

/* Not the same instant in any two rounds, and the same in every run. */
static inline long story_moment(int round, long most_us)
{
	return (long)((uint64_t)round * 2654435761u % (uint64_t)most_us);
}

/* Times of all rounds, for the reader. */
struct story_times {
	double most_ms;
	double sum_ms;
	int n;
};

static inline void story_time(struct story_times *t, uint64_t since_ns)
{
	double ms = (double)(story_now() - since_ns) / 1e6;

	t->sum_ms += ms;
	t->n++;
	if (ms > t->most_ms)
		t->most_ms = ms;
}

static inline void story_tell(const struct story_times *t, const char *what)
{
	NOTE("%s: %.1f ms on average, %.1f at most, of %d", what,
	     t->n ? t->sum_ms / t->n : 0, t->most_ms, t->n);
}

static inline struct gpumap *story_attach(const struct agent *a)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = a->instance,
					   .runtime_dir = a->dir };
	struct gpumap *map = NULL;

	return gpumap_attach(&opts, &map) == 0 ? map : NULL;
}

/* All has been asked: the agent ends well, or shows why it did not. */
static inline void story_finish(struct agent *a, struct gpumap *map)
{
	gpumap_detach(map);
	EQ(agent_kill(a, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(a);
}

static inline struct gpumap_device story_device(const struct gpumap *map,
						uint32_t row)
{
	struct gpumap_device device = { .size = sizeof(device) };

	while (gpumap_device_read(map, row, &device) == -EAGAIN)
		;
	return device;
}

/* Wait until a row is READY again after more than @restarts. */
static inline bool story_back(const struct gpumap *map, uint32_t row,
			      uint32_t restarts)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (story_now() < until) {
		struct gpumap_device device = story_device(map, row);

		if (device.state == GPUMAP_DEVICE_READY &&
		    device.restarts > restarts)
			return true;
		story_nap(200);
	}
	return false;
}

/* How many descriptors and mappings of a process are named @what; all of its
 * descriptors for NULL.  -1: it cannot be looked at, or is gone. */
static inline int story_holds(pid_t pid, const char *what)
{
	char path[64], text[512];
	struct dirent *entry;
	int n = 0;
	DIR *dir;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir)
		return -1;
	while ((entry = readdir(dir))) {
		char link[400];
		ssize_t bytes;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(link, sizeof(link), "%s/%s", path, entry->d_name);
		bytes = readlink(link, text, sizeof(text) - 1);
		text[bytes > 0 ? bytes : 0] = '\0';
		n += !what || strstr(text, what);
	}
	closedir(dir);
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = what ? fopen(path, "r") : NULL;
	while (maps && fgets(text, sizeof(text), maps))
		n += strstr(text, what) != NULL;
	if (maps)
		fclose(maps);
	return n;
}

/* How many descriptors a process has once it gets and gives up no more. */
static inline int story_holds_at_rest(pid_t pid)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int before, n = story_holds(pid, NULL);

	for (int same = 0; same < 10 && story_now() < until;) {
		before = n;
		story_nap(20000);
		n = story_holds(pid, NULL);
		same = n == before ? same + 1 : 0;
	}
	return n;
}

/* Wait until it has no more of them than it had.  Fewer are no leak: at rest it
 * may not have been when they were counted, but for the time of a look. */
static inline bool story_gives_back(pid_t pid, int held)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int n = story_holds(pid, NULL);

	while (n > held && story_now() < until) {
		story_nap(1000);
		n = story_holds(pid, NULL);
	}
	if (n >= 0 && n <= held)
		return true;
	NOTE("%d descriptors, %d before", n, held);
	return false;
}

/* Does a process still run that may not be our child?  A zombie counts as
 * dead. */
static inline bool story_lives(pid_t pid)
{
	char state = process_state(pid);

	return state != 'Z' && state != 'X';
}

#endif
