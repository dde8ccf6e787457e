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

#include <gpumap/plan.h>

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
#define STORY_LOOKS    30000                 /* a millisecond apart, likewise */

/* How many rounds to play: as many as GM_ROUNDS says, in the torture target, or
 * @n. */
int story_rounds_or(int n);
#define story_rounds() story_rounds_or(STORY_ROUNDS)

uint64_t story_now(void);
void story_nap(long us);

/* Wait as long as @holds, and against hanging no longer than the limit. */
#define STORY_WAIT_WHILE(holds)                              \
	for (uint64_t until_ = story_now() + STORY_LIMIT_NS; \
	     (holds) && story_now() < until_;)               \
	story_nap(1000)

/* Not the same instant in any two rounds, and the same in every run. */
long story_moment(int round, long most_us);

/* Times of all rounds, for the reader. */
struct story_times {
	double most_ms;
	double sum_ms;
	int n;
};

void story_time(struct story_times *t, uint64_t since_ns);
void story_tell(const struct story_times *t, const char *what);
struct gpumap *story_attach(const struct agent *a);

/* The status of the next job that ends, or the error of waiting, or -ETIME. */
int story_end(struct gpumap_session *session);

/* Run one job from its submission to its end.  Returns as story_end(), or the
 * error of submitting. */
int story_run(struct gpumap_session *session, uint32_t row,
	      const struct gpumap_job *job);

/* All has been asked: the agent ends well, or shows why it did not. */
void story_finish(struct agent *a, struct gpumap *map);
struct gpumap_device story_device(const struct gpumap *map, uint32_t row);

/* As gpumap_buffer_info() has it; zeros where that fails. */
struct gpumap_buffer_info story_buffer(const struct gpumap_session *session,
				       uint64_t buffer);

/* Wait until a row is READY again after more than @restarts. */
bool story_back(const struct gpumap *map, uint32_t row, uint32_t restarts);

/* How many descriptors and mappings of a process are named @what; all of its
 * descriptors for NULL.  -1: it cannot be looked at, or is gone. */
int story_holds(pid_t pid, const char *what);

/* May this process see what @pid holds?  Skips @n checks where only root may:
 * the kernel hides what a process has that may not be dumped, as workers. */
bool story_sees(pid_t pid, int n);

/* Wait until a process holds nothing that is named @what, or is gone, and check
 * it.  Skipped where this process may not see that. */
void story_lets_go(pid_t pid, const char *what);

/* How many descriptors a process has once it gets and gives up no more. */
int story_holds_at_rest(pid_t pid);

/* Wait until it has no more of them than it had.  Fewer are no leak: at rest it
 * may not have been when they were counted, but for the time of a look. */
bool story_gives_back(pid_t pid, int held);

/* Does a process still run that may not be our child?  A zombie counts as
 * dead. */
bool story_lives(pid_t pid);

#endif
