/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* auto: each strategy's map by hand, and by chance against a plainer walk and
 * against every map there is. */

#include <errno.h>
#include <string.h>

#include "lib/model/plan/auto.h"
#include "lib/model/plan/number.h"
#include "lib/model/plan/place.h"
#include "tests/support/dice.h"
#include "tests/support/tap.h"

#define MIB    (UINT64_C(1) << 20)
#define GIB    (UINT64_C(1) << 30)
#define LAYERS 80u
#define ROWS   6u

struct scene {
	struct gm_plan_device rows[ROWS];
	uint64_t layers[LAYERS];
	struct gm_kv_shape kv; /* what each layer keeps, or else */
	struct gpumap_layer_cache caches[LAYERS];
	struct gm_auto_request q;
};

/* ---- scenes as text ------------------------------------------------------ */

/* The size at *at, and *at behind it. */
static uint64_t read_size(const char **at)
{
	size_t n = strspn(*at, "0123456789KMG");
	char text[32] = "";
	uint64_t size = 0;

	memcpy(text, *at, n < sizeof(text) ? n : 0);
	if (gm_number_size(text, &size))
		abort();
	*at += n;
	return size;
}

/* "c24G/10 i2G h64G": a card with 24 GiB and speed 10, one in the host's
 * memory, a host. */
static void read_rows(struct scene *s, const char *at)
{
	s->q.rows = s->rows;
	for (; *at; at += *at == ' ') {
		struct gm_plan_device *row = &s->rows[s->q.n_rows];

		*row = (struct gm_plan_device){ .row = s->q.n_rows++,
						.is_host = *at == 'h',
						.is_integrated = *at == 'i',
						.speed = 1 };
		at++;
		row->avail = read_size(&at);
		if (*at == '/') {
			at++;
			row->speed = read_size(&at);
		}
	}
}

/* "16*1G 2G": 16 layers of 1 GiB and one of two. */
static void read_layers(struct scene *s, const char *at)
{
	s->q.layer_bytes = s->layers;
	for (; *at; at += *at == ' ') {
		uint64_t n = 1, size = read_size(&at);

		if (*at == '*') {
			at++;
			n = size;
			size = read_size(&at);
		}
		while (n-- > 0)
			s->layers[s->q.n_layers++] = size;
	}
	s->q.cache.n_layers = s->q.n_layers;
}

static void add_up(struct scene *s)
{
	s->q.total_bytes = s->q.non_mapped_bytes;
	for (uint32_t i = 0; i < s->q.n_layers; i++)
		s->q.total_bytes += s->layers[i];
}

/* "other=1G act=8M": the request's numbers, else those of no cache and no
 * activations. */
static void read_numbers(struct scene *s, const char *at)
{
	uint64_t bytes = 1;
	const struct {
		const char *name;
		uint64_t *to;
	} table[] = {
		{ "other=", &s->q.non_mapped_bytes },
		{ "total=", &s->q.total_bytes },
		{ "act=", &s->q.mapped_act_elems },
		{ "other_act=", &s->q.non_mapped_act_elems },
		{ "seq=", &s->q.cache.max_seq_len },
		{ "heads=", &s->kv.n_heads },
		{ "kv=", &s->kv.k_dim },
		{ "mib=", &s->q.cache.paged.amount },
		{ "bytes=", &bytes },
	};

	s->q.cache.max_seq_len = s->q.cache.max_batch_size = 1;
	s->q.cache.like = &s->kv;
	s->kv.n_heads = 1;
	if (strstr(at, "mib="))
		s->q.cache.paged =
			(struct gm_kv_paged){ .budget = GPUMAP_PAGED_MIB,
					      .block_size = 32 };
	for (; *at; at += *at == ' ') {
		size_t i = 0;

		while (strncmp(at, table[i].name, strlen(table[i].name)) != 0)
			i++;
		at += strlen(table[i].name);
		*table[i].to = read_size(&at);
	}
	s->q.cache.dtype_bytes = (uint32_t)bytes;
	s->kv.v_dim = bytes > 1 ? s->kv.k_dim : 0;
	if (s->q.total_bytes == 0)
		add_up(s);
}

/* Each layer has its place and each byte its charge, if the total is theirs.
 * The other parts of a charge are its row's. */
