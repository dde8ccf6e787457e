/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/exporter/exposition.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gm_exposition_init(struct gm_exposition *e, bool openmetrics)
{
	*e = (struct gm_exposition){ .openmetrics = openmetrics };
}

static bool make_room(struct gm_exposition *e, size_t bytes)
{
	size_t room = e->room > 0 ? e->room : 16384;
	char *text;

	while (room - e->n < bytes)
		room *= 2;
	if (room == e->room)
		return true;
	text = realloc(e->text, room);
	if (text == NULL) {
		e->failed = true;
		return false;
	}
	e->text = text;
	e->room = room;
	return true;
}

static void __attribute__((format(printf, 2, 3)))
put(struct gm_exposition *e, const char *format, ...)
{
	va_list list;
	int n;

	/* Longer than a kilobyte are labels alone. */
	if (e->failed || !make_room(e, GM_LABELS_BYTES + 1024))
		return;
	va_start(list, format);
	n = vsnprintf(e->text + e->n, e->room - e->n, format, list);
	va_end(list);
	if (n < 0 || (size_t)n >= e->room - e->n)
		e->failed = true;
	else
		e->n += (size_t)n;
}

void gm_exposition_family(struct gm_exposition *e,
			  const struct gm_family *family)
{
	e->family = family;
	e->begun = false;
}

static const char *ending(const struct gm_family *family)
{
	return family->type == GM_FAMILY_COUNTER ? "_total"
	       : family->type == GM_FAMILY_INFO  ? "_info"
						 : "";
}

/* The older format has no infos and no units, and names the samples. */
static void put_head(struct gm_exposition *e)
{
	const struct gm_family *f = e->family;
	const char *end = e->openmetrics ? "" : ending(f);
	const char *type = f->type == GM_FAMILY_COUNTER     ? "counter"
			   : f->type == GM_FAMILY_HISTOGRAM ? "histogram"
			   : f->type == GM_FAMILY_INFO && e->openmetrics
				   ? "info"
				   : "gauge";

	put(e, "# HELP %s%s %s\n# TYPE %s%s %s\n", f->name, end, f->help,
	    f->name, end, type);
	if (e->openmetrics && f->unit != NULL)
		put(e, "# UNIT %s %s\n", f->name, f->unit);
}

static void put_value(struct gm_exposition *e, double value)
{
	char text[32];

	if (value == rint(value) && fabs(value) < 1e18) {
		put(e, " %" PRId64 "\n", (int64_t)value);
		return;
	}
	/* 0.1 as 0.1, where no digit is lost by that. */
	snprintf(text, sizeof(text), "%.15g", value);
	if (strtod(text, NULL) != value)
		snprintf(text, sizeof(text), "%.17g", value);
	put(e, " %s\n", text);
}

static void put_sample(struct gm_exposition *e, const char *end,
		       const struct gm_labels *labels, double value)
{
	if (!e->begun)
		put_head(e);
	e->begun = true;
	put(e, "%s%s", e->family->name, end);
	if (labels != NULL && labels->n > 0)
		put(e, "{%s}", labels->text);
	put_value(e, value);
}

void gm_exposition_sample(struct gm_exposition *e,
			  const struct gm_labels *labels, double value)
{
	put_sample(e, ending(e->family), labels, value);
}

void gm_exposition_histogram(struct gm_exposition *e,
			     const struct gm_labels *labels,
			     const struct gm_buckets *buckets)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < buckets->n; i++) {
		struct gm_labels full = *labels;
		char most[32] = "+Inf";

		if (i < buckets->n - 1)
			snprintf(most, sizeof(most), "%.15g", buckets->most[i]);
		/* A whole number has a point in it: OpenMetrics says so. */
		if (i < buckets->n - 1 && strpbrk(most, ".e") == NULL)
			strcat(most, ".0");
		gm_labels_add(&full, "le", most);
		count += buckets->counts[i];
		put_sample(e, "_bucket", &full, (double)count);
	}
	put_sample(e, "_sum", labels, buckets->sum);
	put_sample(e, "_count", labels, (double)count);
}

char *gm_exposition_end(struct gm_exposition *e, size_t *ret_bytes)
{
	if (e->openmetrics)
		put(e, "# EOF\n");
	if (e->failed || !make_room(e, 1)) {
		gm_exposition_drop(e);
		return NULL;
	}
	*ret_bytes = e->n;
	return e->text;
}

void gm_exposition_drop(struct gm_exposition *e)
{
	free(e->text);
	e->text = NULL;
}

const char *gm_exposition_type(bool openmetrics)
{
	return openmetrics ? "application/openmetrics-text; version=1.0.0; "
			     "charset=utf-8"
			   : "text/plain; version=0.0.4; charset=utf-8";
}
