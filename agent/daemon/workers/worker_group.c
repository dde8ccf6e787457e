/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/worker_group.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/daemon/daemon.h"
#include "agent/daemon/workers/stale_worker.h"
#include "agent/daemon/workers/worker_process.h"

/* Deaths are remembered for as long as the longest back-off. */
#define GRUDGE_NS UINT64_C(30000000000)

int gm_worker_group_open(struct gm_worker_group *group)
{
	group->group_page_fd =
		gm_spawn_memfd("gpumap-commons", sizeof(*group->group_page));
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
	for (uint32_t row = 0; row < GM_ROWS; row++) {
		gm_worker_process_free(group->workers[row]);
		group->workers[row] = NULL;
	}
	if (group->group_page)
		munmap(group->group_page, sizeof(*group->group_page));
	if (group->group_page_fd >= 0)
		close(group->group_page_fd);
	group->group_page = NULL;
	group->group_page_fd = -1;
}

static bool is_empty(const struct gm_worker_group *group)
{
	for (uint32_t row = 0; row < GM_ROWS; row++) {
		if (group->workers[row])
			return false;
	}
	return true;
}

static void drop(struct gm_supervisor *s, struct gm_worker_group *group)
{
	TAILQ_REMOVE(&s->programs, group, entry);
	gm_worker_group_close(group);
	free(group);
}

static int find_group(struct gm_supervisor *s, uint32_t uid,
		      struct gm_worker_group **ret_crew)
{
	struct gm_worker_group *group;
	int error;

	TAILQ_FOREACH(group, &s->programs, entry)
	{
		if (group->uid == uid)
			break;
	}
	if (!group) {
		group = calloc(1, sizeof(*group));
		if (!group)
			return -ENOMEM;
		group->runs_programs = true;
		group->uid = uid;
		group->group_page_fd = -1;
		TAILQ_INSERT_TAIL(&s->programs, group, entry);
		error = gm_worker_group_open(group);
		if (error) {
			drop(s, group);
			return error;
		}
	}
	*ret_crew = group;
	return 0;
}

int gm_worker_groups_keeper(struct gm_supervisor *s, uint32_t row, uint32_t uid,
			    struct gm_worker_process **ret_keeper)
{
	struct gm_worker_group *group;
	int error = find_group(s, uid, &group);

	if (error)
		return error;
	if (!group->workers[row]) {
		error = gm_worker_process_make(s->d, group, row);
		if (error) {
			gm_worker_process_free(group->workers[row]);
			group->workers[row] = NULL;
			if (is_empty(group))
				drop(s, group);
			return error;
		}
		gm_worker_process_start(group->workers[row]);
	}
	*ret_keeper = group->workers[row];
	return 0;
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

static bool is_needed(const struct gm_worker_process *worker, uint64_t now_ns)
{
	if (gm_worker_process_has_seats(worker) ||
	    gm_worker_process_has_child(worker) ||
	    (worker->state != GM_PROCESS_IDLE &&
	     worker->state != GM_PROCESS_BARRED &&
	     worker->state != GM_PROCESS_OFF))
		return true;
	/* A barred row starts nothing, and looks again each second. */
	return worker->state != GM_PROCESS_BARRED && worker->early_deaths &&
	       now_ns - worker->since_ns < GRUDGE_NS;
}

void gm_worker_groups_look(struct gm_supervisor *s, uint64_t now_ns)
{
	struct gm_worker_group *group, *next;

	for (group = TAILQ_FIRST(&s->programs); group; group = next) {
		next = TAILQ_NEXT(group, entry);
		for (uint32_t row = 0; row < GM_ROWS; row++) {
			struct gm_worker_process *worker = group->workers[row];

			if (!worker || is_needed(worker, now_ns))
				continue;
			unlink(worker->lock_path);
			gm_worker_process_free(worker);
			group->workers[row] = NULL;
		}
		if (is_empty(group))
			drop(s, group);
	}
}

void gm_worker_groups_forget(struct gm_supervisor *s, uint32_t row)
{
	struct gm_worker_group *group;

	TAILQ_FOREACH(group, &s->programs, entry)
	{
		gm_worker_process_free(group->workers[row]);
		group->workers[row] = NULL;
	}
}

void gm_worker_groups_free(struct gm_supervisor *s)
{
	struct gm_worker_group *group;

	while ((group = TAILQ_FIRST(&s->programs))) {
		for (uint32_t row = 0; row < GM_ROWS; row++) {
			const struct gm_worker_process *worker =
				group->workers[row];

			if (worker && !gm_worker_process_has_child(worker))
				unlink(worker->lock_path);
		}
		drop(s, group);
	}
}

/* INSTANCE.rowN.uidU.lock, and nothing else. */
static bool is_lock(const struct gm_daemon *d, const char *name)
{
	size_t n = strlen(d->instance);
	unsigned int row, uid;
	char again[64];

	if (strncmp(name, d->instance, n) != 0 ||
	    sscanf(name + n, ".row%u.uid%u.lock", &row, &uid) != 2)
		return false;
	snprintf(again, sizeof(again), ".row%u.uid%u.lock", row, uid);
	return strcmp(name + n, again) == 0;
}

void gm_worker_groups_sweep(const struct gm_daemon *d)
{
	DIR *folder = opendir(d->runtime_dir);
	const struct dirent *entry;
	char path[PATH_MAX];

	while (folder && (entry = readdir(folder))) {
		if (!is_lock(d, entry->d_name) ||
		    snprintf(path, sizeof(path), "%s/%s", d->runtime_dir,
			     entry->d_name) >= (int)sizeof(path))
			continue;
		if (gm_stale_worker_holder(path) == 0)
			unlink(path);
	}
	if (folder)
		closedir(folder);
}

/* ---- what the row shows ----------------------------------------------- */

void gm_worker_process_show(const struct gm_worker_process *worker,
			    uint32_t state, const char *reason, int error)
{
	if (gm_worker_process_is_shown(worker))
		gm_devices_state(worker->d, worker->row, state, reason, error);
}

void gm_worker_process_show_worker(const struct gm_worker_process *worker,
				   pid_t pid)
{
	if (gm_worker_process_is_shown(worker))
		gm_devices_worker(worker->d, worker->row, pid,
				  worker->restarts);
}

int gm_worker_process_name(struct gm_worker_process *worker)
{
	const struct gm_daemon *d = worker->d;
	char of[24] = "";
	int n;

	if (worker->group->runs_programs) {
		snprintf(of, sizeof(of), ".uid%u", worker->group->uid);
		snprintf(worker->of, sizeof(worker->of), " programs_of=%u",
			 worker->group->uid);
	}
	n = snprintf(worker->lock_path, sizeof(worker->lock_path),
		     "%s/%s.row%u%s.lock", d->runtime_dir, d->instance,
		     worker->row, of);
	return n < 0 || (size_t)n >= sizeof(worker->lock_path) ? -ENAMETOOLONG
							       : 0;
}
