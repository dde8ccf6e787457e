/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * json_scan - parse JSON once from front to back.
 *
 * The text comes from another program and may be large: the scanner allocates
 * nothing, does not recurse, and refuses everything that is not strict JSON.
 * The scanner decodes strings in place, where the result is never longer, so
 * the text must be writable and cannot be scanned again.
 *
 * Python's json module, which writes and reads all of a model's files but the
 * headers, knows NaN, Infinity and halves of surrogate pairs as well: @python.
 *
 *	enter an object		then key, value, key, value ... until there
 *				is none
 *	enter an array		then item, value, item, value ... likewise
 *
 * A caller that does not need a value skips it.  A call may follow another only
 * if that has succeeded.
 */
#ifndef GM_LIB_CHECKPOINT_JSON_SCAN_H
#define GM_LIB_CHECKPOINT_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most nested containers in a skipped value: as many as Python reads. */
#define GM_SCAN_DEPTH 1000u

struct gm_scan {
	char *at;
	char *end;
	bool fresh;  /* a container has been entered, and nothing read in it */
	bool python; /* for the caller to set: what Python reads is JSON */
};

static inline struct gm_scan gm_scan_begin(char *text, size_t n)
{
	return (struct gm_scan){ .at = text, .end = text + n };
}

/* Does the next value, which is not read, begin with one of @bytes? */
bool gm_json_scan_is(struct gm_scan *scan, const char *bytes);

/* @opening is '{' or '['.  Returns whether the value is such a container. */
bool gm_json_scan_enter(struct gm_scan *scan, char opening);

/* Returns 1 with a key, whose value comes next; 0 at the end of the object,
 * which is left then; or -EINVAL. */
int gm_json_scan_key(struct gm_scan *scan, char **ret_key);

/* Returns 1: a value comes next; 0 at the end of the array, which is left then;
 * or -EINVAL. */
int gm_json_scan_item(struct gm_scan *scan);

/* Returns false when the value is not of this kind.  Numbers are whole, from 0
 * to 2^64 - 1; a string has no NUL in it and one behind it, and is UTF-8.  With
 * @python it may have a NUL, as two bytes C0 80, and half a pair, as three. */
bool gm_json_scan_string(struct gm_scan *scan, char **ret_text);
bool gm_json_scan_number(struct gm_scan *scan, uint64_t *ret_number);
bool gm_json_scan_skip(struct gm_scan *scan);

/* Is the text at its end behind the value that was read last? */
bool gm_json_scan_at_end(struct gm_scan *scan);

#endif
