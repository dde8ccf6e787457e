/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Read a request's line, with integers up to 2^64 - 1, and its fields. */

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/plan/number.h"
#include "tests/answers/answers.h"

#define LONG_DIGITS 19u /* from here on an integer may not fit jansson's */
#define REMEDY      "correct it"

/* Bytes of the number at @at, and whether it is an integer of many digits. */
static size_t measure(const char *at, const char *end, bool *ret_long)
{
	size_t n = 0, digits = 0;
	bool whole = true;

	for (; at + n < end && (isalnum((unsigned char)at[n]) || at[n] == '+' ||
				at[n] == '-' || at[n] == '.');
	     n++) {
		digits += isdigit((unsigned char)at[n]) != 0;
		whole = whole && isdigit((unsigned char)at[n]);
	}
	/* JSON knows no leading zeros: leave those for jansson to refuse. */
	*ret_long = whole && digits >= LONG_DIGITS && at[0] != '0';
	return n;
}

/* Bytes of the string at @at, its quotes included. */
static size_t skip_string(const char *at, const char *end)
{
	size_t n = 1;

	while (at + n < end && at[n] != '"')
		n += at[n] == '\\' && at + n + 1 < end ? 2 : 1;
	return n + (at + n < end);
}

/* A long number of 19 bytes grows by 8: twice the line is enough. */
static size_t widen(const char *line, size_t n, char *to)
{
	const char *at = line, *end = line + n;
	char *start = to;

	while (at < end) {
		size_t step = 1;
		bool is_long = false;

		if (*at == '"')
			step = skip_string(at, end);
		else if (isdigit((unsigned char)*at) || *at == '-')
			step = measure(at, end, &is_long);
		if (is_long)
			to = stpcpy(to, "\"" GM_WIDE_MARK);
		memcpy(to, at, step);
		to += step;
		if (is_long)
			*to++ = '"';
		at += step;
	}
	return (size_t)(to - start);
}

json_t *gm_wide_load(const char *line, size_t n, struct gm_plan_error *ret_err)
{
	char *text = malloc(2 * n + 1);
	json_error_t error;
	json_t *json;

	if (!text) {
		gm_error_no_memory(ret_err);
		return NULL;
	}
	n = widen(line, n, text);
	json = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
	free(text);
	if (!json) {
		char *near = strstr(error.text, " near ");

		/* The rest quotes the widened line, with its marks: drop it. */
		if (near)
			*near = '\0';
		gm_error_set(ret_err, -EINVAL, REMEDY, "not a JSON object: %s",
			     error.text);
		return NULL;
	}
	if (!json_is_object(json)) {
		json_decref(json);
		gm_error_set(ret_err, -EINVAL, REMEDY, "not a JSON object");
		return NULL;
	}
	return json;
}

int gm_json_field_refuse(struct gm_fields *f, const char *key, const char *why)
{
	if (f->r == 0)
		f->r = gm_error_set(f->err, -EINVAL, REMEDY, "%s%s %s", f->name,
				    key, why);
	return f->r;
}

bool gm_wide_number(const json_t *value, uint64_t *ret_number)
{
	if (json_is_integer(value) && json_integer_value(value) >= 0) {
		*ret_number = (uint64_t)json_integer_value(value);
		return true;
	}
	if (!json_is_string(value) ||
	    json_string_value(value)[0] != GM_WIDE_MARK_CHAR)
		return false;
	return !gm_number_parse(json_string_value(value) + 1,
				json_string_length(value) - 1, ret_number);
}

bool gm_json_field_given(const struct gm_fields *f, const char *key)
{
	const json_t *value = json_object_get(f->object, key);

	return value && !json_is_null(value);
}

uint64_t gm_json_field_number(struct gm_fields *f, const char *key)
{
	uint64_t value = 0;

	if (!gm_wide_number(json_object_get(f->object, key), &value))
		gm_json_field_refuse(f, key,
				     "is not a whole number from 0 to 2^64-1");
	return f->r ? 0 : value;
}

const char *gm_json_field_text(struct gm_fields *f, const char *key)
{
	const json_t *value = json_object_get(f->object, key);

	if (!json_is_string(value))
		gm_json_field_refuse(f, key, "is not a string");
	else if (strlen(json_string_value(value)) != json_string_length(value))
		gm_json_field_refuse(f, key, "has a NUL character");
	return f->r ? NULL : json_string_value(value);
}

const json_t *gm_json_field_list(struct gm_fields *f, const char *key)
{
	const json_t *value = json_object_get(f->object, key);

	if (!json_is_array(value))
		gm_json_field_refuse(f, key, "is not a list");
	return f->r ? NULL : value;
}

void gm_json_field_tuple(struct gm_fields *f, const char *key,
			 const json_t *list, size_t i, uint64_t *ret_numbers,
			 size_t n)
{
	const json_t *tuple = json_array_get(list, i);
	bool good = json_array_size(tuple) == n;

	for (size_t j = 0; j < n; j++)
		good = good && gm_wide_number(json_array_get(tuple, j),
					      &ret_numbers[j]);
	if (!good)
		gm_json_field_refuse(f, key,
				     "is not a list of lists of so many whole "
				     "numbers from 0 to 2^64-1");
}
