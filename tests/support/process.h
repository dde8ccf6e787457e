/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * process - what the kernel says of a process that may not be our child, and
 * how one is made to stand still.
 */
#ifndef GM_TEST_SUPPORT_PROCESS_H
#define GM_TEST_SUPPORT_PROCESS_H

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#define PROCESS_LIMIT 300000 /* looks 100 us apart, against hanging */

/* The state in a stat file of proc(5), 'X' where there is none. */
static inline char process_state_in(const char *path)
{
	char line[512] = "", *end;
	FILE *stat = fopen(path, "re");

	if (stat == NULL)
		return 'X';
	if (fgets(line, sizeof(line), stat) == NULL)
		line[0] = '\0';
	fclose(stat);
	end = strrchr(line, ')'); /* the name before it may have any */
	return end != NULL && end[1] == ' ' ? end[2] : 'X';
}

/* The state of its first thread: 'T' stopped, 'Z' dead, 'X' gone. */
static inline char process_state(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	return process_state_in(path);
}

/* Does each of its threads stand? */
static inline bool process_stands(pid_t pid)
{
	struct dirent *entry;
	bool stands = true;
	char path[64];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	if (tasks == NULL)
		return false;
	while (stands && (entry = readdir(tasks)) != NULL) {
		char stat[512];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(stat, sizeof(stat), "%s/%s/stat", path, entry->d_name);
		stands = process_state_in(stat) == 'T';
	}
	closedir(tasks);
	return stands;
}

/*
 * Wait until somebody's SIGSTOP has come to every thread.  A signal is only
 * under way when kill(2) returns: what runs on another CPU does some more.
 * Returns whether all stand.
 */
static inline bool process_stopped(pid_t pid)
{
	const struct timespec moment = { .tv_nsec = 100000 };

	for (int i = 0; i < PROCESS_LIMIT && !process_stands(pid); i++) {
		if (process_state(pid) == 'X')
			return false;
		nanosleep(&moment, NULL);
	}
	return process_stands(pid);
}

/*
 * Stop a process and wait until it stands.  Returns whether it does.
 *
 * A stopped process may go on at the death of its parent: the kernel sends
 * SIGCONT to a process group that is orphaned by that.  A test that is its
 * heir, by PR_SET_CHILD_SUBREAPER, prevents it.
 */
static inline bool process_stop(pid_t pid)
{
	return pid > 0 && kill(pid, SIGSTOP) == 0 && process_stopped(pid);
}

#endif
