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

int gm_crew_open(struct gm_crew *crew)
{
	crew->commons_fd =
		gm_spawn_memfd("gpumap-commons", sizeof(*crew->commons));
	if (crew->commons_fd < 0)
		return crew->commons_fd;
	crew->commons =
		mmap(NULL, sizeof(*crew->commons), PROT_READ | PROT_WRITE,
		     MAP_SHARED, crew->commons_fd, 0);
	if (crew->commons == MAP_FAILED) {
		crew->commons = NULL;
		return -errno;
	}
	return 0;
}

void gm_crew_close(struct gm_crew *crew)
{
	for (uint32_t row = 0; row < GM_ROWS; row++) {
		gm_keeper_free(crew->keepers[row]);
		crew->keepers[row] = NULL;
	}
	if (crew->commons)
		munmap(crew->commons, sizeof(*crew->commons));
	if (crew->commons_fd >= 0)
		close(crew->commons_fd);
	crew->commons = NULL;
	crew->commons_fd = -1;
}

static bool is_empty(const struct gm_crew *crew)
{
	for (uint32_t row = 0; row < GM_ROWS; row++) {
		if (crew->keepers[row])
			return false;
	}
	return true;
}

static void drop(struct gm_supervisor *s, struct gm_crew *crew)
{
	TAILQ_REMOVE(&s->programs, crew, entry);
	gm_crew_close(crew);
	free(crew);
}

static int find_crew(struct gm_supervisor *s, uint32_t uid,
		     struct gm_crew **ret_crew)
{
	struct gm_crew *crew;
	int error;

	TAILQ_FOREACH(crew, &s->programs, entry)
	{
		if (crew->uid == uid)
			break;
	}
	if (!crew) {
		crew = calloc(1, sizeof(*crew));
		if (!crew)
			return -ENOMEM;
		crew->runs_programs = true;
		crew->uid = uid;
		crew->commons_fd = -1;
		TAILQ_INSERT_TAIL(&s->programs, crew, entry);
		error = gm_crew_open(crew);
		if (error) {
			drop(s, crew);
			return error;
		}
	}
	*ret_crew = crew;
	return 0;
}

int gm_crews_keeper(struct gm_supervisor *s, uint32_t row, uint32_t uid,
		    struct gm_keeper **ret_keeper)
{
	struct gm_crew *crew;
	int error = find_crew(s, uid, &crew);

	if (error)
		return error;
	if (!crew->keepers[row]) {
		error = gm_keeper_make(s->d, crew, row);
		if (error) {
			gm_keeper_free(crew->keepers[row]);
			crew->keepers[row] = NULL;
			if (is_empty(crew))
				drop(s, crew);
			return error;
		}
		gm_keeper_start(crew->keepers[row]);
	}
	*ret_keeper = crew->keepers[row];
	return 0;
}

bool gm_crews_have(const struct gm_supervisor *s, uint32_t row)
{
	const struct gm_crew *crew;

	TAILQ_FOREACH(crew, &s->programs, entry)
	{
		if (crew->keepers[row])
			return true;
	}
	return false;
}

const struct gm_keeper *gm_crews_running(const struct gm_supervisor *s,
					 uint32_t row)
{
	const struct gm_crew *crew;

	TAILQ_FOREACH(crew, &s->programs, entry)
	{
		if (crew->keepers[row] &&
		    gm_keeper_has_child(crew->keepers[row]))
			return crew->keepers[row];
	}
	return NULL;
}

static bool is_needed(const struct gm_keeper *keeper, uint64_t now_ns)
{
	if (gm_keeper_has_seats(keeper) || gm_keeper_has_child(keeper) ||
	    (keeper->state != GM_KEEPER_IDLE &&
	     keeper->state != GM_KEEPER_BARRED &&
	     keeper->state != GM_KEEPER_OFF))
		return true;
	/* A barred row starts nothing, and looks again each second. */
	return keeper->state != GM_KEEPER_BARRED && keeper->early_deaths &&
	       now_ns - keeper->since_ns < GRUDGE_NS;
}

void gm_crews_look(struct gm_supervisor *s, uint64_t now_ns)
{
	struct gm_crew *crew, *next;

	for (crew = TAILQ_FIRST(&s->programs); crew; crew = next) {
		next = TAILQ_NEXT(crew, entry);
		for (uint32_t row = 0; row < GM_ROWS; row++) {
			struct gm_keeper *keeper = crew->keepers[row];

			if (!keeper || is_needed(keeper, now_ns))
				continue;
			unlink(keeper->lock_path);
			gm_keeper_free(keeper);
			crew->keepers[row] = NULL;
		}
		if (is_empty(crew))
			drop(s, crew);
	}
}

void gm_crews_forget(struct gm_supervisor *s, uint32_t row)
{
	struct gm_crew *crew;

	TAILQ_FOREACH(crew, &s->programs, entry)
	{
		gm_keeper_free(crew->keepers[row]);
		crew->keepers[row] = NULL;
	}
}

void gm_crews_free(struct gm_supervisor *s)
{
	struct gm_crew *crew;

	while ((crew = TAILQ_FIRST(&s->programs))) {
		for (uint32_t row = 0; row < GM_ROWS; row++) {
			const struct gm_keeper *keeper = crew->keepers[row];

			if (keeper && !gm_keeper_has_child(keeper))
				unlink(keeper->lock_path);
		}
		drop(s, crew);
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

void gm_crews_sweep(const struct gm_daemon *d)
{
	DIR *folder = opendir(d->runtime_dir);
	const struct dirent *entry;
	char path[PATH_MAX];

	while (folder && (entry = readdir(folder))) {
		if (!is_lock(d, entry->d_name) ||
		    snprintf(path, sizeof(path), "%s/%s", d->runtime_dir,
			     entry->d_name) >= (int)sizeof(path))
			continue;
		if (gm_orphan_holder(path) == 0)
			unlink(path);
	}
	if (folder)
		closedir(folder);
}

/* ---- what the row shows ----------------------------------------------- */

void gm_keeper_show(const struct gm_keeper *keeper, uint32_t state,
		    const char *reason, int error)
{
	if (gm_keeper_is_shown(keeper))
		gm_devices_state(keeper->d, keeper->row, state, reason, error);
}

void gm_keeper_show_worker(const struct gm_keeper *keeper, pid_t pid)
{
	if (gm_keeper_is_shown(keeper))
		gm_devices_worker(keeper->d, keeper->row, pid,
				  keeper->restarts);
}

int gm_keeper_name(struct gm_keeper *keeper)
{
	const struct gm_daemon *d = keeper->d;
	char of[24] = "";
	int n;

	if (keeper->crew->runs_programs) {
		snprintf(of, sizeof(of), ".uid%u", keeper->crew->uid);
		snprintf(keeper->of, sizeof(keeper->of), " programs_of=%u",
			 keeper->crew->uid);
	}
	n = snprintf(keeper->lock_path, sizeof(keeper->lock_path),
		     "%s/%s.row%u%s.lock", d->runtime_dir, d->instance,
		     keeper->row, of);
	return n < 0 || (size_t)n >= sizeof(keeper->lock_path) ? -ENAMETOOLONG
							       : 0;
}
