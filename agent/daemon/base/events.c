/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/events.h"

#include "agent/daemon/daemon.h"

/* The daemon of a test of one module may have no subscribers. */
void gm_events_connection_dropped(const struct gm_daemon *d,
				  struct gm_connection *c, const char *why)
{
	for (unsigned i = 0; d->events && d->events->connection_dropped[i]; i++)
		d->events->connection_dropped[i](c, why);
}
