/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* ledger: changes in any order, and as many maps as there is room for. */

#include "tests/support/dice.h"
#include "tests/support/ledger_rig.h"

/* ---- by chance ----------------------------------------------------------- */

#define NAMES 12

struct expected {
	uint32_t row;
	uint64_t bytes; /* 0: not there */
};

/* Rows as the promises of @expected, none over its total. */
static bool adds_up(const struct expected *expected)
{
	uint64_t sum[ROWS] = { 0 };

	for (int i = 0; i < NAMES; i++)
		sum[expected[i].row] += expected[i].bytes;
	for (uint32_t row = 0; row < ROWS; row++) {
		if (sum[row] > TOTAL || reserved(row) != sum[row])
			return false;
	}
	return true;
}

static void any_order_adds_up(void)
{
	struct expected expected[NAMES] = { 0 };
	int wrong = 0, refused = 0, granted = 0;
	pid_t child = start_child();

	for (int turn = 0; turn < 4000; turn++) {
		uint32_t i = (uint32_t)dice(NAMES), row = (uint32_t)dice(ROWS);
		uint64_t bytes = 1 + dice(TOTAL / 2);
		char name[16];
		int ret;

		snprintf(name, sizeof(name), "chance%u", i);
		if (dice(3) == 0) {
			ret = release(name);
			wrong += ret != (expected[i].bytes ? 0 : -ENOENT);
			expected[i].bytes = 0;
		} else {
			ret = dice(2) ? commit(name, 0, row, bytes)
				      : hold(name, child, row, bytes, SHOWN);
			wrong += ret != 0 && ret != -ENOSPC;
			granted += ret == 0;
			refused += ret != 0;
			if (ret == 0)
				expected[i] = (struct expected){ row, bytes };
		}
		wrong += !adds_up(expected);
		if (turn % 500 == 499) {
			die();
			come_back();
			wrong += !adds_up(expected);
		}
	}
	EQ(wrong, 0);
	OK(granted > 500 && refused > 500);
	end_child(child);
	hear_of_deaths();
	for (int i = 0; i < NAMES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "chance%d", i);
		release(name);
	}
	EQ(reserved(0) + reserved(1) + reserved(2), 0);
}

/* ---- room ---------------------------------------------------------------- */

static int commit_large(int i, uint32_t n_layers)
{
	struct gm_charge_image charge = charge_of(0, 0);
	char name[16];
	struct gm_layers layers =
		map_of(name, 0, GM_OBJECT_COMMITTED, &charge, 1);
	uint64_t version;

	snprintf(name, sizeof(name), "large%d", i);
	charge.reserve_bytes = i == 0;
	layers.n_layers = n_layers;
	return publish_map(d, &layers, why, &version);
}

static void two_thousand_maps_fit(void)
{
	uint32_t heap = d->directory->heap.n_free, left;
	int n = 0, wrong = 0;

	for (int i = 0; i < 2000; i++)
		wrong += commit_large(i, 200) != 0;
	EQ(wrong, 0);
	/* Twice, for a map lies in the heap twice while it is replaced. */
	for (int i = 0; i < 2000; i++)
		wrong += commit_large(i, 200) != 0;
	EQ(wrong, 0);
	EQ(reserved(0), 1);

	while (commit_large(2000 + n, 20000) == 0)
		n++;
	OK(n > 0);
	EQ(commit_large(0, GM_LAYERS_MAX), -ENOSPC);
	OK(strstr(why, "release objects, or raise size in [segment]") != NULL);
	left = d->directory->heap.n_free;
	OK(!is_published("large9999"));
	EQ(commit_large(9999, GM_LAYERS_MAX), -ENOSPC);
	OK(!is_published("large9999"));
	EQ(d->directory->heap.n_free, left);
	EQ(reserved(0), 1);
	die();
	if (!come_back())
		return;
	EQ(d->directory->heap.n_free, left);
	EQ(reserved(0), 1);
	for (int i = 0; i < 2000 + n; i++) {
		char name[16];

		snprintf(name, sizeof(name), "large%d", i);
		wrong += release(name) != 0;
	}
	EQ(wrong, 0);
	EQ(d->directory->heap.n_free, heap);
	EQ(reserved(0), 0);
}

TAP_CASE()
{
	if (!ledger_begin("test-ledger-room"))
		return 99;
	any_order_adds_up();
	two_thousand_maps_fit();
	ledger_end();
	return tap_done();
}
