/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* fnv.h - the hash FNV-1a of 64 bits: the sum of a state file, and UUIDs that
 * follow from names. */
#ifndef GM_TEST_SUPPORT_FNV_H
#define GM_TEST_SUPPORT_FNV_H

#include <stddef.h>
#include <stdint.h>

#define FNV_OF_NOTHING UINT64_C(14695981039346656037)

/* The hash of bytes behind those that have the hash @from. */
static inline uint64_t fnv_more(uint64_t from, const void *data, size_t n)
{
	const unsigned char *at = data;

	while (n--)
		from = (from ^ *at++) * UINT64_C(1099511628211);
	return from;
}

static inline uint64_t fnv(const void *data, size_t n)
{
	return fnv_more(FNV_OF_NOTHING, data, n);
}

#endif
