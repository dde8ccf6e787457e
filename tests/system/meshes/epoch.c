/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Epochs of a mesh's groups on three host rows: they move on when a worker dies
 * and when it is back, for the groups with its row and no other; and whatever
 * dies, restarts or is published anew, no reader sees one go back, nor a group
 * whole beside a row that is not READY.
 */

#include <errno.h>
#include <pthread.h>

#include "tests/support/story_rows.h"

#define ROWS 3u

/* One reading of a group. */
struct seen {
	uint64_t epoch;
	uint32_t whole;
};

static struct agent agent;
static struct gpumap *map;

static bool start(void)
{
	if (!agent_start(&agent))
		return false;
	map = story_attach(&agent);
	return map != NULL;
}

static struct seen look(struct gpumap *at, const char *name)
{
	struct gpumap_mesh_group group = { .size = sizeof(group) };
	int ret;

	do
		ret = gpumap_mesh_group(at, "m", name, &group, NULL, NULL, 0);
	while (ret == -EAGAIN);
	if (ret != 0)
		return (struct seen){ .epoch = 0 };
	return (struct seen){ group.epoch, group.whole };
}

static int publish(void)
{
	static const uint32_t ranks[] = { 1, 2 };
	const struct gpumap_mesh_added added = { .name = "pair",
						 .ranks = ranks,
						 .n = 2,
						 .backend = GPUMAP_MESH_NCCL };
	const struct gpumap_mesh_request request = {
		.size = sizeof(request),
		.name = "m",
		.topology = GPUMAP_MESH_TENSOR,
		.tp = 1,
		.pp = 1,
		.dp = 1,
		.added = &added,
		.n_added = 1,
	};

	return gpumap_mesh_publish(map, &request);
}

/* Until the group is as it should be; what it is then. */
static struct seen await(const char *name, uint32_t whole, uint64_t after)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct seen seen = look(map, name);

	while ((seen.whole != whole || seen.epoch <= after) &&
	       story_now() < until) {
		story_nap(200);
		seen = look(map, name);
	}
	return seen;
}

static void kill_worker(uint32_t row)
{
	struct gpumap_device device = story_device(map, row);

	if (device.worker_pid != 0)
		kill((pid_t)device.worker_pid, SIGKILL);
}

/* ---- what moves, and what does not --------------------------------------- */

static void groups_with_the_row_move(void)
{
	struct seen world, own, other, pair;

	EQ(publish(), 0);
	world = look(map, "world");
	own = look(map, "tp_0");
	other = look(map, "tp_1");
	pair = look(map, "pair");
	OK(world.whole && own.whole && other.whole && pair.whole);
	OK(world.epoch > 0 && pair.epoch > 0);

	kill_worker(0);
	OK(await("tp_0", 1, own.epoch).whole);
	OK(look(map, "tp_0").epoch >= own.epoch + 2);
	OK(await("world", 1, world.epoch).epoch >= world.epoch + 2);
	EQ(look(map, "tp_1").epoch, (intmax_t)other.epoch);
	EQ(look(map, "pair").epoch, (intmax_t)pair.epoch);
	OK(story_back(map, 0, 0));
}

static void a_group_is_broken_while_a_row_is_away(void)
{
	struct seen world = look(map, "world"), pair = look(map, "pair");
	struct seen broken, anew;

	EQ(gpumap_device_drain(map, 1), 0);
	broken = await("world", 0, world.epoch);
	OK(!broken.whole && broken.epoch > world.epoch);
	OK(!look(map, "pair").whole && look(map, "tp_0").whole);
	OK(look(map, "pair").epoch > pair.epoch);

	/* Another one goes: broken still, and not as it was. */
	EQ(gpumap_device_drain(map, 2), 0);
	anew = await("world", 0, broken.epoch);
	OK(!anew.whole && anew.epoch > broken.epoch);

	/* Published while they are away. */
	EQ(publish(), 0);
	broken = look(map, "world");
	OK(!broken.whole && broken.epoch > anew.epoch);
	OK(look(map, "tp_0").whole);

	EQ(gpumap_device_undrain(map, 2), 0);
	anew = await("world", 0, broken.epoch);
	OK(!anew.whole && anew.epoch > broken.epoch);
	EQ(gpumap_device_undrain(map, 1), 0);
	OK(await("world", 1, anew.epoch).whole);
	OK(await("pair", 1, 0).whole);
}