static bool is_whole(const struct gm_auto_request *q,
		     const struct gm_auto *plan)
{
	uint64_t bytes = 0, layers = 0, want = q->non_mapped_bytes;

	for (uint32_t i = 0; i < plan->n_charges; i++) {
		const struct gpumap_charge *c = &plan->charges[i];
		const uint64_t *kv = &plan->kv_sums[layers];
		uint64_t avail = q->rows[c->row].avail,
			 act = q->mapped_act_elems;

		if (i == 0 && q->non_mapped_act_elems > act)
			act = q->non_mapped_act_elems;
		if (c->activation_bytes != act * q->cache.dtype_bytes ||
		    avail - c->reserve_bytes !=
			    gm_place_capacity(&q->rows[c->row]) ||
		    c->weight_bytes + c->kv_bytes + c->activation_bytes +
				    c->reserve_bytes + c->left_bytes !=
			    avail ||
		    c->left_bytes > avail ||
		    c->kv_bytes != kv[c->n_layers] - kv[0])
			return false;
		layers += c->n_layers;
		bytes += c->weight_bytes;
	}
	for (uint32_t i = 0; i < q->n_layers; i++)
		want += q->layer_bytes[i];
	return layers + plan->n_left == q->n_layers &&
	       (bytes == want || q->total_bytes != want);
}

/* "0:4;2:12", the layers left over, the cache if pages were asked for, and the
 * rows that had room for none; or how many layers have no room, or the
 * error. */
static const char *show(const struct scene *s)
{
	static struct gm_plan_error err;
	static char text[1024];
	struct gm_auto plan = { 0 };
	char *at = text;
	int r;

	err.text[0] = '\0';
	r = gm_auto_make(&s->q, &plan, &err);
	OK(gm_auto_fits(&s->q) == (r == 0 && plan.n_left == 0));
	if (r && err.text[0] == '\0')
		snprintf(err.text, sizeof(err.text), "no room for %" PRIu32,
			 plan.n_left);
	if (r) {
		gm_auto_free(&plan);
		return err.text;
	}
	OK(is_whole(&s->q, &plan));
	for (uint32_t i = 0; i < plan.n_charges; i++)
		at += sprintf(at, "%s%" PRIu32 ":%" PRIu32, i ? ";" : "",
			      plan.charges[i].row, plan.charges[i].n_layers);
	if (plan.n_left > 0)
		at += sprintf(at, ", %" PRIu32 " left", plan.n_left);
	if (s->q.cache.paged.budget)
		at += sprintf(at, ", %spaged %" PRIu64 "M",
			      plan.is_paged ? "" : "un", plan.kv_sums[1] / MIB);
	for (uint32_t i = 0; i < plan.n_empty; i++)
		at += sprintf(at, ", %" PRIu32 " empty", plan.empty[i]);
	gm_auto_free(&plan);
	return text;
}

/* A layer's cache takes 16 MiB. */
#define BIG "other=1G act=8M seq=4096 heads=8 kv=128 bytes=2"
/* And here 2 MiB. */
#define SMALL  "act=1M seq=4096 kv=128 bytes=2"
#define BEYOND " -> The plan's sizes come to 2^64 bytes or more"
#define HUGE   "18446744073709551615"
/* The rows, the layers and the numbers; and with fill, balance and fewest the
 * map, or how the error begins.  "?": not asked. */
