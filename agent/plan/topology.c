/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/topology.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/plan/checked.h"
#include "agent/plan/number.h"
#include "agent/plan/pattern.h"
#include "agent/plan/topology_yaml.h"

/* Does the entry name a type that CUDA devices cannot compute with? */
static bool is_off(const struct gm_topology_entry *entry)
{
	return entry->has_isq && !gm_isq_runs_on_cuda(entry->isq);
}

static int read_entry(const struct gm_topology_text *text,
		      struct gm_topology_entry *ret, struct gm_plan_error *err)
{
	struct gm_topology_entry entry = { .has_isq = text->isq,
					   .has_device = text->device };
	int r = 0;

	if (text->isq)
		r = gm_isq_parse(text->isq, &entry.isq, err);
	if (r == 0 && text->device)
		r = gm_location_parse(text->device, &entry.device, err);
	if (r == 0 && entry.device.kind == GM_LOCATION_CUDA && is_off(&entry))
		r = gm_isq_not_on_cuda(err);
	if (r == 0)
		*ret = entry;
	return r;
}

static bool is_pattern(const char *selector)
{
	size_t n = strlen(selector);

	return n >= 2 && selector[0] == '/' && selector[n - 1] == '/';
}

static int add_pattern(struct gm_topology *t, const char *selector,
		       const struct gm_topology_entry *entry,
		       struct gm_plan_error *err)
{
	size_t n = strlen(selector) - 2;
	char why[128];

	if (gm_pattern_check(selector + 1, n, why))
		return gm_error_set(err, -EINVAL,
				    "correct the regular expression, or write "
				    "it without flags, names, Unicode classes "
				    "and sets",
				    "Invalid topology regex `%.*s`: %s",
				    (int)gm_min(n, GM_PATTERN_BYTES),
				    selector + 1, why);
	t->pattern_has_isq |= entry->has_isq;
	t->pattern_not_cuda |= !entry->has_device && is_off(entry);
	return 0;
}

static int parse_numbers(const char *selector, struct gm_topology_range *range,
			 struct gm_plan_error *err)
{
	const char *dash = strchr(selector, '-');
	size_t n = dash ? (size_t)(dash - selector) : strlen(selector);
	const char *wrong = gm_number_parse(selector, n, &range->start);

	if (!wrong && dash)
		wrong = gm_number_parse(dash + 1, strlen(dash + 1),
					&range->end);
	else if (!wrong && __builtin_add_overflow(range->start, 1, &range->end))
		wrong = "number too large to fit in target type";
	if (wrong)
		return gm_error_set(err, -EINVAL,
				    "selectors are N, START-END and /REGEX/",
				    "%s", wrong);
	return 0;
}

static int add_range(struct gm_topology *t, const char *selector,
		     const struct gm_topology_entry *entry, uint64_t index,
		     struct gm_plan_error *err)
{
	struct gm_topology_range range = { .index = index, .entry = *entry };
	int r = parse_numbers(selector, &range, err);

	if (r)
		return r;
	if (range.end <= range.start)
		return gm_error_set(err, -EINVAL,
				    "the end is one more than the last layer",
				    "Topology range end must be > start, got "
				    "%" PRIu64 " <= %" PRIu64,
				    range.end, range.start);
	t->ranges[t->n_ranges++] = range;
	return 0;
}

/* Sort so that the range that wins comes later: the one with the higher end, or
 * with equal ends the later entry. */
static int by_end(const void *a, const void *b)
{
	const struct gm_topology_range *x = a, *y = b;

	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

/*
 * Reduce each range to the layers that it wins, from the last range down: all
 * later ranges end beyond this one, so they cover it from the lowest of their
 * starts on.
 */
static void settle(struct gm_topology *t)
{
	uint64_t lowest = UINT64_MAX;
	size_t kept = t->n_ranges;

	if (t->n_ranges == 0)
		return;
	qsort(t->ranges, t->n_ranges, sizeof(*t->ranges), by_end);
	for (size_t i = t->n_ranges; i-- > 0;) {
		struct gm_topology_range range = t->ranges[i];

		range.end = gm_min(range.end, lowest);
		lowest = gm_min(lowest, range.start);
		if (range.start < range.end)
			t->ranges[--kept] = range;
	}
	t->n_ranges -= kept;
	memmove(t->ranges, t->ranges + kept, t->n_ranges * sizeof(*t->ranges));
}

static int read_texts(const struct gm_topology_texts *texts,
		      struct gm_topology *t, struct gm_plan_error *err)
{
	int r = 0;

	t->ranges = calloc(texts->n + 1, sizeof(*t->ranges));
	if (!t->ranges)
		return gm_error_no_memory(err);
	for (size_t i = 0; i < texts->n && r == 0; i++) {
		const char *selector = texts->v[i].selector;
		struct gm_topology_entry entry;

		r = read_entry(&texts->v[i], &entry, err);
		if (r)
			break;
		if (is_pattern(selector))
			r = add_pattern(t, selector, &entry, err);
		else
			r = add_range(t, selector, &entry, i, err);
	}
	return r;
}

int gm_topology_parse(const char *text, size_t n,
		      struct gm_topology *ret_topology,
		      struct gm_plan_error *ret_err)
{
	struct gm_topology_texts texts = { 0 };
	struct gm_topology t = { 0 };
	int r;

	r = gm_topology_yaml(text, n, &texts, ret_err);
	if (r)
		return r;
	r = read_texts(&texts, &t, ret_err);
	gm_topology_texts_free(&texts);
	if (r) {
		gm_topology_free(&t);
		return r;
	}
	settle(&t);
	*ret_topology = t;
	return 0;
}

void gm_topology_free(struct gm_topology *t)
{
	if (!t)
		return;
	free(t->ranges);
	*t = (struct gm_topology){ 0 };
}

bool gm_topology_places(const struct gm_topology *t)
{
	for (size_t i = 0; i < t->n_ranges; i++)
		if (t->ranges[i].entry.has_device)
			return true;
	return false;
}

/* The first range that ends behind @layer. */
static size_t range_behind(const struct gm_topology *t, uint64_t layer)
{
	size_t low = 0, high = t->n_ranges;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->ranges[middle].end > layer)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

bool gm_topology_suits_cuda(const struct gm_topology *t, uint64_t first,
			    uint64_t n)
{
	for (size_t i = range_behind(t, first);
	     i < t->n_ranges && t->ranges[i].start < first + n; i++)
		if (is_off(&t->ranges[i].entry))
			return false;
	return !t->pattern_not_cuda;
}

uint64_t gm_topology_end(const struct gm_topology *t)
{
	return t->n_ranges ? t->ranges[t->n_ranges - 1].end : 0;
}
