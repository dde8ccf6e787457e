/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * answers - answer requests in JSON, each with one answer in JSON.
 *
 * The rules of gpumap are asked for as text, so that answers of the systems
 * that they come from can be laid beside them.  README.md lists the fields.
 */
#ifndef ANSWERS_H
#define ANSWERS_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/reader/wide_json.h"
#include "lib/model/plan/error.h"
#include "lib/model/plan/spec.h"

/* A request's object, which keeps the first error: a caller reads all fields
 * and checks once. */
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

/* Read a line, in which each integer of more than 63 bits becomes a string of
 * the mark and its digits.  Returns a new reference, or NULL with @ret_err set.
 */
json_t *gm_wide_load(const char *line, size_t n, struct gm_plan_error *ret_err);

/* The value of an integer from 0 to 2^64 - 1; false: it is none. */
bool gm_wide_number(const json_t *value, uint64_t *ret_number);

/* One of @json and @text makes the value of "ok": a new reference, or text to
 * free().  NULL with the reason in @f, or want of memory if @f has none. */
struct answers_kind {
	const char *name;
	json_t *(*json)(struct gm_fields *f);
	char *(*text)(struct gm_fields *f);
};

/* Ends with one without a name. */
extern const struct answers_kind answers_kinds[];

/*
 * answers_line - answer one line
 *
 * line		@n bytes, without the end of the line
 *
 * Returns	{"ok": ...} or {"error": "text"}, without the end of the line,
 *		to free(); NULL if out of memory
 */
char *answers_line(const struct answers_kind *kind, const char *line, size_t n);

json_t *answers_split(struct gm_fields *f);
json_t *answers_spec(struct gm_fields *f);
json_t *answers_plan(struct gm_fields *f);
json_t *answers_auto(struct gm_fields *f); /* of plan */
json_t *answers_choose(struct gm_fields *f);
char *answers_mesh(struct gm_fields *f);
char *answers_mask(struct gm_fields *f);

/* As gm_json_field_number(); those with _or give @otherwise where @key is not
 * given. */
uint64_t answers_number_or(struct gm_fields *f, const char *key,
			   uint64_t otherwise);
int32_t answers_signed(struct gm_fields *f, const char *key);
double answers_real(struct gm_fields *f, const char *key);
bool answers_bool_or(struct gm_fields *f, const char *key, bool otherwise);
const char *answers_text_or(struct gm_fields *f, const char *key,
			    const char *otherwise);
struct gm_fields answers_object(struct gm_fields *f, const char *key);

/* The bytes of the type that the field "dtype" names. */
uint32_t answers_dtype(struct gm_fields *f);

/* A string, also for a text that is no UTF-8. */
json_t *answers_string(const char *text);

/* [[row, layers]...], NULL if out of memory. */
json_t *answers_entries(const struct gm_spec_entry *entries, size_t n);

/* The text of a spec, or null. */
json_t *answers_spec_text(const struct gm_spec *spec);

#endif
