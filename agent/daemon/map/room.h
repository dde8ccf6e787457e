/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * room - the rows that a map may have, for ROOM and for reservations.
 */
#ifndef GM_DAEMON_MAP_ROOM_H
#define GM_DAEMON_MAP_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/refusal.h"
#include "shm/control.h"

struct gm_daemon;

/* Changes when another agent runs, or a row's number is given to another
 * device. */
uint64_t gm_room_rows_given(const struct gm_daemon *d);

/* The slot of the map that this one would replace; GM_LEDGER_NOBODY: none. */
uint32_t gm_room_slot(const struct gm_daemon *d, const struct gm_room *map);

/* Does the agent give room?  Its rows are drained when it ends, and those of
 * the next agent are not.  Returns 0 or -ESHUTDOWN. */
int gm_room_check_agent(const struct gm_daemon *d, char ret_why[GM_WHY_BYTES]);

/*
 * gm_room_check_row - may layers be put on the row now?
 *
 * Returns	0, or -ENODEV: it is not there, is lost, has failed, is drained
 *		or cordoned
 */
int gm_room_check_row(const struct gm_daemon *d, uint32_t row,
		      char ret_why[GM_WHY_BYTES]);

/* List the rows that are there and have not failed, without most_bytes and
 * lasting_bytes.  Returns how many. */
uint32_t gm_room_list(const struct gm_daemon *d, uint32_t slot,
		      struct gm_room_row ret_rows[GM_ROWS]);

#endif
