/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* usage - what only the agent can tell, as metrics. */
#ifndef GM_USAGE_H
#define GM_USAGE_H

#include "agent/exporter/exposition.h"
#include "gpumap.h"

/* Ask for sessions, shares, memory in use and requests that wait, and write
 * them.  gpumap_usage_up says whether the agent has answered.  Cost: round
 * trips on the control socket, two seconds at most where it does not. */
void gm_usage_write(struct gm_exposition *e, struct gpumap *map);

#endif
