/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * subscribers - which modules are told of which event (base/events.h), and
 * which have something of workers.
 */
#ifndef GM_DAEMON_SUBSCRIBERS_H
#define GM_DAEMON_SUBSCRIBERS_H

#include "agent/daemon/base/events.h"
#include "agent/daemon/workers/worker_users.h"

extern const struct gm_events gm_subscribers;

/* Those that have something of workers; NULL behind the last. */
extern const struct gm_worker_user *const gm_worker_users[];

#endif
