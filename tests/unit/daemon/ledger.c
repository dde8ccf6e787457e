/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* ledger: what committed maps reserve, who may have how much, maps that a
 * process's life holds, and what the next agent makes of all this. */

#include "tests/support/ledger_rig.h"

/* ---- promises ------------------------------------------------------------ */

static void promises_are_summed_up(void)
{
	uint32_t before = gm_get(&d->segment->map.header->generation);
	struct gm_charge_image charges[] = { charge_of(0, 100),
					     charge_of(2, 250) };
	struct gm_layers layers =
		map_of("both", 0, GM_OBJECT_COMMITTED, charges, 2);
	uint64_t version;

	EQ(publish_map(d, &layers, why, &version), 0);
	EQ(reserved(0), 100);
	EQ(reserved(1), 0);
	EQ(reserved(2), 250);
	OK(gm_get(&d->segment->map.header->generation) != before);
	EQ(commit("one", 0, 0, 301), 0);
	EQ(reserved(0), 401);
	EQ(gm_ledger_avail(d, 0, GM_LEDGER_NOBODY), TOTAL - 401);

	/* One that promises nothing may charge what it likes. */
	layers.flags = 0;
	layers.name = "free";
	charges[0].weight_bytes = 5 * TOTAL;
	EQ(publish_map(d, &layers, why, &version), 0);
	EQ(reserved(0), 401);
	EQ(release("free"), 0);

	EQ(release("both"), 0);
	EQ(reserved(0), 301);
	EQ(reserved(2), 0);
	EQ(release("one"), 0);
	EQ(reserved(0), 0);
}

static void too_much_is_refused(void)
{
	uint32_t heap;

	EQ(commit("a", 0, 1, 600), 0);
	heap = d->directory->heap.n_free;
	EQ(commit("b", 0, 1, 401), -ENOSPC);
	STR(why, "row 1 has 400 B that no map reserves, the map takes 401 B: "
		 "release one that gpumapctl who shows, or ask for less");
	OK(!is_published("b"));
	EQ(d->directory->heap.n_free, heap);
	EQ(reserved(1), 600);
	EQ(commit("b", 0, 1, 400), 0);
	EQ(reserved(1), TOTAL);

	/* Memory that other programs use cannot be reserved. */
	EQ(release("b"), 0);
	d->devices->of[1]->moving.free_bytes = 700;
	EQ(commit("b", 0, 1, 101), -ENOSPC);
	EQ(commit("b", 0, 1, 100), 0);
	d->devices->of[1]->moving.free_bytes = 0;
	EQ(commit("c", 0, 1, 1), -ENOSPC);
	/* A reservation stays, and its owner may replace it. */
	EQ(commit("a", 0, 1, 600), 0);
	EQ(commit("a", 0, 1, 601), -ENOSPC);
	EQ(commit("a", 0, 1, 200), 0);
	EQ(reserved(1), 300);
	d->devices->of[1]->moving.free_bytes = TOTAL;
	EQ(release("a"), 0);
	EQ(release("b"), 0);
}

static void replacing_moves_the_promise(void)
{
	EQ(commit("m", 0, 0, 900), 0);
	EQ(commit("m", 0, 0, 1000), 0);
	EQ(reserved(0), 1000);
	EQ(commit("m", 0, 1, 1000), 0);
	EQ(reserved(0), 0);
	EQ(reserved(1), 1000);
	EQ(commit("m", 0, 1, 1001), -ENOSPC);
	EQ(reserved(1), 1000);
	OK(is_published("m"));
	EQ(release("m"), 0);
	EQ(reserved(1), 0);
}

static void lost_rows_take_nothing(void)
{
	struct gm_device *device = d->devices->of[2];

	EQ(commit("m", 0, 2, 10), 0);
	device->moving.state = GPUMAP_DEVICE_FAILED;
	EQ(commit("n", 0, 2, 10), -ENODEV);
	OK(strstr(why, "row 2 is not there, is lost or has failed") != NULL);
	EQ(commit("m", 0, 2, 10), -ENODEV);
	EQ(gm_ledger_avail(d, 2, GM_LEDGER_NOBODY), 0);
	device->moving.state = GPUMAP_DEVICE_READY;
	device->present = false;
	EQ(commit("n", 0, 2, 10), -ENODEV);
	device->present = true;
	EQ(commit("n", 0, ROWS, 10), -ENODEV);
	EQ(reserved(2), 10);
	EQ(release("m"), 0);
}

static void sums_do_not_wrap(void)
{
	struct gm_charge_image charges[] = { charge_of(0, INT64_MAX),
					     charge_of(0, INT64_MAX) };
	struct gm_layers layers =
		map_of("twice", 0, GM_OBJECT_COMMITTED, charges, 2);
	uint64_t version;

	EQ(commit("m", 0, 0, UINT64_MAX), -EOVERFLOW);
	STR(why, "row 0 is charged for 2^63 bytes or more");
	EQ(commit("m", 0, 0, (uint64_t)INT64_MAX + 1), -EOVERFLOW);
	EQ(commit("m", 0, 0, INT64_MAX), -ENOSPC);
	/* Nor do those of a row that is charged twice. */
	EQ(publish_map(d, &layers, why, &version), -EOVERFLOW);
	EQ(reserved(0), 0);
}

