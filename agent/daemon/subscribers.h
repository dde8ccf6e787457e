/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * subscribers - which modules handle which event (base/events.h), which have
 * something of workers (workers/worker_users.h), and which have state files
 * (state/state.h).
 */
#ifndef GM_DAEMON_SUBSCRIBERS_H
#define GM_DAEMON_SUBSCRIBERS_H

struct gm_daemon;

/* Give the daemon its tables; to be called before anything is started. */
void gm_subscribers_set(struct gm_daemon *d);

#endif
