/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * usage - who has how much of which device's memory.
 *
 * Workers know, and say it in their journals; what was exported and imported is
 * known here.
 */
#ifndef GM_DAEMON_ACCOUNT_USAGE_H
#define GM_DAEMON_ACCOUNT_USAGE_H

#include <stdint.h>

struct gm_worker_process;
struct gm_attachment;

/* Bytes of the device's memory that all sessions of a uid have, and the bytes
 * of all sessions that are leaving, as the running worker says. */
uint64_t gm_usage_within_reach(const struct gm_worker_process *worker,
			       uint32_t uid);

/* An attachment is given up, or the worker has ended: their memory is free. */
void gm_usage_leaves(const struct gm_attachment *attachment);
void gm_usage_ends(const struct gm_worker_process *worker);

/* Bytes of one session's place; 0 while no worker serves it. */
uint64_t gm_usage_of_attachment(const struct gm_attachment *attachment);

#endif