static void uids_have_a_share(void)
{
	d->config->reserve_per_uid = 30;
	EQ(commit("a", OTHER, 0, 200), 0);
	EQ(commit("b", OTHER, 0, 101), -EDQUOT);
	STR(why, "uid 54321 has reserved 200 B of row 0, asks for 101 B, and "
		 "may have 300 B: release a map, or raise reserve-per-uid in "
		 "[limits] of gpumapd.conf");
	/* A user who has reserved nothing has nothing to release. */
	EQ(commit("c", OTHER + 1, 0, 301), -EDQUOT);
	STR(why, "uid 54322 has reserved 0 B of row 0, asks for 301 B, and may "
		 "have 300 B: ask for less, or raise reserve-per-uid in "
		 "[limits] of gpumapd.conf");
	/* The last digits of the total count as well. */
	d->devices->of[0]->facts.total_bytes = TOTAL + 50;
	EQ(commit("b", OTHER, 0, 116), -EDQUOT);
	EQ(commit("b", OTHER, 0, 115), 0);
	EQ(release("b"), 0);
	d->devices->of[0]->facts.total_bytes = TOTAL;
	EQ(commit("b", OTHER, 1, 300), 0);
	EQ(commit("a", OTHER, 0, 300), 0);
	EQ(commit("c", OTHER + 1, 0, 300), 0);
	EQ(commit("d", 0, 0, 400), 0);
	d->config->reserve_per_uid = 100;
	EQ(release("a"), 0);
	EQ(release("b"), 0);
	EQ(release("c"), 0);
	EQ(release("d"), 0);
}

static void restored_maps_need_not_be_free_now(void)
{
	struct gm_charge_image charge = charge_of(0, 600);
	struct gm_layers layers =
		map_of("r", OTHER, GM_OBJECT_COMMITTED, &charge, 1);

	d->devices->of[0]->moving.free_bytes = 0;
	d->config->reserve_per_uid = 1;
	EQ(gm_publish_restore(d, &gm_map_kind, words_of(&layers, 7), why), 0);
	EQ(reserved(0), 600);
	layers.name = "s";
	EQ(gm_publish_restore(d, &gm_map_kind, words_of(&layers, 7), why),
	   -ENOSPC);
	OK(!is_published("s"));
	d->devices->of[0]->moving.free_bytes = TOTAL;
	d->config->reserve_per_uid = 100;
	EQ(release("r"), 0);
}

/* ---- held maps ----------------------------------------------------------- */

static void death_withdraws(void)
{
	uint32_t heap = d->directory->heap.n_free;
	pid_t child = start_child();
	int fd = dup(0), after;
	struct gm_pin pin;

	close(fd);
	EQ(commit("named", 0, 0, 100), 0);
	for (int i = 0; i < 5; i++) {
		char name[8];

		snprintf(name, sizeof(name), "h%d", i);
		EQ(hold(name, child, 1, 100, SHOWN), 0);
	}
	EQ(gm_pins_pin(d, (struct gm_pin_owner){ child, 0 }, GM_KIND_LAYERS,
		       "h0", why, &pin),
	   0);
	EQ(gm_pins_unpin(d, child, pin.claim - 1), -ENOENT);
	EQ(entries(), 6);
	EQ(reserved(1), 500);
	end_child(child);
	hear_of_deaths();
	OK(!is_published("h0") && !is_published("h4"));
	OK(is_published("named"));
	EQ(reserved(0), 100);
	EQ(reserved(1), 0);
	EQ(release("named"), 0);
	EQ(d->directory->heap.n_free, heap);
	after = dup(0);
	close(after);
	EQ(after, fd);
}

static void what_is_replaced_is_held_no_more(void)
{
	pid_t child = start_child(), second = start_child();

	EQ(hold("m", child, 0, 100, SHOWN), 0);
	EQ(hold("m", second, 0, 200, SHOWN), 0);
	EQ(entries(), 1);
	EQ(reserved(0), 200);
	EQ(commit("m", 0, 0, 300), 0);
	EQ(entries(), 0);
	EQ(hold("n", second, 0, 50, SHOWN), 0);
	EQ(release("n"), 0);
	EQ(entries(), 0);
	EQ(reserved(0), 300);
	end_child(child);
	end_child(second);
	hear_of_deaths();
	OK(is_published("m"));
	EQ(reserved(0), 300);

	/* And what a name held may become a life's. */
	child = start_child();
	EQ(hold("m", child, 1, 10, SHOWN), 0);
	EQ(reserved(0), 0);
	end_child(child);
	hear_of_deaths();
	OK(!is_published("m"));
	EQ(reserved(1), 0);
}

