/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/balance.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/plan/checked.h"
#include "agent/plan/placement.h"

/* A time: bytes / speed.  Speed 0 is no bound at all. */
struct limit {
	uint64_t bytes;
	uint64_t speed;
	bool strict; /* bound is less than, not up to */
};

static const struct limit no_limit = { 0, 0, false };

struct solver {
	const struct gm_balance_request *q;
	uint64_t *sum;   /* bytes of the layers before each */
	uint32_t *reach; /* [k][r]: end of what k of the first r rows hold */
	uint32_t *least; /* [k][r]: start of what k rows from r on hold */
};

static uint32_t *at(const struct solver *s, uint32_t *table, uint32_t k,
		    uint32_t r)
{
	return &table[(size_t)k * (s->q->n_rows + 1) + r];
}

static bool in_time(const struct gm_balance_row *row, uint64_t bytes,
		    const struct limit *limit)
{
	unsigned __int128 took, may;

	if (limit->speed == 0)
		return true;
	took = (unsigned __int128)bytes * limit->speed;
	may = (unsigned __int128)limit->bytes * row->speed;
	return limit->strict ? took < may : took <= may;
}

/* Can row @r hold layers @a to @b - 1? */
static bool holds(const struct solver *s, uint32_t r, uint32_t a, uint32_t b,
		  bool is_first, const struct limit *limit)
{
	const struct gm_balance_request *q = s->q;
	uint64_t bytes = s->sum[b] - s->sum[a];
	uint64_t need = bytes + q->kv_bytes * (b - a);

	if (a == b)
		return true;
	if (q->rows[r].speed == 0)
		return false;
	need += q->mapped_act_bytes;
	if (is_first)
		need += gm_minus(q->non_mapped_act_bytes, q->mapped_act_bytes) +
			q->non_mapped_bytes;
	return need <= q->rows[r].capacity &&
	       in_time(&q->rows[r], bytes, limit);
}

