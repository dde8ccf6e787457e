/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * usage - who has how much of which device's memory.
 *
 * Workers know, and say it in their journals; what was exported and imported is
 * known here.
 *
 * Free memory is read once a second, by processes that may report late.  When
 * it has been read, each attachment's bytes are noted: they are missing in that
 * reading, and are free again when the attachment has left.
 */
#ifndef GM_DAEMON_ACCOUNT_USAGE_H
#define GM_DAEMON_ACCOUNT_USAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct gm_daemon;
struct gm_worker_process;
struct gm_attachment;

/* Bytes of the device's memory that all sessions of a uid have, and the bytes
 * of all sessions that are leaving, as the running worker says. */
uint64_t gm_usage_within_reach(const struct gm_worker_process *worker,
			       uint32_t uid);

/* Bytes that sessions have of the row's worker.  Sessions for programs are not
 * counted: a program may have written the journal of its worker. */
uint64_t gm_usage_of_row(const struct gm_daemon *d, uint32_t row);

/* An attachment is given up, or the worker has ended: their memory is free. */
void gm_usage_leaves(struct gm_attachment *attachment);
void gm_usage_ends(const struct gm_worker_process *worker);

/* The free bytes of a row have been read: note what each attachment has.
 * @is_now: they were read in this turn, not reported by another process. */
void gm_usage_noted(struct gm_daemon *d, uint32_t row, bool is_now);

/*
 * gm_usage_free - bytes of a row that are free now
 *
 * is_sure	memory that was given back counts only if two readings found it
 *		in use: a report may be of a time at which it was free
 *
 * Returns	what was read, and what sessions have given back since, less
 *		what they have taken
 */
uint64_t gm_usage_free(const struct gm_daemon *d, uint32_t row, bool is_sure);

/* The bytes of a process's sessions that were noted. */
uint64_t gm_usage_of_process(const struct gm_daemon *d, uint32_t row,
			     pid_t pid);

/* Bytes of one session's place; 0 while no worker serves it. */
uint64_t gm_usage_of_attachment(const struct gm_attachment *attachment);

#endif
