/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* auto: each strategy's charges, sums that come out, and advice that holds. */

#include <errno.h>
#include <string.h>

#include "agent/plan/auto.h"
#include "dice.h"
#include "tap.h"

#define MIB    (UINT64_C(1) << 20)
#define GIB    (UINT64_C(1) << 30)
#define LAYERS 16u
#define MOST   6u

struct scene {
	struct gm_auto_row rows[MOST];
	uint64_t layers[LAYERS];
	struct gm_auto_request q;
};

/* 16 layers of 1 GiB on rows 10, 11...: two cards and a host. */
static void set_scene(struct scene *s, enum gm_strategy strategy)
{
	*s = (struct scene){ 0 };
	for (uint32_t i = 0; i < LAYERS; i++)
		s->layers[i] = GIB;
	s->rows[0] = (struct gm_auto_row){ 10, true, false, 64 * GIB, 1 };
	s->rows[1] = (struct gm_auto_row){ 11, false, false, 24 * GIB, 10 };
	s->rows[2] = (struct gm_auto_row){ 12, false, false, 12 * GIB, 30 };
	s->q = (struct gm_auto_request){
		.strategy = strategy,
		.rows = s->rows,
		.n_rows = 3,
		.layer_bytes = s->layers,
		.n_layers = LAYERS,
		.non_mapped_bytes = GIB,
		.n_heads = 8,
		.kv = { LAYERS, 8, 128, 128, false, 0, 0 },
		.dtype_bytes = 2,
		.max_seq_len = 4096,
		.max_batch_size = 1,
	};
}

static const char *show(const struct scene *s)
{
	static struct gm_plan_error err;
	static char text[256];
	struct gm_auto plan = { 0 };
	char *at = text;

	if (gm_auto_make(&s->q, &plan, NULL, &err))
		return err.text;
	for (uint32_t i = 0; i < plan.n_charges; i++)
		at += sprintf(at, "%s%" PRIu32 ":%" PRIu32, i ? ";" : "",
			      plan.charges[i].row, plan.charges[i].n_layers);
	gm_auto_free(&plan);
	return text;
}

static void each_strategy_has_its_way(void)
{
	struct scene s;

	set_scene(&s, GM_STRATEGY_FILL);
	STR(show(&s), "11:16");
	set_scene(&s, GM_STRATEGY_BALANCE);
	/* 5 and 11 would be as fast as it gets, and row 12 holds them. */
	STR(show(&s), "11:5;12:11");
	set_scene(&s, GM_STRATEGY_FEWEST);
	STR(show(&s), "11:16");
	s.rows[1].avail = 6 * GIB;
	STR(show(&s), "10:16");
	set_scene(&s, GM_STRATEGY_FILL);
	s.rows[1].avail = 6 * GIB;
	STR(show(&s), "11:4;12:11;10:1");
	s.rows[2].is_integrated = true; /* its memory is the host's */
	OK(strncmp(show(&s), "This model does not fit", 23) == 0);
}

static void strategies_have_names(void)
{
	enum gm_strategy strategy = GM_STRATEGY_FILL;
	struct gm_plan_error err = { 0 };

	EQ(gm_strategy_parse("fewest", &strategy, &err), 0);
	EQ(strategy, GM_STRATEGY_FEWEST);
	EQ(gm_strategy_parse("best", &strategy, &err), -EINVAL);
	STR(err.text, "best is no strategy");
}

static bool is_whole(const struct scene *s, const struct gm_auto *plan)
{
	uint64_t bytes = 0, want = s->q.non_mapped_bytes;
	uint32_t at = 0;

	for (uint32_t i = 0; i < plan->n_charges; i++) {
		const struct gm_auto_charge *c = &plan->charges[i];
		uint64_t avail = 0;

		for (uint32_t j = 0; j < s->q.n_rows; j++)
			if (s->rows[j].row == c->row)
				avail = s->rows[j].avail;
		if (c->first != at || c->has_non_mapped != (i == 0) ||
		    c->weight_bytes + c->kv_bytes + c->act_bytes +
				    c->reserve_bytes + c->left_bytes !=
			    avail ||
		    c->left_bytes > avail)
			return false;
		at += c->n_layers;
		bytes += c->weight_bytes;
	}
	for (uint32_t i = 0; i < LAYERS; i++)
		want += s->layers[i];
	return at == LAYERS && bytes == want;
}

