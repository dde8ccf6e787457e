/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/plan/auto.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/plan/checked.h"
#include "shm/layout.h"

/* In the order of enum gpumap_strategy. */
static const char *const names[] = { "fill", "fill", "balance", "fewest" };

#define N_NAMES (sizeof(names) / sizeof(names[0]))

int gm_auto_strategy_parse(const char *name, uint32_t *ret_strategy,
			   struct gm_plan_error *ret_err)
{
	for (uint32_t i = GPUMAP_STRATEGY_FILL; i < N_NAMES; i++) {
		if (strcmp(name, names[i]) == 0) {
			*ret_strategy = i;
			return 0;
		}
	}
	return gm_error_set(ret_err, -EINVAL, "use fill, balance or fewest",
			    "%.64s is no strategy", name);
}

const char *gm_auto_strategy_name(uint32_t strategy)
{
	return names[strategy < N_NAMES ? strategy : 0];
}

/* A request whose sizes are computed. */
struct task {
	const struct gm_auto_request *q;
	struct gm_auto *plan; /* NULL: only whether there is one */
	struct gm_plan_error *err;
	uint64_t mapped; /* largest activation while a layer runs, bytes */
	uint64_t other;  /* and outside of layers */
	uint64_t *kv;    /* [i]: bytes that the layers before i keep */
	uint64_t *sum;   /* and their weights, of balance and fewest */
	bool is_paged;
	uint32_t n_left; /* layers */
};

/* The layers from @a to @b - 1 keep so many bytes. */
static uint64_t kv_of(const struct task *t, uint32_t a, uint32_t b)
{
	return t->kv[b] - t->kv[a];
}

/* The bytes of a tied embedding that are with layers @a to @b - 1. */
static uint64_t tied_of(const struct task *t, uint32_t a, uint32_t b)
{
	return a > 0 && a < b && b == t->q->n_layers ? t->q->tied_bytes : 0;
}

/* The largest activation on a row that holds the weights of no layer, or
 * not. */
static uint64_t act_of(const struct task *t, bool holds)
{
	return holds ? gm_max(t->mapped, t->other) : t->mapped;
}

static int measure_act(struct task *t)
{
	const struct gm_auto_request *q = t->q;
	bool over = false;

	t->mapped = gm_checked_mul(&over, q->mapped_act_elems,
				   q->cache.dtype_bytes);
	t->other = gm_checked_mul(&over, q->non_mapped_act_elems,
				  q->cache.dtype_bytes);
	return over ? gm_error_large_plan(t->err) : 0;
}

static int measure_kv(struct task *t, bool is_paged, uint64_t model_bytes)
{
	const struct gm_auto_request *q = t->q;
	struct gm_kv_room room = { .model_bytes = model_bytes,
				   .act_bytes = act_of(t, true) };

	t->is_paged = is_paged;
	room.capacity = q->n_rows > 0 ? gm_place_capacity(&q->rows[0]) : 0;
	return gm_cache_sums(&q->cache, is_paged ? &room : NULL, t->kv, t->err);
}

/* Charge @n layers from @first on to a row, which has room for them. */
static void charge(struct task *t, const struct gm_plan_device *row,
		   uint32_t first, uint32_t n, uint64_t weights)
{
	struct gpumap_charge *c;

	if (!t->plan)
		return;
	c = &t->plan->charges[t->plan->n_charges];
	*c = (struct gpumap_charge){
		.row = row->row,
		.n_layers = n,
		.weight_bytes = weights,
		.kv_bytes = kv_of(t, first, first + n),
		.activation_bytes = act_of(t, t->plan->n_charges == 0),
		.reserve_bytes = row->avail - gm_place_capacity(row),
	};
	c->left_bytes = gm_place_capacity(row) - c->weight_bytes - c->kv_bytes -
			c->activation_bytes;
	t->plan->n_charges++;
}

/* ---- fill ---------------------------------------------------------------- */

/* One walk over the rows. */
struct walk {
	struct task *t;
	uint64_t remaining; /* bytes */
	uint32_t layer;
	bool has_holder; /* a row has the weights that are no layer's */
	bool uses_host;
	bool over;
};

/* Does all of the rest fit onto one row? */
static bool takes_rest(struct walk *w, uint64_t room, bool holds)
{
	const struct task *t = w->t;
	uint64_t need =
		gm_checked_add(&w->over, w->remaining, act_of(t, holds));

	need = gm_checked_add(&w->over, need,
			      kv_of(t, w->layer, t->q->n_layers));
	need = gm_checked_add(&w->over, need,
			      tied_of(t, w->layer, t->q->n_layers));
	return room >= need;
}

