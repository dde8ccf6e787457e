/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/worker_uid.h"

#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/read_file.h"

#define NOBODY 65534u

bool gm_worker_uid_is_nobody(const char *root, uid_t uid)
{
	char path[PATH_MAX], text[32];

	if (uid == NOBODY)
		return true;
	return gm_read_file_path(path, sizeof(path), root,
				 "/proc/sys/kernel/overflowuid") == 0 &&
	       gm_read_file(path, text, sizeof(text)) > 0 &&
	       strtoul(text, NULL, 10) == uid;
}

static FILE *open_file(const char *root, const char *name)
{
	char path[PATH_MAX];

	if (gm_read_file_path(path, sizeof(path), root, "%s", name) != 0)
		return NULL;
	return fopen(path, "re");
}

/* Do lines like "user:100000:65536" have it? */
static bool is_subordinate(const char *root, uid_t uid)
{
	FILE *file = open_file(root, "/etc/subuid");
	unsigned long first, n;
	bool has = false;
	char line[512];

	while (file && !has && fgets(line, sizeof(line), file)) {
		const char *range = strchr(line, ':');

		has = range && sscanf(range, ":%lu:%lu", &first, &n) == 2 &&
		      uid >= first && uid - first < n;
	}
	if (file)
		fclose(file);
	return has;
}

/* Lines of "here there count".  Without the file there are no namespaces. */
static bool is_mapped(const char *root, uid_t uid)
{
	FILE *file = open_file(root, "/proc/self/uid_map");
	unsigned long first, there, n;
	bool has = !file;
	char line[128];

	while (file && !has && fgets(line, sizeof(line), file))
		has = sscanf(line, "%lu %lu %lu", &first, &there, &n) == 3 &&
		      uid >= first && uid - first < n;
	if (file)
		fclose(file);
	return has;
}

uid_t gm_worker_uid_free(const char *root)
{
	for (uid_t uid = GM_WORKER_UID_FIRST; uid >= GM_WORKER_UID_LAST;
	     uid--) {
		if (!getpwuid(uid) && !getgrgid(uid) &&
		    !is_subordinate(root, uid) && is_mapped(root, uid))
			return uid;
	}
	return (uid_t)-1;
}
