/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * series - collect the rounds of a measurement, and print one line of JSON for
 * it.
 *
 * Each round measures a thing and its baseline side by side.  The result is the
 * median of the rounds' ratios: a disturbance of a round mostly affects both.
 */
#ifndef GM_SERIES_H
#define GM_SERIES_H

#include <stddef.h>
#include <stdint.h>

#define GM_SERIES_MAX 64u

struct gm_series {
	double value[GM_SERIES_MAX];
	double baseline[GM_SERIES_MAX];
	uint32_t n;        /* rounds kept */
	uint32_t rejected; /* rounds discarded, see bracket.h */
};

enum gm_sense { GM_NO_GOAL, GM_AT_MOST, GM_AT_LEAST };

/*
 * One row of the table.  The goal is for the ratio if there is a baseline, and
 * otherwise for the value itself.
 */
struct gm_figure {
	const char *name;
	const char *unit;
	enum gm_sense sense;
	double goal;
};

/* Add a round; rounds past GM_SERIES_MAX are dropped. */
void gm_series_add(struct gm_series *series, double value, double baseline);

/* The value below which @part (0 to 1) of the @n > 0 values lie. */
double gm_series_quantile(const double *values, size_t n, double part);

/* The same for ticks; sorts @ticks. */
double gm_series_ticks_ns(uint32_t *ticks, size_t n, double part);

/*
 * gm_series_print - one JSON object on one line
 *
 * note		tells how it was measured; the number of kept rounds and the
 *		spread of their ratios are added.  May be NULL
 *
 * Fields: name, value, unit, baseline, ratio, goal, reached, note, machine.
 * Fields that do not apply are null, and so are numbers of a series without a
 * round.
 */
void gm_series_print(const struct gm_figure *figure,
		     const struct gm_series *series, const char *note);

/* The same for a figure that has neither rounds nor a baseline. */
void gm_series_print_value(const struct gm_figure *figure, double value,
			   const char *note);

#endif
