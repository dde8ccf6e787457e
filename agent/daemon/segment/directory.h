/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * directory - the objects that the segment has: blocks, and the slots that name
 * them.
 *
 * The order of shared stores is what makes every instant a good one to die:
 *
 *	rotor			private search goes on behind the block
 *	block, word by word	no slot names it yet
 *	key of the slot		only where the slot names nothing
 *	holder of a held map	it means nothing yet
 *	slot			the publication, and the promise of a commitment
 *	reserved bytes of rows
 *	generation, and wake
 *	holder of the old map	it means nothing any more
 *
 * The old block is free once the slot has moved on and no holder has pinned it.
 * A version is never used twice in a slot, and a name's versions grow also when
 * it was released in between and comes back in another slot.
 */
#ifndef GM_DAEMON_SEGMENT_DIRECTORY_H
#define GM_DAEMON_SEGMENT_DIRECTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/refusal.h"
#include "agent/daemon/segment/block_alloc.h"
#include "agent/daemon/segment/segment.h"

struct gm_daemon;
struct gm_reservation;

/* The directory as the agent knows it without reading it back. */
struct gm_directory {
	struct gm_heap heap;
	struct gm_block objects[GM_OBJECTS];
	struct gm_block rows[GM_ROWS]; /* static facts */
};

/*
 * An object that is published in two steps, with time for its state file
 * between.  The object has its block, written and not yet named by a slot, and
 * its place.  There is one such object at a time, and meanwhile no other gets a
 * place; objects may be taken out, and the cluster published where it is.
 */
struct gm_put {
	struct gm_block block;
	struct gm_reservation *reservation; /* of a map; NULL: not committed */
	uint32_t slot;
};

/*
 * gm_directory_prepare - the first step: a block for an object, filled
 *
 * words	of the block, which begin with its struct gm_object_image.
 *		They receive the version, and the time now where they have none.
 * least_version	the object gets at least this version
 * ret_put	pay it back with gm_directory_store() or
 *		gm_directory_abandon()
 *
 * Returns	0
 *		-ENOSPC		the directory or the heap is full, or versions
 *				are used up
 *		-ENOMEM
 */
int gm_directory_prepare(struct gm_daemon *d, uint64_t *words,
			 uint64_t least_version, char ret_why[GM_WHY_BYTES],
			 struct gm_put *ret_put);

/* The second: store the slot.  A held map's holder has been stored before, see
 * gm_pins_keep(). */
void gm_directory_store(struct gm_daemon *d, const struct gm_put *put);

/* Nothing has been published; the promise is freed, too. */
void gm_directory_abandon(struct gm_daemon *d, const struct gm_put *put);

/*
 * gm_directory_may_replace - may a uid publish @bytes more under this name?
 *
 * ret_why	what was wrong and what to do
 *
 * Returns	0
 *		-EINVAL		the name is empty, too long, or has blanks or
 *				control characters in it
 *		-EACCES		the name belongs to another uid
 *		-EDQUOT		the uid has as much as it may have
 */
int gm_directory_may_replace(const struct gm_daemon *d, uint32_t kind,
			     const char *name, uint32_t uid, uint64_t bytes,
			     char ret_why[GM_WHY_BYTES]);

/*
 * gm_directory_remove - take an object out of the directory
 *
 * Returns	0
 *		-ENOENT		no object has this name
 *		-EINVAL, -EACCES	as gm_directory_may_replace()
 */
int gm_directory_remove(struct gm_daemon *d, uint32_t kind, const char *name,
			uint32_t uid, char ret_why[GM_WHY_BYTES]);

/*
 * gm_directory_may_remove - would gm_directory_remove() succeed?
 *
 * Returns	as gm_directory_remove()
 */
int gm_directory_may_remove(const struct gm_daemon *d, uint32_t kind,
			    const char *name, uint32_t uid,
			    char ret_why[GM_WHY_BYTES]);

/* Take the held map out whose block starts at @unit and has @version, if a slot
 * names it: its holder is gone. */
void gm_directory_withdraw(struct gm_daemon *d, uint32_t unit,
			   uint64_t version);

/* The object of a name, or NULL. */
const struct gm_block *gm_directory_find(const struct gm_daemon *d,
					 uint32_t kind, const char *name);

/* A holder let go of @unit: free the block if no slot names it either.
 * @bytes as in its image. */
void gm_directory_unpinned(struct gm_daemon *d, uint32_t unit, uint32_t bytes);

/* Publish a row's static facts; used by devices/rows.c.  Returns 0, -ENOSPC. */
int gm_directory_row(struct gm_daemon *d, const struct gm_row_image *facts);

#endif
