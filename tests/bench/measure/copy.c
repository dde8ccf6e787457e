/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/bench/measure/copy.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "tests/bench/measure/peer.h"
#include "tests/bench/measure/ticks.h"

#define UNIT 16384u /* four pages */

static void by_memcpy(void *dst, const void *src, size_t bytes)
{
	memcpy(dst, src, bytes);
	/* Make the compiler assume that the bytes are used. */
	__asm__ volatile("" : : "r"(dst) : "memory");
}

#if defined(__x86_64__)
/* Copy aligned whole blocks without checks, in vectors of @width bytes. */
#define BARE(isa, width, move)                                               \
	__attribute__((target(#isa))) static void in_order_##isa(            \
		void *dst, const void *src, size_t bytes)                    \
	{                                                                    \
		const char *from = src;                                      \
		char *to = dst;                                              \
                                                                             \
		for (size_t at = 0; at < bytes; at += 256) {                 \
			for (size_t i = at; i < at + 256; i += 64)           \
				_mm_prefetch(from + 2048 + i, _MM_HINT_NTA); \
			for (size_t i = at; i < at + 256; i += (width))      \
				move(to + i, from + i);                      \
		}                                                            \
		_mm_sfence();                                                \
	}                                                                    \
                                                                             \
	__attribute__((target(#isa))) static void side_by_side_##isa(        \
		void *dst, const void *src, size_t bytes)                    \
	{                                                                    \
		const char *from = src;                                      \
		char *to = dst;                                              \
                                                                             \
		for (size_t at = 0; at < bytes; at += UNIT)                  \
			for (size_t i = at; i < at + 4096; i += 256)         \
				for (size_t p = i; p < i + UNIT; p += 4096)  \
					for (size_t j = p; j < p + 256;      \
					     j += (width))                   \
						move(to + j, from + j);      \
		_mm_sfence();                                                \
	}

#define MOVE32(to, from)                     \
	_mm256_stream_si256((__m256i *)(to), \
			    _mm256_load_si256((const __m256i *)(from)))
#define MOVE64(to, from) \
	_mm512_stream_si512((__m512i *)(to), _mm512_load_si512(from))

BARE(avx2, 32, MOVE32)
BARE(avx512f, 64, MOVE64)

gm_copy_fn *gm_copy_loop(enum gm_copy_way way)
{
	__builtin_cpu_init();
	if (way == GM_COPY_MEMCPY)
		return by_memcpy;
	if (__builtin_cpu_supports("avx512f"))
		return way == GM_COPY_IN_ORDER ? in_order_avx512f
					       : side_by_side_avx512f;
	if (__builtin_cpu_supports("avx2"))
		return way == GM_COPY_IN_ORDER ? in_order_avx2
					       : side_by_side_avx2;
	return NULL;
}
#else
gm_copy_fn *gm_copy_loop(enum gm_copy_way way)
{
	return way == GM_COPY_MEMCPY ? by_memcpy : NULL;
}
#endif

/* Add whole vectors of @width bytes, aligned. */
#define AXPY(name, width, target)                                         \
	target static void name(void *dst, const void *src, size_t bytes) \
	{                                                                 \
		typedef float vector __attribute__((vector_size(width))); \
		const vector *from = src;                                 \
		vector *to = dst;                                         \
                                                                          \
		for (size_t i = 0; i < bytes / (width); i++)              \
			to[i] += from[i] * GM_COPY_ALPHA;                 \
	}

AXPY(axpy_16, 16, )
#if defined(__x86_64__)
AXPY(axpy_32, 32, __attribute__((target("avx2"))))
AXPY(axpy_64, 64, __attribute__((target("avx512f"))))
#endif

static gm_copy_fn *axpy_loop(void)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f"))
		return axpy_64;
	if (__builtin_cpu_supports("avx2"))
		return axpy_32;
#endif
	return axpy_16;
}

const char *gm_copy_name(enum gm_copy_way way)
{
	static const char *const names[GM_COPY_WAYS] = {
		[GM_COPY_MEMCPY] = "memcpy",
		[GM_COPY_IN_ORDER] = "in order with prefetchnta",
		[GM_COPY_SIDE_BY_SIDE] = "four pages side by side",
	};

	return names[way];
}

/* Threads wait here until all of them exist, or one of them could not be
 * made. */
struct gate {
	pthread_mutex_t closed;
	pthread_barrier_t start;
	int error;
};

struct thread {
	pthread_t id;
	struct gate *gate;
	gm_copy_fn *loop;
	char *dst;
	const char *src;
	size_t bytes;
	uint32_t rounds;
	int cpu;
	uint64_t from; /* ticks */
	uint64_t to;
};

static void *work(void *arg)
{
	struct thread *t = arg;

	pthread_mutex_lock(&t->gate->closed);
	pthread_mutex_unlock(&t->gate->closed);
	if (t->gate->error != 0)
		return NULL;
	gm_peer_pin(t->cpu);
	/* Warm up: data that fits into the caches is measured in the caches. */
	if (t->rounds > 1)
		t->loop(t->dst, t->src, t->bytes);
	pthread_barrier_wait(&t->gate->start);
	t->from = gm_ticks();
	for (uint32_t i = 0; i < t->rounds; i++)
		t->loop(t->dst, t->src, t->bytes);
	t->to = gm_ticks();
	return NULL;
}

static double took_ns(const struct thread *threads, uint32_t n)
{
	uint64_t from = threads[0].from, to = threads[0].to;

	for (uint32_t i = 1; i < n; i++) {
		from = threads[i].from < from ? threads[i].from : from;
		to = threads[i].to > to ? threads[i].to : to;
	}
	return (double)(to - from) * gm_ticks_ns();
}

/* Thread @i's part: whole units; the last thread has the rest. */
static struct thread part(const struct gm_copy *copy, gm_copy_fn *loop,
			  struct gate *gate, uint32_t i)
{
	size_t each = copy->bytes / copy->n_threads / UNIT * UNIT;

	return (struct thread){
		.gate = gate,
		.loop = loop,
		.dst = (char *)copy->dst + each * i,
		.src = (const char *)copy->src + each * i,
		.bytes =
			i + 1 < copy->n_threads ? each : copy->bytes - each * i,
		.rounds = copy->rounds,
		.cpu = copy->cpus[i],
	};
}

static int run(const struct gm_copy *copy, gm_copy_fn *loop, double *ret_ns)
{
	struct thread threads[GM_COPY_THREADS];
	struct gate gate = { .closed = PTHREAD_MUTEX_INITIALIZER };
	uint32_t n = 0;

	if (loop == NULL)
		return -ENOTSUP;
	pthread_barrier_init(&gate.start, NULL, copy->n_threads);
	pthread_mutex_lock(&gate.closed);
	while (gate.error == 0 && n < copy->n_threads) {
		struct thread *t = &threads[n];

		*t = part(copy, loop, &gate, n);
		gate.error = pthread_create(&t->id, NULL, work, t);
		n += gate.error == 0;
	}
	pthread_mutex_unlock(&gate.closed);
	for (uint32_t i = 0; i < n; i++)
		pthread_join(threads[i].id, NULL);
	pthread_barrier_destroy(&gate.start);
	pthread_mutex_destroy(&gate.closed);
	if (gate.error != 0)
		return -gate.error;
	*ret_ns = took_ns(threads, n) / copy->rounds;
	return 0;
}

int gm_copy_run(const struct gm_copy *copy, enum gm_copy_way way,
		double *ret_ns)
{
	return run(copy, gm_copy_loop(way), ret_ns);
}

int gm_copy_run_axpy(const struct gm_copy *copy, double *ret_ns)
{
	return run(copy, axpy_loop(), ret_ns);
}
