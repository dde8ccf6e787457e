/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * ledger - how much of each row committed layer maps reserve.
 *
 * A reservation belongs to its map: it begins with the store of the slot that
 * names a block with GM_OBJECT_COMMITTED, and ends with the store that names
 * another.  The ledger is private and follows the directory, step by step while
 * the agent runs and from the blocks after an adoption, so that no death can
 * tear it.
 *
 * A new reservation is checked against bytes that are free on its rows and not
 * reserved, and never lets a row's sum grow over its total.  Both may shrink
 * later, when other processes take memory or a device changes: reservations
 * stay then, and new ones wait.
 *
 * Memory that the processes of a reservation have already is missing in the
 * free bytes and need not be kept free once more: only the rest of the
 * reservation is; credit.h says how much that is; where it is not known, it is
 * nothing, and the memory counts twice, which is the safe side.
 */
#ifndef GM_DAEMON_ACCOUNT_LEDGER_H
#define GM_DAEMON_ACCOUNT_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/refusal.h"
#include "shm/layers.h"

struct gm_daemon;
struct gm_put;

#define GM_LEDGER_NOBODY UINT32_MAX /* no slot */

/* The bytes that one map reserves on its rows. */
struct gm_reservation {
	uint32_t uid;
	uint32_t n;
	uint64_t since_ns; /* when it began; of an adopted one, the agent */
	uint64_t came_ns;  /* when it was asked for; 0: when it is put */
	struct gm_promise {
		uint32_t row;
		uint64_t bytes;
		/* of these, what its processes have allocated for themselves,
		 * and what their sessions have */
		uint64_t own_bytes;
		uint64_t session_bytes;
	} of[]; /* each row once, none with 0 bytes */
};

struct gm_ledger {
	uint64_t promised[GM_ROWS];
	uint64_t used[GM_ROWS];    /* of these, in use */
	bool has_changed[GM_ROWS]; /* what is in use is to be counted anew */
	struct gm_reservation *of[GM_OBJECTS]; /* NULL: none */
};

/* By how much a promise was too large, and where; 0 bytes: not for that. */
struct gm_shortage {
	uint64_t bytes;
	uint32_t row;
};

/*
 * gm_ledger_reservation - sum up what a map charges
 *
 * ret_reservation	NULL for a map that is not committed; to be freed, or
 *		to be given to gm_ledger_put()
 *
 * Returns	0
 *		-EOVERFLOW	2^63 bytes or more of one row
 *		-ENOMEM
 */
int gm_ledger_reservation(const struct gm_layers *layers,
			  char ret_why[GM_WHY_BYTES],
			  struct gm_reservation **ret_reservation);

/*
 * gm_ledger_avail - bytes of a row that may be reserved
 *
 * slot		of the map that asks: its own reservation counts as free, even
 *		where memory was taken since.  GM_LEDGER_NOBODY: a map without
 *		a reservation
 *
 * Returns	free bytes less those that are reserved and not in use, plus the
 *		reservation of @slot; 0 for a row that is lost or has failed
 */
uint64_t gm_ledger_avail(const struct gm_daemon *d, uint32_t row,
			 uint32_t slot);

/* Is the row there, and neither lost nor failed?  The second returns 0 or
 * -ENODEV. */
bool gm_ledger_has_row(const struct gm_daemon *d, uint32_t row);
int gm_ledger_check_row(const struct gm_daemon *d, uint32_t row,
			char ret_why[GM_WHY_BYTES]);

/* The rows without what is reserved for good, and those who hold the rest. */
struct gm_ledger_look {
	/* Bytes of each row, less what is reserved without a holder, and what
	 * sessions have shared to be kept. */
	uint64_t most[GM_ROWS];
	/* Bytes that processes have which are none of ours. */
	uint64_t strange[GM_ROWS];
	uint32_t n;
	/* By the time at which it was asked for, the latest first. */
	const struct gm_reservation *held[GM_HOLDERS];
};

/* Cost		some ten microseconds, and a look at each session of each row */
void gm_ledger_look(const struct gm_daemon *d, struct gm_ledger_look *ret_look);

/* So much of a row has been promised to maps of this uid: the sum over its
 * promises. */
struct gm_promise gm_ledger_share(const struct gm_daemon *d, uint32_t uid,
				  uint32_t row);

/* The promise to the map in @slot; NULL: none, or not of this row. */
struct gm_promise *gm_ledger_promise(const struct gm_daemon *d, uint32_t slot,
				     uint32_t row);

/* The bytes of a row's promises that are in use were counted anew: see
 * credit.h. */
void gm_ledger_recounted(struct gm_daemon *d, uint32_t row);

/*
 * gm_ledger_admit - may this be promised now?
 *
 * promise	may be NULL
 * slot		as for gm_ledger_avail()
 * ret_shortage	set with -ENOSPC; may be NULL
 *
 * Returns	0
 *		-ENODEV		a row is not there, is lost, or has failed
 *		-ENOSPC		a row has not so much left
 *		-EDQUOT		the uid would have more of a row than it may
 */
int gm_ledger_admit(const struct gm_daemon *d,
		    const struct gm_reservation *reservation, uint32_t slot,
		    char ret_why[GM_WHY_BYTES],
		    struct gm_shortage *ret_shortage);

/* Bytes of each row that a uid's maps reserve, without the map in @slot. */
void gm_ledger_shares(const struct gm_daemon *d, uint32_t uid, uint32_t slot,
		      uint64_t ret_has[GM_ROWS]);

/* Bytes of a row that a uid may reserve besides the @has that it has reserved;
 * UINT64_MAX and less @has: as many as there are. */
uint64_t gm_ledger_share_left(const struct gm_daemon *d, uint32_t uid,
			      uint32_t row, uint64_t has);

/* Would a uid that has @bytes of a row besides these be within its share?
 * Returns 0 or -EDQUOT. */
int gm_ledger_check_share(const struct gm_daemon *d, uint32_t uid, uint32_t row,
			  uint64_t bytes, uint64_t has,
			  char ret_why[GM_WHY_BYTES]);

/*
 * gm_ledger_fits - could it be kept, whatever is free now?
 *
 * For promises that were made before: only the totals of rows count.
 *
 * Returns	0, -ENODEV, -ENOSPC	as gm_ledger_admit()
 */
int gm_ledger_fits(const struct gm_daemon *d,
		   const struct gm_reservation *reservation, uint32_t slot,
		   char ret_why[GM_WHY_BYTES]);

/*
 * gm_ledger_put - a slot has moved on: its promise is @reservation now
 *
 * promise	ours from here on; NULL: none
 *
 * To be called after the store of the slot and before readers are woken: the
 * rows say what is reserved when this returns.
 */
void gm_ledger_put(struct gm_daemon *d, uint32_t slot,
		   struct gm_reservation *reservation);

/* Event; see base/events.h. */
void gm_ledger_slot_stored(struct gm_daemon *d, uint32_t slot,
			   const struct gm_put *put);

/*
 * gm_ledger_adopt - the promises of the directory, once rows are known
 *
 * Returns	0, -ENOMEM, -EPROTO
 */
int gm_ledger_adopt(struct gm_daemon *d);

void gm_ledger_exit(struct gm_daemon *d);

#endif
