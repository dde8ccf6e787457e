/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * bench_collective - all_reduce over two host rows, of 64 MiB and of 8 bytes,
 * beside Open MPI's over shared memory with two processes on the same CPUs.
 *
 * The baseline is compiled here, by mpicc, and run by mpirun between the
 * rounds; where it cannot be the lines have none and say so.  Both check what
 * they sum.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/measure/series.h"
#include "tests/bench/measure/ticks.h"
#include "gpumap.h"
#include "tests/support/collective.h"

#define LARGE_BYTES (64 << 20)
#define LARGE_TIMES 5
#define SMALL_TIMES 2000
#define ROUNDS      7
#define MPIRUN      "mpirun --allow-run-as-root --oversubscribe -n 2"
#define ABSENT      "baseline absent: no working mpicc and mpirun of Open MPI"

static struct agent agent;
static struct gpumap *map;
static char mpi[160]; /* the program; "": there is none */

static void die(const char *what, int error)
{
	fprintf(stderr, "bench_collective: %s: %s %s\n", what,
		gpumap_strerror(error), map != NULL ? gpumap_refusal(map) : "");
	agent_remove(&agent);
	exit(1);
}

static void compile_baseline(void)
{
	const char *source = getenv("abs_top_srcdir");
	char command[600];

	snprintf(mpi, sizeof(mpi), "%s/mpi_all_reduce", agent.dir);
	snprintf(command, sizeof(command),
		 "command -v mpirun >/dev/null && "
		 "mpicc -O2 -o %s %s/tests/bench/mpi_all_reduce.c 2>/dev/null",
		 mpi, source != NULL ? source : ".");
	if (system(command) != 0)
		mpi[0] = '\0';
}

static bool run_baseline(double *ret_large, double *ret_small)
{
	char command[400];
	bool is_there;
	FILE *out;

	snprintf(command, sizeof(command), MPIRUN " %s %d %d %d", mpi,
		 LARGE_BYTES, LARGE_TIMES, SMALL_TIMES);
	out = popen(command, "r");
	is_there = out != NULL &&
		   fscanf(out, "%lf %lf", ret_large, ret_small) == 2;
	return (out != NULL && pclose(out) == 0) && is_there;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void fill(const struct ranks *g, const struct shape *s)
{
	for (uint32_t r = 0; r < g->n; r++) {
		float *from = (void *)given(g, s, r);
		float *to = (void *)gotten(g, s, r);

		for (uint64_t i = 0; i < s->n; i++) {
			from[i] = (float)(i % 127 + r);
			to[i] = -1;
		}
	}
}

static void check(const struct ranks *g, const struct shape *s)
{
	for (uint32_t r = 0; r < g->n; r++) {
		const float *to = (const void *)gotten(g, s, r);

		for (uint64_t i = 0; i < s->n; i++)
			if (to[i] != (float)(2 * (i % 127) + 1))
				die("a sum is wrong", -EIO);
	}
}

/* ns, the median. */
static double measure(struct ranks *g, uint64_t n, uint32_t times)
{
	const struct shape s = { .op = GPUMAP_OP_ALL_REDUCE,
				 .dtype = GPUMAP_DTYPE_F32,
				 .n = n };
	static double took[SMALL_TIMES];

	fill(g, &s);
	for (uint32_t i = 0; i < times; i++) {
		uint64_t from = gm_ticks();
		struct gpumap_done done;
		int ret = collective_submit(g, &s, 1);

		if (ret == 0)
			ret = gpumap_wait(g->session, &done, 1,
					  GPUMAP_NO_DEADLINE);
		if (ret < 0 || done.status != 0)
			die("all_reduce", ret < 0 ? ret : done.status);
		took[i] = (double)(gm_ticks() - from) * gm_ticks_ns();
	}
	check(g, &s);
	qsort(took, times, sizeof(took[0]), compare);
	return took[times / 2];
}

static void print(const char *name, const char *unit, double scale,
		  const struct gm_series *series, double sum)
{
	struct gm_figure figure = { name, unit, GM_AT_MOST, 1.0 };

	if (mpi[0] != '\0') {
		gm_series_print(&figure, series,
				"against " MPIRUN " of MPI_Allreduce");
		return;
	}
	figure.sense = GM_NO_GOAL;
	gm_series_print_value(&figure, sum / ROUNDS / scale, ABSENT);
}

static bool open_ranks(struct gpumap_session *session, struct ranks *g)
{
	*g = (struct ranks){ .session = session,
			     .n = 2,
			     .bytes = 2 * LARGE_BYTES + 4096 };
	if (gpumap_comm_open(session, "two", NULL, &g->comm) != 0)
		return false;
	for (uint32_t r = 0; r < 2; r++) {
		void *memory;

		if (gpumap_alloc(session, r, g->bytes, &memory) != 0)
			return false;
		memset(memory, 0, g->bytes);
		g->memory[r] = memory;
	}
	return true;
}

int main(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 160 << 20 };
	struct gm_series large = { 0 }, small = { 0 };
	double large_ns = 0, small_ns = 0;
	struct gpumap_session *session;
	struct ranks g;

	agent_make(&agent, "[host]\nrows = 2\n");
	if (!agent_start(&agent) || !(map = story_attach(&agent)))
		die("no agent", 0);
	compile_baseline();
	if (collective_mesh(map, "two", 2) != 0 ||
	    gpumap_session_open(map, &opts, &session) != 0 ||
	    !open_ranks(session, &g))
		die("two rows", -ENODEV);
	measure(&g, 2, SMALL_TIMES);
	for (int i = 0; i < ROUNDS; i++) {
		double base[2] = { 0, 0 }, ns;

		if (mpi[0] != '\0' && !run_baseline(&base[0], &base[1]))
			mpi[0] = '\0';
		measure(&g, LARGE_BYTES / 4, 1);
		ns = measure(&g, LARGE_BYTES / 4, LARGE_TIMES);
		gm_series_add(&large, ns / 1e6, base[0] / 1e6);
		large_ns += ns;
		measure(&g, 2, SMALL_TIMES / 10);
		ns = measure(&g, 2, SMALL_TIMES);
		gm_series_add(&small, ns / 1e3, base[1] / 1e3);
		small_ns += ns;
	}
	print("all_reduce_64m_rows_2", "ms", 1e6, &large, large_ns);
	print("all_reduce_8_rows_2", "us", 1e3, &small, small_ns);
	gpumap_comm_close(g.comm);
	gpumap_session_close(session);
	gpumap_detach(map);
	agent_kill(&agent, SIGTERM);
	agent_remove(&agent);
	return 0;
}
