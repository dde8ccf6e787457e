/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * admission - the transaction of PUBLISH and RESERVE: publish a layer map,
 * reserve what it charges, and let it wait for room.
 *
 * One transaction at a time changes reservations, so what is admitted rests on
 * the ledger until the slot is stored, except for memory that becomes free
 * meanwhile, and for memory that other programs take, which the ledger sees
 * when it checks.
 */
#ifndef GM_DAEMON_MAP_ADMISSION_H
#define GM_DAEMON_MAP_ADMISSION_H

#include "agent/daemon/account/ledger.h"
#include "agent/daemon/base/connection.h"
#include "agent/daemon/map/admit_place.h"
#include "agent/daemon/map/reserve.h"
#include "agent/daemon/map/transaction.h"

struct gm_admission {
	struct gm_change change;
	struct gm_room map;
	struct gm_admit_place *place;
	bool may_wait; /* with a refusal: another time there may be room */
	struct gm_shortage shortage;

	/* PUBLISH. */
	uint64_t rows_given;
	bool only_waits;
	const uint32_t *others; /* rows any of which would do */
	uint32_t n_others;
	uint64_t least_bytes; /* of all rows together */

	/* RESERVE. */
	bool is_reserve;
	struct gm_reserve_ask reserve;
	struct gm_reserved reserved;

	struct gm_layers layers; /* the map, and what it charges */
	uint32_t *rows;          /* of each layer */
	struct gm_charge_image charges[GM_ROWS];
	uint64_t left[GM_ROWS]; /* bytes of each charge's row */
	bool holds;             /* a place among the holders */
	uint32_t holder;

	uint64_t tail[]; /* the request's */
};

/* One of a request, whose body begins with the map, with a copy of its tail.
 * NULL: no memory. */
struct gm_admission *gm_admission_new(struct gm_connection *c,
				      const struct gm_request *r);

/* Ask for it, or with a @status free it.  Returns 0 or a negative status. */
int gm_admission_add(struct gm_connection *c, const struct gm_request *r,
		     struct gm_admission *admission, int status);

#endif
