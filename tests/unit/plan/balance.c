/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* balance: by hand, and by chance against every map there is. */

#include <errno.h>
#include <string.h>

#include "agent/plan/balance.h"
#include "tests/support/dice.h"
#include "tests/support/tap.h"

#define MOST_LAYERS 7u
#define MOST_ROWS   4u

static struct gm_balance make(const struct gm_balance_request *q, int want)
{
	struct gm_balance b = { 0 };

	EQ(gm_balance_make(q, &b, NULL), want);
	return b;
}

static bool is(const struct gm_balance *b, const char *want)
{
	char text[256] = "", *end = text;

	for (uint32_t i = 0; i < b->n_ranges; i++)
		end += sprintf(end, "%s%" PRIu32 ":%" PRIu32, i ? ";" : "",
			       b->ranges[i].row, b->ranges[i].n);
	if (strcmp(text, want))
		NOTE("got %s", text);
	return strcmp(text, want) == 0;
}

static void layers_follow_speed(void)
{
	uint64_t layers[80];
	const struct gm_balance_row rows[] = { { 1 << 20, 3 },
					       { 1 << 20, 1 },
					       { 1 << 20, 4 } };
	struct gm_balance_request q = {
		.rows = rows, .n_rows = 3, .layer_bytes = layers, .n_layers = 80
	};
	struct gm_balance b;

	for (int i = 0; i < 80; i++)
		layers[i] = 100;
	b = make(&q, 0);
	OK(is(&b, "0:30;1:10;2:40"));
	EQ(b.ranges[1].first, 30);
	EQ(b.ranges[1].bytes, 1000);
	gm_balance_free(&b);
	q.goal = GM_FEWEST;
	b = make(&q, 0);
	OK(is(&b, "2:80"));
	gm_balance_free(&b);
}

static void ties_go_to_fewer_ranges_then_lower_rows(void)
{
	static const uint64_t layers[] = { 8, 1, 1 };
	const struct gm_balance_row same[] = { { 100, 1 },
					       { 100, 1 },
					       { 100, 1 } };
	const struct gm_balance_row tight[] = { { 8, 1 }, { 1, 1 }, { 10, 1 } };
	struct gm_balance_request q = {
		.rows = same, .n_rows = 3, .layer_bytes = layers, .n_layers = 3
	};
	struct gm_balance b;

	/* 8 is the least there is, on two rows as on three. */
	b = make(&q, 0);
	OK(is(&b, "0:1;1:2"));
	gm_balance_free(&b);
	q.rows = tight;
	b = make(&q, 0);
	OK(is(&b, "0:1;2:2"));
	gm_balance_free(&b);
	q.goal = GM_FEWEST;
	b = make(&q, 0);
	OK(is(&b, "2:3"));
	gm_balance_free(&b);
	/* One row holds it: the lowest of those. */
	q.rows = same;
	b = make(&q, 0);
	OK(is(&b, "0:3"));
	gm_balance_free(&b);
}

static void memory_binds_more_than_time(void)
{
	static const uint64_t layers[] = { 10, 10, 10, 10 };
	const struct gm_balance_row rows[] = { { 45, 9 }, { 60, 1 } };
	struct gm_balance_request q = { .rows = rows,
					.n_rows = 2,
					.layer_bytes = layers,
					.n_layers = 4,
					.kv_bytes = 2,
					.mapped_act_bytes = 3,
					.non_mapped_act_bytes = 8,
					.non_mapped_bytes = 10 };
	struct gm_plan_error err = { 0 };
	struct gm_balance b;

	/* The first: 8 + 10 + 12 n <= 45, though it is the faster. */
	b = make(&q, 0);
	OK(is(&b, "0:2;1:2"));
	gm_balance_free(&b);
	q.non_mapped_bytes = 37; /* with 12 for a layer, on neither */
	q.kv_bytes = 30;
	EQ(gm_balance_make(&q, &b, &err), -ENOSPC);
	STR(err.text, "This model does not fit on the 2 rows: layers 0 to 3, "
		      "160 bytes with their KV cache, find no room. The 37 "
		      "bytes of its non-mapped weights fit on none of them "
		      "beside a layer");
}

static void edges_are_errors(void)
{
	static const uint64_t layers[] = { UINT64_MAX, 0, 0 };
	const struct gm_balance_row rows[] = { { UINT64_MAX, UINT64_MAX } };
	struct gm_balance_request q = {
		.rows = rows, .n_rows = 1, .layer_bytes = layers, .n_layers = 3
	};
	struct gm_balance b;

	b = make(&q, 0);
	OK(is(&b, "0:3"));
	gm_balance_free(&b);
	q.kv_bytes = 1;
	make(&q, -EOVERFLOW);
	q.kv_bytes = 0;
	q.n_rows = 0;
	make(&q, -ENOSPC);
	q.n_layers = 0;
	make(&q, -EINVAL);
	q.n_layers = 65537;
	make(&q, -E2BIG);
	q.n_layers = 3;
	q.n_rows = GM_BALANCE_ROWS + 1;
	make(&q, -E2BIG);
}

/* ---- every map there is ------------------------------------------------- */

struct scene {
	struct gm_balance_row rows[MOST_ROWS];
	uint64_t layers[MOST_LAYERS];
	struct gm_balance_request q;
};

/* How good a map is: compared field by field, less is better. */
struct worth {
	uint64_t bytes, speed; /* time of the slowest */
	uint32_t n_ranges;
};

static int compare_time(const struct worth *a, const struct worth *b)
{
	uint64_t x = a->bytes * b->speed, y = b->bytes * a->speed;

	return (x > y) - (x < y);
}

