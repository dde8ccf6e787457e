/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * bench - bench_instance: measure a live instance against its machine's limits.
 *
 * The measuring process is an ordinary client.  The process is bound to one
 * CPU, and the raw figures are taken between that CPU and the one that the
 * first row's worker runs on.
 *
 * A line has the fields name, value, unit, baseline (the figure of the machine
 * without gpumap, from the same run), ratio (value over baseline), goal (of
 * the ratio, or of the value where there is no baseline), reached, note and
 * machine; a field that does not apply is null.
 *
 * Two CPUs are needed, a session with an arena of 600 MiB for each row, up to
 * 64 more sessions, and a pid namespace in which the workers are seen; for the
 * names in load_ also 512 MiB of the first row, and of the storage of the
 * working directory.  A round of round trips does not count where one between
 * the two CPUs without gpumap took over 15 % more or less time after the round
 * than before it.  The note says how many rounds count: on a busy machine
 * perhaps none.
 */
#ifndef GM_BENCH_INSTANCE_H
#define GM_BENCH_INSTANCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/bench/measure/bracket.h"
#include "gpumap.h"

/* Exit statuses. */
enum gm_bench_exit {
	GM_EXIT_OK,
	GM_EXIT_FAILED,
	GM_EXIT_USAGE,
	GM_EXIT_NO_AGENT
};

struct gm_bench {
	const char *instance;
	const char *runtime_dir;
	const char *only; /* names that start with this; NULL: all */
	struct gpumap *map;
	uint32_t rounds;
	uint32_t n_printed;             /* lines */
	uint32_t rows[GPUMAP_ROWS_MAX]; /* READY host rows */
	pid_t workers[GPUMAP_ROWS_MAX]; /* their workers */
	uint32_t n_rows;
	struct gpumap_session *session;
	int here;  /* the CPU that this process is bound to */
	int there; /* the CPU that the first row's worker runs on */
};

/* Does --only select names that start with @name, or some of them? */
bool gm_bench_wants(const struct gm_bench *bench, const char *name);

/* Print the line, if --only selects it. */
void gm_bench_print(struct gm_bench *bench, const struct gm_figure *figure,
		    const struct gm_series *series, const char *note);
void gm_bench_print_value(struct gm_bench *bench,
			  const struct gm_figure *figure, double value,
			  const char *note);

/* Print that something failed, with the library's or the agent's reason.
 * Returns GM_EXIT_FAILED. */
int gm_bench_fail(const struct gm_bench *bench, int error, const char *format,
		  ...) __attribute__((format(printf, 3, 4)));

/*
 * gm_bench_ping - one round trip of a no-op, spinning
 *
 * Returns	0, or as gpumap_submit() and gpumap_poll()
 */
int gm_bench_ping(struct gm_bench *bench);

/* Each function measures one family and prints its lines.  Returns an exit
 * status. */
int gm_bench_read(struct gm_bench *bench);
int gm_bench_trips(struct gm_bench *bench);
int gm_bench_sleep(struct gm_bench *bench);
int gm_bench_crowd(struct gm_bench *bench);
int gm_bench_scatter(struct gm_bench *bench);
int gm_bench_load(struct gm_bench *bench);

#endif
