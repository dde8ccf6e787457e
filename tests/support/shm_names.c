/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/shm_names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/tap.h"

#define ATTEMPTS 100
#define STEP_MS  5
#define LIMIT_MS 30000

void shm_names_file(char ret_path[GM_NAMES_BYTES], const char *instance,
		    const char *file)
{
	gm_names_file(ret_path, geteuid(), instance, file);
}

bool shm_names_own(void)
{
	return unshare(CLONE_NEWNS) == 0 &&
	       mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("own", "/dev/shm", "tmpfs", 0, "mode=1777") == 0;
}

const char *shm_names_large(void)
{
	struct statvfs shm;
	bool is_large = statvfs("/dev/shm", &shm) == 0 &&
			shm.f_blocks * shm.f_frsize >= UINT64_C(1) << 30;

	return is_large ? "/dev/shm" : "/tmp";
}

static bool make_one(const char *path)
{
	return mkdir(path, GM_NAMES_MODE) == 0 || errno == EEXIST;
}

/* Another test may remove the user's folder while it is empty. */
bool shm_names_make(const char *instance)
{
	char user[GM_NAMES_BYTES], path[GM_NAMES_BYTES];

	gm_names_user(user, geteuid());
	shm_names_file(path, instance, "");
	for (int i = 0; i < ATTEMPTS; i++) {
		if (make_one(user) && make_one(path))
			return chmod(path, GM_NAMES_MODE) == 0;
		if (errno != ENOENT)
			break;
	}
	return false;
}

static bool rests_file(const char *name)
{
	unsigned int n;
	int end = 0;

	return name[0] == '.' || strcmp(name, "map") == 0 ||
	       strcmp(name, "lock") == 0 ||
	       (sscanf(name, "node%u%n", &n, &end) == 1 && !name[end]) ||
	       (sscanf(name, "row%u.lock%n", &n, &end) == 1 && end > 0 &&
		!name[end]);
}

bool shm_names_rest(const char *instance)
{
	char path[GM_NAMES_BYTES];
	struct dirent *entry;
	bool rests = true;
	DIR *dir;

	shm_names_file(path, instance, "");
	dir = opendir(path);
	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		if (rests_file(entry->d_name))
			continue;
		NOTE("%s/%s is left", path, entry->d_name);
		rests = false;
	}
	if (dir != NULL)
		closedir(dir);
	return rests;
}

static void empty_dir(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		char below[PATH_MAX];

		if (strcmp(entry->d_name, ".") == 0 ||
		    strcmp(entry->d_name, "..") == 0 ||
		    unlinkat(dirfd(dir), entry->d_name, 0) == 0)
			continue;
		snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
		empty_dir(below);
		rmdir(below);
	}
	if (dir != NULL)
		closedir(dir);
}

/* The worker of an agent that was killed may still make its lock there, before
 * it notices. */
void shm_names_remove_dir(const char *path)
{
	const struct timespec step = { .tv_nsec = STEP_MS * 1000000L };

	for (int ms = 0; ms < LIMIT_MS; ms += STEP_MS) {
		empty_dir(path);
		if (rmdir(path) == 0 || errno != ENOTEMPTY)
			return;
		nanosleep(&step, NULL);
	}
}

void shm_names_remove(const char *instance)
{
	char path[GM_NAMES_BYTES];

	shm_names_file(path, instance, "");
	shm_names_remove_dir(path);
	gm_names_user(path, geteuid());
	rmdir(path);
}