static const char *const cases[] = {
	/* 5 and 11 would be as fast as it gets, and row 1 holds them. */
	"each strategy has its way: c24G/10 c12G/30 h64G, 16*1G, " BIG
	" -> 0:16 -> 0:5;1:11 -> 0:16",
	"hosts come last: c6G/10 c12G/30 h64G, 16*1G, " BIG
	" -> 0:4;1:11;2:1 -> 0:4;1:11;2:1 -> 2:16",
	"a large memory is no fast host: c24G/10 c12G/30 h64G/1000, 16*1G, " BIG
	" -> 0:16 -> 0:5;1:11 -> 0:16",
	"a fast host waits until needed: c6G/10 c12G/30 h64G/1000, 16*1G, " BIG
	" -> 0:4;1:11;2:1 -> 2:16 -> 2:16",
	"an integrated row has the host's memory: c6G/10 i12G/30 h64G, "
	"16*1G, " BIG " -> ? -> no room for 1 -> no room for 1",
	"hosts alone do: h64G, 16*1G, " BIG " -> 0:16 -> 0:16 -> 0:16",
	"pages are for devices: c24G/10 c12G/30 h64G, 16*1G, " BIG
	" mib=2048 -> 0:16, paged 128M -> 0:6;1:10, paged 128M"
	" -> 0:16, paged 128M",
	"pages are for devices alone: c6G/10 c12G/30 h64G, 16*1G, " BIG
	" mib=2048 -> 0:4;1:11;2:1, unpaged 16M -> 0:4;1:11;2:1, unpaged 16M"
	" -> 2:16, unpaged 16M",
	"no memory is no pages: c24G/10 c12G/30 h64G, 16*1G, " BIG
	" mib=0 -> Num GPU blocks is 0. -> Num GPU blocks is 0."
	" -> Num GPU blocks is 0.",
	"a host has no pool to be short of: h64G, 16*1G, " BIG
	" mib=0 -> ? -> 0:16, unpaged 16M -> 0:16, unpaged 16M",

	"the host takes the rest: c6G c4G h64G, 12*1G, other=512M " SMALL
	" -> 0:4;1:3;2:5",
	"what fits one row stays there: c80G c80G h0, 12*1G, " SMALL " -> 0:12",
	"what does not fit is counted: c6G c1G h0, 12*1G, "
	"other=512M " SMALL " -> no room for 8",
	"a row without layers is empty: c6G c1G c80G, 12*1G, "
	"other=512M " SMALL " -> 0:4;2:8, 1 empty",
	"other weights go with the first layer: c2G c15G, 12*1G, "
	"other=2G " SMALL " -> 1:12, 0 empty",
	"other weights shut all rows: c2G c3G h0, 12*1G, other=2G " SMALL
	" -> no room for 12",
	/* In both walks. */
	"pages go with the host: c10G c2G h10G, 8*1G 2G 3*1G, other=512M " SMALL
	" mib=192 -> 0:8;2:4, unpaged 2M, 1 empty, 1 empty",
	"pages stay without the host: c10G c10G h10G, 8*1G 2G 3*1G, " SMALL
	" mib=192 -> 0:8;1:4, paged 16M",
	"a total too small ends filling: c4G c2570M c80G, 12*1G, "
	"other=512M " SMALL " total=4608M -> 0:2;1:2, 8 left",
	"a row takes a total too large: c16G c80G c80G, 12*1G, "
	"other=512M " SMALL " total=53760M -> 0:12;1:0",
	"activations beyond 64 bits: c6G, 12*1G, act=9223372036854775808 "
	"bytes=2" BEYOND BEYOND BEYOND,
	"a total beyond 64 bits: c6G, 12*1G, " SMALL " total=" HUGE BEYOND,
	"a layer beyond 64 bits: c6G, " HUGE " 11*1G, " SMALL
	" total=13G" BEYOND BEYOND BEYOND,
	"a model without layers: c6G, , " SMALL " -> The model has no layers"
	" -> The model has no layers -> The model has no layers",

	/* Hosts keep nothing back. */
	"layers follow speed: h1M/3 h1M/1 h1M/4, 80*100, -> ?"
	" -> 0:30;1:10;2:40 -> 2:80",
	/* 8 is the least there is, on two rows as on three. */
	"ties go to fewer ranges, then lower rows: h100 h100 h100, 8 1 1, -> ?"
	" -> 0:1;1:2 -> 0:3",
	"ties go to the rows that hold them: h8 h1 h10, 8 1 1, -> ?"
	" -> 0:1;2:2 -> 2:3",
	/* The first: 8 + 10 + 12 n <= 45, though it is the faster. */
	"memory binds more than time: h45/9 h60/1, 4*10, kv=2 act=3 "
	"other_act=8 "
	"other=10 -> ? -> 0:2;1:2",
	"layer 0 has no room beside others: h45/9 h60/1, 4*10, kv=30 act=3 "
	"other_act=8 other=37 -> ? -> no room for 4",
	"64 bits are enough: h" HUGE "/" HUGE ", " HUGE " 0 0, -> ?"
	" -> 0:3 -> 0:3",
	"one byte more is not: h" HUGE "/" HUGE ", " HUGE " 0 0, kv=1"
	" -> ?" BEYOND BEYOND,
	"there are no rows: , 16*1, -> ? -> no room for 16"
	" -> no room for 16",
	"rows without speed take nothing: h9/0 h9/0, 1, -> 0:1"
	" -> no room for 1",
	"layers of no bytes take no time: h9/3 h9/5, 3*0, kv=4 -> ?"
	" -> 0:2;1:1 -> 0:2;1:1",
};

