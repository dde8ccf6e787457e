/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Meshes on nine dummy rows: published, looked up, replaced under views, pins
 * and readers, refused in words, and there again after the agent, and after the
 * machine.
 */

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "tests/support/story.h"

#define ROWS 9u

static const char node[] =
	"rows:\n"
	"- { name: A, kind: cuda, count: 9, memory: 24G,\n"
	"    compute-capability: 9.0, sm-count: 100, threads-per-sm: 2048 }\n";

static struct agent agent;
static struct gpumap *map;

static void configure(void)
{
	agent_configure_dummies(&agent, node,
				"[host]\nenabled = no\n"
				"[socket]\nmode = 0666\n");
}

static bool start(void)
{
	if (!agent_start_until(&agent, "open"))
		return false;
	map = story_attach(&agent);
	return map != NULL;
}

/* ---- asking -------------------------------------------------------------- */

static struct gpumap_mesh_request shaped(const char *name, uint32_t topology,
					 uint64_t tp, uint64_t pp, uint64_t dp)
{
	return (struct gpumap_mesh_request){
		.size = sizeof(struct gpumap_mesh_request),
		.name = name,
		.topology = topology,
		.tp = tp,
		.pp = pp,
		.dp = dp,
	};
}

static int publish(const char *name, uint32_t topology, uint64_t tp,
		   uint64_t pp, uint64_t dp)
{
	struct gpumap_mesh_request request = shaped(name, topology, tp, pp, dp);

	return gpumap_mesh_publish(map, &request);
}

static uint64_t version_of(const char *name)
{
	struct gpumap_mesh mesh = { .size = sizeof(mesh) };

	return gpumap_mesh_read(map, name, &mesh, NULL, 0) == 0 ? mesh.version
								: 0;
}

/* ---- what is published --------------------------------------------------- */

static void a_mesh_is_what_was_asked_for(void)
{
	static const uint32_t rows[] = { 8, 7, 6, 5, 4, 3, 2, 1 };
	static const uint32_t mine[] = { 5, 0, 3 };
	const struct gpumap_mesh_added added = { .name = "mine",
						 .ranks = mine,
						 .n = 3,
						 .backend = GPUMAP_MESH_GLOO };
	struct gpumap_mesh_request request =
		shaped("m", GPUMAP_MESH_MIXED, 2, 2, 2);
	struct gpumap_mesh mesh = { .size = sizeof(mesh) };
	struct gpumap_mesh_group group = { .size = sizeof(group) };
	uint32_t got[GPUMAP_ROWS_MAX], of[GPUMAP_ROWS_MAX];

	request.rows = rows;
	request.n_rows = 8;
	request.added = &added;
	request.n_added = 1;
	EQ(gpumap_mesh_publish(map, &request), 0);
	EQ(gpumap_mesh_read(map, "m", &mesh, got, ROWS), 0);
	OK(memcmp(got, rows, sizeof(rows)) == 0);
	STR(mesh.name, "m");
	OK(mesh.topology == GPUMAP_MESH_MIXED && mesh.world == 8 &&
	   mesh.expected == 8 && mesh.tp == 2 && mesh.pp == 2 && mesh.dp == 2);
	EQ(mesh.n_groups, 1 + 12 + 1);
	EQ(mesh.n_added, 1);
	OK(mesh.version > 0 && mesh.published_ns > 0);
	EQ(gpumap_mesh_read(map, "m", &mesh, got, 7), -ENOBUFS);

	EQ(gpumap_mesh_group(map, "m", "dp_tp1_pp0", &group, got, of, ROWS), 0);
	OK(group.n == 2 && got[0] == 1 && got[1] == 5 && of[0] == 7 &&
	   of[1] == 3);
	EQ(group.backend, GPUMAP_MESH_NCCL);
	EQ(group.version, (intmax_t)mesh.version);
	OK(group.epoch > 0);
	EQ(gpumap_mesh_group(map, "m", "mine", &group, got, of, ROWS), 0);
	OK(group.n == 3 && memcmp(got, mine, sizeof(mine)) == 0 && of[0] == 3);
	EQ(group.backend, GPUMAP_MESH_GLOO);
	EQ(group.index, 13);
	EQ(gpumap_mesh_group(map, "m", "mine", &group, got, of, 2), -ENOBUFS);
	EQ(gpumap_mesh_group(map, "m", "tp_0", &group, got, of, ROWS), -ENOENT);
	EQ(gpumap_mesh_group(map, "n", NULL, &group, got, of, ROWS), -ENOENT);
	EQ(gpumap_mesh_group(map, "m", NULL, &group, got, of, ROWS), 0);
	OK(group.n == 8 && group.index == 0 &&
	   group.backend == GPUMAP_MESH_MOCK);
}

