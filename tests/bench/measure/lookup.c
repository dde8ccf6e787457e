/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/bench/measure/lookup.h"

#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/measure/series.h"
#include "tests/bench/measure/ticks.h"

#define CHAIN   64u
#define STEP    97u /* odd, so a chain meets each entry once in 256 */
#define TIMED   16u /* chains between two readings of the clock */
#define SAMPLES (1u << 16)
#define SEALED  1000000u
#define WITHOUT 3 /* exit status: strict mode is not available */

/* The source that a chain reads. */
struct source {
	const struct gpumap *map;
	struct gpumap_view *view;
	const volatile uint32_t *plain;
	uint64_t refreshes;
	int error;
};

/* The table was published again.  Out of line, so that lookups of an unchanged
 * table are not slowed down. */
__attribute__((noinline, cold)) static uint32_t
look_again(struct source *source, uint32_t index)
{
	int row;

	do {
		source->refreshes++;
		source->error = gpumap_view_refresh(source->map, source->view);
		if (source->error != 0 && source->error != -EAGAIN)
			return 0;
		row = gpumap_view_get(source->view, index);
	} while (row < 0);
	return (uint32_t)row;
}

static inline uint32_t from_plain(struct source *source,
				  const volatile uint32_t *table,
				  uint32_t index)
{
	return table[index];
}

static inline uint32_t from_view(struct source *source,
				 const struct gpumap_view *view, uint32_t index)
{
	int row = gpumap_view_get(view, index);

	if (__builtin_expect(row < 0, 0))
		return look_again(source, index);
	return (uint32_t)row;
}

/* Out of line, so that no compiler sees through the loop around it. */
#define CHAINS(from, table)                                                 \
	__attribute__((noinline)) static uint32_t independent_##from(       \
		struct source *source, uint32_t index)                      \
	{                                                                   \
		__typeof__(source->table) own = source->table;              \
		uint32_t sum = 0;                                           \
                                                                            \
		for (uint32_t i = 0; i < CHAIN; i++) {                      \
			index = (index + STEP) % GM_LOOKUP_LAYERS;          \
			sum += from(source, own, index);                    \
		}                                                           \
		return sum;                                                 \
	}                                                                   \
                                                                            \
	__attribute__((noinline)) static uint32_t dependent_##from(         \
		struct source *source, uint32_t index)                      \
	{                                                                   \
		__typeof__(source->table) own = source->table;              \
                                                                            \
		for (uint32_t i = 0; i < CHAIN; i++)                        \
			index = (index + STEP + from(source, own, index)) % \
				GM_LOOKUP_LAYERS;                           \
		return index;                                               \
	}

CHAINS(from_plain, plain)
CHAINS(from_view, view)

typedef uint32_t chain_fn(struct source *source, uint32_t index);

/* Make the compiler assume that the value is used. */
static void use(uint32_t value)
{
	__asm__ volatile("" : : "r"(value));
}

static void run(chain_fn *chain, struct source *source, uint32_t chains,
		struct gm_lookup_cost *ret_cost)
{
	static uint32_t ticks[SAMPLES];
	uint32_t n = chains / TIMED, samples = 0;
	uint64_t cpu_ns = 0;

	n = n > 0 ? n : 1;
	n = n < SAMPLES ? n : SAMPLES;
	/* A tenth more chains, at the beginning, to warm up. */
	for (uint32_t i = 0; i < n + n / 10; i++) {
		uint64_t from;

		if (i == n / 10)
			cpu_ns = gm_ticks_cpu_ns();
		from = gm_ticks();
		for (uint32_t j = 0; j < TIMED; j++)
			use(chain(source, (i * 13 + j) % GM_LOOKUP_LAYERS));
		if (i >= n / 10)
			ticks[samples++] = (uint32_t)(gm_ticks() - from);
	}
	cpu_ns = gm_ticks_cpu_ns() - cpu_ns;
	ret_cost->mean_ns = (double)cpu_ns / samples / (TIMED * CHAIN);
	ret_cost->median_ns =
		gm_series_ticks_ns(ticks, samples, 0.5) / (TIMED * CHAIN);
}

int gm_lookup_view(const struct gpumap *map, struct gpumap_view *view,
		   enum gm_lookup_kind kind, uint32_t chains,
		   struct gm_lookup_cost *ret_cost, uint64_t *ret_refreshes)
{
	static chain_fn *const chain[] = { independent_from_view,
					   dependent_from_view };
	struct source source = { .map = map, .view = view };
	struct gm_lookup_cost cost;

	run(chain[kind], &source, chains, &cost);
	if (source.error != 0 && source.error != -EAGAIN)
		return source.error;
	*ret_cost = cost;
	if (ret_refreshes != NULL)
		*ret_refreshes = source.refreshes;
	return 0;
}

void gm_lookup_plain(enum gm_lookup_kind kind, uint32_t chains,
		     struct gm_lookup_cost *ret_cost)
{
	static chain_fn *const chain[] = { independent_from_plain,
					   dependent_from_plain };
	static volatile uint32_t plain[GM_LOOKUP_LAYERS];
	struct source source = { .plain = plain };

	run(chain[kind], &source, chains, ret_cost);
}

#ifdef GM_SANITIZED

/* A sanitizer's runtime makes system calls of its own. */
int gm_lookup_sealed(const struct gpumap *map, const struct gpumap_view *view)
{
	return -ENOTSUP;
}

#else

/* exit() would end in exit_group(), which strict mode does not allow. */
static void leave(int status)
{
	for (;;)
		syscall(SYS_exit, status);
}

static void look_up_sealed(const struct gpumap *map,
			   const struct gpumap_view *view)
{
	struct gpumap_view own = *view;
	struct source source = { .map = map, .view = &own };

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
		leave(WITHOUT);
	for (uint32_t i = 0; i < SEALED / CHAIN; i++)
		independent_from_view(&source, i % GM_LOOKUP_LAYERS);
	leave(0);
}

int gm_lookup_sealed(const struct gpumap *map, const struct gpumap_view *view)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		look_up_sealed(map, view);
	if (pid < 0)
		return -errno;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGKILL ? -EPERM : -EIO;
	return WEXITSTATUS(status) == 0 ? 0 : -ENOTSUP;
}

#endif