static void throw_scene(struct scene *s)
{
	set_scene(s, (enum gm_strategy)dice(3));
	s->q.n_rows = (uint32_t)dice(MOST + 1);
	for (uint32_t i = 0; i < s->q.n_rows; i++)
		s->rows[i] =
			(struct gm_auto_row){ i, dice(4) == 0, dice(20) == 0,
					      dice(12 * 1024) * MIB,
					      1 + dice(9) };
	for (uint32_t i = 0; i < LAYERS; i++)
		s->layers[i] = (1 + dice(20)) * 100 * MIB;
	s->q.non_mapped_bytes = dice(2000) * MIB;
	s->q.max_seq_len = 1 + dice(30000);
	s->q.max_batch_size = 1 + dice(8);
}

/* All else as asked, it fits with that and not with one more. */
static bool holds(struct scene *s, uint64_t *field, uint64_t advice)
{
	uint64_t asked = *field;
	struct gm_auto plan;
	bool good = true;

	for (uint64_t more = 0; more < 2 && good; more++) {
		*field = advice + more;
		if (*field == 0)
			continue;
		if (gm_auto_make(&s->q, &plan, NULL, NULL) == 0) {
			gm_auto_free(&plan);
			good = more == 0;
		} else {
			good = more == 1;
		}
	}
	*field = asked;
	return good;
}

static void chance_gets_whole_plans_and_good_advice(void)
{
	int fit = 0, broken = 0, advised = 0, bad = 0;

	for (int i = 0; i < 600; i++) {
		struct gm_auto_advice a = { 0 };
		struct gm_auto plan;
		struct scene s;
		int r;

		throw_scene(&s);
		r = gm_auto_make(&s.q, &plan, &a, NULL);
		if (r == 0) {
			fit++;
			broken += !is_whole(&s, &plan);
			gm_auto_free(&plan);
		} else {
			advised += a.max_seq_len > 0;
			bad += r != -ENOSPC;
			bad += !holds(&s, &s.q.max_seq_len, a.max_seq_len);
			bad += !holds(&s, &s.q.max_batch_size,
				      a.max_batch_size);
		}
	}
	NOTE("%d of 600 fit, %d would with shorter sequences", fit, advised);
	EQ(broken, 0);
	EQ(bad, 0);
	OK(fit > 100 && advised > 20);
}

static void quantisation_is_advised_as_little_as_will_do(void)
{
	struct gm_auto_advice a = { 0 };
	struct gm_auto plan;
	struct scene s;

	set_scene(&s, GM_STRATEGY_FILL);
	s.q.n_rows = 2;
	s.rows[0].avail = 0;
	s.rows[1].avail = 10 * GIB; /* 17 GiB over 2 and caches of 256 MiB */
	EQ(gm_auto_make(&s.q, &plan, &a, NULL), -ENOSPC);
	EQ(a.isq, GM_ISQ_Q8_0);
	s.rows[1].avail = 6 * GIB;
	EQ(gm_auto_make(&s.q, &plan, &a, NULL), -ENOSPC);
	EQ(a.isq, GM_ISQ_Q4K);
	EQ(a.max_seq_len, 0);
	s.rows[1].avail = GIB;
	EQ(gm_auto_make(&s.q, &plan, &a, NULL), -ENOSPC);
	EQ(a.isq, GM_ISQ_N);
}

int main(void)
{
	each_strategy_has_its_way();
	strategies_have_names();
	chance_gets_whole_plans_and_good_advice();
	quantisation_is_advised_as_little_as_will_do();
	return tap_done();
}
