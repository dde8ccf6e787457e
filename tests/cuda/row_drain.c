/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Rows that are drained by hand and brought back: what the probe is told, whom
 * that is allowed, and that a drain outlives the probe.
 */

#include <sys/wait.h>

#include <gpumap/plan.h>

#include "tests/support/scripted_probe_agent.h"

/* gpumapctl in a process of its own, for it waits. */
static pid_t ask(const char *what, const char *row)
{
	pid_t pid = fork();
	int status;

	if (pid != 0)
		return pid;
	status = CTL(what, row);
	if (status != DONE)
		NOTE("%s", err);
	_exit(status);
}

/* By the library, for another user may have no way to the program. */
static int drain_as(uid_t uid, uint32_t row)
{
	struct gpumap *map;
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (setgid(uid) != 0 || setuid(uid) != 0)
			_exit(1);
		map = story_attach(&agent);
		if (map == NULL || gpumap_device_drain(map, row) != -EPERM)
			_exit(2);
		_exit(strstr(gpumap_refusal(map), "only root and uid 0") ? 0
									 : 3);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int answer(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Watch again, and find both cards. */
static int look_anew(const struct gpumap *map)
{
	struct gm_probe_wire cards[] = { puppet_card(3), puppet_card(1) };
	int probe = puppet_accept();

	EQ(card_of(map, 1).state, GPUMAP_DEVICE_PROBING);
	puppet_say_all(probe, cards, 2);
	return probe;
}

/* The end of the watcher is what closes the card. */
static int a_row_is_drained(const struct gpumap *map, int probe)
{
	char row[16];
	pid_t pid;

	snprintf(row, sizeof(row), "%d", puppet_row(map, 1));
	puppet_say_xid(probe, 1, 48);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_FAILED));
	EQ(CTL("drain", row), DONE);
	OK(puppet_ended(probe));
	EQ(card_of(map, 1).state, GPUMAP_DEVICE_DRAINING);
	EQ(card_of(map, 3).state, GPUMAP_DEVICE_READY);
	EQ(CTL("drain", row), DONE);

	/* Xid 48 is of the card before its reset. */
	pid = ask("undrain", row);
	probe = look_anew(map);
	EQ(answer(pid), DONE);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	EQ(CTL("undrain", row), DONE);
	EQ(CTL("drain", "77"), FAILED);
	if (geteuid() == 0) {
		EQ(drain_as(65534, (uint32_t)puppet_row(map, 1)), 0);
	}
	EQ(CTL("drain", "x"), USAGE);
	return probe;
}

static int a_card_may_come_back_badly(const struct gpumap *map, int probe)
{
	struct gm_probe_wire card = puppet_card(1);
	char row[16];
	pid_t pid;

	snprintf(row, sizeof(row), "%d", puppet_row(map, 1));
	EQ(CTL("drain", row), DONE);
	OK(puppet_ended(probe));
	pid = ask("undrain", row);
	probe = puppet_accept();
	EQ(card_of(map, 1).state, GPUMAP_DEVICE_PROBING);
	card.health = GM_PROBE_FAILED;
	strcpy(card.text, "it was put back badly");
	puppet_say(probe, &card);
	EQ(answer(pid), DONE);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_FAILED));
	STR(card_of(map, 1).reason, "it was put back badly");
	puppet_say_moving(probe, 1, GM_PROBE_USABLE, "");
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	return probe;
}

static void host_rows_can_be_drained(const struct gpumap *map)
{
	uint32_t host = gpumap_device_count(map) - 1;
	char row[16];

	snprintf(row, sizeof(row), "%u", host);
	EQ(story_device(map, host).kind, GPUMAP_DEVICE_HOST);
	EQ(CTL("drain", row), DONE);
	EQ(story_device(map, host).state, GPUMAP_DEVICE_DRAINING);
	EQ(story_device(map, host).worker_pid, 0);
	EQ(CTL("undrain", row), DONE);
	while (story_device(map, host).state != GPUMAP_DEVICE_READY)
		story_nap(1000);
	OK(story_device(map, host).worker_pid != 0);
}

/* ---- plans --------------------------------------------------------------- */

static uint64_t layers[4] = { 1 << 20, 1 << 20, 1 << 20, 1 << 20 };

static int plan(struct gpumap *map, uint32_t setting, const char *text,
		const uint32_t *rows, uint32_t n_rows, uint32_t ret_rows[4])
{
	struct gpumap_plan_request q = { .size = sizeof(q),
					 .setting = setting,
					 .text = text,
					 .rows = rows,
					 .n_rows = n_rows,
					 .n_layers = 4,
					 .layer_bytes = layers,
					 .dtype = GPUMAP_DTYPE_F16 };
	struct gpumap_plan made = { .size = sizeof(made) };
	int ret = gpumap_plan_make(map, &q, &made, ret_rows, 4, NULL, 0);

	if (ret < 0)
		NOTE("%s", gpumap_refusal(map));
	return ret;
}

/* Is every layer on this row? */
static bool all_on(const uint32_t rows[4], uint32_t row)
{
	return rows[0] == row && rows[1] == row && rows[2] == row &&
	       rows[3] == row;
}

