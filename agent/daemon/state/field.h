/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * field - read the JSON fields that state files of several kinds have.
 */
#ifndef GM_DAEMON_STATE_FIELD_H
#define GM_DAEMON_STATE_FIELD_H

#include "agent/daemon/state/text.h"
#include "agent/plan/wide_json.h"

/* Read an object's name, unescaped. */
void gm_state_field_name(struct gm_fields *f, const char *key,
			 char ret_name[GM_NAME_BYTES]);

/* Returns the length of the list @key of UUIDs, 1 to GM_ROWS, or 0 if it is
 * refused.  gm_state_field_uuids() reads the UUIDs, and refuses duplicates. */
uint32_t gm_state_field_rows(struct gm_fields *f, const char *key);
void gm_state_field_uuids(struct gm_fields *f, const char *key,
			  uint8_t (*ret_uuids)[16]);

/* The state of reading one file's text. */
struct gm_state_reading {
	struct gm_fields fields;
	struct gm_plan_error error;
	json_t *json;
};

/*
 * gm_state_reading_begin - parse a text, so that its fields can be read
 *
 * Returns	0, and ret_reading is to be ended; else as gm_map_text_read()
 */
int gm_state_reading_begin(struct gm_state_reading *ret_reading,
			   const char *text, size_t bytes,
			   char ret_why[GM_WHY_BYTES]);

/* Free the fields and their texts.  Returns 0 when no field was refused;
 * -EPROTO, -ENOMEM with ret_why. */
int gm_state_reading_end(struct gm_state_reading *reading,
			 char ret_why[GM_WHY_BYTES]);

#endif