/* @row_of is the row of each layer, rising.  Returns false if it cannot be. */
static bool check(const struct scene *s, const uint32_t *row_of,
		  struct worth *ret)
{
	const struct gm_balance_request *q = &s->q;
	struct worth worth = { 0, 1, 0 };

	for (uint32_t i = 0, end; i < q->n_layers; i = end) {
		const struct gm_balance_row *row = &q->rows[row_of[i]];
		struct worth own = { 0, row->speed, 0 };
		uint64_t act = q->mapped_act_bytes, need;

		for (end = i; end < q->n_layers && row_of[end] == row_of[i];)
			own.bytes += q->layer_bytes[end++];
		if (i == 0 && q->non_mapped_act_bytes > act)
			act = q->non_mapped_act_bytes;
		need = own.bytes + act + q->kv_bytes * (end - i) +
		       (i == 0 ? q->non_mapped_bytes : 0);
		if (need > row->capacity || row->speed == 0)
			return false;
		if (compare_time(&own, &worth) > 0) {
			worth.bytes = own.bytes;
			worth.speed = own.speed;
		}
		worth.n_ranges++;
	}
	*ret = worth;
	return true;
}

static bool better(const struct worth *a, const struct worth *b,
		   enum gm_balance_goal goal)
{
	int time = compare_time(a, b);

	if (goal == GM_FEWEST && a->n_ranges != b->n_ranges)
		return a->n_ranges < b->n_ranges;
	return time ? time < 0 : a->n_ranges < b->n_ranges;
}

/* Maps in rising order, so that the first of equals has the lowest rows. */
static bool next_map(uint32_t *row_of, uint32_t n_layers, uint32_t n_rows)
{
	uint32_t i = n_layers;

	while (i-- > 0) {
		if (row_of[i] + 1 < n_rows) {
			row_of[i]++;
			for (uint32_t j = i + 1; j < n_layers; j++)
				row_of[j] = row_of[i];
			return true;
		}
	}
	return false;
}

/* Rows in use, lowest first, then layers: who has more of lower rows. */
static bool lower(const uint32_t *a, const uint32_t *b, uint32_t n)
{
	uint32_t i = 0, j = 0;

	while (i < n && j < n) {
		if (a[i] != b[j])
			return a[i] < b[j];
		for (uint32_t row = a[i]; i < n && a[i] == row;)
			i++;
		for (uint32_t row = b[j]; j < n && b[j] == row;)
			j++;
	}
	return memcmp(a, b, n * sizeof(*a)) < 0;
}

static bool try_all(const struct scene *s, enum gm_balance_goal goal,
		    struct worth *ret_worth, uint32_t *ret_map)
{
	uint32_t row_of[MOST_LAYERS] = { 0 };
	bool any = false;

	do {
		struct worth w;

		if (!check(s, row_of, &w))
			continue;
		if (any && !better(&w, ret_worth, goal) &&
		    (better(ret_worth, &w, goal) ||
		     !lower(row_of, ret_map, s->q.n_layers)))
			continue;
		*ret_worth = w;
		memcpy(ret_map, row_of, sizeof(row_of));
		any = true;
	} while (next_map(row_of, s->q.n_layers, s->q.n_rows));
	return any;
}

static void throw_scene(struct scene *s)
{
	*s = (struct scene){ 0 };
	s->q = (struct gm_balance_request){
		.rows = s->rows,
		.n_rows = 1 + (uint32_t)dice(MOST_ROWS),
		.layer_bytes = s->layers,
		.n_layers = 1 + (uint32_t)dice(MOST_LAYERS),
		.kv_bytes = dice(3),
		.mapped_act_bytes = dice(4),
		.non_mapped_act_bytes = dice(6),
		.non_mapped_bytes = dice(12),
	};
	for (uint32_t i = 0; i < s->q.n_layers; i++)
		s->layers[i] = dice(9);
	for (uint32_t i = 0; i < s->q.n_rows; i++)
		s->rows[i] = (struct gm_balance_row){ dice(45), dice(6) };
}

static bool is_best(const struct scene *s, int *ret_fit)
{
	uint32_t best[MOST_LAYERS], got[MOST_LAYERS], n = 0;
	struct worth want = { 0 };
	struct gm_balance b = { 0 };
	bool same, any = try_all(s, s->q.goal, &want, best);
	int r = gm_balance_make(&s->q, &b, NULL);

	if (!any || r)
		return !any && r == -ENOSPC;
	for (uint32_t i = 0; i < b.n_ranges; i++)
		for (uint32_t j = 0; j < b.ranges[i].n; j++)
			got[n++] = b.ranges[i].row;
	same = n == s->q.n_layers && memcmp(got, best, n * sizeof(*got)) == 0;
	gm_balance_free(&b);
	++*ret_fit;
	return same;
}

static void chance_finds_nothing_better(void)
{
	int wrong[2] = { 0, 0 }, fit[2] = { 0, 0 };

	for (int i = 0; i < 6000; i++) {
		struct scene s;

		throw_scene(&s);
		s.q.goal = i % 2 ? GM_FEWEST : GM_BALANCE;
		wrong[i % 2] += !is_best(&s, &fit[i % 2]);
	}
	NOTE("%d and %d fit", fit[0], fit[1]);
	EQ(wrong[0], 0);
	EQ(wrong[1], 0);
	OK(fit[0] > 800 && fit[1] > 800);
}

TAP_CASE()
{
	layers_follow_speed();
	ties_go_to_fewer_ranges_then_lower_rows();
	memory_binds_more_than_time();
	edges_are_errors();
	chance_finds_nothing_better();
	return tap_done();
}
