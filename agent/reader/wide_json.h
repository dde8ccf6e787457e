/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * wide_json - write JSON with integers up to 2^64 - 1.
 *
 * Jansson keeps integers in 63 bits and a sign.  A longer integer is a string
 * of a mark and its digits, which is undone in the output.  The mark is a
 * control character, U+0001; no text that is written contains it.
 */
#ifndef GM_WIDE_JSON_H
#define GM_WIDE_JSON_H

#include <jansson.h>
#include <stdint.h>

#define GM_WIDE_MARK      "\\u0001" /* in the output */
#define GM_WIDE_MARK_CHAR '\001'

/* One line without its end, to free(); NULL if out of memory or not JSON. */
char *gm_wide_dump(const json_t *json);

/* A new reference, NULL if out of memory. */
json_t *gm_wide_integer(uint64_t value);

#endif
