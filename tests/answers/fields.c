/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <stdlib.h>
#include <string.h>

#include "tests/answers/answers.h"

uint64_t answers_number_or(struct gm_fields *f, const char *key,
			   uint64_t otherwise)
{
	return gm_json_field_given(f, key) ? gm_json_field_number(f, key)
					   : otherwise;
}

int32_t answers_signed(struct gm_fields *f, const char *key)
{
	const json_t *value = json_object_get(f->object, key);
	json_int_t n = json_integer_value(value);

	if (!json_is_integer(value) || n < INT32_MIN || n > INT32_MAX)
		gm_json_field_refuse(f, key,
				     "is not a whole number of 32 bits");
	return f->r ? 0 : (int32_t)n;
}

double answers_real(struct gm_fields *f, const char *key)
{
	const json_t *value = json_object_get(f->object, key);

	if (!json_is_number(value))
		gm_json_field_refuse(f, key, "is not a number");
	return f->r ? 0 : json_number_value(value);
}

bool answers_bool_or(struct gm_fields *f, const char *key, bool otherwise)
{
	const json_t *value = json_object_get(f->object, key);

	if (!gm_json_field_given(f, key))
		return otherwise;
	if (!json_is_boolean(value))
		gm_json_field_refuse(f, key, "is not true or false");
	return f->r == 0 && json_is_true(value);
}

const char *answers_text_or(struct gm_fields *f, const char *key,
			    const char *otherwise)
{
	return gm_json_field_given(f, key) ? gm_json_field_text(f, key)
					   : otherwise;
}

struct gm_fields answers_object(struct gm_fields *f, const char *key)
{
	const json_t *value = json_object_get(f->object, key);

	if (!json_is_object(value))
		gm_json_field_refuse(f, key, "is not an object");
	return (struct gm_fields){ value, f->name, f->err, f->r };
}

json_t *answers_string(const char *text)
{
	json_t *json = json_string(text);
	char *copy;

	if (json)
		return json;
	copy = strdup(text);
	if (!copy)
		return NULL;
	/* A name was cut within a character, or never was UTF-8. */
	for (char *s = copy; *s; s++)
		if (*s & 0x80)
			*s = '?';
	json = json_string(copy);
	free(copy);
	return json;
}
