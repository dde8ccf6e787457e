/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/turn.h"

#include <errno.h>
#include <string.h>

#include "agent/daemon/account/ledger.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/map/pins.h"
#include "agent/daemon/map/room.h"
#include "agent/daemon/segment/directory.h"

/* Maps that are committed for good, and do not wait, are the administrator's,
 * who need not wait for those before. */
void gm_turn_find(struct gm_daemon *d, const struct gm_wait_place *place,
		  const struct gm_room *map, struct gm_turn *ret_turn)
{
	*ret_turn = (struct gm_turn){ .slot = gm_room_slot(d, map),
				      .has_start = place->has_start };
	memset(ret_turn->limits.bytes, 0xff, sizeof(ret_turn->limits.bytes));
	if ((map->flags & GPUMAP_PLAN_HELD) != 0 || map->wait_ns != 0)
		gm_wait_line_limits(d, place, &ret_turn->limits);
}

/* The most that those who wait leave it. */
static uint64_t spare(const struct gm_daemon *d, const struct gm_turn *turn,
		      uint32_t row)
{
	uint64_t bytes = turn->limits.bytes[row];
	const struct gm_promise *own = NULL;

	if (turn->slot != GM_LEDGER_NOBODY)
		own = gm_ledger_promise(d, turn->slot, row);
	if (own != NULL && own->bytes > bytes)
		bytes = own->bytes;
	return bytes;
}

static bool may_start(const struct gm_turn *turn, uint32_t row)
{
	return !turn->has_start ||
	       !gm_wait_line_has_row(turn->limits.starts, row);
}

/* The process that is in a start window there, NULL where none bars it. */
static const struct gm_holder_image *
starting(const struct gm_daemon *d, const struct gm_turn *turn, uint32_t row)
{
	return turn->has_start ? gm_pins_starting(d, row, turn->slot) : NULL;
}

uint64_t gm_turn_most(const struct gm_daemon *d, const struct gm_turn *turn,
		      uint32_t row)
{
	if (!may_start(turn, row) || starting(d, turn, row) != NULL)
		return 0;
	return spare(d, turn, row);
}

int gm_turn_check(const struct gm_daemon *d, const struct gm_turn *turn,
		  uint32_t row, uint64_t bytes, char ret_why[GM_WHY_BYTES])
{
	const struct gm_holder_image *other;

	if (bytes > spare(d, turn, row))
		return gm_why(ret_why, -ENOSPC,
			      "row %u has room, but requests that came before "
			      "wait for it (gpumapctl who): wait, too "
			      "(gpumapctl run --wait)",
			      row);
	if (!may_start(turn, row))
		return gm_why(ret_why, -EBUSY,
			      "row %u has room, but requests that came before "
			      "wait to start there (gpumapctl who): wait, too "
			      "(gpumapctl run --wait)",
			      row);
	other = starting(d, turn, row);
	if (other == NULL)
		return 0;
	return gm_why(ret_why, -EBUSY,
		      "process %u, which holds %s, is in its start window on "
		      "row %u: wait for it (gpumapctl run --wait)",
		      other->pid, d->directory->objects[other->slot].name, row);
}