/* Count the next layers that fit beside @used, and sum their weights. */
static uint32_t count_layers(struct walk *w, uint64_t room, uint64_t used,
			     uint64_t *ret_weights)
{
	const struct gm_auto_request *q = w->t->q;
	const uint64_t *kv = w->t->kv;
	uint32_t at = w->layer;
	bool over = w->over;

	for (; at < q->n_layers; at++) {
		uint64_t size = q->layer_bytes[at];
		uint64_t delta =
			gm_checked_add(&over, size, kv[at + 1] - kv[at]);

		if (at + 1 == q->n_layers)
			delta = gm_checked_add(&over, delta,
					       tied_of(w->t, w->layer, at + 1));
		if (gm_checked_add(&over, used, delta) > room || over)
			break;
		used += delta;
		*ret_weights += size;
	}
	w->over = over;
	return at - w->layer;
}

static int visit(struct walk *w, uint32_t i)
{
	struct task *t = w->t;
	const struct gm_plan_device *row = &t->q->rows[i];
	uint64_t room = gm_place_capacity(row);
	bool holds = !w->has_holder;
	uint64_t weights = 0;
	uint32_t n;

	if (takes_rest(w, room, holds)) {
		n = t->q->n_layers - w->layer;
		weights = w->remaining;
	} else {
		uint64_t used = act_of(t, holds);

		if (holds) {
			weights = t->q->non_mapped_bytes;
			used = gm_checked_add(&w->over, used, weights);
		}
		n = count_layers(w, room, used, &weights);
		if (w->over)
			return gm_error_large_plan(t->err);
		if (n == 0 && t->plan)
			t->plan->empty[t->plan->n_empty++] = i;
		if (n == 0)
			return 0;
	}
	if (w->over)
		return gm_error_large_plan(t->err);
	charge(t, row, w->layer, n, weights);
	w->remaining = gm_minus(w->remaining, weights);
	w->has_holder = true;
	w->layer += n;
	w->uses_host |= row->is_host;
	return 0;
}

static int walk(struct walk *w, bool is_paged)
{
	const struct gm_auto_request *q = w->t->q;
	int r = measure_kv(w->t, is_paged, q->total_bytes);

	w->remaining = q->total_bytes;
	for (uint32_t i = 0; r == 0 && w->remaining > 0 && i < q->n_rows; i++)
		r = visit(w, i);
	if (r == 0 && w->remaining > 0)
		r = -ENOSPC;
	w->t->n_left = q->n_layers - w->layer;
	return r;
}

static int fill(struct task *t)
{
	struct walk w = { .t = t };
	int r;

	if (t->q->n_layers == 0)
		return gm_error_no_layers(t->err);
	r = measure_act(t);
	if (r == 0)
		r = walk(&w, t->q->cache.paged.budget != GPUMAP_PAGED_NONE);
	/* Pages are for GPUs only: with layers on the host there are none. */
	if (r == 0 && t->is_paged && w.uses_host) {
		w = (struct walk){ .t = t };
		if (t->plan)
			t->plan->n_charges = 0;
		r = walk(&w, false);
	}
	return r;
}

/* ---- balance and fewest -------------------------------------------------- */

/*
 * With a bound on the time, a row that begins at layer a can end at most at
 * some layer b, which grows with a: so it never pays to give an earlier row
 * less than it can take, and where k rows from row r on can begin follows from
 * where k - 1 from row r + 1 on can.  Where any number of rows may be in use,
 * each takes all that it can.  The least bound is found by bisection, and
 * proved by searching for a map strictly below it; times are compared as
 * fractions of whole numbers.
 */

/* A time: bytes / speed. */
struct period {
	uint64_t bytes;
	uint64_t speed;
};

static const struct period no_time = { 0, 1 };

struct solver {
	struct task *t;
	uint32_t n_rows;     /* of the request's, the first */
	const uint64_t *sum; /* the task's */
	const uint64_t *kv;
	uint64_t first; /* bytes on the first row in use alone */
	bool is_usable[GPUMAP_ROWS_MAX];
	uint64_t room[GPUMAP_ROWS_MAX]; /* for layers and what they keep */
	uint64_t most[GPUMAP_ROWS_MAX]; /* bytes of layers within the bound */
	/* [r][k]: where what k rows from r on hold begins */
	uint32_t (*least)[GPUMAP_ROWS_MAX + 1];
};

/* A limit of what the layers before one take. */
struct limit {
	uint64_t weights;
	uint64_t all; /* with what they keep */
};

