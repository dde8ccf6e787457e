/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * worker_group - workers that share one page of memory.
 *
 * The rows' own workers are one group.  The workers that run programs of one
 * uid's clients are another (program_workers.h): a program may write all that
 * its worker can write, so such a group has a page of its own and each of its
 * workers a journal of its own, which no worker of another group reads.  These
 * workers never spin.
 */
#ifndef GM_DAEMON_WORKERS_WORKER_GROUP_H
#define GM_DAEMON_WORKERS_WORKER_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/common/wire.h"
#include "shm/layout.h"

struct gm_daemon;
struct gm_worker_process;
struct gm_supervisor;

struct gm_worker_group {
	TAILQ_ENTRY(gm_worker_group) entry;
	bool runs_programs;
	uint32_t uid; /* whose */
	struct gm_worker_process
		*workers[GM_ROWS]; /* NULL: a row without a worker */
	int group_page_fd;         /* -1 until it is opened */
	struct gm_group_page *group_page;
};

TAILQ_HEAD(gm_worker_group_list, gm_worker_group);

/* Make the page that its workers share.  Returns 0, or a negative errno. */
int gm_worker_group_open(struct gm_worker_group *group);

/* Close its page.  Its workers were freed before. */
void gm_worker_group_close(struct gm_worker_group *group);

/* Is there a gm_worker_process for programs on this row, with a process or
 * without? */
bool gm_worker_groups_have(const struct gm_supervisor *s, uint32_t row);

/* One of them that has a process, or NULL. */
const struct gm_worker_process *
gm_worker_groups_running(const struct gm_supervisor *s, uint32_t row);

/* Take away what locks of programs' workers an agent that was killed has left.
 * One that is held still has a worker, and stays. */
void gm_worker_groups_sweep(const struct gm_daemon *d);

#endif
