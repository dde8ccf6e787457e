/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Measure round trips to a worker that sleeps, and the number of wakeups. */

#include "tests/bench/instance/bench.h"

#include "tests/bench/measure/peer.h"
#include "tests/bench/measure/raw.h"
#include "tests/bench/measure/ticks.h"

#define SLEEPS   200u             /* round trips of a round */
#define SPINS    20000u           /* round trips that must not ring */
#define GAP_NS   UINT64_C(500000) /* ten times the longest spin of a worker */
#define LEARN    2000u /* until the worker has learned that spinning pays */
#define AWAKE_NS 5000  /* no worker parks so soon after a job */
/* no wakeup takes so long: another process had the CPU */
#define KEPT_NS 200000
#define BURST   8u

static uint64_t doorbells(const struct gm_bench *bench)
{
	struct gpumap_session_counts counts = { .size = sizeof(counts) };

	gpumap_session_counts(bench->session, &counts);
	return counts.doorbells;
}

/* Single jobs, with gaps.  Jobs that found the worker awake do not count. */
static int parked_trips(struct gm_bench *bench, double *ret_ns)
{
	uint32_t ticks[SLEEPS], n = 0;

	for (uint32_t i = 0; i < SLEEPS; i++) {
		uint64_t rung = doorbells(bench), from;
		int ret;

		gm_ticks_spin(GAP_NS);
		from = gm_ticks();
		ret = gm_bench_ping(bench);
		if (ret != 0)
			return ret;
		ticks[n] = (uint32_t)(gm_ticks() - from);
		n += doorbells(bench) > rung;
	}
	if (n < SLEEPS / 2)
		return 1;
	*ret_ns = gm_series_ticks_ns(ticks, n, 0.5);
	return 0;
}

static int measure(void *arg, struct gm_round *ret_round)
{
	struct gm_bench *bench = arg;
	int ret =
		gm_raw_wake(bench->there, SLEEPS, GAP_NS, &ret_round->baseline);

	return ret != 0 ? ret : parked_trips(bench, &ret_round->value);
}

static int parked(struct gm_bench *bench, const struct gm_figure *figure,
		  bool kept_busy, const char *note)
{
	const struct gm_bracket bracket = { .cpu = bench->there,
					    .rounds = bench->rounds,
					    .n = 1 };
	struct gm_series series = { 0 };
	struct gm_busy busy = { 0 };
	int ret;

	if (kept_busy)
		gm_busy_start(&busy, &bench->there, 1);
	ret = gm_bracket_run(&bracket, measure, bench, &series);
	gm_busy_stop(&busy);
	if (ret != 0)
		return gm_bench_fail(bench, ret, "%s", figure->name);
	gm_bench_print(bench, figure, &series, note);
	return GM_EXIT_OK;
}

static int burst(struct gm_bench *bench)
{
	struct gpumap_job job = { .op = GPUMAP_OP_NOP };
	struct gpumap_done done[BURST];
	uint32_t ended = 0;
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && i < BURST; i++)
		ret = gpumap_submit(bench->session, bench->rows[0], &job, 1);
	while (ret >= 0 && ended < BURST) {
		ret = gpumap_poll(bench->session, done, BURST);
		ended += ret > 0 ? (uint32_t)ret : 0;
	}
	return ret < 0 ? ret : 0;
}

/* Several jobs after each gap: one doorbell for each job would be too many. */
static int wakes_per_park(struct gm_bench *bench)
{
	static const struct gm_figure figure = { "wakes_per_park",
						 "doorbells per park",
						 GM_AT_MOST, 1 };
	uint64_t rang = 0, n = 0;
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && i < SLEEPS; i++) {
		uint64_t rung = doorbells(bench), from;

		gm_ticks_spin(GAP_NS);
		from = gm_ticks();
		ret = burst(bench);
		if ((double)(gm_ticks() - from) * gm_ticks_ns() > KEPT_NS)
			continue;
		rang += doorbells(bench) - rung;
		n++;
	}
	if (ret != 0)
		return gm_bench_fail(bench, ret, "%s", figure.name);
	if (n > 0)
		gm_bench_print_value(
			bench, &figure, (double)rang / (double)n,
			"eight jobs, submitted one by one, after each of "
			"200 gaps of 0.5 ms");
	return GM_EXIT_OK;
}

/*
 * Jobs that follow each other at once: a worker that received one so shortly
 * before is awake.  If another process had either side's CPU meanwhile, the
 * worker may have parked: such jobs do not count.
 */
static int wakes_awake(struct gm_bench *bench)
{
	static const struct gm_figure figure = { "wakes_awake",
						 "doorbells per no-op",
						 GM_AT_MOST, 0 };
	uint64_t rang = 0, n = 0, last = 0, from, to;

	for (uint32_t i = 0; i < LEARN + SPINS; i++, last = from) {
		uint64_t rung = doorbells(bench);
		int ret;

		from = gm_ticks();
		ret = gm_bench_ping(bench);
		if (ret != 0)
			return gm_bench_fail(bench, ret, "%s", figure.name);
		to = gm_ticks();
		if (i < LEARN ||
		    (double)(from - last) * gm_ticks_ns() > AWAKE_NS ||
		    (double)(to - from) * gm_ticks_ns() > KEPT_NS)
			continue;
		rang += doorbells(bench) - rung;
		n++;
	}
	if (n > 0)
		gm_bench_print_value(bench, &figure, (double)rang / (double)n,
				     "each within 5 us of the one before, "
				     "after 2000");
	return GM_EXIT_OK;
}

int gm_bench_sleep(struct gm_bench *bench)
{
	static const struct gm_figure halted = { "parked_idle", "ns",
						 GM_AT_MOST, 1.15 };
	static const struct gm_figure busy = { "parked_busy", "ns", GM_AT_MOST,
					       1.15 };
	int ret = GM_EXIT_OK;

	if (gm_bench_wants(bench, halted.name))
		ret = parked(bench, &halted, false,
			     "against eventfd and poll, the CPU left to idle");
	if (ret == GM_EXIT_OK && gm_bench_wants(bench, busy.name))
		ret = parked(bench, &busy, true,
			     "against eventfd and poll, the CPU kept busy by "
			     "SCHED_IDLE");
	if (ret == GM_EXIT_OK && gm_bench_wants(bench, "wakes_per_park"))
		ret = wakes_per_park(bench);
	if (ret == GM_EXIT_OK && gm_bench_wants(bench, "wakes_awake"))
		ret = wakes_awake(bench);
	return ret;
}
