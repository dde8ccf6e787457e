/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * state - the durable record of acknowledged masks, as state/state.h says; the
 * segment and the memory of the nodes are its cache.
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
#include "agent/daemon/state/state.h"
#include "shm/layout.h"

struct gm_daemon;
struct gm_masks_rows;

#define GM_MASK_STATE_DATA (UINT64_C(4) << 20) /* bytes that a file takes */

/* The words of a mask's file are its image, without replicas, and the bytes of
 * a loaded tensor, up to GM_MASK_STATE_DATA of them; of a larger one it has
 * only the hash.  Its UUIDs are those of the rows, none where it follows
 * image.map. */
extern const struct gm_state_kind gm_mask_kind;

static inline const struct gm_mask_image *
gm_mask_state_image(const struct gm_state_file *file)
{
	return (const void *)gm_state_file_words(file);
}

/* As struct gm_state_kind has them. */
int gm_mask_state_validate(const struct gm_state_file *file,
			   char ret_why[GM_WHY_BYTES]);
bool gm_mask_state_is_done(struct gm_daemon *d, struct gm_state_file **file);

/* Have each that waits, and whose rows or map are there, made by @restore. */
void gm_mask_state_recheck(struct gm_daemon *d,
			   int (*restore)(struct gm_daemon *d,
					  const struct gm_mask_image *image,
					  const struct gm_masks_rows *rows));

/* Is one of them in the making?  The agent is ready when none is. */
bool gm_mask_state_are_made(const struct gm_daemon *d);

/* For masks/republish.c: does this version still wait?  And: it could not be
 * made, and goes on waiting, unless its file is damaged, which is put aside. */
bool gm_mask_state_waits(const struct gm_daemon *d, const char *name,
			 uint64_t version);
void gm_mask_state_stays(struct gm_daemon *d, const char *name, bool is_damaged,
			 const char *why);

/*
 * gm_mask_state_make - what a mask's file is to be
 *
 * uuids	n_uuids, of its rows
 * data		image->bytes of them, if the file is to have them
 *
 * Returns	the file, to be freed; NULL: no memory
 */
struct gm_state_file *gm_mask_state_make(const struct gm_mask_image *image,
					 uint32_t n_uuids,
					 const uint8_t (*uuids)[16],
					 const void *data);

/*
 * gm_mask_state_read - read a mask's file again, on the I/O thread
 *
 * ret_data	the bytes in it, or NULL
 * ret_file	to be freed
 *
 * Returns	as gm_state_file_read()
 */
int gm_mask_state_read(const struct gm_state_dir *dir, const char *name,
		       char ret_why[GM_WHY_BYTES], const void **ret_data,
		       struct gm_state_file **ret_file);

#endif
