/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * usage - who has how much of which device's memory.
 *
 * Workers know, and say it in their journals; what was exported and imported is
 * known here.
 */
#ifndef GM_USAGE_H
#define GM_USAGE_H

#include "agent/daemon/connection.h"

/* Handler, see requests.h. */
int gm_usage_handle(struct gm_connection *c, const struct gm_request *r);

#endif
