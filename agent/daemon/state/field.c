/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/state/field.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shm/objects.h"

void gm_state_field_name(struct gm_fields *f, const char *key,
			 char ret_name[GM_NAME_BYTES])
{
	const char *text = gm_json_field_text(f, key);
	char *name = text != NULL ? malloc(strlen(text) + 1) : NULL;

	if (text != NULL && name == NULL)
		f->r = gm_error_no_memory(f->err);
	else if (text != NULL && (gm_state_text_unescape(text, name) < 0 ||
				  gm_object_name(name) == 0))
		gm_json_field_refuse(f, key, "cannot be one");
	if (f->r == 0)
		strcpy(ret_name, name);
	free(name);
}

uint32_t gm_state_field_rows(struct gm_fields *f, const char *key)
{
	size_t n = json_array_size(gm_json_field_list(f, key));

	if (n == 0 || n > GM_ROWS)
		gm_json_field_refuse(f, key, "has none or too many");
	return f->r == 0 ? (uint32_t)n : 0;
}

void gm_state_field_uuids(struct gm_fields *f, const char *key,
			  uint8_t (*ret_uuids)[16])
{
	const json_t *list = gm_json_field_list(f, key);

	for (size_t i = 0; i < json_array_size(list) && f->r == 0; i++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (text == NULL || !gm_state_text_uuid(text, ret_uuids[i]))
			gm_json_field_refuse(f, key, "has what is no uuid");
		for (size_t j = 0; j < i; j++)
			if (memcmp(ret_uuids[i], ret_uuids[j], 16) == 0)
				gm_json_field_refuse(f, key, "has one twice");
	}
}

int gm_state_reading_begin(struct gm_state_reading *ret_reading,
			   const char *text, size_t bytes,
			   char ret_why[GM_WHY_BYTES])
{
	struct gm_state_reading *reading = ret_reading;
	const char *body = NULL;
	int ret = gm_state_text_unframe(text, bytes, &body, ret_why);

	if (ret != 0)
		return ret;
	memset(reading, 0, sizeof(*reading));
	reading->json = gm_wide_load(body, bytes - (size_t)(body - text),
				     &reading->error);
	reading->fields = (struct gm_fields){
		.object = reading->json,
		.name = "",
		.err = &reading->error,
		.r = reading->json == NULL ? reading->error.code : 0,
	};
	return reading->json == NULL ? gm_state_reading_end(reading, ret_why)
				     : 0;
}

int gm_state_reading_end(struct gm_state_reading *reading,
			 char ret_why[GM_WHY_BYTES])
{
	int ret = reading->fields.r;

	json_decref(reading->json);
	if (ret == 0)
		return 0;
	return gm_why(ret_why, ret == -ENOMEM ? ret : -EPROTO, "%s",
		      reading->error.text);
}
