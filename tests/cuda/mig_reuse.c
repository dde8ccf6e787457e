/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A card that is split anew all day: its instances get the rows of those that
 * are gone, and who kept the number of a row finds out; but what a map names,
 * on the way, pinned or in a file, stays what it was.
 */

#include "tests/support/story_rows.h"
#include "tests/support/ctl.h"
#include "tests/support/scripted_probe.h"

#define CARD   1u
#define PARTS  7u
#define ROUNDS 300u

static struct gpumap *map;
static int probe;
static uint32_t round_now;

/* ---- the card ---------------------------------------------------------- */

/* No instance is ever the same as another, whatever its number in the card. */
static struct gm_probe_wire part_of(uint32_t round, uint32_t part)
{
	struct gm_probe_wire wire = puppet_part(part + 2, CARD);

	wire.uuid[12] = (uint8_t)(round >> 8);
	wire.uuid[13] = (uint8_t)round;
	puppet_name(&wire);
	snprintf(wire.device.name, sizeof(wire.device.name), "Part %u of %u",
		 part, round);
	return wire;
}

static int row_of(uint32_t round, uint32_t part)
{
	struct gm_probe_wire wire = part_of(round, part);

	return gpumap_device_find(map, wire.uuid);
}

static bool becomes(uint32_t round, uint32_t part, uint32_t state)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (story_now() < until) {
		int row = row_of(round, part);

		if (row >= 0 && story_device(map, (uint32_t)row).state == state)
			return true;
		story_nap(200);
	}
	return false;
}

/* The driver is asked about each, so that they come in any order. */
static bool all_become(uint32_t round, uint32_t state)
{
	bool is = true;

	for (uint32_t part = 0; part < PARTS && is; part++)
		is = becomes(round, part, state);
	return is;
}

static bool split(uint32_t round)
{
	for (uint32_t part = 0; part < PARTS; part++) {
		struct gm_probe_wire wire = part_of(round, part);

		puppet_say(probe, &wire);
	}
	return all_become(round, GPUMAP_DEVICE_READY);
}

static bool unsplit(uint32_t round)
{
	for (uint32_t part = 0; part < PARTS; part++) {
		struct gm_probe_wire was = part_of(round, part);
		struct gm_probe_wire wire = puppet_gone(&was);

		puppet_say(probe, &wire);
	}
	return all_become(round, GPUMAP_DEVICE_LOST);
}

/* Once more, with other instances. */
static bool resplit(void)
{
	return unsplit(round_now) && split(++round_now);
}

static bool begin(void)
{
	struct gm_probe_wire wires[1 + PARTS] = { puppet_card(CARD) };

	agent_spawn(&agent, NULL);
	probe = puppet_accept();
	wires[0].device.facts.flags |= GPUMAP_DEVICE_MIG;
	wires[0].health = GM_PROBE_SPLIT;
	for (uint32_t part = 0; part < PARTS; part++)
		wires[1 + part] = part_of(round_now, part);
	puppet_say_all(probe, wires, 1 + PARTS);
	if (!OK(agent_wait_log(&agent, "event=ready ")))
		agent_show_log(&agent);
	map = story_attach(&agent);
	return OK(map != NULL);
}

static void end(void)
{
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	close(probe);
}

static int publish(const char *name, uint32_t row)
{
	char spec[16];
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = name,
						 .spec = spec };

	snprintf(spec, sizeof(spec), "%u:5", row);
	return gpumap_layers_publish(map, &request);
}

/* The one row of a map, or a negative errno. */
static int row_of_map(const char *name)
{
	struct gpumap_layers layers = { .size = sizeof(layers) };
	uint32_t rows[5] = { 0 };
	int ret =
		gpumap_layers_read(map, name, &layers, rows, NULL, 5, NULL, 0);

	return ret == 0 ? (int)rows[4] : ret;
}

static bool is_still(uint32_t round, uint32_t part, int row)
{
	struct gpumap_device d = story_device(map, (uint32_t)row);

	return d.state == GPUMAP_DEVICE_LOST &&
	       memcmp(d.uuid, part_of(round, part).uuid, sizeof(d.uuid)) == 0;
}

/* ---- stories ----------------------------------------------------------- */

