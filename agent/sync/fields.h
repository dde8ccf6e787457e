/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * fields - write the fields of values of the store, and check them.
 *
 * The setters return what json_object_set_new() does.  The others refuse a
 * field as those of wide_json.h do, and return 0 or nothing then.
 */
#ifndef GM_SYNC_FIELDS_H
#define GM_SYNC_FIELDS_H

#include "agent/plan/wide_json.h"

#define GM_FIELDS_DIGITS "0123456789abcdef"

int gm_fields_set_text(json_t *object, const char *key, const char *text);
int gm_fields_set_number(json_t *object, const char *key, uint64_t number);

/* At most 32 bytes. */
int gm_fields_set_hex(json_t *object, const char *key, const uint8_t *bytes,
		      size_t n);

/* The object, or NULL without it where @r is not 0. */
json_t *gm_fields_or_nothing(json_t *object, int r);

/* A number of at most @most. */
uint64_t gm_fields_number(struct gm_fields *f, const char *key, uint64_t most);

/* Exactly @n bytes. */
void gm_fields_hex(struct gm_fields *f, const char *key, uint8_t *ret_bytes,
		   size_t n);

/* A text of exactly @bytes - 1 characters, all among @allowed. */
void gm_fields_id(struct gm_fields *f, const char *key, const char *allowed,
		  char *ret_id, size_t bytes);

/* A list of at most @most items, NULL where it is none. */
const json_t *gm_fields_list(struct gm_fields *f, const char *key, size_t most);

/* The object that is an item of a list.  @name: room for what messages call
 * it. */
struct gm_fields gm_fields_item(struct gm_fields *f, const char *key,
				const json_t *list, size_t i, char name[32]);

#endif
