/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * run - gpumapctl run, in front of this test and beside it.
 */
#ifndef GM_TEST_SUPPORT_RUN_H
#define GM_TEST_SUPPORT_RUN_H

#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/ctl.h"
#include "tests/support/story.h"

enum { NOT_NOW = 75, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

/* Row 0 is the host's; rows 1 and 2 are cards of 1 GiB that hold no data. */
#define RUN_NODE                                               \
	"name: shelf\nrows:\n  - name: card\n    kind: cuda\n" \
	"    count: 2\n    memory: 1G\n    compute-capability: 9.0\n"

/* ---- the program without its wrapper ------------------------------------- */

/* A program that was not installed is a script, which adds variables. */
static char run_program[512], run_libraries[640];

static inline void run_find_program(void)
{
	const char *path = ctl_program(), *slash = strrchr(path, '/');
	int n = (int)(slash - path);

	snprintf(run_program, sizeof(run_program), "%.*s/.libs/%s", n, path,
		 slash + 1);
	snprintf(run_libraries, sizeof(run_libraries),
		 "LD_LIBRARY_PATH=%.*s/../../lib/.libs", n, path);
	if (access(run_program, X_OK) == 0)
		return;
	snprintf(run_program, sizeof(run_program), "%s", path);
	strcpy(run_libraries, "LD_LIBRARY_PATH=");
}

/* ---- beside the test ----------------------------------------------------- */

struct run_job {
	pid_t pid;
	char out[96], err[96]; /* paths */
};

/* Start a program.  A job has a number of its own. */
static inline void run_start(struct run_job *job, const char *const argv[])
{
	static int n;

	snprintf(job->out, sizeof(job->out), "%s/job%d.out", agent.dir, n);
	snprintf(job->err, sizeof(job->err), "%s/job%d.err", agent.dir, n++);
	fflush(stdout);
	job->pid = fork();
	if (job->pid == 0)
		become(argv, job->out, job->err);
}

/* Start gpumapctl with these words. */
static inline void run_start_ctl(struct run_job *job, const char *const words[])
{
	const char *argv[WORDS_MAX + 6] = { ctl_program(), "--instance",
					    agent.instance, "--runtime-dir",
					    agent.dir };

	for (int n = 0; n < WORDS_MAX && words[n] != NULL; n++)
		argv[n + 5] = words[n];
	run_start(job, argv);
}

#define RUN_START(job, ...) run_start_ctl(job, WORDS("run", __VA_ARGS__))

/* Wait for its end, and read what it printed.  Returns as run(). */
static inline int run_end(struct run_job *job)
{
	int status = 0;

	if (job->pid <= 0 || waitpid(job->pid, &status, 0) != job->pid)
		return -ECHILD;
	job->pid = 0;
	ctl_read(job->out, out, sizeof(out));
	ctl_read(job->err, err, sizeof(err));
	unlink(job->out);
	unlink(job->err);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Wait until it has printed the text, but not for ever. */
static inline bool run_printed(const struct run_job *job, const char *path,
			       const char *what)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	char text[4096];

	for (;;) {
		siginfo_t info = { .si_pid = 0 };

		waitid(P_PID, (id_t)job->pid, &info,
		       WEXITED | WNOHANG | WNOWAIT);
		ctl_read(path, text, sizeof(text));
		if (strstr(text, what) != NULL)
			return true;
		if (info.si_pid != 0 || story_now() > until) {
			NOTE("no \"%s\" in: %.400s", what, text);
			return false;
		}
		story_nap(1000);
	}
}

/* ---- what is reserved ---------------------------------------------------- */

/* The reservation of this name.  Returns false where there is none. */
static inline bool run_holder(struct gpumap *map, const char *name,
			      struct gpumap_holder *ret_holder)
{
	uint32_t cursor = 0;

	ret_holder->size = sizeof(*ret_holder);
	while (gpumap_holder_next(map, &cursor, ret_holder) == 1)
		if (strcmp(ret_holder->name, name) == 0)
			return true;
	return false;
}

/* Wait until nothing is reserved. */
static inline bool run_all_gone(struct gpumap *map)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (story_now() < until) {
		struct gpumap_holder holder = { .size = sizeof(holder) };
		uint32_t cursor = 0;

		if (gpumap_holder_next(map, &cursor, &holder) == 0)
			return true;
		story_nap(1000);
	}
	return false;
}

/* Wait until so many requests wait. */
static inline bool run_waiting(struct gpumap *map, int n)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (story_now() < until) {
		if (gpumap_wait_list(map, NULL, 0) == n)
			return true;
		story_nap(1000);
	}
	NOTE("%d requests wait, not %d", gpumap_wait_list(map, NULL, 0), n);
	return false;
}

#endif
