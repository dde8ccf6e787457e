/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Measure round trips of a no-op while both sides are awake, one and many at a
 * time. */

#include "tests/bench/instance/bench.h"

#include <stdio.h>

#include "tests/bench/measure/peer.h"
#include "tests/bench/measure/ticks.h"

#define TRIPS    20000u
#define WARM_UP  2000u
#define SLICES   40u   /* slices; their median counts */
#define PER      4096u /* no-ops in a slice */
#define DEEPEST  256u
#define N_DEPTHS 4

static const uint32_t depths[N_DEPTHS] = { 1, 8, 32, DEEPEST };

/* Series of a round: two quantiles of single trips, then the depths. */
enum { P50, P99, DEPTHS, N_SERIES = DEPTHS + N_DEPTHS };

static const struct gm_figure figures[N_SERIES] = {
	[P50] = { "trip_awake_p50", "ns", GM_AT_MOST, 1.35 },
	[P99] = { "trip_awake_p99", "ns", GM_AT_MOST, 2.0 },
	[DEPTHS + 0] = { "depth_1", "ns per no-op", GM_AT_MOST, 1.35 },
	[DEPTHS + 1] = { "depth_8", "ns per no-op", GM_NO_GOAL, 0 },
	[DEPTHS + 2] = { "depth_32", "ns per no-op", GM_AT_MOST, 0.20 },
	[DEPTHS + 3] = { "depth_256", "ns per no-op", GM_AT_MOST, 0.15 },
};

static int singles(struct gm_bench *bench, struct gm_round *p50,
		   struct gm_round *p99)
{
	static uint32_t ticks[TRIPS];

	for (uint32_t i = 0; i < WARM_UP + TRIPS; i++) {
		uint64_t from = gm_ticks();
		int ret = gm_bench_ping(bench);

		if (ret != 0)
			return ret;
		if (i >= WARM_UP)
			ticks[i - WARM_UP] = (uint32_t)(gm_ticks() - from);
	}
	p50->value = gm_series_ticks_ns(ticks, TRIPS, 0.5);
	p99->value = gm_series_ticks_ns(ticks, TRIPS, 0.99);
	return 0;
}

/* Keep @depth jobs in flight and take completions, until @n more have ended.
 * Returns the number still in flight, or an error. */
static int keep_full(struct gm_bench *bench, uint32_t depth, uint32_t flying,
		     uint32_t n)
{
	static const struct gpumap_job jobs[DEEPEST];
	struct gpumap_done done[DEEPEST];

	for (uint32_t ended = 0; ended < n;) {
		int ret = 0;

		if (flying < depth)
			ret = gpumap_submit(bench->session, bench->rows[0],
					    jobs, depth - flying);
		if (ret != 0)
			return ret;
		flying = depth;
		do
			ret = gpumap_poll(bench->session, done, depth);
		while (ret == 0);
		if (ret < 0)
			return ret;
		ended += (uint32_t)ret;
		flying -= (uint32_t)ret;
	}
	return (int)flying;
}

static int drain(struct gm_bench *bench, uint32_t flying)
{
	struct gpumap_done done[DEEPEST];

	while (flying > 0) {
		int ret = gpumap_poll(bench->session, done, DEEPEST);

		if (ret < 0)
			return ret;
		flying -= (uint32_t)ret;
	}
	return 0;
}

static int at_depth(struct gm_bench *bench, uint32_t depth,
		    struct gm_round *round)
{
	uint32_t ticks[SLICES];
	int flying = keep_full(bench, depth, 0, WARM_UP);

	for (uint32_t i = 0; flying >= 0 && i < SLICES; i++) {
		uint64_t from = gm_ticks();

		flying = keep_full(bench, depth, (uint32_t)flying, PER);
		ticks[i] = (uint32_t)(gm_ticks() - from);
	}
	if (flying < 0)
		return flying;
	round->value = gm_series_ticks_ns(ticks, SLICES, 0.5) / PER;
	return drain(bench, (uint32_t)flying);
}

static int measure(void *arg, struct gm_round *ret_rounds)
{
	struct gm_bench *bench = arg;
	struct gm_peer_facts worker;
	int ret = singles(bench, &ret_rounds[P50], &ret_rounds[P99]);

	for (int i = 0; ret == 0 && i < N_DEPTHS; i++)
		ret = at_depth(bench, depths[i], &ret_rounds[DEPTHS + i]);
	if (ret != 0)
		return ret;
	/* Discard the round if the worker, which may choose, has moved to
	 * another CPU. */
	return gm_peer_facts(bench->workers[0], &worker) != 0 ||
	       worker.cpu != bench->there;
}

int gm_bench_trips(struct gm_bench *bench)
{
	const struct gm_bracket bracket = { .cpu = bench->there,
					    .rounds = bench->rounds,
					    .n = N_SERIES };
	const int cpus[] = { bench->here, bench->there };
	struct gm_series series[N_SERIES] = { 0 };
	struct gm_busy busy;
	char note[96];
	int ret;

	gm_busy_start(&busy, cpus, 2);
	ret = gm_bracket_run(&bracket, measure, bench, series);
	gm_busy_stop(&busy);
	if (ret != 0)
		return gm_bench_fail(bench, ret, "round trips");
	snprintf(note, sizeof(note), "against a raw ping-pong, CPUs %d and %d",
		 bench->here, bench->there);
	for (int i = 0; i < N_SERIES; i++)
		gm_bench_print(bench, &figures[i], &series[i], note);
	return GM_EXIT_OK;
}
