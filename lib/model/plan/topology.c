/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/plan/topology.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/plan/checked.h"
#include "lib/model/plan/number.h"

/* ---- devices ------------------------------------------------------------- */

#define PATTERN "^(cpu|cuda\\[(\\d+)\\]|metal\\[(\\d+)\\])$"

static int no_device(struct gm_plan_error *err)
{
	return gm_error_set(err, -EINVAL, NULL,
			    "Device specifier must match regex " PATTERN
			    ". Examples: `cpu`, `cuda[ORD]`, `metal[ORD]`");
}

int gm_topology_device_parse(const char *text, struct gm_location *ret_location,
			     struct gm_plan_error *ret_err)
{
	struct gm_location location = { 0 };
	size_t kind = strcspn(text, "[");
	const char *digits = text + kind + 1;
	const char *wrong;
	size_t n;

	if (strcmp(text, "cpu") == 0) {
		*ret_location = location;
		return 0;
	}
	if (kind == 4 && memcmp(text, "cuda", kind) == 0)
		location.kind = GM_LOCATION_CUDA;
	else if (kind == 5 && memcmp(text, "metal", kind) == 0)
		location.kind = GM_LOCATION_METAL;
	else
		return no_device(ret_err);
	if (text[kind] == '\0')
		return no_device(ret_err);
	n = strspn(digits, "0123456789");
	if (n == 0 || strcmp(digits + n, "]") != 0)
		return no_device(ret_err);
	wrong = gm_number_parse(digits, n, &location.ordinal);
	if (wrong)
		return gm_error_set(ret_err, -EINVAL, NULL, "%s", wrong);
	*ret_location = location;
	return 0;
}

/* ---- ranges -------------------------------------------------------------- */

bool gm_topology_is_off_cuda(const struct gm_topology_entry *entry)
{
	return entry->has_isq && !gm_isq_runs_on_cuda(entry->isq);
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

/* From the last range down: all later ranges end beyond this one, so they cover
 * it from the lowest of their starts on. */
void gm_topology_settle(struct gm_topology *t)
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
		if (gm_topology_is_off_cuda(&t->ranges[i].entry))
			return false;
	return !t->pattern_not_cuda;
}

uint64_t gm_topology_end(const struct gm_topology *t)
{
	return t->n_ranges ? t->ranges[t->n_ranges - 1].end : 0;
}
