/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * list - what gpumapctl who, sessions and shares show: sessions, their device
 * memory, reservations, requests that wait for room, and shares.
 */
#ifndef GM_DAEMON_SESSIONS_LIST_H
#define GM_DAEMON_SESSIONS_LIST_H

#include "agent/daemon/base/connection.h"

/* Handler, see dispatch.h. */
int gm_list_handle(struct gm_connection *c, const struct gm_request *r);

#endif
