/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/host_kernels.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#define GM_HOST_LINE 64

/* All measured: copied at once, read ahead, and streams side by side. */
#define BLOCK             256u
#define AHEAD             2048u
#define PAGE              4096u
#define PAGES             4u

#define VEC_STRING_(name) #name
#define VEC_STRING(name)  VEC_STRING_(name)

/* Memory of clients: any alignment, any type. */
typedef float f32 __attribute__((may_alias, aligned(1)));

/* libc knows this CPU better than we do, while the copy stays in its caches. */
static void copy(void *dst, const void *src, size_t bytes)
{
	memcpy(dst, src, bytes);
}

/*
 * Bytes until @p is the beginning of a cache line.  Only whole lines are
 * written past the caches: of a part of one, the memory controller would have
 * to read the rest back.
 */
static inline size_t to_line(const void *p, size_t bytes)
{
	size_t n = -(uintptr_t)p % GM_HOST_LINE;

	return n < bytes ? n : bytes;
}

/* The pattern as it continues @bytes after its beginning. */
static inline uint64_t turned(uint64_t pattern, size_t bytes)
{
	unsigned char twice[2 * sizeof(pattern)];

	memcpy(twice, &pattern, sizeof(pattern));
	memcpy(twice + sizeof(pattern), &pattern, sizeof(pattern));
	memcpy(&pattern, twice + bytes % sizeof(pattern), sizeof(pattern));
	return pattern;
}

static void fill_short(char *dst, uint64_t pattern, size_t bytes)
{
	for (; bytes >= sizeof(pattern); bytes -= sizeof(pattern)) {
		memcpy(dst, &pattern, sizeof(pattern));
		dst += sizeof(pattern);
	}
	memcpy(dst, &pattern, bytes);
}

uint64_t gm_host_pattern(uint64_t element, uint32_t bytes)
{
	uint64_t pattern = 0;
	unsigned char one[sizeof(pattern)], all[sizeof(pattern)];

	/* The element is in the low bytes, which lie first or last. */
	for (uint32_t i = 0; i < bytes; i++) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
		one[i] = (unsigned char)(element >> 8 * i);
#else
		one[i] = (unsigned char)(element >> 8 * (bytes - 1 - i));
#endif
	}
	for (uint32_t i = 0; i < sizeof(all); i++)
		all[i] = one[i % bytes];
	memcpy(&pattern, all, sizeof(pattern));
	return pattern;
}

static bool usable_plain(void)
{
	return true;
}

#define VEC_NAME   plain
#define VEC_BYTES  16
#define VEC_TARGET /* what every CPU of the architecture has */
#if defined(__x86_64__)
#define VEC_PAST(p, v) _mm_stream_ps((float *)(p), (__m128)(v))
#define VEC_ORDER()    _mm_sfence()
#else
#define VEC_PAST(p, v) (*(f32v_plain *)(p) = (v))
#define VEC_ORDER()    ((void)0)
#endif
#include "agent/device/host_vec.h"

#if defined(__x86_64__)
/* Not every compiler has a name for it.  The system's saving of state is that
 * of AVX. */
static bool has_f16c(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool usable_avx2(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx2") && has_f16c();
}

static bool usable_avx512(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx512f");
}

#define VEC_NAME        avx2
#define VEC_BYTES       32
#define VEC_TARGET      __attribute__((target("avx2,f16c")))
#define VEC_PAST(p, v)  _mm256_stream_ps((float *)(p), (__m256)(v))
#define VEC_TO_F16(v)   _mm256_cvtps_ph((__m256)(v), _MM_FROUND_TO_NEAREST_INT)
#define VEC_FROM_F16(v) _mm256_cvtph_ps((__m128i)(v))
#define VEC_ORDER()     _mm_sfence()
#include "agent/device/host_vec.h"

#define VEC_NAME        avx512
#define VEC_BYTES       64
#define VEC_TARGET      __attribute__((target("avx512f")))
#define VEC_PAST(p, v)  _mm512_stream_ps((float *)(p), (__m512)(v))
#define VEC_TO_F16(v)   _mm512_cvtps_ph((__m512)(v), _MM_FROUND_TO_NEAREST_INT)
#define VEC_FROM_F16(v) _mm512_cvtph_ps((__m256i)(v))
#define VEC_ORDER()     _mm_sfence()
#include "agent/device/host_vec.h"
#endif

const struct gm_host_kernels *const gm_host_kernels_all[] = {
#if defined(__x86_64__)
	&kernels_avx512,
	&kernels_avx2,
#endif
	&kernels_plain,
	NULL,
};

const struct gm_host_kernels *gm_host_kernels_choose(void)
{
	const struct gm_host_kernels *const *k = gm_host_kernels_all;

	while (!(*k)->usable())
		k++;
	return *k;
}

gm_host_copy *gm_host_copy_large(const struct gm_host_kernels *kernels)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_is("amd"))
		return kernels->copy_past;
#endif
	return kernels->copy_pages;
}