/* A row may come or go while the mesh's file is written. */
static void publishing_sees_the_rows_as_they_are(void)
{
	struct seen last = look(map, "world");

	for (int i = 0; i < 10; i++) {
		kill_worker((uint32_t)i % ROWS);
		EQ(publish(), 0);
		last = await("world", 1, last.epoch);
		OK(last.whole);
	}
}

/* ---- over ends and new beginnings ---------------------------------------- */

static void again(int signal, struct seen *world)
{
	struct seen seen;

	gpumap_detach(map);
	agent_kill(&agent, signal);
	if (!OK(start()))
		exit(1);
	seen = await("world", 1, world->epoch);
	/* Each start has a series of its own. */
	OK(seen.whole && seen.epoch >> 32 > world->epoch >> 32);
	*world = seen;
}

static void epochs_grow_over_everything(void)
{
	struct seen world = look(map, "world");
	char path[256];
	FILE *file;

	again(SIGTERM, &world);
	again(SIGKILL, &world);

	/* As after a boot: twice, for the files say the same both times. */
	for (int i = 0; i < 3; i++) {
		unlink(agent.segment);
		again(SIGKILL, &world);
	}
	EQ(gpumap_mesh_release(map, "m"), 0);
	EQ(publish(), 0);
	OK(look(map, "world").epoch > world.epoch);
	world = look(map, "world");

	/* Released before the end, and published on a new map. */
	EQ(gpumap_mesh_release(map, "m"), 0);
	gpumap_detach(map);
	agent_kill(&agent, SIGTERM);
	unlink(agent.segment);
	if (!OK(start()))
		exit(1);
	EQ(publish(), 0);
	OK(look(map, "world").epoch > world.epoch);
	world = look(map, "world");

	/* The publication has put its series on the disk. */
	unlink(agent.segment);
	again(SIGKILL, &world);

	/* The file is damaged: the map still knows. */
	snprintf(path, sizeof(path), "%s/epochs", agent.state);
	file = fopen(path, "we");
	OK(file != NULL && fputs("gpumap\n", file) >= 0 && fclose(file) == 0);
	again(SIGKILL, &world);
	OK(agent_logged(&agent, "event=state_refused"));
	unlink(agent.segment);
	again(SIGKILL, &world);
	OK(!agent_logged(&agent, "event=state_refused"));
}

/* ---- any reader, any death ----------------------------------------------- */

static volatile bool is_over;
static int went_back, lied, n_looks, n_broken;

/* Rows cease to be READY after the group is broken, and are before it is
 * whole. */
static void check(struct gpumap *at, struct seen seen)
{
	bool all = true;

	for (uint32_t row = 0; row < ROWS; row++)
		all = all && story_device(at, row).state == GPUMAP_DEVICE_READY;
	if (seen.whole && !all && look(at, "world").epoch == seen.epoch)
		lied++;
}

static void *watch(void *argument)
{
	struct gpumap *at = argument;
	uint64_t last = 0;

	while (!is_over) {
		struct seen seen = look(at, "world");

		if (seen.epoch == 0)
			continue;
		went_back += seen.epoch < last;
		last = seen.epoch;
		n_looks++;
		n_broken += !seen.whole;
		check(at, seen);
	}
	return NULL;
}

static void no_reader_sees_one_go_back(void)
{
	int rounds = story_rounds(), unready = 0;
	struct gpumap *at = story_attach(&agent);
	struct seen last = look(map, "world");
	pthread_t thread;

	if (at == NULL || pthread_create(&thread, NULL, watch, at) != 0)
		exit(99);
	for (int round = 0; round < rounds && unready == 0; round++) {
		struct seen seen;

		kill_worker((uint32_t)round % ROWS);
		if (round % 5 == 4) {
			story_nap(story_moment(round, 20000));
			gpumap_detach(map);
			agent_kill(&agent, SIGKILL);
			unready += !start();
		}
		if (round % 3 == 0)
			EQ(publish(), 0);
		seen = await("world", 1, last.epoch);
		unready += !seen.whole || seen.epoch <= last.epoch;
		last = seen;
	}
	is_over = true;
	pthread_join(thread, NULL);
	gpumap_detach(at);
	EQ(unready, 0);
	EQ(went_back, 0);
	EQ(lied, 0);
	OK(n_looks > rounds);
	NOTE("%d looks, %d of them at a broken group", n_looks, n_broken);
}

