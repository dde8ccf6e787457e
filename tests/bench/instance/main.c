/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * bench_instance --instance NAME --runtime-dir DIR [--only PREFIX] [--rounds N]
 *
 * Choose the CPUs to measure between, and run the families in order.  Prints a
 * JSON object per line.
 */

#include "tests/bench/instance/bench.h"

#include <getopt.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/measure/peer.h"
#include "tests/bench/measure/ticks.h"

#define ROUNDS      9
#define WARM_UP     2000 /* round trips, until the worker stays on one CPU */
#define ARENA_BYTES (UINT64_C(600) << 20) /* two copies of 256 MiB, and room */
#define DEPTH       256

bool gm_bench_wants(const struct gm_bench *bench, const char *name)
{
	const char *only = bench->only;
	size_t n = strlen(name);

	if (only == NULL)
		return true;
	return strncmp(name, only, strlen(only) < n ? strlen(only) : n) == 0;
}

/* Does the whole name start with all of --only? */
static bool prints(const struct gm_bench *bench, const char *name)
{
	const char *only = bench->only;

	return only == NULL || strncmp(name, only, strlen(only)) == 0;
}

void gm_bench_print(struct gm_bench *bench, const struct gm_figure *figure,
		    const struct gm_series *series, const char *note)
{
	if (!prints(bench, figure->name))
		return;
	bench->n_printed++;
	gm_series_print(figure, series, note);
}

void gm_bench_print_value(struct gm_bench *bench,
			  const struct gm_figure *figure, double value,
			  const char *note)
{
	if (!prints(bench, figure->name))
		return;
	bench->n_printed++;
	gm_series_print_value(figure, value, note);
}

int gm_bench_fail(const struct gm_bench *bench, int error, const char *format,
		  ...)
{
	const char *refusal = gpumap_refusal(bench->map);
	va_list args;

	fputs("bench: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, ": %s\n",
		refusal[0] != '\0' ? refusal : gpumap_strerror(error));
	return GM_EXIT_FAILED;
}

int gm_bench_ping(struct gm_bench *bench)
{
	struct gpumap_job job = { .op = GPUMAP_OP_NOP };
	struct gpumap_done done;
	int ret = gpumap_submit(bench->session, bench->rows[0], &job, 1);

	if (ret != 0)
		return ret;
	do
		ret = gpumap_poll(bench->session, &done, 1);
	while (ret == 0);
	if (ret < 0)
		return ret;
	return done.status;
}

static int find_rows(struct gm_bench *bench)
{
	const struct gpumap *map = bench->map;
	uint32_t n = gpumap_device_count(map);

	for (uint32_t row = 0; row < n; row++) {
		struct gpumap_device device = { .size = sizeof(device) };
		int ret = gpumap_device_read(map, row, &device);

		if (ret != 0)
			return gm_bench_fail(bench, ret, "row %u", row);
		if (device.kind != GPUMAP_DEVICE_HOST ||
		    device.state != GPUMAP_DEVICE_READY)
			continue;
		bench->rows[bench->n_rows] = row;
		bench->workers[bench->n_rows++] = (pid_t)device.worker_pid;
	}
	if (bench->n_rows > 0)
		return GM_EXIT_OK;
	fputs("bench: no host row is READY; see gpumapctl devices\n", stderr);
	return GM_EXIT_FAILED;
}

/* Bind this process beside the worker, never onto its CPU. */
static int take_place(struct gm_bench *bench)
{
	struct gm_peer_facts worker;

	if (gm_peer_facts(bench->workers[0], &worker) != 0) {
		fprintf(stderr,
			"bench: cannot see process %d, the worker of row "
			"%u: run this in the agent's pid namespace\n",
			(int)bench->workers[0], bench->rows[0]);
		return GM_EXIT_FAILED;
	}
	bench->there = worker.cpu;
	bench->here = gm_peer_other_cpu(worker.cpu);
	if (bench->here >= 0 && gm_peer_pin(bench->here) == 0)
		return GM_EXIT_OK;
	fputs("bench: bench needs two CPUs\n", stderr);
	return GM_EXIT_FAILED;
}

static int open_session(struct gm_bench *bench)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .depth = DEPTH,
					    .arena_bytes = ARENA_BYTES };
	struct gm_peer_facts worker;
	int ret;

	ret = gpumap_session_open(bench->map, &opts, &bench->session);
	if (ret != 0)
		return gm_bench_fail(bench, ret, "open a session");
	for (int i = 0; ret == 0 && i < WARM_UP; i++)
		ret = gm_bench_ping(bench);
	if (ret != 0)
		return gm_bench_fail(bench, ret, "row %u", bench->rows[0]);
	/* A worker that may choose its CPU has chosen by now. */
	if (gm_peer_facts(bench->workers[0], &worker) == 0 &&
	    worker.cpu != bench->here)
		bench->there = worker.cpu;
	return GM_EXIT_OK;
}