/* The furthest end of a range on row @r that begins at @a. */
static uint32_t furthest(const struct solver *s, uint32_t r, uint32_t a,
			 bool is_first, const struct limit *limit)
{
	uint32_t low = a, high = s->q->n_layers;

	while (low < high) {
		uint32_t middle = high - (high - low) / 2;

		if (holds(s, r, a, middle, is_first, limit))
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* The lowest start of a range on row @r, not the first, that ends at @b. */
static uint32_t lowest(const struct solver *s, uint32_t r, uint32_t b,
		       const struct limit *limit)
{
	uint32_t low = 0, high = b;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (holds(s, r, middle, b, false, limit))
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static bool is_slower(const struct limit *a, const struct limit *b)
{
	return (unsigned __int128)a->bytes * b->speed >
	       (unsigned __int128)b->bytes * a->speed;
}

static struct limit time_of(const struct solver *s, uint32_t r, uint32_t a,
			    uint32_t b)
{
	return (struct limit){ s->sum[b] - s->sum[a], s->q->rows[r].speed,
			       false };
}

/* The layers that all rows hold, where each takes as many as it can, and the
 * time of the slowest. */
static uint32_t take_all(const struct solver *s, const struct limit *limit,
			 struct limit *ret_slowest)
{
	uint32_t layer = 0;

	*ret_slowest = (struct limit){ 0, 1, false };
	for (uint32_t r = 0; r < s->q->n_rows; r++) {
		uint32_t end = furthest(s, r, layer, layer == 0, limit);
		struct limit time = time_of(s, r, layer, end);

		if (end > layer && is_slower(&time, ret_slowest))
			*ret_slowest = time;
		layer = end;
	}
	return layer;
}

/* The fewest rows, at most @most, that hold all layers; 0 if none do. */
static uint32_t count_rows(struct solver *s, uint32_t most,
			   const struct limit *limit)
{
	uint32_t n = s->q->n_rows;

	for (uint32_t r = 0; r <= n; r++)
		*at(s, s->reach, 0, r) = 0;
	for (uint32_t k = 1; k <= most; k++) {
		*at(s, s->reach, k, k - 1) = *at(s, s->reach, k - 1, k - 1);
		for (uint32_t r = k; r <= n; r++) {
			uint32_t from = *at(s, s->reach, k - 1, r - 1);
			uint32_t to =
				furthest(s, r - 1, from, from == 0, limit);
			uint32_t without = *at(s, s->reach, k, r - 1);

			*at(s, s->reach, k, r) = to > without ? to : without;
		}
		if (*at(s, s->reach, k, n) == s->q->n_layers)
			return k;
	}
	return 0;
}

static void fill_least(struct solver *s, uint32_t k_most,
		       const struct limit *limit)
{
	uint32_t n = s->q->n_rows;

	for (uint32_t r = 0; r <= n; r++)
		*at(s, s->least, 0, r) = s->q->n_layers;
	for (uint32_t k = 1; k <= k_most; k++) {
		*at(s, s->least, k, n) = s->q->n_layers;
		for (uint32_t r = n; r-- > 0;) {
			uint32_t end = *at(s, s->least, k - 1, r + 1);
			uint32_t start = lowest(s, r, end, limit);
			uint32_t without = *at(s, s->least, k, r + 1);

			*at(s, s->least, k, r) =
				start < without ? start : without;
		}
	}
}

/* The map on @k rows, the fewest there are within @limit.  Returns the time of
 * the slowest. */
static struct limit trace(struct solver *s, uint32_t k,
			  const struct limit *limit, struct gm_balance *ret)
{
	struct limit slowest = { 0, 1, false };
	uint32_t layer = 0, r = 0;

	fill_least(s, k, limit);
	ret->n_ranges = 0;
	for (; k > 0; k--, r++) {
		struct gm_balance_range *range = &ret->ranges[ret->n_ranges];
		uint32_t end = furthest(s, r, layer, layer == 0, limit);
		struct limit time;

		/* The lowest row after which the other rows can hold the
		 * rest. */
		while (end == layer || *at(s, s->least, k - 1, r + 1) > end)
			end = furthest(s, ++r, layer, layer == 0, limit);
		*range = (struct gm_balance_range){
			r, layer, end - layer, s->sum[end] - s->sum[layer]
		};
		time = time_of(s, r, layer, end);
		if (is_slower(&time, &slowest))
			slowest = time;
		ret->n_ranges++;
		layer = end;
	}
	return slowest;
}

/* Is there a map on at most @most rows within @limit?  Then its slowest row's
 * time is in @ret_slowest; @map is overwritten. */
static bool is_within(struct solver *s, uint32_t most,
		      const struct limit *limit, struct gm_balance *map,
		      struct limit *ret_slowest)
{
	struct limit slowest;
	uint32_t k;

	if (most == s->q->n_rows) {
		if (take_all(s, limit, &slowest) < s->q->n_layers)
			return false;
	} else {
		k = count_rows(s, most, limit);
		if (k == 0)
			return false;
		slowest = trace(s, k, limit, map);
	}
	*ret_slowest = slowest;
	return true;
}

/* Bisect for the least bound, in bytes on the fastest row. */
static void bisect(struct solver *s, uint32_t most, struct gm_balance *map,
		   struct limit *slowest)
{
	struct limit limit = { 0, 1, false };
	unsigned __int128 wide;
	uint64_t low = 0, high;

	for (uint32_t r = 0; r < s->q->n_rows; r++)
		limit.speed = gm_max(limit.speed, s->q->rows[r].speed);
	wide = (unsigned __int128)slowest->bytes * limit.speed / slowest->speed;
	high = wide > UINT64_MAX ? UINT64_MAX : (uint64_t)wide;
	while (low < high) {
		limit.bytes = low + (high - low) / 2;
		if (is_within(s, most, &limit, map, slowest))
			high = limit.bytes;
		else
			low = limit.bytes + 1;
	}
}

/* The least time of the slowest row on at most @most rows. */
static void minimise(struct solver *s, uint32_t most, struct limit *slowest,
		     struct gm_balance *ret)
{
	struct limit limit;

	bisect(s, most, ret, slowest);
	do {
		limit = *slowest;
		limit.strict = true;
	} while (is_within(s, most, &limit, ret, slowest));
	trace(s, count_rows(s, most, slowest), slowest, ret);
}

static int check(const struct gm_balance_request *q, struct gm_plan_error *err)
{
	uint64_t bytes = 0;
	bool over = false;

	if (q->n_layers == 0)
		return gm_error_no_layers(err);
	if (q->n_layers > GM_PLACEMENT_LAYERS)
		return gm_error_set(err, -E2BIG, "check the numbers of layers",
				    "More than the %u layers that a map may "
				    "have",
				    GM_PLACEMENT_LAYERS);
	if (q->n_rows > GM_BALANCE_ROWS)
		return gm_error_set(err, -E2BIG, "leave some out",
				    "%" PRIu32 " rows, at most %u are allowed",
				    q->n_rows, GM_BALANCE_ROWS);
	for (uint32_t i = 0; i < q->n_layers; i++)
		bytes = gm_checked_add(&over, bytes, q->layer_bytes[i]);
	bytes = gm_checked_add(&over, bytes,
			       gm_checked_mul(&over, q->kv_bytes, q->n_layers));
	bytes = gm_checked_add(&over, bytes,
			       gm_max(q->mapped_act_bytes,
				      q->non_mapped_act_bytes));
	gm_checked_add(&over, bytes, q->non_mapped_bytes);
	if (over)
		return gm_error_set(err, -EOVERFLOW, "correct the request",
				    "The plan's sizes come to 2^64 bytes or "
				    "more");
	return 0;
}

static int start(struct solver *s, struct gm_balance *balance,
		 struct gm_plan_error *err)
{
	const struct gm_balance_request *q = s->q;
	size_t cells = ((size_t)q->n_rows + 1) * (q->n_rows + 1);

	s->sum = calloc((size_t)q->n_layers + 1, sizeof(*s->sum));
	s->reach = calloc(cells, sizeof(*s->reach));
	s->least = calloc(cells, sizeof(*s->least));
	balance->ranges =
		calloc((size_t)q->n_rows + 1, sizeof(*balance->ranges));
	if (!s->sum || !s->reach || !s->least || !balance->ranges)
		return gm_error_no_memory(err);
	for (uint32_t i = 0; i < q->n_layers; i++)
		s->sum[i + 1] = s->sum[i] + q->layer_bytes[i];
	return 0;
}

/* Do the weights of no layer alone keep layer 0 off every row? */
static bool is_shut_out(const struct solver *s)
{
	struct gm_balance_request without = *s->q;
	struct solver other = { .q = &without, .sum = s->sum };

	without.non_mapped_bytes = without.non_mapped_act_bytes = 0;
	for (uint32_t r = 0; r < s->q->n_rows; r++)
		if (holds(&other, r, 0, 1, true, &no_limit))
			return true;
	return false;
}

static int does_not_fit(const struct solver *s, uint32_t end,
			struct gm_plan_error *err)
{
	uint32_t n = s->q->n_rows;
	uint32_t rest = s->q->n_layers - end;
	char more[128] = "";

	if (end == 0 && is_shut_out(s))
		snprintf(more, sizeof(more),
			 ". The %" PRIu64 " bytes of its non-mapped weights "
			 "fit on none of them beside a layer",
			 s->q->non_mapped_bytes);
	return gm_error_set(
		err, -ENOSPC, "lower max_seq_len or the batch, or quantise",
		"This model does not fit on the %" PRIu32
		" rows: layers %" PRIu32 " to %" PRIu32 ", %" PRIu64
		" bytes with their KV cache, find no room%s",
		n, end, s->q->n_layers - 1,
		s->sum[s->q->n_layers] - s->sum[end] + s->q->kv_bytes * rest,
		more);
}

static int solve(struct solver *s, struct gm_balance *ret,
		 struct gm_plan_error *err)
{
	uint32_t most = s->q->n_rows, end;
	struct limit slowest;

	end = take_all(s, &no_limit, &slowest);
	if (end < s->q->n_layers)
		return does_not_fit(s, end, err);
	if (!ret)
		return 0;
	if (s->q->goal == GM_FEWEST) {
		most = count_rows(s, most, &no_limit);
		slowest = trace(s, most, &no_limit, ret);
	}
	minimise(s, most, &slowest, ret);
	return 0;
}

/* @ret_balance is NULL if only the result matters. */
static int make(const struct gm_balance_request *q,
		struct gm_balance *ret_balance, struct gm_plan_error *err)
{
	struct gm_balance balance = { 0 };
	struct solver s = { .q = q };
	int r;

	r = check(q, err);
	if (r)
		return r;
	r = start(&s, &balance, err);
	if (r == 0)
		r = solve(&s, ret_balance ? &balance : NULL, err);
	if (r == 0 && ret_balance) {
		*ret_balance = balance;
		balance.ranges = NULL;
	}
	free(s.sum);
	free(s.reach);
	free(s.least);
	free(balance.ranges);
	return r;
}

int gm_balance_make(const struct gm_balance_request *q,
		    struct gm_balance *ret_balance,
		    struct gm_plan_error *ret_err)
{
	return make(q, ret_balance, ret_err);
}

int gm_balance_fits(const struct gm_balance_request *q,
		    struct gm_plan_error *ret_err)
{
	return make(q, NULL, ret_err);
}

void gm_balance_free(struct gm_balance *balance)
{
	if (!balance)
		return;
	free(balance->ranges);
	*balance = (struct gm_balance){ 0 };
}
