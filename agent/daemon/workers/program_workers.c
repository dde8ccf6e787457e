/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/program_workers.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/workers/worker_process.h"

/* Deaths are remembered for as long as the longest back-off. */
#define GRUDGE_NS UINT64_C(30000000000)

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
	for (uint32_t row = 0; row < GM_ROWS; row++)
		gm_worker_process_free(group->workers[row]);
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

int gm_program_workers_find(struct gm_supervisor *s, uint32_t row, uint32_t uid,
			    struct gm_worker_process **ret_worker)
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
	*ret_worker = group->workers[row];
	return 0;
}

static bool is_needed(const struct gm_worker_process *worker, uint64_t now_ns)
{
	if (gm_worker_process_has_attachments(worker) ||
	    gm_worker_process_has_child(worker) ||
	    (worker->state != GM_PROCESS_IDLE &&
	     worker->state != GM_PROCESS_BARRED &&
	     worker->state != GM_PROCESS_OFF))
		return true;
	/* A barred row starts nothing, and looks again each second. */
	return worker->state != GM_PROCESS_BARRED && worker->early_deaths &&
	       now_ns - worker->since_ns < GRUDGE_NS;
}

void gm_program_workers_tidy(struct gm_supervisor *s, uint64_t now_ns)
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

void gm_program_workers_forget(struct gm_supervisor *s, uint32_t row)
{
	struct gm_worker_group *group;

	TAILQ_FOREACH(group, &s->programs, entry)
	{
		gm_worker_process_free(group->workers[row]);
		group->workers[row] = NULL;
	}
}

void gm_program_workers_free(struct gm_supervisor *s)
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
