/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/plan/pipeline.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/model/plan/checked.h"
#include "lib/model/plan/number.h"
#include "shm/chars.h"

/* The names in messages of the two lists. */
#define COUNTS  "RING_LAYER_SPLIT"
#define WEIGHTS "RING_MEM_GIB"

static int parse_error(struct gm_plan_error *err, const char *list,
		       const char *why)
{
	return gm_error_set(err, -EINVAL,
			    "give one number per rank, with commas",
			    "%s parse: %s", list, why);
}

/* The element at *text, trimmed; leaves *text at the next, or NULL. */
static struct gm_chars next_item(const char **text)
{
	size_t n = strcspn(*text, ",");
	struct gm_chars item = { *text, n };

	*text = (*text)[n] == ',' ? *text + n + 1 : NULL;
	return gm_chars_trim(item);
}

static int check_entries(const char *list, size_t n, uint32_t n_ranks,
			 struct gm_plan_error *err)
{
	if (n == n_ranks)
		return 0;
	return gm_error_set(err, -EINVAL, "give one number per rank",
			    "%s has %zu entries but world_size is %" PRIu32,
			    list, n, n_ranks);
}

static int beyond_model(struct gm_plan_error *err, const char *list,
			const char *sum, uint64_t n_layers)
{
	return gm_error_set(err, -EINVAL, "correct the numbers of layers",
			    "%s sums to %s but model has %" PRIu64 " layers",
			    list, sum, n_layers);
}

static int split_exactly(uint64_t n_layers, uint32_t n_ranks, const char *text,
			 uint64_t *counts, struct gm_plan_error *err)
{
	uint64_t sum = 0;
	bool over = false;
	char shown[24];
	size_t n = 0;
	int r;

	for (const char *at = text; at; n++) {
		struct gm_chars item = next_item(&at);
		uint64_t count = 0;
		const char *why = gm_number_parse(item.at, item.n, &count);

		if (why)
			return parse_error(err, COUNTS, why);
		sum = gm_checked_add(&over, sum, count);
		if (n < n_ranks)
			counts[n] = count;
	}
	r = check_entries(COUNTS, n, n_ranks, err);
	if (r || (!over && sum == n_layers))
		return r;
	snprintf(shown, sizeof(shown), "%" PRIu64, sum);
	return beyond_model(err, COUNTS, over ? "2^64 or more" : shown,
			    n_layers);
}

static bool is_word(struct gm_chars item, const char *word)
{
	return item.n == strlen(word) &&
	       strncasecmp(item.at, word, item.n) == 0;
}

/* Read a number as Rust's f64 parser does.  Unlike strtod() that takes no
 * hexadecimal and no NaN with a payload.  Behind the item there is text, or its
 * end. */
static bool read_float(struct gm_chars item, double *ret_value)
{
	struct gm_chars bare = item;
	char *end;

	if (bare.n > 0 && (bare.at[0] == '+' || bare.at[0] == '-'))
		bare = (struct gm_chars){ bare.at + 1, bare.n - 1 };
	*ret_value = strtod(item.at, &end);
	return is_word(bare, "inf") || is_word(bare, "infinity") ||
	       is_word(bare, "nan") ||
	       (end == item.at + item.n &&
		strspn(bare.at, "0123456789.eE+-") >= bare.n);
}

static int read_weights(const char *text, uint32_t n_ranks, double *ret_weights,
			struct gm_plan_error *err)
{
	double weight;
	size_t n = 0;

	for (const char *at = text; at; n++) {
		struct gm_chars item = next_item(&at);

		if (item.n == 0)
			return parse_error(err, WEIGHTS,
					   "cannot parse float from empty "
					   "string");
		if (!read_float(item, &weight))
			return parse_error(err, WEIGHTS,
					   "invalid float literal");
		if (n < n_ranks)
			ret_weights[n] = weight;
	}
	return check_entries(WEIGHTS, n, n_ranks, err);
}

static int split_by_weight(uint64_t n_layers, uint32_t n_ranks,
			   const double *weights, uint64_t *counts,
			   struct gm_plan_error *err)
{
	uint64_t sum = 0, left;
	bool over = false;
	double total = 0;
	char shown[24];

	for (uint32_t i = 0; i < n_ranks; i++)
		total += weights[i];
	for (uint32_t i = 0; i < n_ranks; i++) {
		counts[i] = gm_whole(weights[i] / total * (double)n_layers);
		sum = gm_checked_add(&over, sum, counts[i]);
	}
	if (over || sum > n_layers) {
		snprintf(shown, sizeof(shown), "%" PRIu64, sum);
		return beyond_model(err, WEIGHTS, over ? "2^64 or more" : shown,
				    n_layers);
	}
	left = n_layers - sum;
	for (uint32_t i = 0; i < n_ranks; i++)
		counts[i] += left / n_ranks + (i < left % n_ranks);
	return 0;
}

static int split_weighted(uint64_t n_layers, uint32_t n_ranks, const char *text,
			  uint64_t *counts, struct gm_plan_error *err)
{
	double *weights;
	int r = 0;

	if (n_ranks == 0 && n_layers > 0 && !text)
		return gm_error_set(err, -EINVAL, "give a rank",
				    "A pipeline of no ranks");
	weights = calloc((size_t)n_ranks + 1, sizeof(*weights));
	if (!weights)
		return gm_error_no_memory(err);
	for (uint32_t i = 0; i < n_ranks; i++)
		weights[i] = 1;
	if (text)
		r = read_weights(text, n_ranks, weights, err);
	if (r == 0)
		r = split_by_weight(n_layers, n_ranks, weights, counts, err);
	free(weights);
	return r;
}

int gm_pipeline_split(uint64_t n_layers, uint32_t n_ranks, const char *exact,
		      const char *weights, uint64_t *ret_counts,
		      struct gm_plan_error *ret_err)
{
	uint64_t *counts;
	int r;

	if (n_ranks > GM_PIPELINE_RANKS)
		return gm_error_set(ret_err, -E2BIG, "check the numbers",
				    "More than %u ranks", GM_PIPELINE_RANKS);
	counts = calloc((size_t)n_ranks + 1, sizeof(*counts));
	if (!counts)
		return gm_error_no_memory(ret_err);
	if (exact)
		r = split_exactly(n_layers, n_ranks, exact, counts, ret_err);
	else
		r = split_weighted(n_layers, n_ranks, weights, counts, ret_err);
	if (r == 0 && n_ranks > 0)
		memcpy(ret_counts, counts, n_ranks * sizeof(*counts));
	free(counts);
	return r;
}