/* The text before @end, which is made its NUL; *at behind that. */
static char *next_part(char **at, const char *end)
{
	char *part = *at, *found = strstr(part, end);

	*at = found ? found + strlen(end) : part + strlen(part);
	if (found)
		*found = '\0';
	return part;
}

static void each_case_has_its_map(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct scene s = { .q = { .strategy = 0 } };
		char text[1024], *at = text;
		const char *name;

		snprintf(text, sizeof(text), "%s", cases[i]);
		name = next_part(&at, ": ");
		read_rows(&s, next_part(&at, ", "));
		read_layers(&s, next_part(&at, ", "));
		read_numbers(&s, next_part(&at, "-> "));
		for (s.q.strategy = 1; *at; s.q.strategy++) {
			const char *want = next_part(&at, " -> "), *got;

			if (strcmp(want, "?") == 0)
				continue;
			got = show(&s);
			if (!OK(*got >= '0' && *got <= '9'
					? strcmp(got, want) == 0
					: strncmp(got, want, strlen(want)) ==
						  0))
				NOTE("%s: %s, and not %s", name, got, want);
		}
	}
}

static void too_many_are_refused(void)
{
	struct gm_plan_device rows[GPUMAP_ROWS_MAX + 1] = { { .avail = 1 } };
	uint64_t *layers = calloc(65537, sizeof(*layers));
	struct gm_auto_request q = { .strategy = GPUMAP_STRATEGY_BALANCE,
				     .rows = rows,
				     .n_rows = 1,
				     .layer_bytes = layers,
				     .n_layers = 65537 };
	struct gm_plan_error err = { 0 };
	struct gm_auto plan;

	EQ(gm_auto_make(&q, &plan, &err), -E2BIG);
	STR(err.text, "More than the 65536 layers that a map may have");
	q.n_rows = GPUMAP_ROWS_MAX + 1;
	EQ(gm_auto_make(&q, &plan, &err), -E2BIG);
	STR(err.text, "257 rows, at most 256 are allowed");
	free(layers);
}

static void strategies_have_names(void)
{
	struct gm_plan_error err = { 0 };
	uint32_t strategy = 0;

	EQ(gm_auto_strategy_parse("fewest", &strategy, &err), 0);
	EQ(strategy, GPUMAP_STRATEGY_FEWEST);
	STR(gm_auto_strategy_name(strategy), "fewest");
	STR(gm_auto_strategy_name(0), "fill");
	EQ(gm_auto_strategy_parse("best", &strategy, &err), -EINVAL);
	STR(err.text, "best is no strategy");
}

/* ---- fill beside a plainer walk ------------------------------------------ */

#define N_FILL 12u

/* The bytes that a layer keeps, if there is no shape of all. */
static uint64_t kept(const struct scene *s, uint32_t layer)
{
	return s->caches[layer].token_elements * s->q.cache.max_seq_len *
	       s->q.cache.dtype_bytes;
}

/* Have each layer keep something else, up to @most - 1 times @elements. */
static void throw_caches(struct scene *s, uint64_t most, uint64_t elements)
{
	for (uint32_t i = 0; i < s->q.n_layers; i++)
		s->caches[i] = (struct gpumap_layer_cache){
			.n_layers = 1,
			.n_heads = 1,
			.token_elements = dice(most) * elements,
		};
	s->q.cache.like = NULL;
	s->q.cache.caches = s->caches;
	s->q.cache.n_caches = s->q.n_layers;
	s->q.cache.n_layers = s->q.n_layers;
}

/*
 * The walk once more, with signed numbers and no notion of who holds what is
 * no layer's: true where the first row takes a layer.  Returns false where the
 * model does not fit; @ret_first says whether the first took one.
 */
