/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/bench/measure/series.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tests/bench/measure/ticks.h"

void gm_series_add(struct gm_series *series, double value, double baseline)
{
	if (series->n == GM_SERIES_MAX)
		return;
	series->value[series->n] = value;
	series->baseline[series->n] = baseline;
	series->n++;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int by_ticks(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static size_t place(size_t n, double part)
{
	size_t at = (size_t)(part * (double)n);

	return at < n ? at : n - 1;
}

double gm_series_quantile(const double *values, size_t n, double part)
{
	double sorted[GM_SERIES_MAX];

	n = n < GM_SERIES_MAX ? n : GM_SERIES_MAX;
	memcpy(sorted, values, n * sizeof(sorted[0]));
	qsort(sorted, n, sizeof(sorted[0]), by_value);
	return sorted[place(n, part)];
}

double gm_series_ticks_ns(uint32_t *ticks, size_t n, double part)
{
	qsort(ticks, n, sizeof(ticks[0]), by_ticks);
	return ticks[place(n, part)] * gm_ticks_ns();
}

/* Replace bytes that JSON would need escaped.  Only names of CPUs and of
 * kernels may have them; the program's own texts have none. */
static void harmless(char *text)
{
	for (; *text != '\0'; text++)
		if (*text == '"' || *text == '\\' || (unsigned char)*text < ' ')
			*text = ' ';
}

static const char *machine(void)
{
	static char text[256];
	char name[128] = "unknown CPU", line[256];
	struct utsname system = { .release = "?" };
	FILE *file;

	if (text[0] != '\0')
		return text;
	file = fopen("/proc/cpuinfo", "re");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "model name : %127[^\n]", name) == 1)
			break;
	if (file != NULL)
		fclose(file);
	uname(&system);
	snprintf(text, sizeof(text), "%s, %ld CPUs, Linux %.64s", name,
		 sysconf(_SC_NPROCESSORS_ONLN), system.release);
	harmless(text);
	return text;
}

static void print_number(const char *field, double number)
{
	if (isfinite(number))
		printf("\"%s\": %.5g, ", field, number);
	else
		printf("\"%s\": null, ", field);
}

static const char *reached(const struct gm_figure *figure, double number)
{
	if (figure->sense == GM_NO_GOAL || !isfinite(number))
		return "null";
	if (figure->sense == GM_AT_MOST)
		return number <= figure->goal ? "true" : "false";
	return number >= figure->goal ? "true" : "false";
}

static void print(const struct gm_figure *figure, double value, double baseline,
		  double ratio, const char *note)
{
	printf("{\"name\": \"%s\", ", figure->name);
	print_number("value", value);
	printf("\"unit\": \"%s\", ", figure->unit);
	print_number("baseline", baseline);
	print_number("ratio", ratio);
	print_number("goal", figure->sense == GM_NO_GOAL ? NAN : figure->goal);
	printf("\"reached\": %s, \"note\": \"%s\", \"machine\": \"%s\"}\n",
	       reached(figure, isfinite(baseline) ? ratio : value), note,
	       machine());
	fflush(stdout);
}

void gm_series_print(const struct gm_figure *figure,
		     const struct gm_series *series, const char *note)
{
	double ratio[GM_SERIES_MAX];
	uint32_t n = series->n;
	char text[256];

	note = note != NULL ? note : "";
	if (n == 0) {
		snprintf(text, sizeof(text),
			 "none of %u rounds could be kept%s%s",
			 series->rejected, note[0] != '\0' ? "; " : "", note);
		print(figure, NAN, NAN, NAN, text);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		ratio[i] = series->value[i] / series->baseline[i];
	snprintf(text, sizeof(text), "%s%s%u of %u rounds, p10-p90 %.3g-%.3g",
		 note, note[0] != '\0' ? "; " : "", n, n + series->rejected,
		 gm_series_quantile(ratio, n, 0.1),
		 gm_series_quantile(ratio, n, 0.9));
	print(figure, gm_series_quantile(series->value, n, 0.5),
	      gm_series_quantile(series->baseline, n, 0.5),
	      gm_series_quantile(ratio, n, 0.5), text);
}

void gm_series_print_value(const struct gm_figure *figure, double value,
			   const char *note)
{
	print(figure, value, NAN, NAN, note != NULL ? note : "");
}
