/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * wide_json - read and write JSON objects on one line with integers up to 2^64
 * - 1.
 *
 * Jansson keeps integers in 63 bits and a sign.  Before it reads a line, each
 * longer integer is replaced by a string of a mark and the digits; in its
 * output the replacement is undone.  The mark is a control character, U+0001.
 * A string that is read and begins with it would be taken for a number only
 * where one is expected; no text that this program writes contains it.
 *
 * Callers read fields through a struct gm_fields, which keeps the first error:
 * a caller reads all fields and checks once.
 */
#ifndef GM_WIDE_JSON_H
#define GM_WIDE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/plan/error.h"

/* Returns a new reference, or NULL with @ret_err set. */
json_t *gm_wide_load(const char *line, size_t n, struct gm_plan_error *ret_err);

/* One line without its end, to free(); NULL if out of memory or not JSON. */
char *gm_wide_dump(const json_t *json);

/* A new reference, NULL if out of memory. */
json_t *gm_wide_integer(uint64_t value);

/* The value of an integer from 0 to 2^64 - 1; false: it is none. */
bool gm_wide_number(const json_t *value, uint64_t *ret_number);

struct gm_fields {
	const json_t *object;
	const char *name; /* of the object in messages, with a dot, or "" */
	struct gm_plan_error *err;
	int r; /* 0, or the first error */
};

/* Does @key exist, and is it not null? */
bool gm_json_field_given(const struct gm_fields *f, const char *key);

/* Each returns 0, NULL or false once there was an error. */
uint64_t gm_json_field_number(struct gm_fields *f, const char *key);
const char *gm_json_field_text(struct gm_fields *f, const char *key);
const json_t *gm_json_field_list(struct gm_fields *f, const char *key);

/* Element @i of @list, a list of @n numbers named @key in messages. */
void gm_json_field_tuple(struct gm_fields *f, const char *key,
			 const json_t *list, size_t i, uint64_t *ret_numbers,
			 size_t n);

/* Store that @key is wrong, unless there was an error before.  Returns f->r. */
int gm_json_field_refuse(struct gm_fields *f, const char *key, const char *why);

#endif
