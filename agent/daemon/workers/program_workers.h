/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * program_workers - the workers that run programs of clients.
 *
 * Each uid whose sessions run programs has a group of workers of its own
 * (worker_group.h), and in it a worker for each row where it has a session.
 * A worker is made with the first such session and goes with the last.
 */
#ifndef GM_DAEMON_WORKERS_PROGRAM_WORKERS_H
#define GM_DAEMON_WORKERS_PROGRAM_WORKERS_H

#include <stdint.h>

struct gm_supervisor;
struct gm_worker_process;

/*
 * gm_program_workers_find - find the worker of a uid's programs on a row
 *
 * The first call for a row makes it.
 *
 * Returns	0, or a negative errno
 */
int gm_program_workers_find(struct gm_supervisor *s, uint32_t row, uint32_t uid,
			    struct gm_worker_process **ret_worker);

/* Free the workers of programs that no session needs.  The caller calls it from
 * time to time, never from within a worker's own functions. */
void gm_program_workers_tidy(struct gm_supervisor *s, uint64_t now_ns);

/* Free those of one row, which is to be another device. */
void gm_program_workers_forget(struct gm_supervisor *s, uint32_t row);

/* Free those of all rows. */
void gm_program_workers_free(struct gm_supervisor *s);

#endif
