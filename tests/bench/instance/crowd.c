/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Measure the cost of other sessions: round trips of a no-op beside sessions
 * that are open and idle, and beside one that copies without a pause. */

#include "tests/bench/instance/bench.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "tests/bench/measure/peer.h"
#include "tests/bench/measure/ticks.h"

#define TRIPS      5000u
#define WARM_UP    500u
#define SLICE      (UINT64_C(1) << 20) /* most bytes that a turn copies */
#define SLICES     200u
#define BULK       (UINT64_C(4) << 20)
#define BULK_JOBS  250u
#define BULK_TRIPS 500u
#define OPEN_TRIES 30000 /* a millisecond apart */
#define N_CROWDS   2

/* sessions, this one included */
static const uint32_t crowds[N_CROWDS] = { 8, 64 };

enum { CROWDS, BULK_P50 = CROWDS + N_CROWDS, BULK_P99, N_SERIES };

static const struct gm_figure figures[N_SERIES] = {
	[CROWDS + 0] = { "sessions_8_trip", "ns", GM_AT_MOST, 1.1 },
	[CROWDS + 1] = { "sessions_64_trip", "ns", GM_AT_MOST, 1.1 },
	[BULK_P50] = { "beside_bulk_p50", "ns", GM_NO_GOAL, 0 },
	[BULK_P99] = { "beside_bulk_p99", "ns", GM_AT_MOST, 1.0 },
};

static const char *const notes[N_SERIES] = {
	[CROWDS + 0] = "median trip, against that of one session",
	[CROWDS + 1] = "median trip, against that of one session",
	[BULK_P50] = "against the same of a quiet row",
	[BULK_P99] = "against that of a quiet row and a copy of 1 MiB",
};

struct crowd {
	struct gm_bench *bench;
	struct gpumap_session *idle[64];
	struct gpumap_session *bulk;
	void *from, *to; /* BULK bytes, the bulk session's */
	uint32_t n_idle;
};

static uint32_t ticks[TRIPS];

/* Measure @n round trips.  Sorts ticks[]. */
static int trips(struct crowd *c, uint32_t n, double *ret_p50, double *ret_p99)
{
	for (uint32_t i = 0; i < WARM_UP + n; i++) {
		uint64_t from = gm_ticks();
		int ret = gm_bench_ping(c->bench);

		if (ret != 0)
			return ret;
		if (i >= WARM_UP)
			ticks[i - WARM_UP] = (uint32_t)(gm_ticks() - from);
	}
	*ret_p50 = gm_series_ticks_ns(ticks, n, 0.5);
	*ret_p99 = gm_series_ticks_ns(ticks, n, 0.99);
	return 0;
}

static int end_of(struct gpumap_session *session, uint32_t n)
{
	struct gpumap_done done[64];

	while (n > 0) {
		int ret = gpumap_wait(session, done, 64, GPUMAP_NO_DEADLINE);

		if (ret < 0)
			return ret;
		n -= (uint32_t)ret;
	}
	return 0;
}

/* Closed sessions count until the agent has noticed their end. */
static int open_session(struct crowd *c, const struct gpumap_session_opts *opts,
			struct gpumap_session **ret_session)
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	int ret;

	for (int tries = 0; tries < OPEN_TRIES; tries++) {
		ret = gpumap_session_open(c->bench->map, opts, ret_session);
		if (ret != -EUSERS && ret != -EDQUOT)
			break;
		nanosleep(&nap, NULL);
	}
	return ret;
}

/* Open one more session that has an empty queue on the row. */
static int open_idle(struct crowd *c)
{
	const struct gpumap_session_opts opts = { .size = sizeof(opts),
						  .depth = 16,
						  .arena_bytes = 4096 };
	const struct gpumap_job job = { .op = GPUMAP_OP_NOP };
	struct gpumap_session **session = &c->idle[c->n_idle];
	int ret = open_session(c, &opts, session);

	if (ret != 0)
		return ret;
	c->n_idle++;
	ret = gpumap_submit(*session, c->bench->rows[0], &job, 1);
	return ret == 0 ? end_of(*session, 1) : ret;
}