/* ---- marked points ------------------------------------------------------- */

/* The only process of a group joins as its rank and reports it broken. */
static int break_group(const char *name, uint64_t epoch)
{
	uint8_t id[GPUMAP_MESH_ID_BYTES] = { 1 };
	const struct gpumap_mesh_join join = {
		.size = sizeof(join),
		.mesh = "m",
		.group = name,
		.epoch = epoch,
		.deadline_ns = story_now() + STORY_LIMIT_NS,
		.version = 22203,
		.id = id,
	};
	uint64_t ticket = 0;
	int ret = gpumap_mesh_join(map, &join, id, &ticket);

	return ret < 0 ? ret
		       : gpumap_mesh_leave(map, ticket, GPUMAP_MESH_BROKEN);
}

enum cause { A_WORKER_DIES, A_WORKER_IS_BACK, A_GROUP_IS_BROKEN };

/* A reader sees no group with row 0 go back to the state before the one that
 * the dead agent published, and the next agent goes on from there. */
static void the_agent_dies_at(const char *point, enum cause cause)
{
	struct seen world, own, shown, shown_world;
	char ticket[128];

	stage_death(&agent, "[host]\nrows = 3\n", point, ticket);
	unlink(ticket);
	if (!OK(start()) || !EQ(publish(), 0))
		exit(1);
	if (cause == A_WORKER_IS_BACK) {
		EQ(gpumap_device_drain(map, 0), 0);
		OK(!await("tp_0", 0, 0).whole);
	}
	own = look(map, "tp_0");
	world = look(map, "world");
	stage_ticket(ticket);
	if (cause == A_WORKER_DIES)
		kill_worker(0);
	else if (cause == A_WORKER_IS_BACK)
		gpumap_device_undrain(map, 0); /* whatever it is told */
	else
		EQ(break_group("tp_0", own.epoch), -ECONNRESET);
	EQ(agent_wait(&agent), -SIGKILL);
	EQ(access(ticket, F_OK), -1);
	shown = look(map, "tp_0");
	shown_world = look(map, "world");
	OK(shown.epoch > own.epoch);
	EQ(shown.whole, cause != A_WORKER_DIES);
	OK(cause == A_GROUP_IS_BROKEN ? shown_world.epoch == world.epoch
				      : shown_world.epoch > world.epoch);
	EQ(shown_world.whole, cause != A_WORKER_DIES);

	gpumap_detach(map);
	agent.env[STAGE_ENV] = NULL;
	if (!OK(start()))
		exit(1);
	OK(look(map, "tp_0").epoch >= shown.epoch);
	if (cause == A_WORKER_IS_BACK)
		gpumap_device_undrain(map, 0); /* it may not have been kept */
	own = await("tp_0", 1, shown.epoch);
	OK(own.whole && own.epoch > shown.epoch);
	world = await("world", 1, shown_world.epoch);
	OK(world.whole && world.epoch > shown_world.epoch);
	EQ(gpumap_mesh_release(map, "m"), 0);
	stage_recovered(&agent, map, ticket);
}

static void agents_may_die_at_any_point(void)
{
	if (!stage_has_points())
		return;
	for (int n = stage_strikes(); n > 0; n--) {
		the_agent_dies_at("epoch_row_visible", A_WORKER_DIES);
		the_agent_dies_at("epoch_row_visible", A_WORKER_IS_BACK);
		the_agent_dies_at("epoch_group_visible", A_GROUP_IS_BROKEN);
	}
}

TAP_CASE()
{
	agent_make(&agent, "[host]\nrows = 3\n");
	if (OK(start())) {
		groups_with_the_row_move();
		a_group_is_broken_while_a_row_is_away();
		publishing_sees_the_rows_as_they_are();
		epochs_grow_over_everything();
		no_reader_sees_one_go_back();
		story_finish(&agent, map);
		agents_may_die_at_any_point();
	}
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
