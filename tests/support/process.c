/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/process.h"

#define PROCESS_LIMIT 300000 /* looks 100 us apart, against hanging */

/* The state in a stat file of proc(5), 'X' where there is none. */
static char process_state_in(const char *path)
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

char process_state(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	return process_state_in(path);
}

/* Does each of its threads stand? */
static bool process_stands(pid_t pid)
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

bool process_stopped(pid_t pid)
{
	const struct timespec moment = { .tv_nsec = 100000 };

	for (int i = 0; i < PROCESS_LIMIT && !process_stands(pid); i++) {
		if (process_state(pid) == 'X')
			return false;
		nanosleep(&moment, NULL);
	}
	return process_stands(pid);
}

bool process_stop(pid_t pid)
{
	return pid > 0 && kill(pid, SIGSTOP) == 0 && process_stopped(pid);
}
