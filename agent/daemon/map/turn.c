/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/turn.h"

#include <errno.h>

#include "agent/daemon/account/ledger.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/map/pins.h"
#include "agent/daemon/segment/directory.h"

void gm_turn_find(const struct gm_daemon *d, const struct gm_wait_place *place,
		  uint32_t slot, bool has_start, bool may_overtake,
		  struct gm_turn *ret_turn)
{
	*ret_turn = (struct gm_turn){ .slot = slot, .has_start = has_start };
	if (!may_overtake)
		gm_wait_line_before(d, place, ret_turn->before);
}

static bool keeps(const struct gm_daemon *d, const struct gm_turn *turn,
		  uint32_t row, uint64_t bytes)
{
	const struct gm_promise *own = NULL;

	if (turn->slot != GM_LEDGER_NOBODY && !turn->has_start)
		own = gm_ledger_promise(d, turn->slot, row);
	return own != NULL && bytes <= own->bytes;
}

int gm_turn_check(const struct gm_daemon *d, const struct gm_turn *turn,
		  uint32_t row, uint64_t bytes, char ret_why[GM_WHY_BYTES])
{
	const struct gm_holder_image *starting = NULL;

	if (gm_wait_line_has_row(turn->before, row) &&
	    !keeps(d, turn, row, bytes))
		return gm_why(ret_why, -ENOSPC,
			      "row %u has room, but requests that came before "
			      "wait for it (gpumapctl who): wait, too "
			      "(gpumapctl run --wait)",
			      row);
	if (turn->has_start)
		starting = gm_pins_starting(d, row, turn->slot);
	if (starting == NULL)
		return 0;
	return gm_why(ret_why, -EBUSY,
		      "process %u, which holds %s, is in its start window on "
		      "row %u: wait for it (gpumapctl run --wait)",
		      starting->pid, d->directory->objects[starting->slot].name,
		      row);
}
