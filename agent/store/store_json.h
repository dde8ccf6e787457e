/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * store_json - JSON as etcd's gateway has it: bytes in base64, and integers of
 * 64 bits as strings.  Fields with the value of their kind that means nothing,
 * 0, false or "", are left out.
 */
#ifndef GM_STORE_JSON_H
#define GM_STORE_JSON_H

#include <jansson.h>

#include "agent/store/store.h"

/* Bytes of the text of @n_ bytes, with the NUL. */
#define GM_STORE_JSON_BASE64(n_) (((n_) + 2) / 3 * 4 + 1)

void gm_store_json_encode(const void *bytes, size_t n, char *ret_text);

/* Returns how many bytes it is, or -EPROTO: none, or more than @most. */
int gm_store_json_decode(const char *text, size_t most, char *ret_bytes);

/* A new string of these bytes in base64, NULL: out of memory. */
json_t *gm_store_json_bytes(const void *bytes, size_t n);

/* The number that a field of @object has, 0 where there is none or another
 * thing. */
uint64_t gm_store_json_number(const json_t *object, const char *field);

/* A new string of a number. */
json_t *gm_store_json_text(uint64_t number);

/* Parse one value.  NULL: it is none, or out of memory. */
json_t *gm_store_json_parse(const char *text, size_t n);

#endif
