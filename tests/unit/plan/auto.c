/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* auto: each strategy's map, and sums that come out. */

#include <errno.h>
#include <string.h>

#include "agent/plan/auto.h"
#include "tests/support/dice.h"
#include "tests/support/tap.h"

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
		.mapped_act_elems = 8 * 1024 * 1024,
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

	if (gm_auto_make(&s->q, &plan, &err))
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

	EQ(gm_auto_strategy_parse("fewest", &strategy, &err), 0);
	EQ(strategy, GM_STRATEGY_FEWEST);
	EQ(gm_auto_strategy_parse("best", &strategy, &err), -EINVAL);
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

static void chance_gets_whole_plans(void)
{
	int fit = 0, broken = 0, bad = 0;

	for (int i = 0; i < 600; i++) {
		struct gm_auto plan;
		struct scene s;
		int r;

		throw_scene(&s);
		r = gm_auto_make(&s.q, &plan, NULL);
		bad += gm_auto_fits(&s.q) != (r == 0);
		if (r == 0) {
			fit++;
			broken += !is_whole(&s, &plan);
			gm_auto_free(&plan);
		} else {
			bad += r != -ENOSPC;
		}
	}
	NOTE("%d of 600 fit", fit);
	EQ(broken, 0);
	EQ(bad, 0);
	OK(fit > 100 && fit < 500);
}

static void hosts_wait_until_they_are_needed(void)
{
	struct scene s;

	set_scene(&s, GM_STRATEGY_BALANCE);
	s.rows[0].speed = 1000; /* a large memory is no fast host */
	STR(show(&s), "11:5;12:11");
	s.rows[1].avail = 6 * GIB;
	STR(show(&s), "10:16");
	s.q.n_rows = 1;
	STR(show(&s), "10:16");
}

static void pages_are_for_devices_alone(void)
{
	static const enum gm_strategy all[] = { GM_STRATEGY_FILL,
						GM_STRATEGY_BALANCE,
						GM_STRATEGY_FEWEST };
	struct gm_kv_paged paged = { .budget = GM_KV_MB,
				     .amount = 2048,
				     .block_size = 32 };

	for (size_t i = 0; i < 3; i++) {
		struct gm_auto plan = { 0 };
		struct scene s;

		set_scene(&s, all[i]);
		s.q.paged = &paged;
		EQ(gm_auto_make(&s.q, &plan, NULL), 0);
		OK(plan.is_paged);
		EQ(plan.kv_bytes, 128 * MIB); /* 2 GiB over 16 layers */
		OK(is_whole(&s, &plan));
		gm_auto_free(&plan);
		s.rows[1].avail = 6 * GIB; /* so that the host is needed */
		EQ(gm_auto_make(&s.q, &plan, NULL), 0);
		OK(!plan.is_paged);
		EQ(plan.kv_bytes, 16 * MIB); /* 4096 * 8 * 256 * 2 */
		OK(is_whole(&s, &plan));
		gm_auto_free(&plan);
		paged.amount = 0;
		EQ(gm_auto_make(&s.q, &plan, NULL), -ENOSPC);
		s.q.n_rows = 1; /* a host alone has no pool to be short of */
		EQ(gm_auto_make(&s.q, &plan, NULL), 0);
		OK(!plan.is_paged);
		EQ(plan.kv_bytes, 16 * MIB);
		gm_auto_free(&plan);
		paged.amount = 2048;
	}
}

TAP_CASE()
{
	each_strategy_has_its_way();
	strategies_have_names();
	chance_gets_whole_plans();
	hosts_wait_until_they_are_needed();
	pages_are_for_devices_alone();
	return tap_done();
}
