/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * json_scan - JSON, read once from front to back.
 *
 * For texts that others have written and that may be large: nothing is
 * allocated, nothing recurses, and what is not JSON to the letter is refused.
 * Strings are put in their final form where they lie, which is never longer, so
 * the text must be writable, and is of no use to a second scan.
 *
 *	enter an object		then key, value, key, value ... until there
 *				is none
 *	enter an array		then item, value, item, value ... likewise
 *
 * Who sees a value that it does not care for skips it.  Each call is good for
 * the next only if it has succeeded.
 */
#ifndef GM_LIB_CHECKPOINT_JSON_SCAN_H
#define GM_LIB_CHECKPOINT_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GM_SCAN_DEPTH 2048u /* of what is skipped, most containers in another */

struct gm_scan {
	char *at;
	char *end;
	bool fresh; /* a container has been entered, and nothing in it read */
};

static inline struct gm_scan gm_scan_begin(char *text, size_t n)
{
	return (struct gm_scan){ .at = text, .end = text + n };
}

/* @opening is '{' or '['.  Returns whether the value is such a container. */
bool gm_scan_enter(struct gm_scan *scan, char opening);

/* Returns 1 with a key, whose value comes next; 0 at the end of the object,
 * which is left then; or -EINVAL. */
int gm_scan_key(struct gm_scan *scan, char **ret_key);

/* Returns 1: a value comes next; 0 at the end of the array, which is left then;
 * or -EINVAL. */
int gm_scan_item(struct gm_scan *scan);

/* Returns false when the value is none, of this kind.  Numbers are whole, from
 * 0 to 2^63 - 1; a string has no NUL in it and one behind it, and is UTF-8. */
bool gm_scan_string(struct gm_scan *scan, char **ret_text);
bool gm_scan_number(struct gm_scan *scan, uint64_t *ret_number);
bool gm_scan_skip(struct gm_scan *scan);

/* Is there nothing behind the value that was read last? */
bool gm_scan_at_end(struct gm_scan *scan);

#endif