static void the_table_does_not_run_full(void)
{
	uint32_t n = gpumap_device_count(map), most = 0;
	bool is_split = true;

	EQ(n, 1 + PARTS + 1); /* a host row too */
	for (uint32_t i = 0; i < ROUNDS && is_split; i++)
		is_split = resplit();
	OK(is_split);
	n = gpumap_device_count(map);
	NOTE("%u rows after %u times %u instances", n, ROUNDS, PARTS);
	OK(n <= 1 + 2 * PARTS + 1);
	OK(!agent_logged(&agent, "event=row_refused"));
	for (uint32_t part = 0; part < PARTS; part++) {
		int row = row_of(round_now, part);
		struct gpumap_device d;

		if (!OK(row >= 0))
			return;
		d = story_device(map, (uint32_t)row);
		EQ(d.mig_gi, (int)part + 2);
		if (d.generation > most)
			most = d.generation;
	}
	OK(most > ROUNDS / 2 - 1);
}

static void what_a_map_names_stays(void)
{
	int published = row_of(round_now, 2), pinned = row_of(round_now, 4);
	uint32_t round = round_now, n;
	struct gpumap_view view;
	uint64_t pin = 0;

	EQ(publish("named", (uint32_t)published), 0);
	EQ(publish("pinned", (uint32_t)pinned), 0);
	EQ(gpumap_layers_pin(map, "pinned", &view, &pin), 0);
	EQ(gpumap_layers_release(map, "pinned"), 0);
	for (int i = 0; i < 5; i++)
		OK(resplit());
	EQ(row_of_map("named"), published);
	OK(is_still(round, 2, published));
	OK(is_still(round, 4, pinned));
	n = gpumap_device_count(map);
	OK(n <= 1 + 2 * PARTS + 3);

	EQ(gpumap_unpin(map, pin), 0);
	for (int i = 0; i < 2; i++)
		OK(resplit());
	EQ(row_of(round, 4), -ENODEV);
	OK(is_still(round, 2, published));
	EQ(gpumap_device_count(map), n);
}

static void a_session_finds_out(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 4096 };
	struct gpumap_session *session = NULL;
	int lost = row_of(round_now, 0), row = -1;
	void *memory;

	EQ(gpumap_session_open(map, &opts, &session), 0);
	for (int i = 0; i < 4; i++)
		OK(resplit());
	for (uint32_t part = 0; part < PARTS; part++) {
		if (row_of(round_now, part) == lost)
			row = lost;
	}
	for (int i = 0; i < 4 && row < 0; i++) {
		OK(resplit());
		for (uint32_t part = 0; part < PARTS; part++) {
			if (row_of(round_now, part) == lost)
				row = lost;
		}
	}
	if (OK(row >= 0)) {
		EQ(gpumap_alloc(session, (uint32_t)row, 64, &memory), -ENODEV);
		OK(strstr(gpumap_refusal(map), "another device") != NULL);
	}
	gpumap_session_close(session);
}

/* The next agent has the same rows; what was lost meanwhile is reused, too. */
static void an_agent_takes_it_over(void)
{
	int named = row_of_map("named");
	uint32_t n = gpumap_device_count(map), generation;

	OK(named >= 0);
	end();
	round_now++;
	if (!begin())
		return;
	EQ(row_of_map("named"), named);
	EQ(story_device(map, (uint32_t)named).state, GPUMAP_DEVICE_LOST);
	OK(gpumap_device_count(map) <= n);

	/* When no map or session names it any more, it is a row like any
	 * other. */
	generation = story_device(map, (uint32_t)named).generation;
	EQ(gpumap_layers_release(map, "named"), 0);
	for (int i = 0; i < 3; i++)
		OK(resplit());
	OK(story_device(map, (uint32_t)named).generation > generation);
}

/* A file names devices, not rows. */
static void a_file_is_not_anothers(void)
{
	int row = row_of(round_now, 3);

	EQ(publish("old", (uint32_t)row), 0);
	end();
	unlink(agent.segment); /* as when the machine starts anew */
	round_now++;
	if (!begin())
		return;
	OK(agent_logged(&agent, "event=state_waits"));
	EQ(row_of_map("old"), -ENOENT);
	for (int i = 0; i < 3; i++)
		OK(resplit());
	EQ(row_of_map("old"), -ENOENT);
	end();
}

/* ---- a marked point ------------------------------------------------------ */

