/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * worker_group - workers that share what they know of each other.
 *
 * The rows' own workers are one crew.  The programs of each uid's clients are
 * run by another, of which a row has a worker while that uid has a seat there
 * (worker_process.h). A program may do with its worker what it likes, so that
 * crew has a journal for each worker and a commons of its own: nothing that it
 * can write is read by the workers of others. Its workers never spin.
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

/* What its workers share.  Returns 0, or a negative errno. */
int gm_worker_group_open(struct gm_worker_group *group);

/* Its keepers are freed, and what it has is closed; it is its owner's to
 * free. */
void gm_worker_group_close(struct gm_worker_group *group);

/*
 * gm_worker_groups_keeper - the keeper of a uid's programs on a row, made on
 * first use
 *
 * Returns	0, or a negative errno
 */
int gm_worker_groups_keeper(struct gm_supervisor *s, uint32_t row, uint32_t uid,
			    struct gm_worker_process **ret_keeper);

/* Is there a keeper of programs for this row, with a process or without? */
bool gm_worker_groups_have(const struct gm_supervisor *s, uint32_t row);

/* One of them that has a process, or NULL. */
const struct gm_worker_process *
gm_worker_groups_running(const struct gm_supervisor *s, uint32_t row);

/* Take away what locks of programs' workers an agent that was killed has left.
 * One that is held still has a worker, and stays. */
void gm_worker_groups_sweep(const struct gm_daemon *d);

/* Let go of keepers of programs that nobody needs: to be called now and then,
 * not from within a keeper. */
void gm_worker_groups_look(struct gm_supervisor *s, uint64_t now_ns);

/* Of one row, which is to be another device. */
void gm_worker_groups_forget(struct gm_supervisor *s, uint32_t row);

/* Of all rows. */
void gm_worker_groups_free(struct gm_supervisor *s);

#endif
