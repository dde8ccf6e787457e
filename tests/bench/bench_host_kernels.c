/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * bench_host_kernels - how fast host rows copy, beside what could be had.
 *
 * Each size is copied by the backend, in the slices that a worker makes, and
 * in the same round by glibc's memcpy and by two bare loops of non-temporal
 * stores, so that noise meets all of them.  Which of the two is the machine's
 * best depends on its prefetchers, so the baseline of a large copy is the
 * better one, and the first is reported apart.  Copies that stay in the caches
 * are measured against memcpy.  One thread, bound to the CPU that it is on.
 */

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/measure/copy.h"
#include "tests/bench/measure/peer.h"
#include "tests/bench/measure/series.h"
#include "tests/bench/measure/ticks.h"
#include "agent/device/device.h"
#include "gpumap.h"

#define SLICE     (UINT64_C(1) << 20)
#define LARGEST   (UINT64_C(256) << 20)
#define IN_CACHES (UINT64_C(16) << 20) /* anything smaller */
#define ROUNDS    9
#define MIN_WORK  (UINT64_C(8) << 20) /* bytes copied between two readings */

static struct gm_backend_device *dev;
static char *dst, *src;

/* A result for each way, and for ours behind them. */
#define OURS GM_COPY_WAYS

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

static void copy(int way, uint64_t bytes)
{
	if (way == OURS)
		ours(bytes);
	else
		gm_copy_loop((enum gm_copy_way)way)(dst, src, bytes);
}

/* By this thread's own time: others that want the CPU are not the point. */
static double gigabytes_per_second(int way, uint64_t bytes)
{
	uint64_t times = bytes < MIN_WORK ? MIN_WORK / bytes : 1, from;

	/* Tensors that fit into the caches are measured in the caches. */
	if (times > 1)
		copy(way, bytes);
	from = gm_ticks_cpu_ns();
	for (uint64_t i = 0; i < times; i++)
		copy(way, bytes);
	return (double)(bytes * times) / (double)(gm_ticks_cpu_ns() - from);
}

static void print(uint64_t bytes, const char *what,
		  const struct gm_series *series, double goal, const char *note)
{
	char name[64];
	struct gm_figure figure = {
		.name = name, .unit = "GB/s", .sense = GM_AT_LEAST, .goal = goal
	};

	snprintf(name, sizeof(name), "host_copy_vs_%s_%" PRIu64 "k", what,
		 bytes >> 10);
	gm_series_print(&figure, series, note);
}

static double median_baseline(const struct gm_series *series)
{
	return gm_series_quantile(series->baseline, series->n, 0.5);
}

static void measure(uint64_t bytes)
{
	struct gm_series series[GM_COPY_WAYS] = { 0 };
	enum gm_copy_way best = GM_COPY_IN_ORDER;

	for (int round = 0; round < ROUNDS; round++) {
		double rate = gigabytes_per_second(OURS, bytes);

		for (int way = 0; way < GM_COPY_WAYS; way++)
			if (gm_copy_loop((enum gm_copy_way)way) != NULL)
				gm_series_add(&series[way], rate,
					      gigabytes_per_second(way, bytes));
	}
	if (bytes < IN_CACHES) {
		print(bytes, "memcpy", &series[GM_COPY_MEMCPY], 0.95,
		      "stays in the caches");
		return;
	}
	if (series[best].n > 0) {
		if (median_baseline(&series[GM_COPY_SIDE_BY_SIDE]) >
		    median_baseline(&series[best]))
			best = GM_COPY_SIDE_BY_SIDE;
		print(bytes, "bare", &series[best], 0.95, gm_copy_name(best));
		print(bytes, "bare_prefetch", &series[GM_COPY_IN_ORDER], 0.95,
		      gm_copy_name(GM_COPY_IN_ORDER));
	}
	print(bytes, "memcpy", &series[GM_COPY_MEMCPY], 1.60,
	      "past the caches");
}

int main(void)
{
	static const uint64_t sizes[] = { 64 << 10, 1 << 20, 16 << 20,
					  LARGEST };
	struct gm_device_config config = { 0 };
	int rc;

	gm_peer_pin(sched_getcpu());
	rc = gm_host_backend.open(&config, &dev);
	if (rc < 0) {
		fprintf(stderr, "bench_host_kernels: %s\n", strerror(-rc));
		return 1;
	}
	dst = gm_peer_memory(LARGEST);
	src = gm_peer_memory(LARGEST + GM_COPY_OVER);
	memset(src, 7, LARGEST);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		measure(sizes[i]);
	gm_host_backend.close(dev);
	return 0;
}
