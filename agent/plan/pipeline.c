/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/pipeline.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/plan/checked.h"
#include "agent/plan/number.h"
#include "agent/plan/placement.h"

#define COUNT  "count"
#define WEIGHT "weight"

struct item {
	const char *at;
	size_t len;
};

static int parse_error(struct gm_plan_error *err, const char *what,
		       struct item item)
{
	return gm_error_set(err, -EINVAL,
			    "give one number per rank, with commas",
			    "\"%.*s\" is no %s", (int)gm_min(item.len, 64),
			    item.at, what);
}

/* The element at *text, trimmed; leaves *text at the next, or NULL. */
static struct item next_item(const char **text)
{
	size_t n = strcspn(*text, ",");
	struct item item = { *text, n };

	*text = (*text)[n] == ',' ? *text + n + 1 : NULL;
	while (item.len > 0 && isspace((unsigned char)item.at[0])) {
		item.at++;
		item.len--;
	}
	while (item.len > 0 && isspace((unsigned char)item.at[item.len - 1]))
		item.len--;
	return item;
}

static int check_entries(const char *what, size_t n, uint32_t n_ranks,
			 struct gm_plan_error *err)
{
	if (n == n_ranks)
		return 0;
	return gm_error_set(err, -EINVAL, "give one number per rank",
			    "There are %zu %ss for %" PRIu32 " ranks", n, what,
			    n_ranks);
}

static size_t count_items(const char *text)
{
	size_t n = 1;

	for (; *text; text++)
		n += *text == ',';
	return n;
}

static int split_exactly(uint32_t n_layers, uint32_t n_ranks, const char *text,
			 uint32_t *ret_counts, struct gm_plan_error *err)
{
	uint64_t sum = 0;
	bool over = false;
	uint32_t i = 0;
	int r;

	for (const char *at = text; at;) {
		struct item item = next_item(&at);
		uint64_t count = 0;

		if (gm_number_parse(item.at, item.len, &count))
			return parse_error(err, COUNT, item);
		sum = gm_checked_add(&over, sum, count);
	}
	r = check_entries(COUNT, count_items(text), n_ranks, err);
	if (r)
		return r;
	if (over || sum != n_layers)
		return gm_error_set(err, -EINVAL,
				    "correct the counts of layers",
				    "The counts sum to %" PRIu64
				    ", and the model has %" PRIu32 " layers",
				    over ? UINT64_MAX : sum, n_layers);
	for (const char *at = text; at; i++) {
		struct item item = next_item(&at);
		uint64_t count = 0;

		gm_number_parse(item.at, item.len, &count);
		ret_counts[i] = (uint32_t)count;
	}
	return 0;
}

/* Parse a weight as Rust does: no hexadecimal, nothing after it. */
static bool parse_weight(struct item item, double *ret)
{
	char text[64], *end;

	if (item.len == 0 || item.len >= sizeof(text) ||
	    memchr(item.at, 'x', item.len) || memchr(item.at, 'X', item.len) ||
	    memchr(item.at, '(', item.len))
		return false;
	memcpy(text, item.at, item.len);
	text[item.len] = '\0';
	*ret = strtod(text, &end);
	return *end == '\0' && isfinite(*ret) && *ret >= 0;
}

static int read_weights(const char *text, uint32_t n_ranks, double *ret_weights,
			struct gm_plan_error *err)
{
	size_t n = 0;

	for (const char *at = text; at; n++) {
		struct item item = next_item(&at);
		double weight = 0;

		if (!parse_weight(item, &weight))
			return parse_error(err, WEIGHT, item);
		if (n < n_ranks)
			ret_weights[n] = weight;
	}
	return check_entries(WEIGHT, n, n_ranks, err);
}

static int split_by_weight(uint32_t n_layers, uint32_t n_ranks,
			   const double *weights, uint32_t *ret_counts,
			   struct gm_plan_error *err)
{
	uint32_t left = n_layers;
	double total = 0;

	for (uint32_t i = 0; i < n_ranks; i++)
		total += weights[i];
	if (!isfinite(total) || total <= 0)
		return gm_error_set(err, -EINVAL, "give a rank some weight",
				    "The weights sum to nothing that can be "
				    "shared");
	for (uint32_t i = 0; i < n_ranks; i++) {
		double share = weights[i] / total * (double)n_layers;

		/* Rounded shares may sum to one layer too many. */
		ret_counts[i] = (uint32_t)gm_min((uint64_t)floor(share), left);
		left -= ret_counts[i];
	}
	for (uint32_t i = 0; left > 0; i = (i + 1) % n_ranks, left--)
		ret_counts[i]++;
	return 0;
}

static int split_weighted(uint32_t n_layers, uint32_t n_ranks, const char *text,
			  uint32_t *ret_counts, struct gm_plan_error *err)
{
	double *weights = calloc(n_ranks, sizeof(*weights));
	int r = 0;

	if (!weights)
		return gm_error_no_memory(err);
	for (uint32_t i = 0; i < n_ranks; i++)
		weights[i] = 1;
	if (text)
		r = read_weights(text, n_ranks, weights, err);
	if (r == 0)
		r = split_by_weight(n_layers, n_ranks, weights, ret_counts,
				    err);
	free(weights);
	return r;
}

int gm_pipeline_split(uint32_t n_layers, uint32_t n_ranks, const char *exact,
		      const char *weights, uint32_t *ret_counts,
		      struct gm_plan_error *ret_err)
{
	if (n_layers == 0)
		return gm_error_no_layers(ret_err);
	if (n_ranks == 0)
		return gm_error_set(ret_err, -EINVAL, "give a rank",
				    "A pipeline of no ranks");
	if (n_layers > GM_PLACEMENT_LAYERS || n_ranks > GM_PIPELINE_RANKS)
		return gm_error_set(ret_err, -E2BIG, "check the numbers",
				    "More than %u layers or %u ranks",
				    GM_PLACEMENT_LAYERS, GM_PIPELINE_RANKS);
	if (exact)
		return split_exactly(n_layers, n_ranks, exact, ret_counts,
				     ret_err);
	return split_weighted(n_layers, n_ranks, weights, ret_counts, ret_err);
}
