/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * device_kinds - what kinds of rows there are, and what rows of each can do.
 *
 * A row's flags say what the row can do, and those that ask read them.  Its
 * kind alone decides its name, and what is its driver's own.
 */
#ifndef GM_DEVICE_KINDS_H
#define GM_DEVICE_KINDS_H

#include <stdint.h>

#define GM_DEVICE_KINDS 7u /* enum gpumap_device_kind ends before it */

struct gm_device_kind {
	const char *name; /* for people, and in node files */
	uint32_t flags;   /* GPUMAP_DEVICE_*, of each row of the kind */
};

/* Never NULL: a number of no kind is "unknown", without flags. */
const struct gm_device_kind *gm_device_kind(uint32_t kind);

/* Where rows of one class are taken: as numbers, these flags of cards are the
 * highest, and those of dummies 0. */
#define GM_DEVICE_CLASS (GPUMAP_DEVICE_SERVES | GPUMAP_DEVICE_CARD)

#endif
