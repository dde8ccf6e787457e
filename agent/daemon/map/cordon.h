/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cordon - keep new sessions and plans away from rows.
 *
 * A cordoned row serves the sessions that were open before, keeps its shares,
 * maps and reservations, and is READY if it was.  A session that was opened
 * later gets no queue of it, and no plan takes it.  Cordons are in a file
 * of the state directory, by UUID, before their client is answered: they
 * outlive agents, segments and boots, and wait for devices that are not there.
 */
#ifndef GM_DAEMON_MAP_CORDON_H
#define GM_DAEMON_MAP_CORDON_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/daemon/base/connection.h"

struct gm_daemon;
struct gm_state_kind;

extern const struct gm_state_kind gm_cordons_kind;

/* Read the file, and mark the rows that there are: at the start.  A file that
 * makes no sense is logged and set aside.  One that cannot be read is logged
 * and stays: CORDON is refused then, which would replace it. */
void gm_cordons_start(struct gm_daemon *d);

/* Event; see base/events.h: mark rows that came since. */
void gm_cordons_row_came(struct gm_daemon *d);

/* May a session that was opened at @since_ns begin to use the row? */
bool gm_cordons_admit(const struct gm_daemon *d, uint32_t row,
		      uint64_t since_ns);

/* CORDON.  Returns 0: the answer comes; or a status to refuse with. */
int gm_cordons_handle(struct gm_connection *c, const struct gm_request *r);

#endif