/* The bytes of the layers before @i, with what they keep. */
static uint64_t all_before(const struct solver *s, uint32_t i)
{
	return s->sum[i] + s->kv[i];
}

static bool is_past(const struct solver *s, uint32_t i,
		    const struct limit *limit)
{
	return (s->sum[i] > limit->weights) | (all_before(s, i) > limit->all);
}

static bool is_short_of(const struct solver *s, uint32_t i,
			const struct limit *limit)
{
	return (s->sum[i] < limit->weights) | (all_before(s, i) < limit->all);
}

/* The furthest end of a range on row @r that begins at @a. */
static uint32_t furthest(const struct solver *s, uint32_t r, uint32_t a)
{
	uint32_t low = a, high = s->t->q->n_layers, step = 1;
	uint64_t first = a == 0 ? s->first : 0;
	struct limit limit;

	if (!s->is_usable[r] || s->room[r] < first)
		return a;
	limit.weights = gm_add_up_to_max(s->sum[a], s->most[r]);
	limit.all = gm_add_up_to_max(all_before(s, a), s->room[r] - first);
	/* Most ranges are short: double the step until it is too far. */
	for (; low < high; step *= 2) {
		uint32_t next = high - low > step ? low + step : high;

		if (is_past(s, next, &limit)) {
			high = next - 1;
			break;
		}
		low = next;
	}
	while (low < high) {
		uint32_t middle = high - (high - low) / 2;

		if (is_past(s, middle, &limit))
			high = middle - 1;
		else
			low = middle;
	}
	if (low == s->t->q->n_layers &&
	    all_before(s, low) + tied_of(s->t, a, low) > limit.all)
		low--;
	return low;
}

/* The lowest start of a range on row @r that ends at @b; at @from or @b it may
 * start.  The row is not the first in use: 0 stands for 1, where no range
 * before it ends. */
