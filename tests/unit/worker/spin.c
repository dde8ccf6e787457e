/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* spin: what is learned from gaps, who may spin, and when a doorbell is a
 * flood; all by a clock that the test makes. */

#include "agent/worker/queue/doorbell_limit.h"
#include "agent/worker/queue/spin.h"
#include "tests/support/tap.h"

#define US UINT64_C(1000)

struct tally {
	uint64_t spun_ns; /* time given to watching */
	uint32_t hits;
	uint32_t misses;
	uint32_t none; /* periods without a spin */
};

/* @n idle periods that would end after @gap_ns. */
static struct tally live(struct gm_doorbell_spin *spin, uint64_t gap_ns,
			 uint32_t n)
{
	struct tally t = { 0 };

	while (n--) {
		uint64_t budget = gm_spin_begin(spin);

		if (budget == 0) {
			t.none++;
		} else if (gap_ns < budget) {
			gm_spin_hit(spin, gap_ns);
			t.spun_ns += gap_ns;
			t.hits++;
		} else {
			gm_spin_miss(spin);
			t.spun_ns += budget;
			t.misses++;
		}
	}
	return t;
}

static void short_gaps_are_all_seen(void)
{
	struct gm_doorbell_spin spin = { 0 };
	struct tally t = live(&spin, 5 * US, 1000);

	EQ(t.hits, 1000);
	EQ(spin.average_ns, 5 * US);
	EQ(gm_spin_begin(&spin), 10 * US);
}

static void long_gaps_are_given_up(void)
{
	struct gm_doorbell_spin spin = { 0 };
	struct tally t;

	live(&spin, 500 * US, 64);
	t = live(&spin, 500 * US, 6400);
	/* One period in 64 learns, for the cap; the others cost nothing. */
	EQ(t.hits, 0);
	EQ(t.misses, 100);
	EQ(t.none, 6300);
	EQ(t.spun_ns, 100 * (uint64_t)GM_SPIN_CAP_NS);
}

static void what_changed_is_learned_anew(void)
{
	struct gm_doorbell_spin spin = { 0 };
	struct tally t;

	live(&spin, 3 * US, 100);
	t = live(&spin, 400 * US, 200);
	OK(t.none > 180);
	/* After 64 at most one sees the end of a gap, and from then on all. */
	t = live(&spin, 20 * US, 200);
	OK(t.none < 64);
	EQ(t.hits + t.none, 200);
}

static void longer_gaps_come_to_be_covered(void)
{
	struct gm_doorbell_spin spin = { 0 };
	struct tally t;

	live(&spin, 2 * US, 100);
	live(&spin, 15 * US, 300);
	t = live(&spin, 15 * US, 100);
	EQ(t.hits, 100);
}

static void budgets_have_bounds(void)
{
	struct gm_doorbell_spin spin = { 0 };

	live(&spin, 49 * US, 100);
	spin.periods = 1;
	EQ(gm_spin_begin(&spin), GM_SPIN_CAP_NS);
	spin = (struct gm_doorbell_spin){ 0 };
	live(&spin, 0, 100);
	spin.periods = 1;
	EQ(gm_spin_begin(&spin), GM_SPIN_FLOOR_NS);
	gm_spin_hit(&spin, UINT64_MAX);
	OK(spin.average_ns <= GM_SPIN_CAP_NS);
}

static void one_miss_is_forgiven(void)
{
	struct gm_doorbell_spin spin = { 0 };
	uint32_t none = 0;

	/* Three gaps in four are short: all of those are worth it. */
	for (int i = 0; i < 400; i++) {
		live(&spin, 4 * US, 3);
		none += live(&spin, 900 * US, 1).none;
	}
	EQ(none, 0);
	OK(spin.average_ns >= 3 * US && spin.average_ns <= 5 * US);
}

static void the_limit_holds(void)
{
	static struct gm_group_page group_page;
	uint32_t n = 0;

	OK(!gm_spin_enter(&group_page, 0)); /* 0: no session */
	gm_put(&group_page.spin_limit, 3);
	for (uint32_t row = 0; row < GM_ROWS; row += 10)
		n += gm_spin_enter(&group_page, row);
	EQ(n, 3);
	EQ(gm_get(&group_page.spinning[20]), 1);
	EQ(gm_get(&group_page.spinning[30]), 0);
	gm_spin_leave(&group_page, 10);
	OK(gm_spin_enter(&group_page, 255));
	OK(!gm_spin_enter(&group_page, 10));
	OK(gm_spin_enter(&group_page, 255)); /* it is counted once */
	gm_put(&group_page.spin_limit, 2);
	OK(!gm_spin_enter(&group_page, 255));
	EQ(gm_get(&group_page.spinning[255]), 0);
}

static void floods_are_told_from_bells(void)
{
	struct gm_flood flood = { 0 };
	uint64_t now = 5 * GM_FLOOD_SECOND_NS;
	uint32_t i;

	/* As many as may be, every second. */
	for (int second = 0; second < 3; second++, now += GM_FLOOD_SECOND_NS)
		for (i = 0; i < GM_FLOOD_LIMIT; i++)
			if (gm_flood_count(&flood, now))
				OK(!"muted too soon");
	OK(!flood.muted);
	for (i = 0; i < GM_FLOOD_LIMIT; i++)
		gm_flood_count(&flood, now);
	OK(gm_flood_count(&flood, now + 1));
	OK(flood.muted);
	OK(!gm_flood_over(&flood, now + GM_FLOOD_SECOND_NS));
	OK(gm_flood_over(&flood, now + 1 + GM_FLOOD_SECOND_NS));
	OK(!flood.muted);
	OK(!gm_flood_over(&flood, now + 9 * GM_FLOOD_SECOND_NS));
}

TAP_CASE()
{
	short_gaps_are_all_seen();
	long_gaps_are_given_up();
	what_changed_is_learned_anew();
	longer_gaps_come_to_be_covered();
	budgets_have_bounds();
	one_miss_is_forgiven();
	the_limit_holds();
	floods_are_told_from_bells();
	return tap_done();
}