static void holding_can_fail(void)
{
	uint32_t heap = d->directory->heap.n_free;
	pid_t child = start_child();

	EQ(hold("m", child, 0, TOTAL + 1, SHOWN), -ENOSPC);
	EQ(hold("m", 0, 0, 1, SHOWN), -ESRCH);
	EQ(hold("m", 0x7ffffffe, 0, 1, SHOWN), -ESRCH);
	d->config->pins_per_uid = 1;
	EQ(hold("m", child, 0, 1, SHOWN), 0);
	EQ(hold("n", child, 0, 1, SHOWN), -EDQUOT);
	STR(why, "uid 0 has 1 pins and held maps: give one back, or raise "
		 "pins-per-uid in [limits] of gpumapd.conf");
	d->config->pins_per_uid = 256;
	EQ(entries(), 1);
	EQ(release("m"), 0);
	EQ(entries(), 0);
	EQ(d->directory->heap.n_free, heap);
	end_child(child);
}

/* The holder ends while the I/O thread has the change. */
static void holders_that_end_too_early(void)
{
	struct gm_charge_image charge = charge_of(0, 70);
	struct gm_layers layers = map_of(
		"m", 0, GM_OBJECT_COMMITTED | GM_OBJECT_HELD, &charge, 1);
	pid_t child = start_child();
	struct gm_put put;
	uint32_t place, other;

	EQ(hold("before", child, 1, 10, SHOWN), 0);
	EQ(gm_pins_hold(d, child, 0, why, &place), 0);
	EQ(gm_pins_hold(d, child, 0, why, &other), 0);
	EQ(gm_publish_prepare(d, &gm_map_kind, words_of(&layers, 0), why, &put),
	   0);
	end_child(child);
	hear_of_deaths();
	OK(!is_published("before"));
	EQ(reserved(1), 0);
	gm_pins_let_go(d, other);
	gm_pins_keep(d, place, &put.block);
	gm_publish_store(d, &gm_map_kind, words_of(&layers, 0), &put);
	OK(is_published("m"));
	EQ(reserved(0), 70);
	hear_of_deaths();
	OK(!is_published("m"));
	EQ(reserved(0), 0);
}

/* A change replaces a held map whose holder ends in the middle. */
static void holders_that_end_under_a_change(void)
{
	struct gm_charge_image charge = charge_of(0, 900);
	struct gm_layers layers =
		map_of("m", 0, GM_OBJECT_COMMITTED, &charge, 1);
	pid_t child = start_child();
	struct gm_put put;

	EQ(hold("m", child, 0, 800, SHOWN), 0);
	EQ(gm_publish_prepare(d, &gm_map_kind, words_of(&layers, 0), why, &put),
	   0);
	end_child(child);
	hear_of_deaths();
	OK(!is_published("m"));
	gm_publish_store(d, &gm_map_kind, words_of(&layers, 0), &put);
	EQ(reserved(0), 900);
	EQ(release("m"), 0);
}

/* ---- the next agent ------------------------------------------------------ */

static void promises_outlive_the_agent(void)
{
	pid_t living = start_child(), dead = start_child();

	EQ(commit("named", 0, 0, 100), 0);
	EQ(hold("living", living, 1, 200, SHOWN), 0);
	EQ(hold("dead", dead, 1, 300, SHOWN), 0);
	EQ(hold("never", living, 2, 400, KEPT), 0);
	EQ(entries(), 3);
	die();
	end_child(dead);
	if (!come_back())
		return;
	OK(is_published("named") && is_published("living"));
	OK(!is_published("dead") && !is_published("never"));
	EQ(entries(), 1);
	EQ(reserved(0), 100);
	EQ(reserved(1), 200);
	EQ(reserved(2), 0);
	EQ(commit("more", 0, 1, 801), -ENOSPC);
	end_child(living);
	hear_of_deaths();
	EQ(reserved(1), 0);
	EQ(release("named"), 0);

	die();
	if (come_back())
		EQ(d->directory->heap.n_free,
		   d->directory->heap.end - d->directory->heap.first -
			   ROWS * (d->directory->rows[0].bytes / GM_UNIT));
}

/* A row became smaller: no reservation ends, and none is added. */
static void shrunk_rows_keep_their_promises(void)
{
	EQ(commit("m", 0, 0, 900), 0);
	die();
	d->devices->of[0]->facts.total_bytes = 500;
	if (!come_back())
		return;
	EQ(reserved(0), 900);
	EQ(commit("n", 0, 0, 1), -ENOSPC);
	EQ(commit("m", 0, 0, 400), 0);
	EQ(commit("n", 0, 0, 100), 0);
	d->devices->of[0]->facts.total_bytes = TOTAL;
	EQ(release("m"), 0);
	EQ(release("n"), 0);
}

TAP_CASE()
{
	if (!ledger_begin("test-ledger"))
		return 99;
	promises_are_summed_up();
	too_much_is_refused();
	replacing_moves_the_promise();
	lost_rows_take_nothing();
	sums_do_not_wrap();
	uids_have_a_share();
	restored_maps_need_not_be_free_now();
	death_withdraws();
	what_is_replaced_is_held_no_more();
	holding_can_fail();
	holders_that_end_too_early();
	holders_that_end_under_a_change();
	promises_outlive_the_agent();
	shrunk_rows_keep_their_promises();

	ledger_end();
	return tap_done();
}
