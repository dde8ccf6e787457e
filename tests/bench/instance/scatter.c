/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Measure scatters: large ones against bare copies, small ones for their
 * overhead. */

#include "tests/bench/instance/bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "tests/bench/measure/copy.h"
#include "tests/bench/measure/peer.h"
#include "tests/bench/measure/ticks.h"

#define LARGE       (UINT64_C(256) << 20)
#define SMALL       (UINT64_C(64) << 10)
#define SMALL_TIMES 2000u
#define UNTIMED     200u /* scatters until everything has been touched */

#define NAME_BYTES  64

/* The number of rows is appended to each name. */
#define LARGE_NAME        "scatter_copy_256m"
#define LARGE_MEMCPY_NAME "scatter_memcpy_256m"
#define AXPY_NAME         "scatter_axpy_256m"
#define DISPATCH_NAME     "scatter_dispatch_64k"
#define FAULTS_NAME       "scatter_page_faults"

struct scatter {
	struct gm_bench *bench;
	uint32_t n_rows; /* the first n_rows of rows[] */
	char *dst;
	char *src;
	struct gm_copy copy; /* the same bytes by threads of this process */
};

static int once(const struct scatter *s, uint64_t bytes)
{
	const struct gpumap_job job = { .op = GPUMAP_OP_COPY,
					.dtype = GPUMAP_DTYPE_U8,
					.dst = s->dst,
					.src = s->src,
					.n = bytes };
	const struct gpumap_scatter_opts opts = { .size = sizeof(opts),
						  .rows = s->bench->rows,
						  .n_rows = s->n_rows };
	int ret = gpumap_scatter(s->bench->session, &job, &opts, NULL, 0);

	return ret < 0 ? ret : 0;
}

/* "NAME_rows_2" */
static const char *named(const struct scatter *s, const char *name,
			 char ret_name[NAME_BYTES])
{
	snprintf(ret_name, NAME_BYTES, "%s_rows_%u", name, s->n_rows);
	return ret_name;
}

/* Memory on the first row, and a thread for each row where its worker runs. */
static int set_up(struct scatter *s)
{
	struct gm_bench *bench = s->bench;
	void *dst, *src;
	int ret;

	for (uint32_t i = 0; i < s->n_rows; i++) {
		struct gm_peer_facts worker;

		if (gm_peer_facts(bench->workers[i], &worker) != 0)
			return -ESRCH;
		s->copy.cpus[i] = worker.cpu;
	}
	s->copy.n_threads = s->n_rows;
	ret = gpumap_alloc(bench->session, bench->rows[0], LARGE, &dst);
	if (ret != 0)
		return ret;
	s->dst = dst;
	ret = gpumap_alloc(bench->session, bench->rows[0], LARGE + GM_COPY_OVER,
			   &src);
	if (ret != 0)
		return ret;
	s->src = src;
	memset(src, 7, LARGE + GM_COPY_OVER);
	memset(dst, 0, LARGE);
	s->copy.dst = dst;
	s->copy.src = src;
	return 0;
}

/* One round: the scatter, then each bare way, all over the same pages. */
static int large_round(struct scatter *s, struct gm_series *series)
{
	uint64_t from = gm_ticks();
	int ret = once(s, LARGE);
	double ours, bare;

	ours = LARGE / ((double)(gm_ticks() - from) * gm_ticks_ns());
	s->copy.bytes = LARGE;
	s->copy.rounds = 1;
	for (int way = 0; ret == 0 && way < GM_COPY_WAYS; way++) {
		ret = gm_copy_run(&s->copy, (enum gm_copy_way)way, &bare);
		if (ret == 0)
			gm_series_add(&series[way], ours, LARGE / bare);
		if (ret == -ENOTSUP)
			ret = 0;
	}
	return ret;
}

static double baseline(const struct gm_series *series)
{
	return series->n == 0
		       ? 0
		       : gm_series_quantile(series->baseline, series->n, 0.5);
}

