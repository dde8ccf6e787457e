/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Measure attaching, and lookups while no process publishes. */

#include "tests/bench/instance/bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpumap/plan.h>

#include "tests/bench/measure/lookup.h"
#include "tests/bench/measure/raw.h"
#include "tests/bench/measure/ticks.h"
#include "shm/names.h"

#define CHAINS 20000u

/* A layer map for the time of the measurement. */
struct table {
	char name[GPUMAP_NAME_MAX + 1];
	struct gpumap_view view;
};

static int publish(struct gm_bench *bench, struct table *table)
{
	struct gpumap *map = bench->map;
	char spec[32];
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = table->name,
						 .spec = spec };
	int ret;

	snprintf(table->name, sizeof(table->name), "bench.%d", (int)getpid());
	snprintf(spec, sizeof(spec), "%u:%u", bench->rows[0], GM_LOOKUP_LAYERS);
	ret = gpumap_layers_publish(map, &request);
	if (ret == 0)
		ret = gpumap_layers_view(map, table->name, &table->view);
	return ret == 0 ? GM_EXIT_OK
			: gm_bench_fail(bench, ret, "publish \"%s\"",
					table->name);
}

static int lookups(struct gm_bench *bench, struct table *table)
{
	static const struct gm_figure figures[GM_LOOKUP_KINDS] = {
		{ "lookup_quiet_independent", "ns", GM_AT_MOST, 1.5 },
		{ "lookup_quiet_dependent", "ns", GM_AT_MOST, 1.1 },
	};

	for (int kind = 0; kind < GM_LOOKUP_KINDS; kind++) {
		struct gm_series series = { 0 };

		for (uint32_t i = 0; i < bench->rounds; i++) {
			enum gm_lookup_kind k = (enum gm_lookup_kind)kind;
			struct gm_lookup_cost plain, ours;
			int ret;

			gm_lookup_plain(k, CHAINS, &plain);
			ret = gm_lookup_view(bench->map, &table->view, k,
					     CHAINS, &ours, NULL);
			if (ret != 0)
				return gm_bench_fail(bench, ret, "lookup");
			gm_series_add(&series, ours.median_ns, plain.median_ns);
		}
		gm_bench_print(bench, &figures[kind], &series,
			       "median, against a plain array");
	}
	return GM_EXIT_OK;
}

static void sealed(struct gm_bench *bench, const struct table *table)
{
	static const struct gm_figure figure = { "lookup_system_calls",
						 "calls per lookup", GM_AT_MOST,
						 0 };
	int ret = gm_lookup_sealed(bench->map, &table->view);

	if (ret == 0)
		gm_bench_print_value(bench, &figure, 0,
				     "a million under seccomp strict");
	else if (ret == -EPERM)
		gm_bench_print_value(bench, &figure, 1,
				     "at least one: seccomp strict killed it");
	else
		fputs("bench: lookup_system_calls skipped: no strict mode "
		      "in this build or on this kernel\n",
		      stderr);
}

/* Open, map, and look one layer up. */
static int attach_once(const struct gm_bench *bench, const struct table *table,
		       double *ret_ns)
{
	struct gpumap_attach_opts opts = {
		.size = sizeof(opts),
		.instance = bench->instance,
		.runtime_dir = bench->runtime_dir,
	};
	uint64_t from = gm_ticks();
	struct gpumap_view view;
	struct gpumap *map;
	int ret = gpumap_attach(&opts, &map);

	if (ret != 0)
		return ret;
	ret = gpumap_layers_view(map, table->name, &view);
	if (ret == 0)
		ret = gpumap_view_get(&view, 0);
	*ret_ns = (double)(gm_ticks() - from) * gm_ticks_ns();
	gpumap_detach(map);
	return ret < 0 ? ret : 0;
}

static int attaches(struct gm_bench *bench, const struct table *table)
{
	static const struct gm_figure figure = { "attach", "ns", GM_AT_MOST,
						 2 };
	struct gm_series series = { 0 };
	char path[GM_NAMES_BYTES];
	struct stat dir;
	int ret = 0;

	/* The agent's user owns the runtime directory (shm/names.h). */
	if (stat(bench->runtime_dir, &dir) != 0)
		ret = -errno;
	else
		gm_names_file(path, dir.st_uid, bench->instance, "map");
	for (uint32_t i = 0; ret == 0 && i < bench->rounds; i++) {
		static double ours[GM_SERIES_MAX], bare[GM_SERIES_MAX];
		uint32_t n = 0;

		for (; ret == 0 && n < GM_SERIES_MAX; n++) {
			ret = attach_once(bench, table, &ours[n]);
			if (ret == 0)
				ret = gm_raw_attach(path, &bare[n]);
		}
		if (ret == 0)
			gm_series_add(&series, gm_series_quantile(ours, n, 0.5),
				      gm_series_quantile(bare, n, 0.5));
	}
	if (ret != 0)
		return gm_bench_fail(bench, ret, "attach");
	gm_bench_print(bench, &figure, &series,
		       "to the first lookup, against open, mmap and read");
	return GM_EXIT_OK;
}

int gm_bench_read(struct gm_bench *bench)
{
	struct table table = { 0 };
	int ret = publish(bench, &table);

	if (ret == GM_EXIT_OK && gm_bench_wants(bench, "lookup_quiet_"))
		ret = lookups(bench, &table);
	if (ret == GM_EXIT_OK && gm_bench_wants(bench, "lookup_system_calls"))
		sealed(bench, &table);
	if (ret == GM_EXIT_OK && gm_bench_wants(bench, "attach"))
		ret = attaches(bench, &table);
	gpumap_layers_release(bench->map, table.name);
	return ret;
}
