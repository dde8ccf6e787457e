/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * state_text - a mesh as the text of its state file, and back.
 *
 * The first line, names and uuids are written as state/text.h says.  A file
 * has what was asked for: the topology, its rows by uuid, and the groups that
 * were added; the topology's own groups follow from it.
 */
#ifndef GM_DAEMON_MESHES_STATE_TEXT_H
#define GM_DAEMON_MESHES_STATE_TEXT_H

#include "agent/daemon/state/text.h"
#include "agent/daemon/meshes/arrange.h"

/* A mesh whose rows are known by uuid. */
struct gm_mesh_file {
	struct gm_arrange_ask ask; /* rows: room for n_rows */
	uint64_t version;
	uint8_t (*uuids)[16]; /* n_rows */
	void *memory;         /* all that is read is in one piece */
};

/* The name of a mesh's file. */
void gm_mesh_text_name(const char *name, char ret_name[GM_STATE_NAME_BYTES]);

/*
 * gm_mesh_text_make - write a mesh down
 *
 * uuids	of its rows, in the order of the ranks
 * ret_text	to be freed
 *
 * Returns	0, -ENOMEM
 */
int gm_mesh_text_make(const struct gm_meshes *mesh, uint64_t version,
		      uint64_t published, const uint8_t (*uuids)[16],
		      char **ret_text, size_t *ret_bytes);

/*
 * gm_mesh_text_read - read it back
 *
 * file		the name that the text was found under
 * ret_file	whose ask.rows are not known yet; give it back with
 *		gm_mesh_text_free()
 *
 * Returns	as gm_map_text_read()
 */
int gm_mesh_text_read(const char *file, const char *text, size_t bytes,
		      struct gm_mesh_file *ret_file,
		      char ret_why[GM_WHY_BYTES]);

/* Allowed for a zeroed one. */
void gm_mesh_text_free(struct gm_mesh_file *file);

#endif