/* A factor that the topology does not have may be 0. */
static void factors_may_be_left_out(void)
{
	static const struct {
		uint32_t topology;
		uint64_t tp, pp, dp;
		uint32_t has_tp, has_pp;
	} cases[] = { { GPUMAP_MESH_TENSOR, 2, 0, 0, 2, 1 },
		      { GPUMAP_MESH_PIPELINE, 0, 3, 0, 1, 3 },
		      { GPUMAP_MESH_DATA, 0, 0, 0, 1, 1 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gpumap_mesh mesh = { .size = sizeof(mesh) };

		EQ(publish("short", cases[i].topology, cases[i].tp, cases[i].pp,
			   cases[i].dp),
		   0);
		EQ(gpumap_mesh_read(map, "short", &mesh, NULL, 0), 0);
		EQ(mesh.tp, cases[i].has_tp);
		EQ(mesh.pp, cases[i].has_pp);
		EQ(mesh.dp, 1);
	}
	EQ(publish("short", GPUMAP_MESH_TENSOR, 0, 2, 2), -EINVAL);
	OK(strstr(gpumap_refusal(map), "Tensor parallel degree 0") != NULL);
	EQ(publish("short", GPUMAP_MESH_MIXED, 2, 0, 2), -EINVAL);
	OK(strstr(gpumap_refusal(map), "PP of a mixed mesh") != NULL);
	EQ(gpumap_mesh_release(map, "short"), 0);
}

/* Mesh "m" with group "x" is not mesh "mx" with a group without a name. */
static void names_do_not_run_together(void)
{
	static const uint32_t mine[] = { 0 };
	const struct gpumap_mesh_added added = {
		.name = "bc", .ranks = mine, .n = 1, .backend = GPUMAP_MESH_GLOO
	};
	struct gpumap_mesh_request request =
		shaped("a", GPUMAP_MESH_DATA, 1, 1, 1);
	struct gpumap_view view;

	request.added = &added;
	request.n_added = 1;
	EQ(gpumap_mesh_publish(map, &request), 0);
	EQ(publish("ab", GPUMAP_MESH_DATA, 1, 1, 1), 0);
	EQ(gpumap_mesh_group(map, "ab", "c", NULL, NULL, NULL, 0), -ENOENT);
	EQ(gpumap_mesh_group(map, "a", "bc", NULL, NULL, NULL, 0), 0);
	EQ(gpumap_mesh_view(map, "ab", "c", GPUMAP_MESH_ROWS, &view), -ENOENT);
	EQ(gpumap_mesh_view(map, "a", "bc", GPUMAP_MESH_ROWS, &view), 0);
	EQ(gpumap_mesh_release(map, "a"), 0);
	EQ(gpumap_mesh_release(map, "ab"), 0);
}

static void ranks_know_their_groups_and_places(void)
{
	static const char *const names[] = { "world", "tp_dp1_pp0",
					     "dp_tp1_pp0", "pp_dp1_tp1",
					     "mine" };
	static const uint32_t within[] = { 5, 1, 1, 0, 0 };
	struct gpumap_mesh_group group = { .size = sizeof(group) };
	struct gpumap_mesh mesh = { .size = sizeof(mesh) };
	struct gpumap_mesh_place at;
	uint32_t cursor = 0, n = 0;

	while (gpumap_mesh_next_group(map, "m", 5, &cursor, &group) == 1 &&
	       n < 5) {
		STR(group.name, names[n]);
		EQ(group.within, within[n]);
		n++;
	}
	EQ(n, 5);
	for (cursor = 0, n = 0;
	     gpumap_mesh_next_group(map, "m", GPUMAP_MESH_ANY, &cursor,
				    &group) == 1;)
		n++;
	EQ(n, 14);
	cursor = 0;
	EQ(gpumap_mesh_next_group(map, "m", 8, &cursor, &group), -ERANGE);
	EQ(gpumap_mesh_next_group(map, "x", 0, &cursor, &group), -ENOENT);
	EQ(gpumap_mesh_within(map, "m", "mine", 3), 2);
	EQ(gpumap_mesh_within(map, "m", "mine", 1), -ENODATA);
	EQ(gpumap_mesh_within(map, "m", "mine", 8), -ERANGE);
	EQ(gpumap_mesh_within(map, "m", NULL, 7), 7);
	EQ(gpumap_mesh_within(map, "m", "none", 7), -ENOENT);
	EQ(gpumap_mesh_read(map, "m", &mesh, NULL, 0), 0);
	EQ(gpumap_mesh_place(&mesh, 5, &at), 0);
	OK(at.tp == 1 && at.pp == 0 && at.dp == 1);
	EQ(gpumap_mesh_place(&mesh, 8, &at), -ERANGE);
}

static void worlds_are_chosen_and_may_be_larger(void)
{
	struct gpumap_mesh_stats stats = { .size = sizeof(stats) };
	struct gpumap_mesh mesh = { .size = sizeof(mesh) };
	struct gpumap_mesh_place at;
	uint32_t rows[ROWS];

	EQ(publish("all", GPUMAP_MESH_TENSOR, 4, 1, 1), 0);
	EQ(gpumap_mesh_read(map, "all", &mesh, rows, ROWS), 0);
	OK(mesh.world == ROWS && mesh.expected == 4 && mesh.n_groups == 3);
	OK(rows[0] == 0 && rows[8] == 8);
	EQ(gpumap_mesh_place(&mesh, 7, &at), 0);
	OK(at.tp == 3 && at.dp == 1);
	EQ(gpumap_mesh_place(&mesh, 8, &at), -ENODATA);
	EQ(gpumap_mesh_stats(map, "all", &stats), 0);
	OK(stats.world == 9 && stats.n_dummy == 9 && stats.n_groups == 3 &&
	   stats.total_bytes == 9 * (UINT64_C(24) << 30));
	EQ(stats.units, 9 * 100);
	EQ(gpumap_mesh_release(map, "all"), 0);
	EQ(gpumap_mesh_release(map, "all"), -ENOENT);
	EQ(gpumap_mesh_stats(map, "all", &stats), -ENOENT);
}

/* A map and a mesh may have one name. */
static void kinds_have_names_of_their_own(void)
{
	struct gpumap_layers_request layers = { .size = sizeof(layers),
						.name = "m",
						.spec = "0:2" };
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t cursor = 0;

	EQ(gpumap_layers_publish(map, &layers), 0);
	EQ(gpumap_mesh_next(map, &cursor, name), 1);
	STR(name, "m");
	EQ(gpumap_mesh_next(map, &cursor, name), 0);
	EQ(gpumap_layers_release(map, "m"), 0);
	OK(version_of("m") != 0);
}

/* ---- refusals ------------------------------------------------------------ */

static void refused(struct gpumap_mesh_request *request, int code,
		    const char *why)
{
	uint64_t before = version_of("m");

	EQ(gpumap_mesh_publish(map, request), code);
	if (!OK(strstr(gpumap_refusal(map), why) != NULL))
		NOTE("%s", gpumap_refusal(map));
	EQ(version_of("m"), (intmax_t)before);
}

static void what_cannot_be_is_refused_in_words(void)
{
	static const uint32_t twice[] = { 1, 2, 1 }, none[] = { 0, 9 },
			      out[] = { 8 };
	struct gpumap_mesh_added added = { .name = "mine",
					   .ranks = twice,
					   .n = 3,
					   .backend = GPUMAP_MESH_GLOO };
	struct gpumap_mesh_request r =
		shaped("m", GPUMAP_MESH_TENSOR, 10, 1, 1);

	refused(&r, -EINVAL,
		"Tensor parallel degree 10 requires at least 10 devices, got "
		"9; give more rows");
	r.tp = 0;
	refused(&r, -EINVAL, "Tensor parallel degree 0");
	r = shaped("m", GPUMAP_MESH_MIXED, UINT64_C(1) << 32, UINT64_C(1) << 32,
		   1);
	refused(&r, -EOVERFLOW, "requires 2^64 devices or more");
	r = shaped("m", 5, 1, 1, 1);
	refused(&r, -EINVAL, "do not fit together");
	r = shaped("m", GPUMAP_MESH_DATA, 1, 1, 1);
	r.rows = twice;
	r.n_rows = 3;
	refused(&r, -EINVAL, "row 1 is given twice");
	r.rows = none;
	r.n_rows = 2;
	refused(&r, -ENODEV, "row 9 is not there");
	r.rows = NULL;
	r.n_rows = 0;
	r.added = &added;
	r.n_added = 1;
	refused(&r, -EINVAL, "Group 'mine' has rank 1 twice");
	added.ranks = out;
	added.n = 1;
	r.rows = twice;
	r.n_rows = 2;
	refused(&r, -EINVAL, "Rank 8 out of bounds");
	added.ranks = twice;
	added.name = "world";
	refused(&r, -EEXIST, "Group 'world' is one of a data mesh's own");
	added.name = "a b";
	refused(&r, -EINVAL, "cannot be a group's name");
	added.name = "mine";
	added.n = 0;
	refused(&r, -EINVAL, "Group 'mine' has no ranks");
	r = shaped("a b", GPUMAP_MESH_DATA, 1, 1, 1);
	refused(&r, -EINVAL, "a name has no blanks");
	EQ(version_of("a b"), 0);
}

/* ---- views --------------------------------------------------------------- */

static void views_follow_a_group_through_topologies(void)
{
	struct gpumap_view rows, ranks, pinned, world;
	uint64_t pin;

	EQ(publish("v", GPUMAP_MESH_TENSOR, 3, 1, 1), 0);
	EQ(gpumap_mesh_view(map, "v", "tp_1", GPUMAP_MESH_ROWS, &rows), 0);
	EQ(gpumap_mesh_view(map, "v", "tp_1", GPUMAP_MESH_RANKS, &ranks), 0);
	EQ(gpumap_mesh_view(map, "v", NULL, GPUMAP_MESH_ROWS, &world), 0);
	EQ(gpumap_mesh_pin(map, "v", "tp_2", GPUMAP_MESH_RANKS, &pinned, &pin),
	   0);
	EQ(gpumap_mesh_view(map, "v", "tp_3", GPUMAP_MESH_ROWS, &world),
	   -ENOENT);
	EQ(gpumap_mesh_view(map, "v", "tp_1", 3, &world), -EINVAL);
	EQ(world.n, 9);
	EQ(rows.n, 3);
	EQ(gpumap_view_get(&rows, 0), 3);
	EQ(gpumap_view_get(&ranks, 2), 5);
	EQ(gpumap_view_get(&ranks, 3), -ERANGE);
	EQ(gpumap_view_get(&world, 8), 8);

	EQ(publish("v", GPUMAP_MESH_TENSOR, 2, 1, 1), 0);
	EQ(gpumap_view_get(&rows, 0), -EAGAIN);
	EQ(gpumap_view_get(&world, 8), -EAGAIN);
	EQ(gpumap_view_refresh(map, &rows), 0);
	EQ(rows.n, 2);
	EQ(gpumap_view_get(&rows, 0), 2);
	EQ(gpumap_view_refresh(map, &world), 0);
	EQ(gpumap_view_get(&world, 8), 8);
	EQ(gpumap_view_get(&pinned, 0), 6);
	EQ(pinned.n, 3);

	EQ(publish("v", GPUMAP_MESH_PIPELINE, 1, 9, 1), 0);
	EQ(gpumap_view_get(&rows, 0), -EAGAIN);
	EQ(gpumap_view_refresh(map, &rows), -ENOENT);
	EQ(gpumap_view_get(&pinned, 2), 8);
	EQ(gpumap_unpin(map, pin), 0);
	EQ(gpumap_mesh_pin(map, "v", "tp_2", GPUMAP_MESH_RANKS, &pinned, &pin),
	   -ENOENT);

	/* Released, and published again: perhaps in another slot. */
	EQ(gpumap_mesh_release(map, "v"), 0);
	EQ(gpumap_view_refresh(map, &world), -ENOENT);
	EQ(publish("w", GPUMAP_MESH_DATA, 1, 1, 1), 0);
	EQ(publish("v", GPUMAP_MESH_TENSOR, 4, 1, 1), 0);
	EQ(gpumap_view_refresh(map, &world), 0);
	EQ(gpumap_view_get(&world, 4), 4);
	EQ(gpumap_view_refresh(map, &rows), 0);
	EQ(rows.n, 4);
	EQ(gpumap_mesh_release(map, "v"), 0);
	EQ(gpumap_mesh_release(map, "w"), 0);
}

/* ---- readers under a writer ---------------------------------------------- */

/* Two shapes take turns: group tp_1 is [2, 3] of one and [3, 4, 5] of the
 * other, on the rows of the same numbers, whatever instant it is read at. */
static int read_on(void)
{
	struct gpumap_mesh_group group = { .size = sizeof(group) };
	struct gpumap_view view = { .n = 0 };
	uint64_t until = story_now() + 400 * UINT64_C(1000000);
	int wrong = 0, two = 0, three = 0;

	while (story_now() < until || ((two == 0 || three == 0) && wrong == 0 &&
				       story_now() < until + STORY_LIMIT_NS)) {
		uint32_t ranks[ROWS], rows[ROWS];
		int ret = gpumap_mesh_group(map, "r", "tp_1", &group, ranks,
					    rows, ROWS);

		if (ret == -EAGAIN)
			continue;
		two += ret == 0 && group.n == 2;
		three += ret == 0 && group.n == 3;
		wrong += ret != 0 || group.n < 2 || group.n > 3;
		for (uint32_t i = 0; wrong == 0 && i < group.n; i++)
			wrong += ranks[i] != group.n + i || rows[i] != ranks[i];
		if (gpumap_mesh_view(map, "r", "tp_1", GPUMAP_MESH_ROWS,
				     &view) != 0)
			continue;
		for (uint32_t i = 0; i < view.n; i++) {
			int row = gpumap_view_get(&view, i);

			wrong += row != -EAGAIN && row != (int)(view.n + i);
		}
	}
	return wrong != 0 ? 1 : two == 0 || three == 0 ? 2 : 0;
}

static void readers_see_one_shape_or_the_other(void)
{
	pid_t pids[2];
	int status = -1, alive = 2;
	uint64_t n = 0;

	EQ(publish("r", GPUMAP_MESH_TENSOR, 2, 1, 1), 0);
	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			map = story_attach(&agent);
			_exit(map != NULL ? read_on() : 3);
		}
	}
	while (alive > 0) {
		publish("r", GPUMAP_MESH_TENSOR, 2 + n++ % 2, 1, 1);
		if (waitpid(pids[alive - 1], &status, WNOHANG) != 0) {
			EQ(status, 0);
			alive--;
		}
	}
	NOTE("%d publications meanwhile", (int)n);
	EQ(gpumap_mesh_release(map, "r"), 0);
}

