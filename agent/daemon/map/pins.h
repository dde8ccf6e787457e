/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * pins - who has pinned which block, and whose life holds which map.
 *
 * A pinned block is not reused until its holder lets go or the kernel says that
 * the holder is gone (pidfd).  A held map leaves the directory when its holder
 * is gone.  The table lies in the segment, so that the next agent knows of
 * both; what it says about a process counts only if the process that has the
 * pid began no later than the table says.
 *
 * Memory of a committed map's rows is credited to the map if its process holds
 * the map, or has pinned it and may use it: see account/credit.h.
 *
 * The entry of a held map is stored before the slot that names its block, and
 * freed after the slot has moved on: there is no instant at which a held map
 * has no holder.  An entry whose block no slot names means nothing.
 */
#ifndef GM_DAEMON_MAP_PINS_H
#define GM_DAEMON_MAP_PINS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/daemon/segment/segment.h"

struct gm_daemon;
struct gm_holder_process;

struct gm_holders {
	struct gm_holder_image table[GM_HOLDERS]; /* as in the segment */
	struct gm_holder_process *of[GM_HOLDERS];
	uint64_t last_claim;
};

/* The answer to a pin. */
struct gm_pin {
	uint64_t claim; /* never used twice */
	uint64_t unit;
	uint64_t version;
};

/* A process for which a block is pinned. */
struct gm_pin_owner {
	pid_t pid; /* as we see it */
	uid_t uid;
};

/*
 * gm_pins_pin - keep the present block of an object for a process
 *
 * ret_why	what was wrong and what to do
 *
 * Returns	0
 *		-ENOENT		no object has this name
 *		-EDQUOT		the uid's pins or pinned bytes are used up
 *		-ENOSPC		the table is full
 *		-ESRCH		there is no such process, or it lives where we
 *				cannot see it end
 *		-ENOMEM, -EMFILE
 */
int gm_pins_pin(struct gm_daemon *d, struct gm_pin_owner owner, uint32_t kind,
		const char *name, char ret_why[GM_WHY_BYTES],
		struct gm_pin *ret_pin);

/* Returns 0, or -ENOENT: @pid has no such pin. */
int gm_pins_unpin(struct gm_daemon *d, pid_t pid, uint64_t claim);

/*
 * gm_pins_hold - have a process watched, and a place for what it will hold
 *
 * ret_place	pay it back with gm_pins_keep() or gm_pins_let_go()
 *
 * Returns	0, -EDQUOT, -ENOSPC, -ESRCH, -ENOMEM, -EMFILE as
 *		gm_pins_pin()
 */
int gm_pins_hold(struct gm_daemon *d, pid_t pid, uid_t uid,
		 char ret_why[GM_WHY_BYTES], uint32_t *ret_place);

/* The process holds @block, which the next store of a slot will name.  If the
 * process has ended since gm_pins_hold(), the loop removes the map in its
 * next turn. */
void gm_pins_keep(struct gm_daemon *d, uint32_t place,
		  const struct gm_block *block);

/* Before gm_pins_keep(): from then on the process is in its start window, for
 * so long. */
void gm_pins_set_start(struct gm_daemon *d, uint32_t place, uint64_t start_ns);

/* The start window of the process that holds the map in this slot is over.
 * Returns 0, or -ENOENT: none holds it. */
int gm_pins_started(struct gm_daemon *d, uint32_t slot);

/* The entry of a process in its start window on a row, but for that of the map
 * in @slot; NULL: there is none. */
const struct gm_holder_image *gm_pins_starting(const struct gm_daemon *d,
					       uint32_t row, uint32_t slot);

/* The process that holds the map in this slot; 0: none does. */
pid_t gm_pins_holder(const struct gm_daemon *d, uint32_t slot);

/* The process will hold nothing. */
void gm_pins_let_go(struct gm_daemon *d, uint32_t place);

/* Events; see base/events.h.  A map that no slot names any more is held by no
 * process, and nothing is credited to it; and is the block that starts at @unit
 * pinned? */
void gm_pins_object_moved(struct gm_daemon *d, const struct gm_block *old,
			  const struct gm_block *new_block);
bool gm_pins_have(const struct gm_daemon *d, uint32_t unit);

/*
 * gm_pins_adopt - take over the claims in an adopted segment
 *
 * Those whose process is gone are freed, and what they held taken out, after
 * every living holder's pidfd is open again.
 *
 * Returns	0, -ENOMEM, -EMFILE
 */
int gm_pins_adopt(struct gm_daemon *d);

void gm_pins_exit(struct gm_daemon *d);

#endif
