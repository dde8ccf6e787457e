/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * epochs - count the changes of a mesh's groups.
 *
 * A group is whole while all of its rows are READY.  Its epoch moves on when it
 * breaks, when it is whole again, when another of its rows comes or goes
 * meanwhile, when an agent starts, and when its mesh is published anew.  An odd
 * epoch says that the group is broken.  The epoch is one word of the mesh's
 * block, and the only one that is stored after the slot names the block: a
 * reader that sees two equal epochs knows that the group did not change in
 * between.
 *
 * No epoch is given out twice.  They count up from this start's series << 32.
 * The series is in a file of the state directory, durably, before the first of
 * them is published: neither a new segment nor another boot goes back.
 */
#ifndef GM_DAEMON_MESHES_EPOCHS_H
#define GM_DAEMON_MESHES_EPOCHS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/daemon/base/loop.h"
#include "agent/common/refusal.h"
#include "agent/daemon/state/dir.h"

struct gm_block;
struct gm_daemon;

struct gm_epochs {
	struct gm_daemon *d;
	uint64_t last;   /* that was given out */
	uint32_t series; /* of this start */
	bool is_claimed; /* the series is in its file; the I/O thread's */

	uint64_t told_ns; /* when those who sleep were last told of a move */
	struct gm_timer tell; /* of those since */
};

/*
 * gm_epochs_start - begin a series above all that were
 *
 * After the state directory and the directory, before the rows: the groups of
 * an agent before us are broken from here on.
 *
 * Returns	0
 *		-ENOMEM
 */
int gm_epochs_start(struct gm_daemon *d, char ret_why[GM_WHY_BYTES]);

/* There will be meshes: claim the series, at the start.  One that cannot be
 * kept is logged, and given out all the same: that is better than no meshes. */
void gm_epochs_expect(struct gm_daemon *d);

/*
 * gm_epochs_claim - write the series to its file, on the I/O thread or at the
 * start
 *
 * Returns	as gm_state_dir_write()
 */
int gm_epochs_claim(struct gm_epochs *epochs, const struct gm_state_dir *dir,
		    char ret_why[GM_WHY_BYTES]);

/* Give every group of a mesh an epoch, before its slot is stored; and those of
 * all meshes that there are. */
void gm_epochs_give(struct gm_daemon *d, const struct gm_block *mesh);
void gm_epochs_give_all(struct gm_daemon *d);

/* The epochs of all groups with this row move on: it is READY now, or no
 * more. */
void gm_epochs_row(struct gm_daemon *d, uint32_t row);

/* A group, as it is now. */
struct gm_epochs_group {
	const struct gm_block *mesh;
	uint32_t index; /* within the mesh */
	uint32_t n;     /* ranks */
	uint64_t epoch;
	uint64_t version; /* of the mesh */
};

/* Returns 0, or -ENOENT: there is no such mesh, or it has no such group. */
int gm_epochs_find(const struct gm_daemon *d, const char *mesh,
		   const char *group, struct gm_epochs_group *ret_group);

/* Is it in the same epoch still?  @group as it was found, however long ago;
 * costs a look at one block. */
bool gm_epochs_is_still(const struct gm_daemon *d,
			const struct gm_epochs_group *group);

/* Move one group's epoch on.  Returns the new one.  Clients that sleep until
 * the map changes are woken now, or a little later for all moves since. */
uint64_t gm_epochs_move(struct gm_daemon *d, const struct gm_block *mesh,
			uint32_t index);

#endif
