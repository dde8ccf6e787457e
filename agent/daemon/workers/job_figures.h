/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * job_figures - publishes how many jobs the rows' own workers have done, and in
 * which time.
 *
 * A worker counts in its journal, which outlives it.  The row's words in the
 * segment outlive the agent: each refresh adds what the journal has more than
 * at the last one.
 *
 * The journals of workers that run programs are left out: a program can write
 * there what it likes.
 */
#ifndef GM_DAEMON_WORKERS_JOB_FIGURES_H
#define GM_DAEMON_WORKERS_JOB_FIGURES_H

struct gm_daemon;

/* Add what the rows' own workers have done since the last call. */
void gm_job_figures_refresh(struct gm_daemon *d);

#endif
