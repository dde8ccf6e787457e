/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * host_kernels - the inner loops of host rows, once per vector width.
 *
 * All versions of a loop give the same bits.  Pointers may have any alignment
 * and lengths any remainder; nothing outside the given bytes is read (but
 * prefetched) or written.
 *
 * The `past` and `pages` versions write past the caches and are ordered before
 * whatever the caller stores next.  They win where the destination would not
 * stay in the caches anyway: a line that is not fetched before it is
 * overwritten is a third less traffic.
 */
#ifndef GM_HOST_KERNELS_H
#define GM_HOST_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpumap.h"

#define GM_HOST_DTYPES (GPUMAP_DTYPE_U64 + 1)

struct gm_host_kernels {
	const char *name;     /* "avx512", "avx2", "plain" */
	bool (*usable)(void); /* this CPU, and the system's saving of state */

	void (*copy)(void *dst, const void *src, size_t bytes);

	/* Line after line, with prefetches.  Best on AMD's CPUs. */
	void (*copy_past)(void *dst, const void *src, size_t bytes);
	/* Four pages side by side, without.  Best on Intel's. */
	void (*copy_pages)(void *dst, const void *src, size_t bytes);

	/* The byte at dst + i becomes byte i % 8 of pattern, as it lies. */
	void (*fill)(void *dst, uint64_t pattern, size_t bytes);
	void (*fill_past)(void *dst, uint64_t pattern, size_t bytes);

	/* Those below: by enum gpumap_dtype of src, NULL where task.c's table
	 * has no such operator. */

	/* dst[i] = alpha * src[i]; they may be the same elements. */
	void (*scale[GM_HOST_DTYPES])(void *dst, const void *src, double alpha,
				      size_t n);

	/* dst[i] += alpha * src[i], product and sum rounded. */
	void (*axpy[GM_HOST_DTYPES])(void *dst, const void *src, double alpha,
				     size_t n);

	/* dst[i] = src[i], then by that of dst. */
	void (*cast[GM_HOST_DTYPES][GM_HOST_DTYPES])(void *dst, const void *src,
						     size_t n);

	/* dst[i] = src[i] + mask[i]; of the same elements, or apart. */
	void (*mask_add[GM_HOST_DTYPES])(void *dst, const void *src,
					 const void *mask, size_t n);
	/* dst[i] = mask[i] ? -infinity : src[i], by bytes of the mask. */
	void (*mask_bool[GM_HOST_DTYPES])(void *dst, const void *src,
					  const void *mask, size_t n);

	/* Floats: to 32 sums, f32 or of f64's f64, in turn; as many rows of
	 * 32. */
	void (*sum_rows[GM_HOST_DTYPES])(void *sums, const void *src,
					 size_t rows);
	/* Integers: to 64 bits, which wrap. */
	void (*sum[GM_HOST_DTYPES])(void *sum, const void *src, size_t n);
	/* The least, or greatest, of @best and the elements; floats as integers
	 * of their size that are in the same order, NaN beyond them all. */
	void (*min[GM_HOST_DTYPES])(void *best, const void *src, size_t n);
	void (*max[GM_HOST_DTYPES])(void *best, const void *src, size_t n);
};

/* Best first, "plain" last; ends with NULL.  For tests, and for choosing. */
extern const struct gm_host_kernels *const gm_host_kernels_all[];

/* The best that this CPU can do. */
const struct gm_host_kernels *gm_host_kernels_choose(void);

/*
 * The faster copy past the caches on this CPU.  The choice depends on the
 * prefetchers: prefetchnta keeps Intel's L2 prefetcher from helping (0.6 times
 * memcpy, measured on Cascade Lake), and makes AMD's copy fastest (1.6 times
 * memcpy, Zen 4).
 */
typedef void gm_host_copy(void *dst, const void *src, size_t bytes);
gm_host_copy *gm_host_copy_large(const struct gm_host_kernels *kernels);

/* One element of 1, 2, 4 or 8 bytes, repeated over the 8 bytes of a pattern. */
uint64_t gm_host_pattern(uint64_t element, uint32_t bytes);

#endif
