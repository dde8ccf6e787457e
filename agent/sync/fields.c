/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/sync/fields.h"

#include <stdio.h>
#include <string.h>

int gm_fields_set_text(json_t *object, const char *key, const char *text)
{
	return json_object_set_new(object, key, gm_wide_text(text));
}

int gm_fields_set_number(json_t *object, const char *key, uint64_t number)
{
	return json_object_set_new(object, key, gm_wide_integer(number));
}

int gm_fields_set_hex(json_t *object, const char *key, const uint8_t *bytes,
		      size_t n)
{
	char text[65];

	for (size_t i = 0; i < n; i++) {
		text[2 * i] = GM_FIELDS_DIGITS[bytes[i] >> 4];
		text[2 * i + 1] = GM_FIELDS_DIGITS[bytes[i] & 15];
	}
	text[2 * n] = '\0';
	return gm_fields_set_text(object, key, text);
}

json_t *gm_fields_or_nothing(json_t *object, int r)
{
	if (r == 0)
		return object;
	json_decref(object);
	return NULL;
}

uint64_t gm_fields_number(struct gm_fields *f, const char *key, uint64_t most)
{
	uint64_t number = gm_json_field_number(f, key);

	if (number > most)
		gm_json_field_refuse(f, key, "is too large");
	return f->r == 0 ? number : 0;
}

static uint8_t digit(char c)
{
	return (uint8_t)(strchr(GM_FIELDS_DIGITS, c) - GM_FIELDS_DIGITS);
}

void gm_fields_hex(struct gm_fields *f, const char *key, uint8_t *ret_bytes,
		   size_t n)
{
	const char *text = gm_json_field_text(f, key);

	if (text == NULL)
		return;
	if (strlen(text) != 2 * n || strspn(text, GM_FIELDS_DIGITS) != 2 * n) {
		gm_json_field_refuse(f, key,
				     "has not so many hexadecimal digits");
		return;
	}
	for (size_t i = 0; i < n; i++)
		ret_bytes[i] = (uint8_t)(digit(text[2 * i]) * 16 +
					 digit(text[2 * i + 1]));
}

void gm_fields_id(struct gm_fields *f, const char *key, const char *allowed,
		  char *ret_id, size_t bytes)
{
	const char *text = gm_json_field_text(f, key);

	if (text == NULL)
		return;
	if (strlen(text) != bytes - 1 || strspn(text, allowed) != bytes - 1)
		gm_json_field_refuse(f, key, "is none");
	else
		memcpy(ret_id, text, bytes);
}

const json_t *gm_fields_list(struct gm_fields *f, const char *key, size_t most)
{
	const json_t *list = gm_json_field_list(f, key);

	if (json_array_size(list) > most)
		gm_json_field_refuse(f, key, "has too many");
	return f->r == 0 ? list : NULL;
}

struct gm_fields gm_fields_item(struct gm_fields *f, const char *key,
				const json_t *list, size_t i, char name[32])
{
	const json_t *object = json_array_get(list, i);

	snprintf(name, 32, "%s[%zu].", key, i);
	if (!json_is_object(object))
		gm_json_field_refuse(f, key, "has one that is no object");
	return (struct gm_fields){ object, name, f->err, f->r };
}
