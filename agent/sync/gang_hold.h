/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* gang_hold - the reservations of this node for gangs of any node. */
#ifndef GM_GANG_HOLD_H
#define GM_GANG_HOLD_H

#include "agent/sync/gangs.h"

/* An event of a record "NODE/ID". */
void gm_gang_hold_event(struct gm_gangs *gangs, const char *gang,
			const struct gm_store_event *event);

/* This node's answer for "NODE/ID", of a gang that is not known here, is in the
 * store. */
void gm_gang_hold_remove(struct gm_gangs *gangs, const char *id);
void gm_gang_hold_tick(struct gm_gangs *gangs, uint64_t now_ns);
void gm_gang_hold_close(struct gm_gangs *gangs);

#endif