static void close_idle(struct crowd *c)
{
	while (c->n_idle > 0)
		gpumap_session_close(c->idle[--c->n_idle]);
}

static int open_bulk(struct crowd *c)
{
	const struct gpumap_session_opts opts = { .size = sizeof(opts),
						  .depth = 256,
						  .arena_bytes = 3 * BULK };
	uint32_t row = c->bench->rows[0];
	int ret = open_session(c, &opts, &c->bulk);

	if (ret == 0)
		ret = gpumap_alloc(c->bulk, row, BULK, &c->from);
	if (ret == 0)
		ret = gpumap_alloc(c->bulk, row, BULK, &c->to);
	if (ret != 0)
		return ret;
	memset(c->from, 1, BULK);
	memset(c->to, 2, BULK);
	return 0;
}

static void close_bulk(struct crowd *c)
{
	gpumap_session_close(c->bulk);
	c->bulk = NULL;
}

static int submit_copies(struct crowd *c, uint64_t bytes, uint32_t n)
{
	const struct gpumap_job job = {
		.op = GPUMAP_OP_COPY, .dst = c->to, .src = c->from, .n = bytes
	};
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && i < n; i++)
		ret = gpumap_submit(c->bulk, c->bench->rows[0], &job, 1);
	return ret;
}

/* Measure a turn of the largest size. */
static int slice_ns(struct crowd *c, double *ret_ns)
{
	uint64_t from = gm_ticks();
	int ret = submit_copies(c, SLICE, SLICES);

	if (ret == 0)
		ret = end_of(c->bulk, SLICES);
	*ret_ns = (double)(gm_ticks() - from) * gm_ticks_ns() / SLICES;
	return ret;
}

/* Measure trips while the other session's copies last.  The few trips after
 * their end do not matter, because there are many more bytes than trips. */
static int beside_bulk(struct crowd *c, double *ret_p50, double *ret_p99)
{
	struct gpumap_done done[256];
	int ret = submit_copies(c, BULK, BULK_JOBS), ended;

	if (ret == 0)
		ret = trips(c, BULK_TRIPS, ret_p50, ret_p99);
	if (ret != 0)
		return ret;
	ended = gpumap_poll(c->bulk, done, 256);
	if (ended < 0)
		return ended;
	ret = end_of(c->bulk, BULK_JOBS - (uint32_t)ended);
	return ret == 0 && ended == (int)BULK_JOBS ? 1 : ret;
}

static int measure(void *arg, struct gm_round *ret_rounds)
{
	struct crowd *c = arg;
	double p50 = 0, p99 = 0, slice = 0, unused;
	int ret = trips(c, TRIPS, &p50, &p99);

	for (uint32_t i = 0; ret == 0 && i < N_CROWDS; i++) {
		struct gm_round *round = &ret_rounds[CROWDS + i];

		while (ret == 0 && c->n_idle + 1 < crowds[i])
			ret = open_idle(c);
		if (ret == 0)
			ret = trips(c, TRIPS, &round->value, &unused);
		round->baseline = p50;
	}
	close_idle(c);
	if (ret == 0)
		ret = open_bulk(c);
	if (ret == 0)
		ret = slice_ns(c, &slice);
	if (ret == 0)
		ret = beside_bulk(c, &ret_rounds[BULK_P50].value,
				  &ret_rounds[BULK_P99].value);
	close_bulk(c);
	ret_rounds[BULK_P50].baseline = p50;
	ret_rounds[BULK_P99].baseline = p99 + slice;
	return ret;
}

int gm_bench_crowd(struct gm_bench *bench)
{
	const struct gm_bracket bracket = { .cpu = bench->there,
					    .rounds = bench->rounds,
					    .n = N_SERIES };
	struct gm_series series[N_SERIES] = { 0 };
	struct crowd c = { .bench = bench };
	int ret = gm_bracket_run(&bracket, measure, &c, series);

	if (ret != 0)
		return gm_bench_fail(bench, ret, "many sessions");
	for (int i = 0; i < N_SERIES; i++)
		gm_bench_print(bench, &figures[i], &series[i], notes[i]);
	return GM_EXIT_OK;
}
