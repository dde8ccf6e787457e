/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A watcher speaks of its cards after they are listed: of moving facts and
 * Xids, and ends.
 */

#include "tests/support/scripted_probe_agent.h"

/* Its watcher is ended, and the next one finds both cards. */
static int look_anew(const struct gpumap *map, int probe)
{
	struct gm_probe_wire cards[] = { puppet_card(3), puppet_card(1) };

	OK(puppet_ended(probe));
	probe = puppet_accept();
	puppet_say_all(probe, cards, 2);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	OK(puppet_becomes(map, 3, GPUMAP_DEVICE_READY));
	return probe;
}

/* ---- what moves -------------------------------------------------------- */

static void what_moves_is_published(const struct gpumap *map, int probe)
{
	struct gm_probe_wire wire = puppet_moving(1, GM_PROBE_USABLE, "");
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_device d;

	wire.moving.known |= GPUMAP_KNOWN_POWER;
	wire.moving.power = 700123;
	wire.moving.free_bytes = UINT64_C(30) << 30;
	wire.moving.recovery = GM_NVML_RECOVERY_DRAIN_P2P;
	puppet_say(probe, &wire);
	do {
		story_nap(500);
		d = card_of(map, 1);
	} while (d.recovery != GPUMAP_RECOVERY_DRAIN_P2P &&
		 story_now() < until);
	EQ(d.recovery, GPUMAP_RECOVERY_DRAIN_P2P);
	EQ(d.power, 700123);
	EQ(d.temperature, 41000);
	OK((d.known & GPUMAP_KNOWN_UTILISATION) == 0);
	OK(d.free_bytes == UINT64_C(30) << 30);
	OK(d.budget_bytes == UINT64_C(30) << 30);
	OK(d.score > 0);
	EQ(d.state, GPUMAP_DEVICE_READY);
	puppet_say_moving(probe, 1, GM_PROBE_USABLE, "");
}

static void health_is_a_state(const struct gpumap *map, int probe)
{
	static const struct {
		uint32_t health, state;
		const char *text, *reason;
	} cases[] = {
		{ GM_PROBE_FAILED, GPUMAP_DEVICE_FAILED,
		  "does not answer within 5 s", "does not answer within 5 s" },
		{ GM_PROBE_TAKEN, GPUMAP_DEVICE_FAILED,
		  "compute mode EXCLUSIVE_PROCESS",
		  "compute mode EXCLUSIVE_PROCESS" },
		{ GM_PROBE_LOST, GPUMAP_DEVICE_LOST, "",
		  "it is gone, or has fallen off the bus" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		puppet_say_moving(probe, 1, cases[i].health, cases[i].text);
		OK(puppet_becomes(map, 1, cases[i].state));
		STR(card_of(map, 1).reason, cases[i].reason);
		EQ(card_of(map, 3).state, GPUMAP_DEVICE_READY);
		puppet_say_moving(probe, 1, GM_PROBE_USABLE, "");
		OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
		STR(card_of(map, 1).reason, "");
	}
}

static void wait_for_xids(const struct gpumap *map, uint64_t n)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (card_of(map, 1).xids < n && story_now() < until)
		story_nap(500);
}

static void xids_of_others_change_nothing(const struct gpumap *map, int probe)
{
	static const uint32_t xids[] = { 13, 31, 43, 45, 68, 109, 94, 154 };
	const size_t n = sizeof(xids) / sizeof(xids[0]);
	uint64_t since = card_of(map, 1).since_ns;

	for (size_t i = 0; i < n; i++)
		puppet_say_xid(probe, 1, xids[i]);
	wait_for_xids(map, n);
	EQ(card_of(map, 1).xids, n);
	EQ(card_of(map, 1).last_xid, 154);
	EQ(card_of(map, 1).state, GPUMAP_DEVICE_READY);
	OK(card_of(map, 1).since_ns == since);
	EQ(card_of(map, 3).xids, 0);
}

