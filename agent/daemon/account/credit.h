/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * credit - the part of each reservation that its processes have already.
 *
 * A reservation's processes are those that are bound to it, and their
 * descendants: the holder of its map, and processes of its user, or of root,
 * that have pinned the map.  Their memory of a row is credited to the
 * reservation:
 *
 *   - the memory that the driver says they have allocated for themselves, by
 *     their lines of descent, and the memory of their sessions;
 *   - at most what the reservation has of the row;
 *   - to one reservation only: a process is credited to the nearest process in
 *     its line that is bound to a reservation of the row, and its bytes to that
 *     one's reservations in turn;
 *   - if the figures are younger than the reservation: its process may have had
 *     the memory before it reserved any;
 *   - all processes together at most what is in use on the row, less what
 *     strangers have, and what others have beyond reservations.  A process that
 *     frees and allocates again between two questions to the driver would
 *     otherwise be credited with memory that was free at the reading between
 *     them.
 *
 * At the instant at which the free bytes of a row were read, the processes of
 * its reservations have had at least what is credited: free bytes and credit
 * together are never more than is free to be reserved.
 */
#ifndef GM_DAEMON_ACCOUNT_CREDIT_H
#define GM_DAEMON_ACCOUNT_CREDIT_H

#include <stdint.h>
#include <sys/types.h>

#include "agent/common/probe_wire.h"
#include "shm/layout.h"

struct gm_daemon;

/* A process that is bound to the reservation in a slot. */
struct gm_credit_bound {
	uint32_t place; /* among the holders */
	uint32_t slot;
	uint64_t since_ns; /* the process has had its pid since then */
	struct gm_lineage_member process; /* start: it began then or before */
};

/* One look at a row. */
struct gm_credit_look {
	uint64_t looked_ns;
	uint64_t used_bytes; /* of the row, by any process */
	uint32_t n;
	struct gm_probe_process of[GM_PROBE_PROCESSES];
};

struct gm_credits {
	uint32_t n_bound;
	struct gm_credit_bound bound[GM_HOLDERS]; /* in no order */
	/* NULL: the row's driver has told of no process yet */
	struct gm_credit_look *looks[GM_ROWS]; /* that count */
	struct gm_credit_look *heard[GM_ROWS]; /* that are not complete */
	uint64_t noted_ns[GM_ROWS]; /* when sessions' bytes were noted */
};

/* A process of this place among the holders is bound to the map in @slot, or no
 * longer. */
void gm_credit_bind(struct gm_daemon *d, uint32_t place, uint32_t slot,
		    const struct gm_lineage_member *process);
void gm_credit_unbind(struct gm_daemon *d, uint32_t place);

/* The probe tells of a process that uses a row, and then of the look that this
 * is part of.  Figures count from the next gm_credit_row_read() on. */
void gm_credit_process(struct gm_daemon *d, uint32_t row,
		       const struct gm_probe_process *process);
void gm_credit_look(struct gm_daemon *d, uint32_t row,
		    const struct gm_probe_moving *moving);

/* The free bytes of a row have been read, in this turn or by the probe. */
void gm_credit_row_read(struct gm_daemon *d, uint32_t row);

/* Event; see base/events.h; after the ledger's.  Another process may be the
 * nearest now. */
void gm_credit_slot_stored(struct gm_daemon *d);

/* A session has left the row; or a process was bound to the map in a slot that
 * is there already. */
void gm_credit_recount(struct gm_daemon *d, uint32_t row);
void gm_credit_recount_slot(struct gm_daemon *d, uint32_t slot);

/* The row is given to another device. */
void gm_credit_forget(struct gm_daemon *d, uint32_t row);

void gm_credit_exit(struct gm_daemon *d);

#endif
