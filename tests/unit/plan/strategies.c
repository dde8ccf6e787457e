/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Properties of every strategy, on random models and nodes:
 *
 * - a map gives each layer one row, and no row more than is left of it; - the
 * three agree on whether there is a map at all; - balance is never slower than
 * fill or fewest; - fewest never takes more rows than fill or balance; - hosts
 * hold layers only where the other rows cannot hold them all; - none is refused
 * for a type that another's rows do without.
 */

#include <errno.h>
#include <string.h>

#include "lib/model/plan/plan.h"
#include "tests/support/dice.h"
#include "tests/support/layer_caches.h"
#include "tests/support/tap.h"

#define MIB    (UINT64_C(1) << 20)
#define LAYERS 40u
#define ROWS   8u
#define ROUNDS 3000
#define N      3 /* strategies */

struct scene {
	struct gm_plan_device devices[ROWS];
	uint64_t layers[LAYERS];
	struct gpumap_layer_cache caches[LAYERS];
	struct gm_plan_request q;
};

/* The errors found, and how often. */
static struct tally {
	int made, refused, with_hosts;
	int broken, disagree, slower, more_rows, early_hosts;
} tally;

static void throw_rows(struct scene *s)
{
	s->q.devices = s->devices;
	s->q.n_devices = 1 + (uint32_t)dice(ROWS);
	for (uint32_t i = 0; i < s->q.n_devices; i++) {
		uint64_t avail = dice(24 * 1024) * MIB;
		bool is_host = dice(4) == 0;

		s->devices[i] = (struct gm_plan_device){
			.row = 10 + i,
			.is_host = is_host,
			.is_cuda = !is_host,
			.is_integrated = dice(30) == 0,
			.cc_major = 8,
			.avail = avail,
			.total = avail,
			.speed = gm_plan_speed(is_host, 1 + (uint32_t)dice(140),
					       avail, 5 + (uint32_t)dice(5)),
		};
	}
}

static void throw_scene(struct scene *s)
{
	*s = (struct scene){ .q.ask = { .setting = GPUMAP_SETTING_AUTO,
					.compute_dtype = GPUMAP_DTYPE_BF16 } };
	throw_rows(s);
	s->q.ask.max_seq_len = 1 + dice(20000);
	s->q.ask.max_batch_size = 1 + (uint32_t)dice(4);
	s->q.ask.n_layers = 1 + (uint32_t)dice(LAYERS);
	s->q.ask.layer_bytes = s->layers;
	s->q.ask.other_bytes = dice(3000) * MIB;
	s->q.ask.n_heads = 1 + (uint32_t)dice(64);
	s->q.ask.caches = fill_caches(s->caches, 1, 1 + (uint32_t)dice(16), 64);
	s->caches[0].n_layers = s->q.ask.n_layers;
	s->q.ask.n_caches = 1;
	/* Alike, as most models' are, or as different as can be. */
	for (uint32_t i = 0; i < LAYERS; i++)
		s->layers[i] = i > 0 && dice(4) > 0 ? s->layers[0]
						    : dice(2000) * MIB + 1;
}

static const struct gm_plan_device *device_of(const struct scene *s,
					      uint32_t row)
{
	return &s->devices[row - 10];
}

/* Every layer once, all bytes, and no row over what is left of it. */
static bool is_sound(const struct scene *s, const struct gm_plan *plan)
{
	uint32_t layers = 0, placed[ROWS] = { 0 };
	uint64_t bytes = 0, want = s->q.ask.other_bytes;

	for (uint32_t i = 0; i < plan->n_layers; i++) {
		want += s->layers[i];
		if (plan->rows[i] < 10 || plan->rows[i] >= 10 + ROWS)
			return false;
		placed[plan->rows[i] - 10]++;
	}
	for (uint32_t i = 0; i < plan->n_charges; i++) {
		const struct gpumap_charge *c = &plan->charges[i];
		uint64_t avail = device_of(s, c->row)->avail;

		if (c->n_layers != placed[c->row - 10] ||
		    c->kv_bytes != c->n_layers * plan->kv_bytes ||
		    gm_plan_charge_bytes(c) + c->left_bytes != avail ||
		    c->left_bytes > avail)
			return false;
		layers += c->n_layers;
		bytes += c->weight_bytes;
	}
	return plan->missing_bytes == 0 &&
	       plan->n_layers == s->q.ask.n_layers &&
	       layers == plan->n_layers && bytes == want &&
	       plan->base_row == plan->rows[0];
}

