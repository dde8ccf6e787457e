/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * state_text - a layer map as the text of its state file, and back.
 *
 * The first line, names and uuids are written as state/text.h says.  Rows are
 * named by uuid, for their numbers are given out anew with every segment.
 */
#ifndef GM_DAEMON_MAP_STATE_TEXT_H
#define GM_DAEMON_MAP_STATE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/common/refusal.h"
#include "agent/daemon/state/text.h"
#include "shm/layers.h"

/* A map whose rows are known by uuid. */
struct gm_state_map {
	struct gm_layers layers;
	uint64_t version;
	uint8_t (*uuids)[16]; /* of the row of each charge */
	uint8_t base[16];     /* uuid of layers.base */
	void *memory;         /* all that is read is in one piece */
};

/* The name of a map's file. */
void gm_map_text_name(const char *name, char ret_name[GM_STATE_NAME_BYTES]);

/* The name of the map whose file this is.  Returns false where it is no map's
 * file. */
bool gm_map_text_owner(const char *file, char ret_name[GM_NAME_BYTES]);

/*
 * gm_map_text_make - write a map down
 *
 * map		each layer's row and the base are among its charges' rows
 * ret_text	to be freed
 *
 * Returns	0, -ENOMEM
 */
int gm_map_text_make(const struct gm_state_map *map, char **ret_text,
		     size_t *ret_bytes);

/*
 * gm_map_text_read - read it back
 *
 * file		the name that the text was found under
 * ret_map	its rows are places among its charges: layers.rows[i] and
 *		layers.base mean charges[that], and charges[i].row is i.  Give
 *		it back with gm_state_map_free().
 * ret_why	why it is refused
 *
 * Returns	0
 *		-EBADMSG	torn: it is not as long as it says, or its sum
 *				is wrong
 *		-EPROTO		foreign: no state file, of a later version, of
 *				another name, or it makes no sense
 *		-ENOMEM
 */
int gm_map_text_read(const char *file, const char *text, size_t bytes,
		     struct gm_state_map *ret_map, char ret_why[GM_WHY_BYTES]);

/* Allowed for a zeroed one. */
void gm_state_map_free(struct gm_state_map *map);

#endif
