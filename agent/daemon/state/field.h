/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * field - what state files of several kinds have in their JSON.
 */
#ifndef GM_DAEMON_STATE_FIELD_H
#define GM_DAEMON_STATE_FIELD_H

#include "agent/daemon/state/text.h"
#include "agent/plan/wide_json.h"

/* The name of any object, as it was. */
void gm_state_field_name(struct gm_fields *f, const char *key,
			 char ret_name[GM_NAME_BYTES]);

/* How many uuids the list @key has, 1 to GM_ROWS and none twice, which follow
 * by gm_state_field_uuids(); or 0, refused. */
uint32_t gm_state_field_rows(struct gm_fields *f, const char *key);
void gm_state_field_uuids(struct gm_fields *f, const char *key,
			  uint8_t (*ret_uuids)[16]);

/* A file's text while it is read. */
struct gm_state_reading {
	struct gm_fields fields;
	struct gm_plan_error error;
	json_t *json;
};

/*
 * gm_state_reading_begin - have the fields of a text
 *
 * Returns	0, and ret_reading is to be ended; else as gm_map_text_read()
 */
int gm_state_reading_begin(struct gm_state_reading *ret_reading,
			   const char *text, size_t bytes,
			   char ret_why[GM_WHY_BYTES]);

/* No text of the fields is there after it.  Returns 0 where nothing was
 * refused; -EPROTO, -ENOMEM with ret_why. */
int gm_state_reading_end(struct gm_state_reading *reading,
			 char ret_why[GM_WHY_BYTES]);

#endif