/* The load of the slowest row: bytes of layers over score. */
static double slowest(const struct scene *s, const struct gm_plan *plan)
{
	double most = 0;

	for (uint32_t i = 0; i < plan->n_charges; i++) {
		const struct gpumap_charge *c = &plan->charges[i];
		uint64_t bytes = c->weight_bytes;

		if (c->row == plan->base_row)
			bytes -= s->q.ask.other_bytes;
		if ((double)bytes / (double)device_of(s, c->row)->speed > most)
			most = (double)bytes /
			       (double)device_of(s, c->row)->speed;
	}
	return most;
}

static bool has_host(const struct scene *s, const struct gm_plan *plan)
{
	for (uint32_t i = 0; i < plan->n_charges; i++)
		if (device_of(s, plan->charges[i].row)->is_host)
			return true;
	return false;
}

/* Would the rows that are no hosts have done? */
static bool fits_without_hosts(const struct scene *s)
{
	struct scene other = *s;
	struct gm_plan plan;
	int r;

	other.q.devices = other.devices;
	other.q.ask.layer_bytes = other.layers;
	for (uint32_t i = 0; i < other.q.n_devices; i++)
		if (other.devices[i].is_host)
			other.devices[i].avail = 0;
	r = gm_plan_make(&other.q, &plan, NULL, NULL);
	if (r == 0)
		gm_plan_free(&plan);
	return r == 0;
}

static void compare(const struct scene *s, const struct gm_plan plans[N])
{
	const struct gm_plan *fill = &plans[0], *balance = &plans[1],
			     *fewest = &plans[2];
	/* Whole numbers are compared there. */
	double time = slowest(s, balance) * 0.999;

	for (int i = 0; i < N; i++) {
		tally.broken += !is_sound(s, &plans[i]);
		tally.with_hosts += has_host(s, &plans[i]);
		if (has_host(s, &plans[i]) && fits_without_hosts(s))
			tally.early_hosts++;
	}
	tally.slower += time > slowest(s, fill) || time > slowest(s, fewest);
	tally.more_rows += fewest->n_charges > fill->n_charges ||
			   fewest->n_charges > balance->n_charges;
}

static void every_strategy_keeps_its_word(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct gm_plan plans[N] = { 0 };
		struct scene s;
		int made = 0;

		throw_scene(&s);
		for (int j = 0; j < N; j++) {
			int r;

			s.q.ask.strategy = GPUMAP_STRATEGY_FILL + (uint32_t)j;
			r = gm_plan_make(&s.q, &plans[j], NULL, NULL);
			made += r == 0;
			tally.broken += r != 0 && r != -ENOSPC;
		}
		if (made == N)
			compare(&s, plans);
		tally.made += made == N;
		tally.refused += made == 0;
		tally.disagree += made != 0 && made != N;
		for (int j = 0; j < N; j++)
			gm_plan_free(&plans[j]);
	}
	NOTE("%d of %d fit, %d maps use a host", tally.made, ROUNDS,
	     tally.with_hosts);
	EQ(tally.broken, 0);
	EQ(tally.disagree, 0);
	EQ(tally.slower, 0);
	EQ(tally.more_rows, 0);
	EQ(tally.early_hosts, 0);
	OK(tally.made > ROUNDS / 5 && tally.refused > ROUNDS / 5 &&
	   tally.with_hosts > ROUNDS / 20);
}

/* Some cards cannot do 16 bits.  A strategy that puts layers there pays for it
 * with every row's cache, and may not be refused for that. */
static void old_cards_are_in_nobodys_way(void)
{
	int left_out = 0, disagree = 0, broken = 0;

	for (int i = 0; i < ROUNDS; i++) {
		struct scene s;
		int made = 0;

		throw_scene(&s);
		s.q.ask.compute_dtype = 0;
		s.q.ask.max_seq_len *= 20; /* so that the cache counts */
		for (uint32_t j = 0; j < s.q.n_devices; j++)
			s.devices[j].cc_major = dice(4) == 0 ? 5 : 8;
		for (int j = 0; j < N; j++) {
			struct gm_plan plan;

			s.q.ask.strategy = GPUMAP_STRATEGY_FILL + (uint32_t)j;
			if (gm_plan_make(&s.q, &plan, NULL, NULL))
				continue;
			made++;
			broken += !is_sound(&s, &plan);
			left_out += plan.warnings &&
				    strstr(plan.warnings, "is left out");
			gm_plan_free(&plan);
		}
		disagree += made != 0 && made != N;
	}
	NOTE("cards were left out %d times", left_out);
	EQ(broken, 0);
	EQ(disagree, 0);
	OK(left_out > 0);
}

TAP_CASE()
{
	every_strategy_keeps_its_word();
	old_cards_are_in_nobodys_way();
	return tap_done();
}