static bool plain_walk(const struct scene *s, uint32_t *ret_n, bool *ret_first)
{
	int64_t remaining = (int64_t)s->q.total_bytes, layer = 0;

	*ret_first = false;
	for (uint32_t i = 0; i < s->q.n_rows; i++) {
		int64_t room = (int64_t)gm_place_capacity(&s->rows[i]);
		uint64_t act = s->q.mapped_act_elems;
		int64_t rest = N_FILL - layer, weights = 0, kv = 0;

		ret_n[i] = 0;
		if (remaining == 0)
			continue;
		if (i == 0 && s->q.non_mapped_act_elems > act)
			act = s->q.non_mapped_act_elems;
		room -= 2 * (int64_t)act;
		for (int64_t k = layer; k < N_FILL; k++)
			kv += (int64_t)kept(s, (uint32_t)k);
		if (layer > 0)
			kv += (int64_t)s->q.tied_bytes;
		if (room >= remaining + kv) {
			ret_n[i] = (uint32_t)rest;
			remaining = 0;
		} else {
			if (i == 0)
				weights = (int64_t)s->q.non_mapped_bytes;
			room -= weights;
			while (layer + ret_n[i] < N_FILL) {
				uint32_t k = (uint32_t)layer + ret_n[i];
				int64_t size = (int64_t)s->layers[k];
				int64_t need = size + (int64_t)kept(s, k);

				if (layer > 0 && k + 1 == N_FILL)
					need += (int64_t)s->q.tied_bytes;

				if (need > room)
					break;
				room -= need;
				weights += size;
				ret_n[i]++;
			}
			if (ret_n[i] > 0)
				remaining -= weights;
		}
		*ret_first |= i == 0 && ret_n[i] > 0;
		layer += ret_n[i];
	}
	return remaining == 0;
}

/* Cards, and a host behind them. */
static void throw_cards(struct scene *s)
{
	*s = (struct scene){ .q = { .strategy = GPUMAP_STRATEGY_FILL,
				    .rows = s->rows,
				    .layer_bytes = s->layers,
				    .n_layers = N_FILL } };
	read_numbers(s, SMALL);
	throw_caches(s, 3, 256);
	s->q.non_mapped_bytes = dice(4) * 600 * MIB;
	s->q.tied_bytes = dice(2) * s->q.non_mapped_bytes;
	for (uint32_t i = 0; i < N_FILL; i++)
		s->layers[i] = (1 + dice(8)) * 100 * MIB;
	add_up(s);
	s->q.n_rows = 1 + (uint32_t)dice(ROWS);
	for (uint32_t i = 0; i < s->q.n_rows; i++)
		s->rows[i] = (struct gm_plan_device){
			.row = i,
			.is_host = i + 1 == s->q.n_rows,
			.avail = dice(50) * 100 * MIB,
			.speed = 1 + dice(9),
		};
	s->q.mapped_act_elems = dice(3) * 50 * MIB;
	s->q.non_mapped_act_elems = dice(3) * 50 * MIB;
	s->q.cache.max_seq_len = 1 + dice(100000);
}

static bool is_same(const struct scene *s, const struct gm_auto *plan,
		    const uint32_t *n)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < s->q.n_rows; i++)
		if (n[i] > 0 &&
		    (at == plan->n_charges || plan->charges[at].row != i ||
		     plan->charges[at++].n_layers != n[i]))
			return false;
	return at == plan->n_charges;
}

static void chance_agrees_with_the_plain_walk(void)
{
	int equal = 0, differ = 0, wrong = 0, fit = 0;

	for (int i = 0; i < 20000; i++) {
		struct gm_auto plan = { 0 };
		uint32_t n[ROWS];
		struct scene s;
		bool fits, first;
		int r;

		throw_cards(&s);
		r = gm_auto_make(&s.q, &plan, NULL);
		wrong += gm_auto_fits(&s.q) != (r == 0);
		fits = plain_walk(&s, n, &first);
		if (r == 0)
			wrong += !is_whole(&s.q, &plan);
		fit += r == 0;
		if (first) {
			bool agree = fits ? r == 0 && is_same(&s, &plan, n)
					  : r == -ENOSPC;

			equal += agree;
			differ += !agree;
		}
		gm_auto_free(&plan);
		/* The others find a map as well, of the same bytes. */
		s.q.strategy = GPUMAP_STRATEGY_BALANCE + (uint32_t)dice(2);
		r = gm_auto_make(&s.q, &plan, NULL);
		wrong += gm_auto_fits(&s.q) != (r == 0);
		if (r == 0)
			wrong += !is_whole(&s.q, &plan);
		gm_auto_free(&plan);
	}
	NOTE("%d of 20000 fit, %d compared", fit, equal);
	EQ(differ, 0);
	EQ(wrong, 0);
	OK(equal > 5000 && fit > 5000);
}

/* ---- balance beside every map there is ----------------------------------- */

