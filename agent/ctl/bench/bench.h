/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * bench - gpumapctl bench: measure a live instance against its machine's
 * limits.
 *
 * The measuring process is an ordinary client.  The process is bound to one
 * CPU, and the raw figures are taken between that CPU and the one that the
 * first row's worker runs on.
 */
#ifndef GM_CTL_BENCH_H
#define GM_CTL_BENCH_H

#include "agent/bench/bracket.h"
#include "agent/ctl/ctl.h"

int gm_ctl_bench(struct gm_ctl *ctl);

struct gm_bench {
	struct gm_ctl *ctl;
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