static int large(struct scatter *s)
{
	struct gm_series series[GM_COPY_WAYS] = { 0 };
	enum gm_copy_way best = GM_COPY_IN_ORDER;
	char name[NAME_BYTES], note[96];
	struct gm_figure figure = { named(s, LARGE_NAME, name), "GB/s",
				    GM_AT_LEAST, 0.95 };
	int ret = once(s, LARGE);

	for (uint32_t i = 0; ret == 0 && i < s->bench->rounds; i++)
		ret = large_round(s, series);
	if (ret != 0)
		return ret;
	if (baseline(&series[GM_COPY_SIDE_BY_SIDE]) > baseline(&series[best]))
		best = GM_COPY_SIDE_BY_SIDE;
	snprintf(note, sizeof(note), "against %u bound threads, %s", s->n_rows,
		 gm_copy_name(best));
	gm_bench_print(s->bench, &figure, &series[best], note);
	named(s, LARGE_MEMCPY_NAME, name);
	snprintf(note, sizeof(note), "against %u bound threads, glibc's memcpy",
		 s->n_rows);
	figure.goal = 1.6;
	gm_bench_print(s->bench, &figure, &series[GM_COPY_MEMCPY], note);
	return 0;
}

static int axpy_once(const struct scatter *s)
{
	const struct gpumap_job job = { .op = GPUMAP_OP_AXPY,
					.dtype = GPUMAP_DTYPE_F32,
					.dst = s->dst,
					.src = s->src,
					.alpha = (double)GM_COPY_ALPHA,
					.n = LARGE / sizeof(float) };
	const struct gpumap_scatter_opts opts = { .size = sizeof(opts),
						  .rows = s->bench->rows,
						  .n_rows = s->n_rows };
	int ret = gpumap_scatter(s->bench->session, &job, &opts, NULL, 0);

	return ret < 0 ? ret : 0;
}

/* Run the scatter, then the same loop by threads, over the same pages. */
static int axpy(struct scatter *s)
{
	struct gm_series series = { 0 };
	char name[NAME_BYTES], note[96];
	const struct gm_figure figure = { named(s, AXPY_NAME, name), "GB/s",
					  GM_AT_LEAST, 0.95 };
	int ret = axpy_once(s);

	s->copy.bytes = LARGE;
	s->copy.rounds = 1;
	for (uint32_t i = 0; ret == 0 && i < s->bench->rounds; i++) {
		uint64_t from = gm_ticks();
		double ours, bare;

		ret = axpy_once(s);
		ours = (double)(gm_ticks() - from) * gm_ticks_ns();
		if (ret == 0)
			ret = gm_copy_run_axpy(&s->copy, &bare);
		if (ret == 0)
			gm_series_add(&series, LARGE / ours, LARGE / bare);
	}
	if (ret != 0)
		return ret;
	snprintf(note, sizeof(note),
		 "of source, against a loop in %u bound "
		 "threads",
		 s->n_rows);
	gm_bench_print(s->bench, &figure, &series, note);
	return 0;
}

static int small_ns(struct scatter *s, double *ret_ns)
{
	static uint32_t ticks[SMALL_TIMES];

	for (uint32_t i = 0; i < SMALL_TIMES; i++) {
		uint64_t from = gm_ticks();
		int ret = once(s, SMALL);

		if (ret != 0)
			return ret;
		ticks[i] = (uint32_t)(gm_ticks() - from);
	}
	*ret_ns = gm_series_ticks_ns(ticks, SMALL_TIMES, 0.5);
	return 0;
}

/* Does a worker run on this process's CPU?  Then neither side spins, and each
 * tile there costs a context switch. */
static bool shares_a_cpu(const struct scatter *s)
{
	for (uint32_t i = 0; i < s->n_rows; i++)
		if (s->copy.cpus[i] == s->bench->here)
			return true;
	return false;
}

