/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * publish - put objects into the directory, replace them, take them out.
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
#ifndef GM_DAEMON_MAP_PUBLISH_H
#define GM_DAEMON_MAP_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/daemon/segment/block_alloc.h"
#include "agent/daemon/segment/segment.h"
#include "shm/layers.h"
#include "shm/meshes.h"
#include "shm/replicas.h"

struct gm_daemon;
struct gm_promise;

/* What we know of the directory without reading it back. */
struct gm_directory {
	struct gm_heap heap;
	struct gm_block objects[GM_OBJECTS];
	struct gm_block rows[GM_ROWS]; /* static facts */
};

/*
 * gm_publish_layers - publish a layer map, or replace the one of its name
 *
 * layers	owner_uid is who asks: 0 and the agent's own uid may replace
 *		anything, others only what is theirs.  published may be 0: now.
 *		Not GM_OBJECT_HELD: that takes two steps.
 * ret_why	what was wrong and what to do
 *
 * Returns	0
 *		-EINVAL		the name is empty, too long, or has blanks or
 *				control characters in it
 *		-EACCES		the name belongs to somebody else
 *		-EDQUOT		the uid has as much as it may have
 *		-ENOSPC		the directory or the heap is full, or it is to
 *				be committed and a row has not so much left
 *		-ENODEV, -EOVERFLOW	as gm_ledger_judge(),
 *					gm_ledger_promise()
 *		-ENOMEM
 */
int gm_publish_layers(struct gm_daemon *d, const struct gm_layers *layers,
		      char ret_why[GM_WHY_BYTES], uint64_t *ret_version);

/*
 * A map that is published in two steps, with time for its state file between.
 * It has its block, written and of no slot yet, and its place.  There is one at
 * a time, and while there is nothing else is published; objects may be taken
 * out.
 */
struct gm_put {
	struct gm_block block;
	struct gm_promise *promise; /* NULL: not committed */
	uint32_t slot;
	uint32_t n_layers;
	uint32_t n_rows;    /* of a mesh: its world */
	uint64_t published; /* ns since 1970 */
};

/*
 * gm_publish_prepare - all of gm_publish_layers() that can fail
 *
 * ret_put	pay it back with gm_publish_show() or gm_publish_abandon()
 *
 * Returns	as gm_publish_layers()
 */
int gm_publish_prepare(struct gm_daemon *d, const struct gm_layers *layers,
		       char ret_why[GM_WHY_BYTES], struct gm_put *ret_put);

/* Store the slot.  A held map's holder has been stored before,
 * gm_holders_keep(). */
void gm_publish_show(struct gm_daemon *d, const struct gm_put *put);

/* Nothing has been published. */
void gm_publish_abandon(struct gm_daemon *d, const struct gm_put *put);

/*
 * gm_publish_may_replace - may a uid publish @bytes more under this name?
 *
 * Returns	as gm_publish_layers(), which asks the same
 */
int gm_publish_may_replace(const struct gm_daemon *d, uint32_t kind,
			   const char *name, uint32_t uid, uint64_t bytes,
			   char ret_why[GM_WHY_BYTES]);

/*
 * gm_publish_prepare_mask - the first of the two steps, of a mask
 *
 * mask		as for gm_replicas_build(); the name may be replaced
 * least_version	it will not have a lower one
 *
 * Returns	0, -ENOSPC, -ENOMEM
 */
int gm_publish_prepare_mask(struct gm_daemon *d,
			    const struct gm_mask_image *mask,
			    const struct gm_replica_image *replicas,
			    uint64_t least_version, char ret_why[GM_WHY_BYTES],
			    struct gm_put *ret_put);

/*
 * gm_publish_prepare_mesh - the first of the two steps, of a mesh
 *
 * mesh		its name may be replaced
 * least_version	it will not have a lower one
 *
 * Returns	0, -ENOSPC, -ENOMEM
 */
int gm_publish_prepare_mesh(struct gm_daemon *d, const struct gm_meshes *mesh,
			    uint64_t least_version, char ret_why[GM_WHY_BYTES],
			    struct gm_put *ret_put);

/* Both steps, of a mesh of a state file; its version will be above @version.
 * Returns as gm_publish_prepare_mesh(). */
int gm_publish_restore_mesh(struct gm_daemon *d, const struct gm_meshes *mesh,
			    uint64_t version, char ret_why[GM_WHY_BYTES]);

/*
 * gm_publish_restore - publish a map of a state file
 *
 * version	the map's version will be above this, too
 *
 * Nobody's limits are asked: they were when the map was acknowledged.  What it
 * promises must still fit into the rows.
 *
 * Returns	0, -ENODEV, -ENOSPC, -ENOMEM
 */
int gm_publish_restore(struct gm_daemon *d, const struct gm_layers *layers,
		       uint64_t version, char ret_why[GM_WHY_BYTES]);

/*
 * gm_publish_remove - take an object out of the directory
 *
 * Returns	0
 *		-ENOENT		no object has this name
 *		-EINVAL, -EACCES	as gm_publish_layers()
 */
int gm_publish_remove(struct gm_daemon *d, uint32_t kind, const char *name,
		      uint32_t uid, char ret_why[GM_WHY_BYTES]);

/* Take the held map out whose block starts at @unit and has @version, if a slot
 * names it: its holder is gone. */
void gm_publish_withdraw(struct gm_daemon *d, uint32_t unit, uint64_t version);

/*
 * gm_publish_may_remove - would gm_publish_remove() succeed?
 *
 * Returns	as gm_publish_remove()
 */
int gm_publish_may_remove(const struct gm_daemon *d, uint32_t kind,
			  const char *name, uint32_t uid,
			  char ret_why[GM_WHY_BYTES]);

/* May it do with every object what its owner may?  Root, and our own uid. */
bool gm_publish_privileged(uint32_t uid);

/* The object of a name, or NULL. */
const struct gm_block *gm_publish_find(const struct gm_daemon *d, uint32_t kind,
				       const char *name);

/* A holder let go of @unit: free the block if no slot names it either.
 * @bytes as in its image. */
void gm_publish_unpinned(struct gm_daemon *d, uint32_t unit, uint32_t bytes);

/* Publish a row's static facts; used by devices/rows.c.  Returns 0, -ENOSPC. */
int gm_publish_row(struct gm_daemon *d, const struct gm_row_image *facts);

#endif
