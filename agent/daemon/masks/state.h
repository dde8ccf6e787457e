/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * state - the durable record of acknowledged masks, as map/state.h is for layer
 * maps; the segment and the memory of the nodes are its cache.
 *
 * Every mask has a file, which is on the disk before the slot is stored, and
 * off it before the slot is cleared.  A mask that follows a map is published
 * anew without a new file: its version grows past that of its file.
 *
 * Masks that the segment still has stay as they are.  Others are made again
 * when the loop runs, by their rule or from their file, because they may be
 * large.  A loaded tensor that is too large for a file ends with the segment,
 * which is logged.
 */
#ifndef GM_DAEMON_MASKS_STATE_H
#define GM_DAEMON_MASKS_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/refusal.h"
#include "agent/daemon/masks/state_text.h"
#include "agent/daemon/state/state.h"

struct gm_daemon;
struct gm_masks_rows;

/* Have each that waits, and whose rows or map are there, made by @restore. */
void gm_mask_state_recheck(struct gm_daemon *d,
			   int (*restore)(struct gm_daemon *d,
					  const struct gm_mask_file *file,
					  const struct gm_masks_rows *rows));

/* Is one of them in the making?  The agent is ready when none is. */
bool gm_mask_state_are_made(const struct gm_daemon *d);

/* For masks/republish.c: does this version still wait?  And: it could not be
 * made, as change->status says, and goes on waiting. */
bool gm_mask_state_waits(const struct gm_daemon *d, const char *name,
			 uint64_t version);
void gm_mask_state_stays(struct gm_daemon *d, const char *name, int status,
			 const char *why);

/* As struct gm_state_kind has them. */
int gm_mask_state_restore(struct gm_daemon *d, char ret_why[GM_WHY_BYTES]);
bool gm_mask_state_names(const struct gm_daemon *d, const uint8_t uuid[16]);
void gm_mask_state_exit(struct gm_daemon *d);
int gm_mask_state_may_replace(const struct gm_daemon *d, const char *name,
			      uint32_t uid, char ret_why[GM_WHY_BYTES],
			      bool *ret_is_waiting);
void gm_mask_state_replaced(struct gm_daemon *d, const char *name);

/* Write a mask's file, read it, and remove it if there is one, on the I/O
 * thread.  Return as gm_state_dir_write(), gm_state_dir_read() and
 * gm_mask_text_read(), and gm_state_dir_remove(). */
int gm_mask_state_write(const struct gm_state_dir *dir,
			const struct gm_mask_file *file,
			char ret_why[GM_WHY_BYTES]);
int gm_mask_state_read(const struct gm_state_dir *dir, const char *name,
		       struct gm_mask_file *ret_file,
		       char ret_why[GM_WHY_BYTES]);
int gm_mask_state_remove(const struct gm_state_dir *dir, const char *name,
			 char ret_why[GM_WHY_BYTES]);

#endif