/* Measure the time of a scatter beyond the bare copy of its largest tile. */
static int dispatch(struct scatter *s)
{
	char name[NAME_BYTES], note[160];
	struct gm_figure figure = { named(s, DISPATCH_NAME, name), "us",
				    GM_AT_MOST, 0.5 };
	double cost[GM_SERIES_MAX], all[GM_SERIES_MAX], bare;
	uint32_t n = 0;
	int ret = 0;

	for (; ret == 0 && n < s->bench->rounds; n++) {
		s->copy.bytes = SMALL;
		s->copy.rounds = SMALL_TIMES;
		ret = gm_copy_run(&s->copy, GM_COPY_MEMCPY, &bare);
		if (ret == 0)
			ret = small_ns(s, &all[n]);
		if (ret == 0)
			cost[n] = (all[n] - bare) / 1e3;
	}
	if (ret != 0)
		return ret;
	snprintf(note, sizeof(note),
		 "beyond the copy by bound threads; whole scatter %.3g us%s; "
		 "median of %u rounds, p10-p90 %.3g-%.3g",
		 gm_series_quantile(all, n, 0.5) / 1e3,
		 shares_a_cpu(s) ? "; client and a worker share a CPU" : "", n,
		 gm_series_quantile(cost, n, 0.1),
		 gm_series_quantile(cost, n, 0.9));
	gm_bench_print_value(s->bench, &figure,
			     gm_series_quantile(cost, n, 0.5), note);
	return 0;
}

/* Count the page faults of this process and of the workers that take part. */
static int faults(const struct scatter *s, uint64_t *ret_faults)
{
	struct gm_peer_facts worker;
	struct rusage own;

	if (getrusage(RUSAGE_SELF, &own) != 0)
		return -errno;
	*ret_faults = (uint64_t)own.ru_minflt;
	for (uint32_t i = 0; i < s->n_rows; i++) {
		if (gm_peer_facts(s->bench->workers[i], &worker) != 0)
			return -ESRCH;
		*ret_faults += worker.minor_faults;
	}
	return 0;
}

static int page_faults(struct scatter *s)
{
	char name[NAME_BYTES];
	struct gm_figure figure = { named(s, FAULTS_NAME, name),
				    "faults per scatter", GM_AT_MOST, 0 };
	uint64_t before, after;
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && i < UNTIMED; i++)
		ret = once(s, SMALL);
	if (ret == 0)
		ret = faults(s, &before);
	for (uint32_t i = 0; ret == 0 && i < SMALL_TIMES; i++)
		ret = once(s, SMALL);
	if (ret == 0)
		ret = faults(s, &after);
	if (ret == 0)
		gm_bench_print_value(s->bench, &figure,
				     (double)(after - before) / SMALL_TIMES,
				     "minor, of the client and its workers, "
				     "64 KiB");
	return ret;
}

static int over_rows(struct gm_bench *bench, uint32_t n_rows)
{
	struct scatter s = { .bench = bench, .n_rows = n_rows };
	const struct {
		const char *name;
		int (*measure)(struct scatter *s);
	} figures[] = {
		{ LARGE_NAME, large },        { LARGE_MEMCPY_NAME, large },
		{ AXPY_NAME, axpy },          { DISPATCH_NAME, dispatch },
		{ FAULTS_NAME, page_faults },
	};
	int (*last)(struct scatter *) = NULL;
	int ret = 0;

	for (size_t i = 0; i < 5 && ret == 0; i++) {
		char name[NAME_BYTES];

		if (figures[i].measure == last ||
		    !gm_bench_wants(bench, named(&s, figures[i].name, name)))
			continue;
		last = figures[i].measure;
		if (s.dst == NULL)
			ret = set_up(&s);
		if (ret == 0)
			ret = last(&s);
	}
	gpumap_free(bench->session, s.dst);
	gpumap_free(bench->session, s.src);
	return ret;
}

int gm_bench_scatter(struct gm_bench *bench)
{
	int ret = over_rows(bench, 1);

	if (ret == 0 && bench->n_rows >= 2)
		ret = over_rows(bench, 2);
	return ret == 0 ? GM_EXIT_OK : gm_bench_fail(bench, ret, "scatter");
}