static const struct {
	const char *names; /* the start of the names */
	int (*run)(struct gm_bench *bench);
} families[] = {
	{ "lookup_", gm_bench_read },     { "attach", gm_bench_read },
	{ "trip_", gm_bench_trips },      { "depth_", gm_bench_trips },
	{ "parked_", gm_bench_sleep },    { "wakes_", gm_bench_sleep },
	{ "sessions_", gm_bench_crowd },  { "beside_", gm_bench_crowd },
	{ "scatter_", gm_bench_scatter }, { "load_", gm_bench_load },
};

#define N_FAMILIES (sizeof(families) / sizeof(families[0]))

static int no_such_name(const struct gm_bench *bench)
{
	fprintf(stderr,
		"bench: --only: no name begins with \"%s\"; they "
		"begin with",
		bench->only);
	for (size_t i = 0; i < N_FAMILIES; i++)
		fprintf(stderr, "%s %s", i > 0 ? "," : "", families[i].names);
	fputc('\n', stderr);
	return GM_EXIT_USAGE;
}

/* Is there anything to measure in the families that --only selects? */
static int check(const struct gm_bench *bench)
{
	struct gpumap_health health = { .size = sizeof(health) };
	size_t i = 0;

	while (i < N_FAMILIES && !gm_bench_wants(bench, families[i].names))
		i++;
	if (i == N_FAMILIES)
		return no_such_name(bench);
	if (gpumap_health(bench->map, &health) != 0 || !health.stale)
		return GM_EXIT_OK;
	fprintf(stderr,
		"bench: the agent has not been seen for %.1f s; is gpumapd "
		"running?\n",
		(double)health.age_ns / 1e9);
	return GM_EXIT_NO_AGENT;
}

static int measure(struct gm_bench *bench)
{
	int (*last)(struct gm_bench *) = NULL;
	int ret = check(bench);

	if (ret == GM_EXIT_OK)
		ret = find_rows(bench);
	if (ret == GM_EXIT_OK)
		ret = take_place(bench);
	if (ret == GM_EXIT_OK)
		ret = open_session(bench);
	for (size_t i = 0; i < N_FAMILIES; i++) {
		if (ret != GM_EXIT_OK || families[i].run == last ||
		    !gm_bench_wants(bench, families[i].names))
			continue;
		last = families[i].run;
		ret = last(bench);
	}
	gpumap_session_close(bench->session);
	if (ret == GM_EXIT_OK && bench->n_printed == 0)
		return no_such_name(bench);
	return ret;
}

static bool parse(int argc, char **argv, struct gm_bench *bench)
{
	static const struct option options[] = {
		{ "instance", required_argument, NULL, 'i' },
		{ "runtime-dir", required_argument, NULL, 'd' },
		{ "only", required_argument, NULL, 'o' },
		{ "rounds", required_argument, NULL, 'n' },
		{ NULL, 0, NULL, 0 },
	};
	unsigned long rounds;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'i':
			bench->instance = optarg;
			break;
		case 'd':
			bench->runtime_dir = optarg;
			break;
		case 'o':
			bench->only = optarg;
			break;
		case 'n':
			rounds = strtoul(optarg, NULL, 10);
			bench->rounds = rounds < GM_SERIES_MAX
						? (uint32_t)rounds
						: GM_SERIES_MAX;
			break;
		default:
			return false;
		}
	}
	return bench->instance != NULL && bench->runtime_dir != NULL &&
	       bench->rounds > 0 && optind == argc;
}

int main(int argc, char **argv)
{
	struct gm_bench bench = { .rounds = ROUNDS };
	struct gpumap_attach_opts opts = { .size = sizeof(opts) };
	int ret;

	if (!parse(argc, argv, &bench)) {
		fputs("usage: bench_instance --instance NAME --runtime-dir DIR "
		      "[--only PREFIX] [--rounds N]\n",
		      stderr);
		return GM_EXIT_USAGE;
	}
	opts.instance = bench.instance;
	opts.runtime_dir = bench.runtime_dir;
	ret = gpumap_attach(&opts, &bench.map);
	if (ret != 0) {
		gm_bench_fail(&bench, ret, "attach");
		return GM_EXIT_NO_AGENT;
	}
	ret = measure(&bench);
	gpumap_detach(bench.map);
	return ret;
}