/* As of a card that is split while we look elsewhere; it may have died. */
static void say(const struct gm_probe_wire *wire)
{
	(void)!send(probe, wire, sizeof(*wire), MSG_NOSIGNAL);
}

/* Split it again and again until the agent has died of it. */
static bool dies_of_splits(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (story_now() < until) {
		for (uint32_t part = 0; part < PARTS; part++) {
			struct gm_probe_wire was = part_of(round_now, part);
			struct gm_probe_wire wire = puppet_gone(&was);

			say(&wire);
		}
		round_now++;
		for (uint32_t part = 0; part < PARTS; part++) {
			struct gm_probe_wire wire = part_of(round_now, part);
			struct gm_probe_wire look =
				puppet_moving(0, GM_PROBE_USABLE, "");

			memcpy(look.uuid, wire.uuid, sizeof(look.uuid));
			say(&wire);
			say(&look);
		}
		while (story_lives(agent.pid) && story_now() < until &&
		       row_of(round_now, PARTS - 1) < 0)
			story_nap(200);
		if (!story_lives(agent.pid))
			return true;
	}
	return false;
}

/* How many rows say that they are this device. */
static uint32_t rows_of(const uint8_t uuid[16])
{
	uint32_t n = 0;

	for (uint32_t row = 0; row < gpumap_device_count(map); row++) {
		struct gpumap_device d = story_device(map, row);

		n += memcmp(d.uuid, uuid, sizeof(d.uuid)) == 0;
	}
	return n;
}

/* The row has the new device's name, and no client may think that it is READY;
 * the next agent finds the device there, and the row keeps its generation. */
static void an_agent_dies_as_it_renames(char *point, char *ticket)
{
	struct gpumap_device renamed = { .generation = 0 };
	uint32_t n, unready = 0;
	int row = -1;

	agent.env[1] = point;
	agent.env[2] = ticket;
	agent.env[3] = NULL;
	round_now++;
	if (!begin() || !OK(resplit()))
		return;
	n = gpumap_device_count(map);
	stage_ticket(strchr(ticket, '=') + 1);
	OK(dies_of_splits());
	EQ(agent_wait(&agent), -SIGKILL);
	EQ(access(strchr(ticket, '=') + 1, F_OK), -1);
	for (uint32_t part = 0; part < PARTS && row < 0; part++)
		row = row_of(round_now, part);
	if (!OK(row >= 0))
		return;
	renamed = story_device(map, (uint32_t)row);
	/* Nothing of the device that had the row before. */
	EQ(renamed.state, GPUMAP_DEVICE_PROBING);
	STR(renamed.reason, "");
	EQ(renamed.free_bytes, 0);
	EQ(rows_of(renamed.uuid), 1);
	gpumap_detach(map);
	close(probe);

	agent.env[1] = NULL;
	if (!begin())
		return;
	EQ(gpumap_device_find(map, renamed.uuid), row);
	EQ(story_device(map, (uint32_t)row).generation, renamed.generation);
	OK(gpumap_device_count(map) <= n);
	for (uint32_t part = 0; part < PARTS; part++) {
		unready += !becomes(round_now, part, GPUMAP_DEVICE_READY);
		unready += rows_of(part_of(round_now, part).uuid) != 1;
	}
	EQ(unready, 0);
	OK(resplit());
	end();
}

static void agents_die_as_they_rename(void)
{
	static char point[] = "GM_POINT=row_renamed:kill";
	static char ticket[160];

	if (!stage_has_points())
		return;
	snprintf(ticket, sizeof(ticket), "GM_POINT_TICKET=%s/ticket",
		 agent.dir);
	for (int n = stage_strikes(); n > 0; n--)
		an_agent_dies_as_it_renames(point, ticket);
}

TAP_CASE()
{
	if (!puppet_set())
		return 99;
	agent_make(&agent, "[socket]\nmode = 0666\n[agent]\nrefresh = 50ms\n"
			   "[cuda]\nenabled = auto\nlist-limit = 30s\n"
			   "pass-environment = GPUMAP_PUPPET\n");
	puppet_for(&agent);
	if (begin()) {
		the_table_does_not_run_full();
		what_a_map_names_stays();
		a_session_finds_out();
		an_agent_takes_it_over();
		a_file_is_not_anothers();
		agents_die_as_they_rename();
	}
	agent_remove(&agent);
	return tap_done();
}
