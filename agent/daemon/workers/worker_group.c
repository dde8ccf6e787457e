/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/worker_group.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/segment/folder.h"
#include "agent/daemon/workers/stale_worker.h"
#include "agent/daemon/workers/worker_process.h"

int gm_worker_group_open(struct gm_worker_group *group)
{
	group->group_page_fd =
		gm_spawn_memfd("gpumap-group-page", sizeof(*group->group_page));
	if (group->group_page_fd < 0)
		return group->group_page_fd;
	group->group_page =
		mmap(NULL, sizeof(*group->group_page), PROT_READ | PROT_WRITE,
		     MAP_SHARED, group->group_page_fd, 0);
	if (group->group_page == MAP_FAILED) {
		group->group_page = NULL;
		return -errno;
	}
	return 0;
}

void gm_worker_group_close(struct gm_worker_group *group)
{
	if (group->group_page)
		munmap(group->group_page, sizeof(*group->group_page));
	if (group->group_page_fd >= 0)
		close(group->group_page_fd);
	group->group_page = NULL;
	group->group_page_fd = -1;
}

bool gm_worker_groups_have(const struct gm_supervisor *s, uint32_t row)
{
	const struct gm_worker_group *group;

	TAILQ_FOREACH(group, &s->programs, entry)
	{
		if (group->workers[row])
			return true;
	}
	return false;
}

const struct gm_worker_process *
gm_worker_groups_running(const struct gm_supervisor *s, uint32_t row)
{
	const struct gm_worker_group *group;

	TAILQ_FOREACH(group, &s->programs, entry)
	{
		if (group->workers[row] &&
		    gm_worker_process_has_child(group->workers[row]))
			return group->workers[row];
	}
	return NULL;
}

/* rowN.uidU.lock, and nothing else. */
static bool is_lock(const char *name)
{
	unsigned int row, uid;
	char again[64];

	if (sscanf(name, "row%u.uid%u.lock", &row, &uid) != 2)
		return false;
	snprintf(again, sizeof(again), "row%u.uid%u.lock", row, uid);
	return strcmp(name, again) == 0;
}

void gm_worker_groups_sweep(const struct gm_daemon *d)
{
	char path[GM_NAMES_BYTES];
	const struct dirent *entry;
	DIR *folder = NULL;

	if (gm_folder_path(path, d->instance, "") == 0)
		folder = opendir(path);
	while (folder && (entry = readdir(folder))) {
		if (!is_lock(entry->d_name))
			continue;
		gm_folder_path(path, d->instance, entry->d_name);
		if (gm_stale_worker_holder(path) == 0)
			unlink(path);
	}
	if (folder)
		closedir(folder);
}