static uint32_t lowest(const struct solver *s, uint32_t r, uint32_t b,
		       uint32_t from)
{
	uint32_t low = 0, high = from < b ? from : b, step = 1;
	struct limit limit;

	if (!s->is_usable[r] || high == 0)
		return high;
	limit.weights = gm_minus(s->sum[b], s->most[r]);
	limit.all =
		gm_minus(all_before(s, b) + tied_of(s->t, 1, b), s->room[r]);
	for (; low < high; step *= 2) {
		uint32_t next = high - low > step ? high - step : low;

		if (is_short_of(s, next, &limit)) {
			low = next + 1;
			break;
		}
		high = next;
	}
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (is_short_of(s, middle, &limit))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Bound the time of each row: by at most @bound, or by less; or not at all. */
static void set_bound(struct solver *s, const struct period *bound,
		      bool is_strict)
{
	for (uint32_t r = 0; r < s->n_rows; r++) {
		unsigned __int128 most = UINT64_MAX;

		if (bound)
			most = ((unsigned __int128)bound->bytes *
					s->t->q->rows[r].speed -
				is_strict) /
			       bound->speed;
		s->most[r] = most > UINT64_MAX ? UINT64_MAX : (uint64_t)most;
	}
}

static void note_time(const struct solver *s, uint32_t r, uint32_t a,
		      uint32_t b, struct period *slowest)
{
	const struct period own = { s->sum[b] - s->sum[a],
				    s->t->q->rows[r].speed };

	if (b > a && (unsigned __int128)own.bytes * slowest->speed >
			     (unsigned __int128)slowest->bytes * own.speed)
		*slowest = own;
}

/* The layers that all rows hold, where each takes as many as it can, and the
 * time of the slowest. */
static uint32_t take_all(const struct solver *s, struct period *ret_slowest)
{
	struct period slowest = no_time;
	uint32_t layer = 0;

	for (uint32_t r = 0; r < s->n_rows; r++) {
		uint32_t end = furthest(s, r, layer);

		note_time(s, r, layer, end, &slowest);
		layer = end;
	}
	*ret_slowest = slowest;
	return layer;
}

/* Compute where at most @most rows can begin.  Returns the fewest rows, at most
 * @most, that hold all layers; 0 if none do. */
static uint32_t count_rows(struct solver *s, uint32_t most)
{
	uint32_t n_layers = s->t->q->n_layers, fewest = most + 1;

	for (uint32_t k = 0; k <= most; k++)
		s->least[s->n_rows][k] = n_layers;
	for (uint32_t r = s->n_rows; r-- > 0;) {
		uint32_t end = furthest(s, r, 0), from = n_layers;

		/* Row r may be the first; more rows never begin later. */
		while (end > 0 && fewest > 1 &&
		       s->least[r + 1][fewest - 2] <= end)
			fewest--;
		s->least[r][0] = n_layers;
		for (uint32_t k = 1; k < fewest; k++) {
			from = lowest(s, r, s->least[r + 1][k - 1], from);
			s->least[r][k] =
				(uint32_t)gm_min(from, s->least[r + 1][k]);
		}
	}
	return fewest <= most ? fewest : 0;
}

/* Walk over the map on @k rows, which count_rows() gave.  Returns the time of
 * the slowest; @is_final: charges the rows. */
static struct period trace(const struct solver *s, uint32_t k, bool is_final)
{
	const struct gm_auto_request *q = s->t->q;
	struct period slowest = no_time;
	uint32_t layer = 0, r = 0;

	for (; k > 0; k--, r++) {
		uint32_t end = furthest(s, r, layer);

		/* The lowest row after which the other rows can hold the
		 * rest. */
		while (end == layer || s->least[r + 1][k - 1] > end)
			end = furthest(s, ++r, layer);
		note_time(s, r, layer, end, &slowest);
		if (is_final)
			charge(s->t, &q->rows[r], layer, end - layer,
			       s->sum[end] - s->sum[layer] +
				       (layer == 0 ? q->non_mapped_bytes : 0));
		layer = end;
	}
	return slowest;
}

/* Is there a map on at most @most rows within the bound?  Then its slowest
 * row's time is in @ret_slowest. */
static bool is_within(struct solver *s, uint32_t most,
		      struct period *ret_slowest)
{
	struct period slowest;
	uint32_t k;

	if (most == s->n_rows) {
		if (take_all(s, &slowest) < s->t->q->n_layers)
			return false;
	} else {
		k = count_rows(s, most);
		if (k == 0)
			return false;
		slowest = trace(s, k, false);
	}
	*ret_slowest = slowest;
	return true;
}

/* Bisect for the least bound, in bytes on the fastest row. */
static void bisect(struct solver *s, uint32_t most, struct period *slowest)
{
	struct period bound = { 0, 1 };
	unsigned __int128 wide;
	uint64_t low = 0, high;

	for (uint32_t r = 0; r < s->n_rows; r++)
		bound.speed = gm_max(bound.speed, s->t->q->rows[r].speed);
	wide = (unsigned __int128)slowest->bytes * bound.speed / slowest->speed;
	high = wide > UINT64_MAX ? UINT64_MAX : (uint64_t)wide;
	while (low < high) {
		bound.bytes = low + (high - low) / 2;
		set_bound(s, &bound, false);
		if (is_within(s, most, slowest))
			high = bound.bytes;
		else
			low = bound.bytes + 1;
	}
}

/* Charge the map whose slowest row takes the least time, on at most @most
 * rows. */
static void minimise(struct solver *s, uint32_t most, struct period *slowest)
{
	struct period bound;

	bisect(s, most, slowest);
	do {
		bound = *slowest;
		set_bound(s, &bound, true);
	} while (bound.bytes > 0 && is_within(s, most, slowest));
	set_bound(s, &bound, false);
	trace(s, count_rows(s, most), true);
}

static int solve(struct solver *s)
{
	struct period slowest;
	uint32_t most = s->n_rows, end;

	set_bound(s, NULL, false);
	end = take_all(s, &slowest);
	s->t->n_left = s->t->q->n_layers - end;
	if (s->t->n_left > 0)
		return -ENOSPC;
	if (!s->t->plan)
		return 0;
	s->least = malloc((s->n_rows + 1) * sizeof(*s->least));
	if (!s->least)
		return gm_error_no_memory(s->t->err);
	if (s->t->q->strategy == GPUMAP_STRATEGY_FEWEST) {
		most = count_rows(s, most);
		slowest = trace(s, most, false);
	}
	minimise(s, most, &slowest);
	free(s->least);
	return 0;
}

static int check_layers(const struct task *t, uint64_t weights)
{
	const struct gm_auto_request *q = t->q;
	bool over = false;

	if (q->n_layers == 0)
		return gm_error_no_layers(t->err);
	if (q->n_layers > GM_LAYERS_MAX)
		return gm_error_many_layers(t->err);
	weights = gm_checked_add(&over, weights, t->kv[q->n_layers]);
	weights = gm_checked_add(&over, weights, q->tied_bytes);
	gm_checked_add(&over, weights, act_of(t, true));
	return over ? gm_error_large_plan(t->err) : 0;
}

/* Balance on the first @n rows. */
static int balance_on(struct task *t, uint32_t n)
{
	const struct gm_auto_request *q = t->q;
	struct solver s; /* large: what is used of it is set */
	int r = check_layers(t, t->sum[q->n_layers] + q->non_mapped_bytes);

	if (r)
		return r;
	s.t = t;
	s.n_rows = n;
	s.sum = t->sum;
	s.kv = t->kv;
	s.first = act_of(t, true) - t->mapped + q->non_mapped_bytes;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t bytes = gm_place_capacity(&q->rows[i]);

		s.is_usable[i] = q->rows[i].speed > 0 && bytes >= t->mapped;
		s.room[i] = bytes - t->mapped;
	}
	return solve(&s);
}

