/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * bench_host_kernels - how fast host rows copy, beside what could be had.
 *
 * Each size is copied by the backend, in the slices that a worker makes, and
 * in the same turn by glibc's memcpy and by two bare loops of non-temporal
 * stores, so that noise meets all of them: in order with prefetchnta 2 KiB
 * ahead, and four pages side by side.  Which of the two is the machine's best
 * depends on its prefetchers, so the baseline of a large copy is the better
 * one, and the first is reported apart.  Copies that stay in the caches are
 * measured against memcpy.  One thread, bound to the CPU that it is on.
 *
 * Prints one JSON object per line.  Value and baseline are medians; the ratio
 * is the median of the turns' ratios, which neighbours disturb less.
 */

#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "agent/device/device.h"
#include "gpumap.h"

#define SLICE    (UINT64_C(1) << 20)
#define LARGEST  (UINT64_C(256) << 20)
#define TURNS    9
#define MIN_WORK (UINT64_C(8) << 20) /* bytes copied between two clock reads */

static struct gm_device *dev;
static char *dst, *src;

enum { OURS, MEMCPY, IN_ORDER, SIDE_BY_SIDE, WAYS };

/* The bare loops for this CPU; without any, they are not measured. */
static void by_memcpy(uint64_t bytes)
{
	memcpy(dst, src, bytes);
}

static void (*in_order)(uint64_t bytes) = by_memcpy;
static void (*side_by_side)(uint64_t bytes) = by_memcpy;
static bool have_bare;

static void ours(uint64_t bytes)
{
	struct gm_task task = { .op = GPUMAP_OP_COPY,
				.dtype = GPUMAP_DTYPE_U8,
				.dst = dst,
				.src = src,
				.n = bytes };

	for (uint64_t at = 0; at < bytes; at += SLICE) {
		uint64_t n = bytes - at < SLICE ? bytes - at : SLICE;

		if (gm_host_backend.run(dev, &task, at, n) < 0)
			abort();
	}
}

