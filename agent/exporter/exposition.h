/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * exposition - write metrics in the text formats that Prometheus reads:
 * OpenMetrics 1.0, and the older one, version 0.0.4.
 *
 * Samples of one family come one behind the other, so the caller goes through
 * the families, and for each through the rows or objects that have it.
 */
#ifndef GM_EXPOSITION_H
#define GM_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/exporter/labels.h"

enum gm_family_type {
	GM_FAMILY_GAUGE,
	GM_FAMILY_COUNTER, /* its samples' names end in _total */
	GM_FAMILY_INFO,    /* its samples' names end in _info, and are 1 */
	GM_FAMILY_HISTOGRAM
};

/* Metrics of one name, which differ by their labels. */
struct gm_family {
	const char *name; /* without the ending of its samples */
	const char *help; /* one line, without a backslash */
	const char *unit; /* the last word of @name, or NULL */
	enum gm_family_type type;
};

struct gm_exposition {
	bool openmetrics;
	bool failed; /* memory was short: @text is not whole */
	char *text;
	size_t n;
	size_t room;
	const struct gm_family *family; /* of the next sample */
	bool begun;                     /* it has had a sample */
};

/* Begin with nothing written. */
void gm_exposition_init(struct gm_exposition *e, bool openmetrics);

/* The samples that follow are of @family, which outlives them.  A family
 * without samples is not mentioned. */
void gm_exposition_family(struct gm_exposition *e,
			  const struct gm_family *family);

/* Write a sample; @labels may be NULL. */
void gm_exposition_sample(struct gm_exposition *e,
			  const struct gm_labels *labels, double value);

/* How many of something were in each of a histogram's buckets. */
struct gm_buckets {
	uint32_t n;
	const double *most; /* of each bucket; the last is infinite */
	const uint64_t *counts;
	double sum; /* of the values */
};

/* Write the samples of a histogram.  @labels have room for one more. */
void gm_exposition_histogram(struct gm_exposition *e,
			     const struct gm_labels *labels,
			     const struct gm_buckets *buckets);

/* Write the end.  Returns the text for free(), or NULL if memory was short. */
char *gm_exposition_end(struct gm_exposition *e, size_t *ret_bytes);

/* Free what an exposition has that was not ended. */
void gm_exposition_drop(struct gm_exposition *e);

/* The type of the text, for the header Content-Type. */
const char *gm_exposition_type(bool openmetrics);

#endif
