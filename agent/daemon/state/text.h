/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * text - the common parts of state files: their first line, names and uuids.
 *
 * The first line is "gpumap-state 1 BYTES SUM": the number of bytes that
 * follow, and their 64-bit FNV-1a in hex.  One JSON object follows.  Rows are
 * named by uuid, because each segment gives out row numbers anew.  Unknown keys
 * are skipped; a key that must not be skipped changes the 1.
 *
 * Names may have bytes that are no UTF-8: these, '%' and characters that a
 * file's name should not have are written as %XX.
 */
#ifndef GM_DAEMON_STATE_TEXT_H
#define GM_DAEMON_STATE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "agent/common/refusal.h"
#include "shm/layout.h"

#define GM_STATE_TEXT_MAX    (8u << 20) /* bytes; twice what a map can need */

#define GM_STATE_SUFFIX      ".layers"
#define GM_STATE_MESH_SUFFIX ".mesh"
#define GM_STATE_MASK_SUFFIX ".mask"

/* "NAME.layers", every byte of the name as three. */
#define GM_STATE_NAME_BYTES (3 * GM_NAME_BYTES + 8)

/* A text of up to GM_NAME_BYTES - 1 bytes as a file's name. */
void gm_state_text_escape(const char *text, char ret_name[GM_STATE_NAME_BYTES]);

/* The name of the object whose file this is, of a kind whose files have this
 * suffix.  Returns false where it is the name of none. */
bool gm_state_text_owner_of(const char *file, const char *suffix,
			    char ret_name[GM_NAME_BYTES]);

/* Write "key":"text", with an end of line; a uuid in quotes. */
void gm_state_text_put(FILE *to, const char *key, const char *text);
void gm_state_text_put_uuid(FILE *to, const uint8_t uuid[16]);

/* Back: a uuid without its quotes; a text, in no more room than it takes, of
 * which the length is returned, or -1. */
bool gm_state_text_uuid(const char *text, uint8_t ret_uuid[16]);
int gm_state_text_unescape(const char *text, char *ret_text);

/*
 * gm_state_text_frame - put the first line before a body
 *
 * to		the open_memstream() that has written @body; closed, and @body
 *		freed, in any case
 *
 * Returns	0, -ENOMEM
 */
int gm_state_text_frame(FILE *to, char **body, const size_t *bytes,
			char **ret_text, size_t *ret_bytes);

/* Where the body begins.  Returns 0, -EBADMSG, -EPROTO as
 * gm_map_text_read(). */
int gm_state_text_unframe(const char *text, size_t bytes, const char **ret_body,
			  char ret_why[GM_WHY_BYTES]);

#endif
