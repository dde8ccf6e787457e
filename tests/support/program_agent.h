/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * program_agent - an agent with a directory of programs, sessions that run
 * them, and what the log says of their workers.
 */
#ifndef GM_TEST_SUPPORT_PROGRAM_AGENT_H
#define GM_TEST_SUPPORT_PROGRAM_AGENT_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/programs/odd.h"
#include "tests/support/story.h"

#define STRANGER 23456u

static struct agent agent;
static struct gpumap *map;
static char folder[128];

static inline const char *in_folder(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s.so", folder, name);
	return path;
}

/* Install the file that was built as tests/program_NAME as program @as. */
static inline bool put(const char *name, const char *as)
{
	const char *top = getenv("abs_top_builddir");
	char from[512], bytes[65536];
	int in, out;
	ssize_t n;

	snprintf(from, sizeof(from), "%s/tests/.libs/program_%s.so",
		 top ? top : ".", name);
	unlink(in_folder(as));
	in = open(from, O_RDONLY | O_CLOEXEC);
	out = open(in_folder(as), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		   0755);
	if (in < 0 || out < 0) {
		NOTE("%s: %s", from, strerror(errno));
		exit(99);
	}
	while ((n = read(in, bytes, sizeof(bytes))) > 0)
		if (write(out, bytes, (size_t)n) != n)
			exit(99);
	fchmod(out, 0755);
	close(in);
	close(out);
	return n == 0;
}

static inline void remove_folder(void)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	if (folder[0] && system(command) != 0)
		NOTE("%s is left", folder);
}

/* @programs is what [programs] says besides the directory. */
static inline bool start(const char *programs)
{
	char config[512];

	snprintf(config, sizeof(config),
		 "[host]\nrows = 2\n[socket]\nmode = 0666\n"
		 "[programs]\ndirectory = %s\n%s",
		 folder, programs);
	agent_configure(&agent, config);
	return agent_start(&agent) && (map = story_attach(&agent)) != NULL;
}

static inline void stop(void)
{
	gpumap_detach(map);
	map = NULL;
	EQ(agent_kill(&agent, SIGTERM), 0);
}

static inline void make(void)
{
	agent_make(&agent, NULL);
	snprintf(folder, sizeof(folder), "%s-programs", agent.dir);
	if (mkdir(folder, 0755) != 0)
		exit(99);
	atexit(remove_folder);
}

/* One whose jobs are done by workers for programs, if @programs. */
static inline struct gpumap_session *open_with(bool programs)
{
	struct gpumap_session_opts opts = {
		.size = sizeof(opts),
		.flags = programs ? GPUMAP_SESSION_PROGRAMS : 0,
		.arena_bytes = UINT64_C(1) << 20,
	};
	struct gpumap_session *session = NULL;
	int ret = gpumap_session_open(map, &opts, &session);

	if (ret != 0)
		NOTE("%d: %s", ret, gpumap_refusal(map));
	return session;
}

/* The answer of odd.c to @what; @memory is 20 bytes of the arena. */
static inline struct gpumap_job odd_job(uint64_t program, uint32_t *memory,
					uint32_t what)
{
	memory[0] = what;
	memory[4] = 0;
	return (struct gpumap_job){ .op = GPUMAP_OP_RUN,
				    .n = 1,
				    .program = program,
				    .dst = memory + 4,
				    .dst_item_bytes = sizeof(*memory),
				    .params = memory,
				    .params_bytes = sizeof(*memory) };
}

/* The program has begun its endless loop. */
static inline bool goes_on(const uint32_t *memory)
{
	const volatile uint32_t *began = memory + 4;

	STORY_WAIT_WHILE(!*began);
	return *began == 1;
}

/* How many lines of the log have both words; the number behind "pid=" of the
 * last, in *ret_pid. */
static inline int log_lines(const char *event, const char *of, pid_t *ret_pid)
{
	char line[1024];
	FILE *file = fopen(agent.log, "r");
	int n = 0;

	while (file && fgets(line, sizeof(line), file)) {
		const char *pid = strstr(line, " pid=");

		if (!strstr(line, event) || !strstr(line, of))
			continue;
		n++;
		if (ret_pid && pid)
			*ret_pid = (pid_t)atoi(pid + 5);
	}
	if (file)
		fclose(file);
	return n;
}

/* The worker that runs a user's programs on a row; 0: none ever did. */
static inline pid_t program_worker_of(uint32_t row, uint32_t uid)
{
	char of[64];
	pid_t pid = 0;

	snprintf(of, sizeof(of), "row=%u programs_of=%u ", row, uid);
	log_lines("event=worker_started", of, &pid);
	return pid;
}

/* Ours. */
static inline pid_t program_worker(uint32_t row)
{
	return program_worker_of(row, (uint32_t)geteuid());
}

/* Is there a lock of the worker for our programs on a row? */
static inline bool has_lock(uint32_t row)
{
	char file[40], path[GM_NAMES_BYTES];

	snprintf(file, sizeof(file), "row%u.uid%u.lock", row,
		 (unsigned)geteuid());
	shm_names_file(path, agent.instance, file);
	return access(path, F_OK) == 0;
}

static inline bool unlocked_soon(uint32_t row)
{
	STORY_WAIT_WHILE(has_lock(row));
	return !has_lock(row);
}

static inline bool gone_soon(pid_t pid)
{
	STORY_WAIT_WHILE(story_lives(pid));
	return !story_lives(pid);
}

#endif
