/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * dispatch - find the handler of each type of request that a client can send.
 */
#ifndef GM_DAEMON_SESSIONS_DISPATCH_H
#define GM_DAEMON_SESSIONS_DISPATCH_H

#include "agent/daemon/base/connection.h"

/* The handler and the form of a request type; NULL for an unknown type. */
const struct gm_request_kind *gm_dispatch_request_kind(uint16_t type);

#endif
