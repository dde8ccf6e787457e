/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mask_batch - answer a request for a mask in JSON with its rows in JSON.
 *
 * The fields are listed in gpumapctl(1) and are stable.  Equal rows that follow
 * each other are written once, with their number.
 */
#ifndef GM_MASK_BATCH_H
#define GM_MASK_BATCH_H

#include <stddef.h>
#include <stdint.h>

/* Most elements that one answer writes out. */
#define GM_MASK_BATCH_ELEMENTS (UINT64_C(1) << 28)

/*
 * gm_mask_batch - answer one line
 *
 * line		@n bytes, without the end of the line
 *
 * Returns	the answer without the end of the line, to free(); NULL if out
 *		of memory
 * Threads	any
 */
char *gm_mask_batch(const char *line, size_t n);

#endif