static void plans_leave_out(struct gpumap *map, uint32_t drained,
			    uint32_t other)
{
	static const char *const named[] = { "0:4", "1:4" };
	const uint32_t both[] = { other, drained };
	struct gpumap_plan_request q = { .size = sizeof(q),
					 .setting = GPUMAP_SETTING_AUTO,
					 .n_layers = 4,
					 .layer_bytes = layers,
					 .dtype = GPUMAP_DTYPE_F16 };
	struct gpumap_plan made = { .size = sizeof(made) };
	uint32_t rows[4], ordinal[4];
	char topology[64];

	for (q.strategy = GPUMAP_STRATEGY_FILL;
	     q.strategy <= GPUMAP_STRATEGY_FEWEST; q.strategy++) {
		EQ(gpumap_plan_make(map, &q, &made, rows, 4, NULL, 0), 0);
		for (int i = 0; i < 4; i++)
			OK(rows[i] != drained);
	}
	EQ(plan(map, GPUMAP_SETTING_AUTO, NULL, both, 2, rows), -ENODEV);
	OK(strstr(gpumap_refusal(map),
		  "is drained or cordoned: gpumapctl undrain") != NULL);
	EQ(plan(map, GPUMAP_SETTING_MANUAL, named[drained], NULL, 0, rows),
	   -ENODEV);
	OK(strstr(gpumap_refusal(map), "is drained") != NULL);
	/* The other one keeps its number. */
	snprintf(topology, sizeof(topology), "0-4:cuda[%u]", other);
	EQ(plan(map, GPUMAP_SETTING_TOPOLOGY, topology, NULL, 0, ordinal), 0);
	OK(all_on(ordinal, other));
}

static int nothing_is_planned_on_a_drained_row(struct gpumap *map, int probe)
{
	uint32_t drained = (uint32_t)puppet_row(map, 1), rows[4];
	char row[16];
	pid_t pid;

	snprintf(row, sizeof(row), "%u", drained);
	EQ(CTL("drain", row), DONE);
	OK(puppet_ended(probe));
	plans_leave_out(map, drained, (uint32_t)puppet_row(map, 3));
	pid = ask("undrain", row);
	probe = look_anew(map);
	EQ(answer(pid), DONE);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	EQ(plan(map, GPUMAP_SETTING_AUTO, NULL, &drained, 1, rows), 0);
	OK(all_on(rows, drained));
	return probe;
}

/* An instance is drained with its card, and comes back with it. */
static int an_instance_waits_for_its_card(struct gpumap *map, int probe)
{
	struct gm_probe_wire part = puppet_part(9, 1);
	char row[16], part_row[16];
	pid_t pid;

	puppet_say(probe, &part);
	OK(puppet_becomes(map, 9, GPUMAP_DEVICE_READY));
	snprintf(row, sizeof(row), "%d", puppet_row(map, 1));
	snprintf(part_row, sizeof(part_row), "%d", puppet_row(map, 9));
	EQ(CTL("drain", row), DONE);
	OK(puppet_ended(probe));
	EQ(card_of(map, 9).state, GPUMAP_DEVICE_DRAINING);
	EQ(CTL("undrain", part_row), FAILED);
	OK(complains("is drained with its card"));
	EQ(card_of(map, 9).state, GPUMAP_DEVICE_DRAINING);

	pid = ask("undrain", row);
	probe = look_anew(map);
	puppet_say(probe, &part);
	EQ(answer(pid), DONE);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	OK(puppet_becomes(map, 9, GPUMAP_DEVICE_READY));
	return probe;
}

/* The agent starts without a card that is cordoned, and without a segment. */
static void a_cordon_waits_for_its_card(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gm_probe_wire card = puppet_card(1);
	int probe = start_with((uint32_t[]){ 3, 1 }, 2);
	struct gpumap *map = story_attach(&agent);
	char row[16];

	snprintf(row, sizeof(row), "%d", puppet_row(map, 1));
	EQ(CTL("cordon", row), DONE);
	OK(card_of(map, 1).flags & GPUMAP_DEVICE_CORDONED);
	end(probe, map);
	probe = start_with((uint32_t[]){ 3 }, 1);
	map = story_attach(&agent);
	EQ(puppet_row(map, 1), -ENODEV);
	puppet_say(probe, &card);
	puppet_say_moving(probe, 1, GM_PROBE_USABLE, "");
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	while (!(card_of(map, 1).flags & GPUMAP_DEVICE_CORDONED) &&
	       story_now() < until)
		story_nap(500);
	OK(card_of(map, 1).flags & GPUMAP_DEVICE_CORDONED);
	OK(!(card_of(map, 3).flags & GPUMAP_DEVICE_CORDONED));
	end(probe, map);
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
	probe = a_row_is_drained(map, probe);
	probe = a_card_may_come_back_badly(map, probe);
	host_rows_can_be_drained(map);
	probe = nothing_is_planned_on_a_drained_row(map, probe);
	probe = an_instance_waits_for_its_card(map, probe);
	end(probe, map);
	a_cordon_waits_for_its_card();
	agent_remove(&agent);
	return tap_done();
}