/* The probe says that all is well before it notices, and after the reset. */
static void grave_xids_are_believed(const struct gpumap *map, int probe)
{
	static const struct {
		uint32_t xid, state;
	} grave[] = {
		{ 48, GPUMAP_DEVICE_FAILED },
		{ 95, GPUMAP_DEVICE_FAILED },
	};
	struct gm_probe_wire wire = puppet_moving(1, GM_PROBE_USABLE, "");

	for (size_t i = 0; i < sizeof(grave) / sizeof(grave[0]); i++) {
		puppet_say_xid(probe, 1, grave[i].xid);
		OK(puppet_becomes(map, 1, grave[i].state));
		EQ(card_of(map, 1).error, grave[i].xid);
		wire.moving.temperature = 42000;
		wire.moving.recovery = GM_NVML_RECOVERY_NONE;
		puppet_say(probe, &wire);
		while (card_of(map, 1).temperature != 42000)
			story_nap(500);
		EQ(card_of(map, 1).state, grave[i].state);

		wire.moving.temperature = 43000;
		wire.moving.recovery = GM_NVML_RECOVERY_GPU_RESET;
		puppet_say(probe, &wire);
		while (card_of(map, 1).temperature != 43000)
			story_nap(500);
		EQ(card_of(map, 1).state, grave[i].state);

		puppet_say_moving(probe, 1, GM_PROBE_USABLE, "");
		OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	}
	EQ(card_of(map, 3).state, GPUMAP_DEVICE_READY);
}

/* Xid 79, then there again for the next watcher: that is the end of the
 * trouble. */
static int a_lost_card_comes_back(const struct gpumap *map, int probe)
{
	puppet_say_xid(probe, 1, 79);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_LOST));
	return look_anew(map, probe);
}

/* ---- a watcher's life --------------------------------------------------- */

/* The card fails until another watcher has looked at it. */
static int a_death_is_told_of(const struct gpumap *map, int probe)
{
	struct gm_probe_wire card = puppet_card(3);

	close(probe);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_FAILED));
	OK(strstr(card_of(map, 1).reason, "NVML ended the process") != NULL);
	probe = puppet_accept();
	OK(probe >= 0);
	puppet_say(probe, &card);
	OK(puppet_becomes(map, 3, GPUMAP_DEVICE_READY));
	EQ(card_of(map, 1).state, GPUMAP_DEVICE_FAILED);
	card = puppet_card(1);
	puppet_say(probe, &card);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	return probe;
}

static int nonsense_ends_it(const struct gpumap *map, int probe)
{
	char record[sizeof(struct gm_probe_wire) + 8] = { 0 };
	struct gm_probe_wire wire = { .type = GM_PROBE_CENSUS };

	send(probe, record, sizeof(record), MSG_NOSIGNAL);
	OK(agent_wait_log(&agent, "event=watcher_died nvml=0 how=\"it says "
				  "what is no record"));
	probe = look_anew(map, probe);
	/* A watcher may not say this. */
	puppet_send(probe, &wire);
	probe = look_anew(map, probe);

	/* Unknown cards belong to no row. */
	puppet_say_moving(probe, 99, GM_PROBE_LOST, "");
	puppet_say_xid(probe, 99, 79);
	return probe;
}

/* ---- for people -------------------------------------------------------- */

static void gpumapctl_shows_gpus(void)
{
	const json_t *devices, *d;
	json_t *json;

	EQ(CTL("devices"), DONE);
	OK(prints("  0  cuda  READY "));
	EQ(CTL("devices", "--json"), DONE);
	json = object();
	devices = list(json, "devices", 3);
	d = json_array_get(devices, 0);
	STR(text(d, "kind"), "cuda");
	STR(text(d, "pci"), "0000:01:00.0");
	STR(text(d, "compute_capability"), "9.0");
	STR(text(d, "recovery"), "none");
	EQ(number(d, "nvml_index"), 1);
	OK(number(d, "xids") > 0);
	EQ(number(d, "temperature"), 41000);
	OK(json_is_null(json_object_get(d, "utilisation")));
	OK(json_is_null(json_object_get(d, "ordinal_pci")));
	OK(json_is_false(json_object_get(d, "split")));
	OK(json_object_get(json_array_get(devices, 2), "pci") == NULL);
	json_decref(json);
}

TAP_CASE()
{
	struct gpumap *map;
	int probe;

	if (!puppet_scene_make())
		return 99;
	configure("auto", "30s");
	probe = start_with((uint32_t[]){ 3, 1 }, 2);
	map = story_attach(&agent);
	what_moves_is_published(map, probe);
	health_is_a_state(map, probe);
	xids_of_others_change_nothing(map, probe);
	grave_xids_are_believed(map, probe);
	probe = a_lost_card_comes_back(map, probe);
	gpumapctl_shows_gpus();
	probe = a_death_is_told_of(map, probe);
	probe = nonsense_ends_it(map, probe);
	end(probe, map);
	agent_remove(&agent);
	return tap_done();
}