/* Balance on the rows that are no hosts, or if they do not hold the model on
 * all.  The hosts are none if a row shares their memory. */
static int balance_over(struct task *t)
{
	const struct gm_auto_request *q = t->q;
	uint64_t model_bytes = t->sum[q->n_layers] + q->non_mapped_bytes;
	uint32_t n_devices = 0, n_rows = q->n_rows;
	int r;

	while (n_devices < n_rows && !q->rows[n_devices].is_host)
		n_devices++;
	for (uint32_t i = 0; i < q->n_rows; i++)
		if (q->rows[i].is_integrated)
			n_rows = n_devices;
	r = measure_kv(
		t, q->cache.paged.budget != GPUMAP_PAGED_NONE && n_devices > 0,
		model_bytes);
	if (r)
		return r;
	if (n_devices > 0 || n_rows == 0) {
		r = balance_on(t, n_devices);
		if (r != -ENOSPC || n_rows == n_devices)
			return r;
	}
	/* If hosts are allowed the cache is unpaged, as in fill. */
	if (t->is_paged) {
		r = measure_kv(t, false, model_bytes);
		if (r == 0)
			r = balance_on(t, n_devices);
		if (r != -ENOSPC)
			return r;
	}
	return balance_on(t, n_rows);
}

static int balance(struct task *t)
{
	const struct gm_auto_request *q = t->q;
	uint64_t sum = 0;
	bool over = false;
	int r;

	if (q->n_rows > GPUMAP_ROWS_MAX)
		return gm_error_set(t->err, -E2BIG, "leave some out",
				    "%" PRIu32 " rows, at most %u are allowed",
				    q->n_rows, GPUMAP_ROWS_MAX);
	r = measure_act(t);
	if (r)
		return r;
	t->sum[0] = 0;
	for (uint32_t i = 0; i < q->n_layers; i++) {
		sum = gm_checked_add(&over, sum, q->layer_bytes[i]);
		t->sum[i + 1] = sum;
	}
	gm_checked_add(&over, sum, q->non_mapped_bytes);
	return over ? gm_error_large_plan(t->err) : balance_over(t);
}

/* ---- any ----------------------------------------------------------------- */

static int make(struct task *t)
{
	size_t n = (size_t)t->q->n_layers + 1;

	t->kv = malloc(2 * n * sizeof(*t->kv));
	if (!t->kv)
		return gm_error_no_memory(t->err);
	t->sum = t->kv + n; /* freed with these */
	return t->q->strategy <= GPUMAP_STRATEGY_FILL ? fill(t) : balance(t);
}

int gm_auto_make(const struct gm_auto_request *q, struct gm_auto *ret_auto,
		 struct gm_plan_error *ret_err)
{
	size_t n = (size_t)q->n_rows + 1;
	struct gm_auto plan = { .charges = malloc(n * sizeof(*plan.charges)),
				.empty = malloc(2 * n * sizeof(*plan.empty)) };
	struct task t = { .q = q, .plan = &plan, .err = ret_err };
	int r = plan.charges && plan.empty ? make(&t)
					   : gm_error_no_memory(ret_err);

	plan.kv_sums = t.kv;
	if (r && r != -ENOSPC) {
		gm_auto_free(&plan);
		return r;
	}
	plan.n_left = t.n_left;
	plan.is_paged = t.is_paged;
	*ret_auto = plan;
	return r;
}

bool gm_auto_fits(const struct gm_auto_request *q)
{
	struct task t = { .q = q };
	bool fits = make(&t) == 0 && t.n_left == 0;

	free(t.kv);
	return fits;
}

void gm_auto_free(struct gm_auto *plan)
{
	if (!plan)
		return;
	free(plan->charges);
	free(plan->kv_sums);
	free(plan->empty);
	*plan = (struct gm_auto){ 0 };
}
