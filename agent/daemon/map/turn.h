/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * turn - may a map have bytes of a row before others that want the row?
 *
 * A row that has room may be one that earlier requests wait for, or one on
 * which another process starts.
 */
#ifndef GM_DAEMON_MAP_TURN_H
#define GM_DAEMON_MAP_TURN_H

#include "agent/daemon/account/wait_line.h"
#include "agent/common/refusal.h"

struct gm_turn {
	struct gm_wait_limits limits; /* what those before it leave */
	uint32_t slot;  /* of the map that it replaces, or GM_LEDGER_NOBODY */
	bool has_start; /* it is to be in a start window */
};

/*
 * gm_turn_find - the turn of a request as the line is now
 *
 * place	of the request; it need not be in the line
 */
void gm_turn_find(struct gm_daemon *d, const struct gm_wait_place *place,
		  const struct gm_room *map, struct gm_turn *ret_turn);

/*
 * gm_turn_most - the most bytes of a row that it may have now, if there is room
 *
 * A map may always keep the bytes that it has, but not open a window anew while
 * others wait to open one.
 */
uint64_t gm_turn_most(const struct gm_daemon *d, const struct gm_turn *turn,
		      uint32_t row);

/*
 * gm_turn_check - may it have so many bytes of a row now, if there is room?
 *
 * Returns	0
 *		-ENOSPC		others wait for the row
 *		-EBUSY		another process is in its start window there, or
 *				others wait for theirs
 */
int gm_turn_check(const struct gm_daemon *d, const struct gm_turn *turn,
		  uint32_t row, uint64_t bytes, char ret_why[GM_WHY_BYTES]);

#endif
