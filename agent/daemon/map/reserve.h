/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * reserve - on which rows bytes without a model are reserved: RESERVE.
 */
#ifndef GM_DAEMON_MAP_RESERVE_H
#define GM_DAEMON_MAP_RESERVE_H

#include "agent/daemon/account/ledger.h"
#include "agent/daemon/map/turn.h"

#define GM_RESERVE_SPEC_BYTES (GM_ROWS * 6) /* "255:1;" */

struct gm_reserve {
	const uint64_t *bytes; /* of each row, or one for any of them */
	uint32_t n;
	const uint32_t *rows; /* that it may take */
	uint32_t n_rows;      /* 0: all, but hosts and dummies only where there
			       * are no others */
	uint32_t uid;
	bool may_be_none; /* 0 bytes of a row: for its place alone */
	const struct gm_turn *turn;
};

/* The answer. */
struct gm_reserved {
	uint32_t n;
	struct gm_reserved_bytes {
		uint32_t row;
		uint64_t bytes;
	} of[GM_ROWS];
	char spec[GM_RESERVE_SPEC_BYTES]; /* a layer on each of these */
	bool may_wait; /* with an error: another time there may be room */
	struct gm_shortage shortage; /* with -ENOSPC */
};

/*
 * gm_reserve_choose - on which rows, as things are now?
 *
 * place	gets the rows that it may take, and what it waits for
 *
 * Returns	0
 *		-ENODEV		a row that cannot be used, or there is none
 *		-ENOSPC		no row has so much free, or not before those
 *				that wait; or none ever has
 *		-EBUSY		one has, but for a start window
 *		-EDQUOT		the uid may not have so much of any row
 *		-EINVAL		the numbers do not fit together
 */
int gm_reserve_choose(struct gm_daemon *d, const struct gm_reserve *r,
		      struct gm_wait_place *place, char ret_why[GM_WHY_BYTES],
		      struct gm_reserved *ret_reserved);

#endif