#if defined(__x86_64__)
/* Bare: aligned whole blocks, no judging, in the widest vectors there are. */
#define BARE(isa, width, move)                                               \
	__attribute__((target(#isa))) static void in_order_##isa(uint64_t n) \
	{                                                                    \
		for (uint64_t at = 0; at < n; at += 256) {                   \
			for (int i = 0; i < 256; i += 64)                    \
				_mm_prefetch(src + at + 2048 + i,            \
					     _MM_HINT_NTA);                  \
			for (int i = 0; i < 256; i += (width))               \
				move(dst + at + i, src + at + i);            \
		}                                                            \
		_mm_sfence();                                                \
	}                                                                    \
                                                                             \
	__attribute__((target(#isa))) static void beside_##isa(uint64_t n)   \
	{                                                                    \
		for (uint64_t at = 0; at < n; at += 16384)                   \
			for (int i = 0; i < 4096; i += 256)                  \
				for (int p = i; p < 16384; p += 4096)        \
					for (int j = p; j < p + 256;         \
					     j += (width))                   \
						move(dst + at + j,           \
						     src + at + j);          \
		_mm_sfence();                                                \
	}

#define MOVE32(to, from)                     \
	_mm256_stream_si256((__m256i *)(to), \
			    _mm256_load_si256((const __m256i *)(from)))
#define MOVE64(to, from) \
	_mm512_stream_si512((__m512i *)(to), _mm512_load_si512(from))

BARE(avx2, 32, MOVE32)
BARE(avx512f, 64, MOVE64)

static bool find_bare(void)
{
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f")) {
		in_order = in_order_avx512f;
		side_by_side = beside_avx512f;
		return true;
	}
	if (__builtin_cpu_supports("avx2")) {
		in_order = in_order_avx2;
		side_by_side = beside_avx2;
		return true;
	}
	return false;
}
#else
static bool find_bare(void)
{
	return false;
}
#endif

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void once(int way, uint64_t bytes)
{
	if (way == OURS)
		ours(bytes);
	else if (way == MEMCPY)
		by_memcpy(bytes);
	else if (way == IN_ORDER)
		in_order(bytes);
	else
		side_by_side(bytes);
	/* As far as the compiler knows, the bytes are used. */
	__asm__ volatile("" : : "r"(dst) : "memory");
}

static double once_s(int way, uint64_t bytes)
{
	uint64_t rounds = bytes < MIN_WORK ? MIN_WORK / bytes : 1;
	double start;

	/* What fits into the caches is measured in the caches. */
	if (rounds > 1)
		once(way, bytes);
	start = now_s();
	for (uint64_t i = 0; i < rounds; i++)
		once(way, bytes);
	return (now_s() - start) / (double)rounds;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static const char *machine(void)
{
	static char name[128] = "unknown CPU";
	char line[256];
	FILE *file = fopen("/proc/cpuinfo", "re");

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "model name : %127[^\n\"\\]", name) == 1)
			break;
	}
	if (file)
		fclose(file);
	return name;
}

struct result {
	uint64_t bytes;
	double seconds[WAYS][TURNS];
};

static double median(const double *values)
{
	double sorted[TURNS];

	memcpy(sorted, values, sizeof(sorted));
	qsort(sorted, TURNS, sizeof(double), by_value);
	return sorted[TURNS / 2];
}

static double gb_per_s(const struct result *r, int way)
{
	return (double)r->bytes / median(r->seconds[way]) / 1e9;
}

static void print(const struct result *r, const char *what, int baseline,
		  double goal, const char *note)
{
	double ratios[TURNS], ratio;

	for (int turn = 0; turn < TURNS; turn++)
		ratios[turn] =
			r->seconds[baseline][turn] / r->seconds[OURS][turn];
	ratio = median(ratios);
	printf("{\"name\": \"%s_%" PRIu64 "k\", \"value\": %.2f, "
	       "\"unit\": \"GB/s\", \"baseline\": %.2f, \"ratio\": %.3f, "
	       "\"goal\": %.2f, \"reached\": %s, \"note\": \"%s\", "
	       "\"machine\": \"%s, %ld CPUs\"}\n",
	       what, r->bytes >> 10, gb_per_s(r, OURS), gb_per_s(r, baseline),
	       ratio, goal, ratio >= goal ? "true" : "false", note, machine(),
	       sysconf(_SC_NPROCESSORS_ONLN));
	fflush(stdout);
}

static void measure(uint64_t bytes)
{
	struct result r = { .bytes = bytes };

	for (int turn = 0; turn < TURNS; turn++) {
		for (int way = 0; way < WAYS; way++)
			r.seconds[way][turn] = once_s(way, bytes);
	}
	if (bytes < 16 << 20) {
		print(&r, "host_copy_vs_memcpy", MEMCPY, 0.95,
		      "stays in the caches");
		return;
	}
	if (have_bare) {
		bool order =
			gb_per_s(&r, IN_ORDER) > gb_per_s(&r, SIDE_BY_SIDE);

		print(&r, "host_copy_vs_bare", order ? IN_ORDER : SIDE_BY_SIDE,
		      0.95,
		      order ? "the better bare loop: in order"
			    : "the better bare loop: side by side");
		print(&r, "host_copy_vs_bare_prefetch", IN_ORDER, 0.95,
		      "bare loop in order with prefetchnta");
	}
	print(&r, "host_copy_vs_memcpy", MEMCPY, 1.60, "past the caches");
}

static char *map(void)
{
	/* The prefetch of the bare loop runs a little over the end. */
	char *p = mmap(NULL, LARGEST + 4096, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return p;
}

int main(void)
{
	static const uint64_t sizes[] = { 64 << 10, 1 << 20, 16 << 20,
					  LARGEST };
	struct gm_device_config config = { 0 };
	cpu_set_t here;
	int rc;

	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	sched_setaffinity(0, sizeof(here), &here);
	rc = gm_host_backend.open(&config, &dev);
	if (rc < 0) {
		fprintf(stderr, "bench_host_kernels: %s\n", strerror(-rc));
		return 1;
	}
	have_bare = find_bare();
	dst = map();
	src = map();
	memset(src, 7, LARGEST);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		measure(sizes[i]);
	gm_host_backend.close(dev);
	return 0;
}
