/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * dispatch - what a client can ask for, one handler each.
 */
#ifndef GM_DAEMON_SESSIONS_DISPATCH_H
#define GM_DAEMON_SESSIONS_DISPATCH_H

#include "agent/daemon/base/connection.h"

/* How to treat a type; NULL for one that we do not know. */
const struct gm_request_kind *gm_request_kind(uint16_t type);

#endif
