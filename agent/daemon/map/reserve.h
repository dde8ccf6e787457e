/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * reserve - bytes of rows without a model: GPUMAP_SETTING_RESERVE.
 *
 * The choice is planned as a manual map with one layer on each row, whose
 * charges are those bytes and no more.
 */
#ifndef GM_DAEMON_MAP_RESERVE_H
#define GM_DAEMON_MAP_RESERVE_H

#include "agent/daemon/account/ledger.h"
#include "agent/daemon/map/turn.h"
#include "lib/model/plan/plan.h"

#define GM_RESERVE_SPEC_BYTES (GM_ROWS * 6) /* "255:1;" */

struct gm_reserve {
	const struct gm_plan_device *devices; /* that it may take */
	uint32_t n_devices;
	const uint64_t *bytes; /* of each device, or one for any of them */
	uint32_t n;
	uint32_t uid;
	bool may_be_none; /* 0 bytes of a row: for its place alone */
	const struct gm_turn *turn;
};

/* The answer. */
struct gm_reserved {
	char spec[GM_RESERVE_SPEC_BYTES];
	bool may_wait; /* with an error: another time there may be room */
	struct gm_shortage shortage; /* with -ENOSPC */
};

/*
 * gm_reserve_choose - on which rows, as things are now?
 *
 * place	gets the rows that it may take, and what it waits for
 *
 * Returns	0: ret_reserved->spec names them
 *		-ENOSPC		no row has so much free, or not before those
 *				that wait; or none ever has
 *		-EBUSY		one has, but for a start window
 *		-EDQUOT		the uid may not have so much of any row
 *		-EINVAL		the numbers do not fit together
 */
int gm_reserve_choose(const struct gm_daemon *d, const struct gm_reserve *r,
		      struct gm_wait_place *place, char ret_why[GM_WHY_BYTES],
		      struct gm_reserved *ret_reserved);

/* Nothing is kept back beside the bytes themselves. */
void gm_reserve_charge(struct gm_plan *plan,
		       const struct gm_plan_device *devices, uint32_t n);

#endif
