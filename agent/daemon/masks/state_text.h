/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * state_text - a mask as the text of its state file, and back.
 *
 * The first line, names and uuids are written by state/text.h.  A file has the
 * request: the rule, the rows by uuid or the name of the map, and the bytes of
 * a loaded tensor in base64, up to GM_MASK_TEXT_DATA of them.  For a larger
 * tensor it has only the sum.
 */
#ifndef GM_DAEMON_MASKS_STATE_TEXT_H
#define GM_DAEMON_MASKS_STATE_TEXT_H

#include "agent/daemon/state/text.h"
#include "shm/replicas.h"

#define GM_MASK_TEXT_DATA (UINT64_C(4) << 20)

/* A mask whose rows are known by uuid. */
struct gm_mask_file {
	/* With .object.name, .owner_uid and .published, and without
	 * replicas. */
	struct gm_mask_image image;
	uint64_t version;
	uint32_t n_rows;      /* 0: image.map's */
	uint8_t (*uuids)[16]; /* n_rows */
	void *data;           /* image.bytes; NULL: made by rule, or too many */
	void *memory;         /* the uuids' */
};

/* Do the bytes of such a mask go into its file? */
bool gm_mask_text_has_data(const struct gm_mask_image *image);

/* The name of a mask's file. */
void gm_mask_text_name(const char *name, char ret_name[GM_STATE_NAME_BYTES]);

/*
 * gm_mask_text_make - write a mask down
 *
 * file		data is of account where gm_mask_text_has_data()
 * ret_text	to be freed
 *
 * Returns	0, -ENOMEM
 */
int gm_mask_text_make(const struct gm_mask_file *file, char **ret_text,
		      size_t *ret_bytes);

/*
 * gm_mask_text_read - read it back
 *
 * name		of the file that the text was found in
 * ret_file	give it back with gm_mask_file_free()
 *
 * Returns	as gm_map_text_read()
 */
int gm_mask_text_read(const char *name, const char *text, size_t bytes,
		      struct gm_mask_file *ret_file,
		      char ret_why[GM_WHY_BYTES]);

/* Allowed for a zeroed one. */
void gm_mask_file_free(struct gm_mask_file *file);

#endif