#define MOST_LAYERS 7u
#define MOST_ROWS   4u

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
	const struct gm_auto_request *q = &s->q;
	struct worth worth = { 0, 1, 0 };

	for (uint32_t i = 0, end; i < q->n_layers; i = end) {
		const struct gm_plan_device *row = &q->rows[row_of[i]];
		struct worth own = { 0, row->speed, 0 };
		uint64_t act = q->mapped_act_elems, need;

		for (end = i; end < q->n_layers && row_of[end] == row_of[i];)
			own.bytes += q->layer_bytes[end++];
		if (i == 0 && q->non_mapped_act_elems > act)
			act = q->non_mapped_act_elems;
		need = own.bytes + act +
		       (i == 0               ? q->non_mapped_bytes
			: end == q->n_layers ? q->tied_bytes
					     : 0);
		for (uint32_t k = i; k < end; k++)
			need += kept(s, k);
		if (need > row->avail || row->speed == 0)
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
		   uint32_t strategy)
{
	int time = compare_time(a, b);

	if (strategy == GPUMAP_STRATEGY_FEWEST && a->n_ranges != b->n_ranges)
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

static bool try_all(const struct scene *s, uint32_t strategy,
		    struct worth *ret_worth, uint32_t *ret_map)
{
	uint32_t row_of[MOST_LAYERS] = { 0 };
	bool any = false;

	do {
		struct worth w;

		if (!check(s, row_of, &w))
			continue;
		if (any && !better(&w, ret_worth, strategy) &&
		    (better(ret_worth, &w, strategy) ||
		     !lower(row_of, ret_map, s->q.n_layers)))
			continue;
		*ret_worth = w;
		memcpy(ret_map, row_of, sizeof(row_of));
		any = true;
	} while (next_map(row_of, s->q.n_layers, s->q.n_rows));
	return any;
}

/* Hosts keep nothing back. */
static void throw_hosts(struct scene *s)
{
	*s = (struct scene){ .q = { .rows = s->rows,
				    .layer_bytes = s->layers } };
	s->q.n_rows = 1 + (uint32_t)dice(MOST_ROWS);
	s->q.n_layers = 1 + (uint32_t)dice(MOST_LAYERS);
	read_numbers(s, "");
	throw_caches(s, 3, 1);
	s->q.mapped_act_elems = dice(4);
	s->q.non_mapped_act_elems = dice(6);
	s->q.non_mapped_bytes = dice(12);
	s->q.tied_bytes = dice(s->q.non_mapped_bytes + 1);
	for (uint32_t i = 0; i < s->q.n_layers; i++)
		s->layers[i] = dice(9);
	for (uint32_t i = 0; i < s->q.n_rows; i++)
		s->rows[i] = (struct gm_plan_device){ .row = i,
						      .is_host = true,
						      .avail = dice(45),
						      .speed = dice(6) };
}

static bool is_best(const struct scene *s, int *ret_fit)
{
	uint32_t best[MOST_LAYERS], got[MOST_LAYERS], n = 0;
	struct worth want = { 0 };
	struct gm_auto plan = { 0 };
	bool any = try_all(s, s->q.strategy, &want, best);
	int r = gm_auto_make(&s->q, &plan, NULL);

	if (!any || r) {
		gm_auto_free(&plan);
		return !any && r == -ENOSPC;
	}
	for (uint32_t i = 0; i < plan.n_charges; i++)
		for (uint32_t j = 0; j < plan.charges[i].n_layers; j++)
			got[n++] = plan.charges[i].row;
	gm_auto_free(&plan);
	++*ret_fit;
	return n == s->q.n_layers && memcmp(got, best, n * sizeof(*got)) == 0;
}

static void chance_finds_nothing_better(void)
{
	int wrong[2] = { 0, 0 }, fit[2] = { 0, 0 };

	for (uint32_t i = 0; i < 6000; i++) {
		struct scene s;

		throw_hosts(&s);
		s.q.strategy = GPUMAP_STRATEGY_BALANCE + i % 2;
		wrong[i % 2] += !is_best(&s, &fit[i % 2]);
	}
	NOTE("%d and %d fit", fit[0], fit[1]);
	EQ(wrong[0], 0);
	EQ(wrong[1], 0);
	OK(fit[0] > 800 && fit[1] > 800);
}

TAP_CASE()
{
	each_case_has_its_map();
	too_many_are_refused();
	strategies_have_names();
	chance_agrees_with_the_plain_walk();
	chance_finds_nothing_better();
	return tap_done();
}
