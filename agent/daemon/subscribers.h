/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * subscribers - which modules are told of which event, see base/events.h.
 */
#ifndef GM_DAEMON_SUBSCRIBERS_H
#define GM_DAEMON_SUBSCRIBERS_H

#include "agent/daemon/base/events.h"

extern const struct gm_events gm_subscribers;

#endif
