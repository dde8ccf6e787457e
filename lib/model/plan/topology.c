/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/plan/topology.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
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

bool gm_topology_is_off_cuda(const struct gm_topology_entry *entry)
{
	return entry->has_isq && !gm_isq_runs_on_cuda(entry->isq);
}

int gm_topology_entry_parse(const char *isq, const char *device,
			    struct gm_topology_entry *ret_entry,
			    struct gm_plan_error *err)
{
	struct gm_topology_entry entry = { .has_isq = isq,
					   .has_device = device };
	int r = 0;

	if (isq)
		r = gm_isq_parse(isq, &entry.isq, err);
	if (r == 0 && device)
		r = gm_topology_device_parse(device, &entry.device, err);
	if (r == 0 && entry.device.kind == GM_LOCATION_CUDA &&
	    gm_topology_is_off_cuda(&entry))
		r = gm_isq_not_on_cuda(err);
	if (r == 0)
		*ret_entry = entry;
	return r;
}

void gm_topology_add_pattern(struct gm_topology *t,
			     const struct gm_topology_entry *entry)
{
	t->pattern_has_isq |= entry->has_isq;
	t->pattern_not_cuda |=
		!entry->has_device && gm_topology_is_off_cuda(entry);
}

int gm_topology_add(struct gm_topology *t, const char *layers,
		    const struct gm_topology_entry *entry, uint64_t index,
		    struct gm_plan_error *err)
{
	struct gm_topology_range range = { .index = index, .entry = *entry };
	int r = parse_numbers(layers, &range, err);

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

/* ---- texts --------------------------------------------------------------- */

#define FIELD_BYTES 64u

/* The next field of an entry, up to a colon or the entry's end at @end.
 * Returns false where it is too long. */
static bool take_field(const char **at, const char *end,
		       char ret_field[FIELD_BYTES])
{
	const char *colon = memchr(*at, ':', (size_t)(end - *at));
	size_t n = (size_t)((colon ? colon : end) - *at);

	if (n >= FIELD_BYTES)
		return false;
	memcpy(ret_field, *at, n);
	ret_field[n] = '\0';
	*at = colon ? colon + 1 : end;
	return true;
}

static int parse_entry(const char *at, const char *end, struct gm_topology *t,
		       struct gm_plan_error *err)
{
	uint32_t n_colons = 0;
	char layers[FIELD_BYTES], device[FIELD_BYTES], isq[FIELD_BYTES];
	struct gm_topology_entry entry;
	int r;

	for (const char *c = at; c < end; c++)
		n_colons += *c == ':';
	if (n_colons > 2 || !take_field(&at, end, layers) ||
	    !take_field(&at, end, device) || !take_field(&at, end, isq))
		return gm_error_set(err, -EINVAL,
				    "entries are LAYERS, LAYERS:DEVICE, "
				    "LAYERS:DEVICE:TYPE and LAYERS::TYPE",
				    "Topology: an entry has more than three "
				    "fields, or a field more than %u bytes",
				    FIELD_BYTES - 1);
	r = gm_topology_entry_parse(isq[0] ? isq : NULL,
				    device[0] ? device : NULL, &entry, err);
	if (r)
		return r;
	if (strcmp(layers, "*") != 0)
		return gm_topology_add(t, layers, &entry, t->n_ranges, err);
	gm_topology_add_pattern(t, &entry);
	return 0;
}

int gm_topology_parse(const char *text, struct gm_topology *ret_topology,
		      struct gm_plan_error *ret_err)
{
	struct gm_topology t = { 0 };
	size_t n = 1;
	int r = 0;

	for (const char *at = text; *at; at++)
		n += *at == ';';
	if (n > GM_TOPOLOGY_ENTRIES)
		return gm_error_set(ret_err, -E2BIG, "join entries to ranges",
				    "Topology: more than %u entries",
				    GM_TOPOLOGY_ENTRIES);
	t.ranges = calloc(n, sizeof(*t.ranges));
	if (!t.ranges)
		return gm_error_no_memory(ret_err);
	while (*text && r == 0) {
		const char *end = strchrnul(text, ';');

		r = parse_entry(text, end, &t, ret_err);
		text = *end ? end + 1 : end;
	}
	if (r) {
		gm_topology_free(&t);
		return r;
	}
	gm_topology_settle(&t);
	*ret_topology = t;
	return 0;
}

static const char *device_text(const struct gm_topology_entry *entry,
			       char text[FIELD_BYTES])
{
	const char *kind =
		entry->device.kind == GM_LOCATION_CUDA ? "cuda" : "metal";

	if (!entry->has_device)
		return "";
	if (entry->device.kind == GM_LOCATION_CPU)
		return "cpu";
	snprintf(text, FIELD_BYTES, "%s[%" PRIu64 "]", kind,
		 entry->device.ordinal);
	return text;
}

char *gm_topology_print(const struct gm_topology *t)
{
	char *text = NULL, device[FIELD_BYTES];
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return NULL;
	for (size_t i = 0; i < t->n_ranges; i++) {
		const struct gm_topology_range *range = &t->ranges[i];
		const struct gm_topology_entry *entry = &range->entry;

		fprintf(to, "%s%" PRIu64 "-%" PRIu64 ":%s", i ? ";" : "",
			range->start, range->end, device_text(entry, device));
		if (entry->has_isq)
			fprintf(to, ":%s", gm_isq_name(entry->isq));
	}
	/* The two facts that are kept of patterns. */
	if (t->pattern_has_isq)
		fprintf(to, "%s*::%s", t->n_ranges ? ";" : "",
			gm_isq_name(t->pattern_not_cuda ? GM_ISQ_Q8_1
							: GM_ISQ_Q4_0));
	if (fclose(to) == 0)
		return text;
	free(text);
	return NULL;
}