/* ---- other users --------------------------------------------------------- */

static void others_may_look_and_no_more(void)
{
	int status = -1;
	pid_t pid;

	if (geteuid() != 0) {
		SKIP(2, "another user needs root");
		return;
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (setgid(65534) != 0 || setuid(65534) != 0)
			_exit(9);
		map = story_attach(&agent);
		if (map == NULL || version_of("m") == 0)
			_exit(1);
		if (publish("m", GPUMAP_MESH_DATA, 1, 1, 1) != -EPERM ||
		    strstr(gpumap_refusal(map), "belongs to uid 0") == NULL)
			_exit(2);
		if (gpumap_mesh_release(map, "m") != -EPERM)
			_exit(3);
		if (publish("theirs", GPUMAP_MESH_DATA, 1, 1, 1) != 0)
			_exit(4);
		_exit(0);
	}
	EQ(waitpid(pid, &status, 0), pid);
	EQ(WEXITSTATUS(status), 0);
	EQ(gpumap_mesh_release(map, "theirs"), 0);
}

/* ---- the agent, the machine ---------------------------------------------- */

static void path_of(const char *file, char ret_path[256])
{
	snprintf(ret_path, 256, "%s/%s", agent.state, file);
}

static void is_all_there(void)
{
	struct gpumap_mesh_group group = { .size = sizeof(group) };
	uint32_t ranks[ROWS], rows[ROWS];

	EQ(gpumap_mesh_group(map, "m", "mine", &group, ranks, rows, ROWS), 0);
	OK(group.n == 3 && ranks[0] == 5 && rows[0] == 3);
	EQ(gpumap_mesh_group(map, "m", "pp_dp1_tp1", &group, ranks, rows, ROWS),
	   0);
	OK(group.n == 2 && ranks[1] == 7 && rows[1] == 1);
}

