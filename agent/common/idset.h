/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * idset - a set of small numbers: CPUs, or NUMA nodes.
 *
 * The text form is the kernel's list format, "0-3,8": what sysfs prints, what
 * taskset takes and what an administrator writes.  The bits lie as the kernel
 * wants them in sched_setaffinity(2) and set_mempolicy(2), so no call needs a
 * second form.  A set is 1 KiB and lives where its owner lives; nothing here
 * allocates.
 */
#ifndef GM_IDSET_H
#define GM_IDSET_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define GM_IDSET_MAX       8192 /* ids 0 to 8191: the most CPUs of Linux */

#define GM_IDSET_WORD_BITS (sizeof(unsigned long) * CHAR_BIT)

struct gm_idset {
	unsigned long word[GM_IDSET_MAX / GM_IDSET_WORD_BITS];
};

/*
 * gm_idset_parse - read a list such as "0-3,8"
 *
 * text		numbers and ranges, comma separated.  Spaces around the whole
 *		are allowed, as is the newline that sysfs ends with; so is
 *		nothing at all, which is how sysfs writes the empty set.
 *
 * Returns	how many ids the set has, 0 for an empty text
 *		-EINVAL		not a list: a sign, a word, a range that runs
 *				backwards, a comma with nothing beside it
 *		-ERANGE		an id of GM_IDSET_MAX or more
 */
int gm_idset_parse(const char *text, struct gm_idset *ret_set);

/*
 * gm_idset_format - write the shortest list, "" for the empty set
 *
 * Returns	the length of the text without its end
 *		-ENOBUFS	it needs more than @bytes; nothing is written
 */
int gm_idset_format(const struct gm_idset *set, char *ret_text, size_t bytes);

/* Ids outside 0 to GM_IDSET_MAX - 1 are in no set; adding one does nothing. */
bool gm_idset_has(const struct gm_idset *set, int id);
void gm_idset_add(struct gm_idset *set, int id);

int gm_idset_count(const struct gm_idset *set);

/* Returns the first member above @after (-1 to start), or -1 at the end. */
int gm_idset_next(const struct gm_idset *set, int after);

/* Keep in @set only what is in @other too.  Returns how many are left. */
int gm_idset_and(struct gm_idset *set, const struct gm_idset *other);

#endif
