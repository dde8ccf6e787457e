/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* number - parse whole numbers as Rust's usize parser does, with its error
 * texts; and sizes. */
#ifndef GM_NUMBER_H
#define GM_NUMBER_H

#include <stddef.h>
#include <stdint.h>

/*
 * gm_number_parse - read @n bytes as one number
 *
 * Decimal, with an optional '+' and leading zeros, below 2^64.
 *
 * Returns	NULL, or the error in the words of Rust programs
 * Threads	any
 */
const char *gm_number_parse(const char *text, size_t n, uint64_t *ret_value);

/*
 * gm_number_size - read digits, and K, M, G or T of 1024, as bytes
 *
 * Small letters will do.
 *
 * Returns	0
 *		-EINVAL	it is no size, or 2^64 bytes or more
 * Threads	any
 */
int gm_number_size(const char *text, uint64_t *ret_bytes);

/* To follow a word that gm_number_size() refuses. */
#define GM_NUMBER_NO_SIZE "is no size: bytes, or K, M, G or T of them"

#endif