static bool again(int signal, bool is_new_machine)
{
	gpumap_detach(map);
	agent_kill(&agent, signal);
	if (is_new_machine)
		unlink(agent.segment);
	return OK(start());
}

static void a_mesh_outlives_the_agent(void)
{
	uint64_t version = version_of("m");
	struct gpumap_view view;

	EQ(gpumap_mesh_view(map, "m", "mine", GPUMAP_MESH_ROWS, &view), 0);
	if (!again(SIGKILL, false))
		return;
	OK(agent_logged(&agent, "event=segment_adopted") ||
	   version_of("m") == version);
	EQ(version_of("m"), (intmax_t)version);
	is_all_there();
	if (!again(SIGTERM, true))
		return;
	OK(version_of("m") > version);
	is_all_there();
}

static void what_was_released_stays_so(void)
{
	char path[256];

	path_of("gone.mesh", path);
	EQ(publish("gone", GPUMAP_MESH_DATA, 1, 1, 1), 0);
	EQ(access(path, F_OK), 0);
	EQ(gpumap_mesh_release(map, "gone"), 0);
	EQ(access(path, F_OK), -1);
	if (!again(SIGKILL, true))
		return;
	EQ(version_of("gone"), 0);
	is_all_there();
}

static void bad_files_are_put_aside(void)
{
	char path[256], aside[256];
	int fd;

	path_of("m.mesh", path);
	path_of("m.mesh.refused-1", aside);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	OK(fd >= 0 && pwrite(fd, "x", 1, 60) == 1);
	close(fd);
	if (!again(SIGKILL, false))
		return;
	OK(agent_logged(&agent, "event=state_refused"));
	EQ(version_of("m"), 0);
	EQ(access(aside, F_OK), 0);
	unlink(aside);
}

