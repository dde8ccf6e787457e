/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl cordon: a session that was open goes on, new sessions and
 * plans keep away, over the agent's death, until uncordon; only the
 * administrator may do either.
 */

#include <signal.h>

#include <gpumap/plan.h>

#include "shm/control.h"
#include "tests/support/ctl.h"
#include "tests/support/raw.h"
#include "tests/support/story.h"

#define CONFIG "[host]\nrows = 2\n[socket]\nmode = 0666\n"

static struct gpumap *map;

static struct gpumap_session *session_open(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = MIB };
	struct gpumap_session *session = NULL;

	EQ(gpumap_session_open(map, &opts, &session), 0);
	return session;
}

static int use(struct gpumap_session *session, uint32_t row)
{
	return gpumap_submit(
		session, row,
		&(struct gpumap_job){ .op = GPUMAP_OP_NOP, .n = 1 }, 1);
}

/* Plan three layers by itself.  Returns the row of the first, or a negative
 * errno. */
static int planned(const uint32_t *rows, uint32_t n)
{
	static const uint64_t sizes[] = { 100, 200, 300 };
	struct gpumap_plan_request request = { .size = sizeof(request),
					       .setting = GPUMAP_SETTING_AUTO,
					       .rows = rows,
					       .n_rows = n,
					       .n_layers = 3,
					       .layer_bytes = sizes };
	struct gpumap_plan plan = { .size = sizeof(plan) };
	int ret = gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0);

	return ret != 0 ? ret : (int)plan.base_row;
}

static json_t *cordoned(uint32_t row)
{
	json_t *json, *is;

	EQ(CTL("devices", "--json"), DONE);
	json = object();
	is = json_object_get(json_array_get(list(json, "devices", 2), row),
			     "cordoned");
	json_incref(is);
	json_decref(json);
	return is;
}

static void new_ones_keep_away(void)
{
	const uint32_t rows[] = { 0 };
	struct gpumap_session *session = session_open();
	struct gpumap_tile tiles[2];
	struct gpumap_job job = { .op = GPUMAP_OP_FILL, .n = 4096 };

	OK(json_is_true(cordoned(0)) && json_is_false(cordoned(1)));
	EQ(CTL("devices"), DONE);
	OK(prints(", cordoned\n"));
	EQ(use(session, 0), -ENODEV);
	OK(strstr(gpumap_refusal(map), "row 0 is cordoned and takes no new "
				       "sessions: use another row, or "
				       "gpumapctl uncordon 0"));
	EQ(use(session, 1), 0);
	EQ(gpumap_alloc(session, 1, job.n, &job.dst), 0);
	EQ(gpumap_scatter(session, &job, NULL, tiles, 2), 1);
	EQ(tiles[0].row, 1);
	EQ(planned(NULL, 0), 1);
	EQ(planned(rows, 1), -ENODEV);
	OK(strstr(gpumap_refusal(map), "row 0 is drained or cordoned"));
	gpumap_session_close(session);
}

static void a_row_is_cordoned(void)
{
	struct gpumap_session *before = session_open();
	json_t *json;

	EQ(use(before, 1), 0);
	EQ(planned(NULL, 0), 0);
	EQ(CTL("cordon", "0", "--json"), DONE);
	json = object();
	EQ(number(json, "cordoned"), 0);
	json_decref(json);
	new_ones_keep_away();
	/* The session from before may also begin to use the row. */
	EQ(use(before, 0), 0);
	EQ(CTL("cordon", "0"), DONE);
	gpumap_session_close(before);
}

/* The segment and the file, and then the file alone, keep it. */
static void it_outlives_the_agent(void)
{
	char path[256];

	agent_kill(&agent, SIGKILL);
	OK(agent_start(&agent));
	new_ones_keep_away();
	EQ(agent_kill(&agent, SIGTERM), 0);
	gpumap_detach(map);
	EQ(agent_run(&agent, "--remove"), 0);
	OK(agent_start(&agent) && (map = story_attach(&agent)) != NULL);
	new_ones_keep_away();
	snprintf(path, sizeof(path), "%s/cordons", agent.state);
	EQ(access(path, F_OK), 0);
}

static void others_may_not(void)
{
	if (!ctl_as_another(2))
		return;
	EQ(CTL("uncordon", "0"), FAILED);
	OK(complains("uid 65534 may not cordon rows: only root and uid 0"));
	user = 0;
}

static void it_ends(void)
{
	struct gpumap_session *session;
	char path[256];

	EQ(CTL("uncordon", "0"), DONE);
	EQ(CTL("uncordon", "0"), DONE);
	OK(json_is_false(cordoned(0)));
	session = session_open();
	EQ(use(session, 0), 0);
	EQ(planned(NULL, 0), 0);
	gpumap_session_close(session);
	snprintf(path, sizeof(path), "%s/cordons", agent.state);
	OK(access(path, F_OK) != 0);
	EQ(CTL("cordon", "7"), FAILED);
	OK(complains("there is no row 7: gpumapctl devices lists them"));
	EQ(CTL("cordon", "one"), USAGE);
}

/* Each of two rows has a cordon of its own, and readers learn of both. */
static void rows_are_told_apart(void)
{
	uint32_t seen = gpumap_generation(map);

	EQ(CTL("cordon", "0"), DONE);
	OK(gpumap_generation(map) != seen);
	EQ(CTL("cordon", "1"), DONE);
	OK(json_is_true(cordoned(0)) && json_is_true(cordoned(1)));
	EQ(CTL("uncordon", "0"), DONE);
	OK(json_is_false(cordoned(0)) && json_is_true(cordoned(1)));
	EQ(agent_kill(&agent, SIGTERM), 0);
	gpumap_detach(map);
	EQ(agent_run(&agent, "--remove"), 0);
	OK(agent_start(&agent) && (map = story_attach(&agent)) != NULL);
	OK(json_is_false(cordoned(0)) && json_is_true(cordoned(1)));
	seen = gpumap_generation(map);
	EQ(CTL("uncordon", "1"), DONE);
	OK(gpumap_generation(map) != seen);
	OK(json_is_false(cordoned(1)));
}

static void no_request_is_guessed_at(void)
{
	const struct gm_cordon ask = { .row = 0, .undo = 2 };
	char path[160];
	struct raw c;

	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	EQ(raw_open(&c, path), 0);
	EQ(raw_ask(&c, GM_CONTROL_CORDON, &ask, sizeof(ask), NULL, 0, NULL),
	   -EINVAL);
	STR(c.refusal, "undo is 0 or 1");
	raw_close(&c);
}

/* A file that is none of ours is set aside, and the start goes on. */
static void a_strange_file_is_refused(void)
{
	char path[256];
	FILE *file;

	EQ(agent_kill(&agent, SIGTERM), 0);
	snprintf(path, sizeof(path), "%s/cordons", agent.state);
	file = fopen(path, "we");
	OK(file != NULL && fputs("row 0\n", file) >= 0 && fclose(file) == 0);
	OK(agent_start(&agent));
	OK(agent_logged(&agent, "event=state_refused path="));
	OK(json_is_false(cordoned(0)));
	OK(access(path, F_OK) != 0);
}

TAP_CASE()
{
	if (!ctl_start(CONFIG) || !OK((map = story_attach(&agent)) != NULL))
		return tap_done();
	a_row_is_cordoned();
	it_outlives_the_agent();
	others_may_not();
	it_ends();
	rows_are_told_apart();
	no_request_is_guessed_at();
	a_strange_file_is_refused();
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