/* Fewer rows at the next start: it waits, and its name is taken. */
static void a_mesh_waits_for_its_devices(void)
{
	EQ(publish("late", GPUMAP_MESH_PIPELINE, 1, 9, 1), 0);
	gpumap_detach(map);
	agent_kill(&agent, SIGTERM);
	unlink(agent.segment);
	agent_configure(&agent, "[host]\nrows = 2\n");
	if (!OK(start()))
		return;
	OK(agent_logged(&agent, "event=state_waits"));
	EQ(version_of("late"), 0);
	gpumap_detach(map);
	agent_kill(&agent, SIGTERM);
	unlink(agent.segment);
	configure();
	if (!OK(start()))
		return;
	OK(version_of("late") != 0);
	EQ(gpumap_mesh_release(map, "late"), 0);
}

TAP_CASE()
{
	agent_make(&agent, NULL);
	configure();
	if (OK(start())) {
		a_mesh_is_what_was_asked_for();
		factors_may_be_left_out();
		names_do_not_run_together();
		ranks_know_their_groups_and_places();
		worlds_are_chosen_and_may_be_larger();
		kinds_have_names_of_their_own();
		what_cannot_be_is_refused_in_words();
		views_follow_a_group_through_topologies();
		readers_see_one_shape_or_the_other();
		others_may_look_and_no_more();
		a_mesh_outlives_the_agent();
		what_was_released_stays_so();
		bad_files_are_put_aside();
		a_mesh_waits_for_its_devices();
		gpumap_detach(map);
	}
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
