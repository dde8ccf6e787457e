/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks that published maps are kept in files: maps outlive the agent and the
 * machine, and bad files are put aside.
 */

#include <errno.h>
#include <grp.h>

#include <gpumap/plan.h>

#include "tests/support/shm_names.h"
#include "tests/support/state_agent.h"

/* ---- kept maps --------------------------------------------------------- */

static void maps_outlive_the_machine(void)
{
	struct seen before, after;

	agent_make(&agent, ROWS2);
	if (!OK(start()))
		return;
	EQ(publish("kept", "0:3;1:2"), 0);
	EQ(publish("replaced", "0:5"), 0);
	EQ(publish("replaced", "1:5"), 0);
	EQ(publish("\xc3\xa4/..%", "1:1;0:4"), 0);
	EQ(publish("gone", "0:5"), 0);
	EQ(gpumap_layers_release(map, "gone"), 0);
	OK(has_file("kept.layers"));
	OK(has_file("%C3%A4%2F..%25.layers"));
	OK(!has_file("gone.layers"));
	before = look("kept");
	EQ(before.status, 0);

	OK(reboot());
	OK(agent_logged(&agent, "event=created"));
	after = look("kept");
	OK(are_one(before, after));
	OK(after.layers.version > before.layers.version);
	OK(says("replaced", "1:5"));
	OK(says("\xc3\xa4/..%", "1:1;0:4"));
	EQ(look("gone").status, -ENOENT);
	EQ(count_maps(), 3);
}

/* The adopted segment agrees with the files, so nothing is published anew. */
static void an_adopted_map_is_left_alone(void)
{
	struct seen before = look("kept"), after;

	stop(SIGKILL);
	OK(start());
	OK(agent_logged(&agent, "event=adopted"));
	OK(!agent_logged(&agent, "event=restored"));
	after = look("kept");
	EQ(memcmp(&before, &after, sizeof(before)), 0);
	EQ(count_maps(), 3);
	EQ(gpumap_layers_release(map, "kept"), 0);
	OK(reboot());
	EQ(count_maps(), 2);
	OK(!agent_logged(&agent, "event=state_"));
}

/* Set the files as if an agent had died between storing the slot and the file,
 * or the reverse. */
static void the_files_are_right(void)
{
	struct seen old, new;

	EQ(publish("first", "0:5"), 0);
	EQ(publish("second", "0:5"), 0);
	old = look("second");
	stop(SIGKILL);
	move_file("first.layers", "set-aside");
	OK(start());
	OK(agent_logged(&agent, "event=state_unknown name=first "));
	EQ(look("first").status, -ENOENT);
	OK(are_one(old, look("second")));

	EQ(publish("second", "1:5"), 0);
	new = look("second");
	move_file("second.layers", "set-aside");
	EQ(publish("second", "0:5"), 0);
	stop(SIGKILL);
	move_file("set-aside", "second.layers");
	OK(start());
	OK(are_one(new, look("second")));
	OK(look("second").layers.version > new.layers.version + 1);
	stop(SIGTERM);
	agent_remove(&agent);
}

/* A map's file goes when a map that a process holds takes its name.  The old
 * map does not come back when that process has ended. */
static void held_maps_have_no_file(void)
{
	struct gpumap_plan_request request = { .size = sizeof(request),
					       .name = "taken",
					       .flags = GPUMAP_PLAN_COMMIT |
							GPUMAP_PLAN_HELD,
					       .setting = GPUMAP_SETTING_MANUAL,
					       .text = "0:5",
					       .dtype = GPUMAP_DTYPE_F16 };
	struct gpumap_plan plan = { .size = sizeof(plan) };
	int status = 0;
	pid_t pid;

	agent_make(&agent, ROWS2);
	if (!OK(start()))
		return;
	EQ(publish("taken", "0:3;1:2"), 0);
	OK(has_file("taken.layers"));
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		map = story_attach(&agent);
		_exit(map ? -gpumap_plan_make(map, &request, &plan, NULL, 0,
					      NULL, 0)
			  : 255);
	}
	waitpid(pid, &status, 0);
	EQ(status, 0);
	OK(!has_file("taken.layers"));
	OK(agent_wait_log(&agent, "event=withdrawn name=taken "));
	EQ(look("taken").status, -ENOENT);
	OK(reboot());
	EQ(count_maps(), 0);

	request.flags = GPUMAP_PLAN_COMMIT;
	request.dtype = GPUMAP_DTYPE_F8_E5M2 + 1;
	EQ(gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0), -EINVAL);
	request.dtype = GPUMAP_DTYPE_F8_E5M2;
	EQ(gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0), 0);
	OK(has_file("taken.layers"));
	OK(reboot());
	EQ(look("taken").layers.flags, GPUMAP_LAYERS_COMMITTED);
	EQ(look("taken").layers.dtype, GPUMAP_DTYPE_F8_E5M2);
	stop(SIGTERM);
	agent_remove(&agent);
}

/* ---- refused files ----------------------------------------------------- */

static void bad_files_are_put_aside(void)
{
	agent_make(&agent, ROWS2);
	if (!OK(start()))
		return;
	EQ(publish("good", "0:5"), 0);
	EQ(publish("torn", "0:5"), 0);
	EQ(publish("empty", "0:5"), 0);
	EQ(publish("moved", "0:5"), 0);
	stop(SIGTERM);
	cut_file("torn.layers", 1);
	put_file("empty.layers", "");
	put_file("foreign.layers", "not ours\n");
	put_file("older.layers", "gpumap-state 1 2 af63dc4c8601ec8c\n{}");
	put_file("readme.txt", "not looked at\n");
	put_file("new", "half of a file");
	move_file("moved.layers", "elsewhere.layers");
	OK(start());
	EQ(count_maps(), 1);
	OK(says("good", "0:5"));
	OK(agent_logged(&agent, "event=state_refused path="));
	OK(agent_logged(&agent, "torn.layers\" why=\"its length or its sum is "
				"wrong: it was cut, or changed\""));
	OK(agent_logged(&agent, "empty.layers\" why=\"it is no state file\""));
	OK(agent_logged(&agent, "elsewhere.layers\" why=\"name is not its "
				"file's\""));
	OK(has_file("torn.layers.refused-1"));
	OK(has_file("empty.layers.refused-1"));
	OK(has_file("foreign.layers.refused-1"));
	OK(has_file("older.layers.refused-1"));
	OK(has_file("elsewhere.layers.refused-1"));
	OK(has_file("readme.txt"));
	OK(!has_file("torn.layers"));
	OK(!has_file("new"));

	/* A file that was put aside is never overwritten. */
	EQ(publish("torn", "1:5"), 0);
	stop(SIGTERM);
	cut_file("torn.layers", 1);
	OK(start());
	OK(has_file("torn.layers.refused-1"));
	OK(has_file("torn.layers.refused-2"));
	EQ(count_maps(), 1);
	stop(SIGTERM);
	agent_remove(&agent);
}

/* As root, in the state folder: what no other user may open, whatever it is.
 * Returns whether all of it could be made. */
static bool put_roots_files(void)
{
	static const struct {
		const char *name;
		mode_t mode;
	} files[] = { { "file.layers", S_IFREG },  { "fifo.layers", S_IFIFO },
		      { "socket.mesh", S_IFSOCK }, { "file.mask", S_IFREG },
		      { "cordons", S_IFREG },      { "calibrations", S_IFREG },
		      { "epochs", S_IFREG } };
	char path[256];
	int ret = seteuid(0);

	path_of("kept.layers", path);
	ret |= chown(path, 0, 0);
	path_of("folder.layers", path);
	ret |= mkdir(path, 0700);
	path_of("link.layers", path);
	ret |= symlink("/nowhere/at/all", path);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		path_of(files[i].name, path);
		ret |= mknod(path, files[i].mode | 0600, 0);
	}
	return ret == 0 && seteuid(OTHER) == 0;
}

static bool is_there(const char *name)
{
	char path[256];
	struct stat st;

	path_of(name, path);
	return lstat(path, &st) == 0;
}

/* An agent that is not root, and what root has put into its folder.  Returns
 * the number of the first line that is not as it should be. */
#define MUST(it)                         \
	do {                             \
		if (!(it))               \
			return __LINE__; \
	} while (0)

static int serve_among_roots_files(void)
{
	static const char *const aside[] = { "folder.layers", "fifo.layers",
					     "socket.mesh", "link.layers",
					     "epochs" };
	static const char *const kept[] = { "file.layers", "file.mask",
					    "kept.layers", "cordons",
					    "calibrations" };

	MUST(start());
	MUST(publish("kept", "0:5") == 0);
	stop(SIGTERM);
	MUST(put_roots_files());
	MUST(start());
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		char line[320];

		snprintf(line, sizeof(line),
			 "event=state_unread path=\"%s/%s\" "
			 "why=\"Permission denied\"",
			 agent.state, kept[i]);
		MUST(agent_logged(&agent, line));
		MUST(has_file(kept[i]));
	}
	for (size_t i = 0; i < sizeof(aside) / sizeof(aside[0]); i++) {
		char name[64];

		snprintf(name, sizeof(name), "%s.refused-1", aside[i]);
		MUST(is_there(name));
	}
	MUST(says("kept", "0:5"));
	MUST(reboot());
	MUST(look("kept").status == -ENOENT);
	MUST(publish("kept", "1:5") == 0);
	MUST(gpumap_layers_release(map, "file") == 0);
	MUST(!has_file("file.layers"));
	MUST(reboot());
	MUST(says("kept", "1:5"));
	stop(SIGTERM);
	return 0;
}

static void what_may_not_be_read_is_left_alone(void)
{
	int status = 0;
	pid_t pid;

	if (geteuid() != 0) {
		SKIP(1, "only root can put files of another user there");
		return;
	}
	agent_make(&agent, ROWS2);
	EQ(chown(agent.dir, OTHER, OTHER), 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int line = -1;

		if (setgroups(0, NULL) == 0 &&
		    setresgid(OTHER, OTHER, OTHER) == 0 &&
		    setresuid(OTHER, OTHER, 0) == 0) {
			if (faccessat(AT_FDCWD, getenv("GPUMAPD"), X_OK,
				      AT_EACCESS) != 0)
				_exit(77);
			shm_names_file(agent.segment, agent.instance, "map");
			line = serve_among_roots_files();
			agent_kill(&agent, SIGKILL);
			shm_names_remove(agent.instance);
		}
		if (line != 0) {
			NOTE("line %d", line);
			agent_show_log(&agent);
			fflush(stdout);
		}
		_exit(line != 0);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		SKIP(1, "another user cannot run the agent that was built");
	else
		EQ(status, 0);
	agent_remove(&agent);
}

static void a_map_waits_for_its_rows(void)
{
	struct seen before, lost;

	agent_make(&agent, ROWS2);
	if (!OK(start()))
		return;
	EQ(publish("both", "0:3;1:2"), 0);
	before = look("both");
	stop(SIGTERM);
	agent_configure(&agent, ROWS1);
	unlink(agent.segment);
	OK(start());
	EQ(look("both").status, -ENOENT);
	others_publish("both", EPERM);
	OK(agent_logged(&agent, "both.layers\" why=\"a device of it is not "
				"there\""));

	/* The rows are in the table, but lost. */
	stop(SIGTERM);
	agent_configure(&agent, ROWS2);
	OK(start());
	lost = look("both");
	EQ(lost.status, 0);
	EQ(lost.rows[0], 1);
	stop(SIGTERM);
	agent_configure(&agent, ROWS1);
	OK(start());
	OK(are_one(lost, look("both")));
	OK(!agent_logged(&agent, "event=state_waits"));
	/* Without its map in the segment the file waits for them, too. */
	stop(SIGTERM);
	move_file("both.layers", "saved");
	OK(start());
	stop(SIGTERM);
	move_file("saved", "both.layers");
	OK(start());
	EQ(look("both").status, -ENOENT);
	OK(agent_logged(&agent, "event=state_waits"));
	stop(SIGTERM);
	unlink(agent.segment);
	agent_configure(&agent, ROWS2);
	OK(start());
	OK(are_one(before, look("both")));

	/* The owner can release the map while its rows are missing. */
	stop(SIGTERM);
	unlink(agent.segment);
	agent_configure(&agent, ROWS1);
	OK(start());
	EQ(gpumap_layers_release(map, "both"), 0);
	EQ(gpumap_layers_release(map, "both"), -ENOENT);
	OK(!has_file("both.layers"));
	others_publish("both", 0);
	stop(SIGTERM);
	agent_remove(&agent);
}

/* A machine that starts with one host row more gives other numbers to the rows
 * behind it. */
static void rows_may_have_other_numbers(void)
{
	static const char node[] = "name: two\n"
				   "rows:\n"
				   "- { name: H100, kind: cuda, count: 2, "
				   "memory: 80G, compute-capability: 9.0, "
				   "sm-count: 132 }\n";
	static const uint32_t ranks[] = { 2, 1 }, was[] = { 1, 1, 2, 2, 2 },
			      is[] = { 2, 2, 3, 3, 3 };
	const struct gpumap_mesh_request request = {
		.size = sizeof(request),
		.name = "pair",
		.topology = GPUMAP_MESH_TENSOR,
		.tp = 2,
		.pp = 1,
		.dp = 1,
		.rows = ranks,
		.n_rows = 2,
	};
	uint32_t rows[GPUMAP_ROWS_MAX];

	agent_make(&agent, NULL);
	agent_configure_dummies(&agent, node, "[host]\nrows = 1\n");
	if (!OK(start()))
		return;
	EQ(publish("both", "1:2;2:3"), 0);
	EQ(gpumap_mesh_publish(map, &request), 0);
	OK(memcmp(look("both").rows, was, sizeof(was)) == 0);
	agent_configure_dummies(&agent, node, "[host]\nrows = 2\n");
	if (!OK(reboot()))
		return;
	OK(memcmp(look("both").rows, is, sizeof(is)) == 0);
	EQ(look("both").layers.base_row, 2);
	EQ(look("both").charges[0].row, 2);
	EQ(look("both").charges[1].row, 3);
	EQ(gpumap_mesh_read(map, "pair", NULL, rows, GPUMAP_ROWS_MAX), 0);
	EQ(rows[0], 3);
	EQ(rows[1], 2);
	stop(SIGTERM);
	agent_remove(&agent);
}

static void the_configuration_has_its_names(void)
{
	agent_make(&agent, ROWS2 "[map set]\nspec = 0:5\n");
	if (!OK(start()) || !OK(agent_wait_log(&agent, "event=ready ")))
		return;
	OK(has_file("set.layers"));
	EQ(publish("set", "1:5"), 0);
	OK(says("set", "1:5"));
	OK(reboot() && agent_wait_log(&agent, "event=ready "));
	OK(says("set", "0:5"));
	stop(SIGTERM);

	agent_configure(&agent, ROWS2);
	OK(start());
	OK(says("set", "0:5"));
	EQ(gpumap_layers_release(map, "set"), 0);
	OK(!has_file("set.layers"));
	stop(SIGTERM);
	agent_remove(&agent);
}

TAP_CASE()
{
	maps_outlive_the_machine();
	an_adopted_map_is_left_alone();
	the_files_are_right();
	held_maps_have_no_file();
	bad_files_are_put_aside();
	what_may_not_be_read_is_left_alone();
	a_map_waits_for_its_rows();
	rows_may_have_other_numbers();
	the_configuration_has_its_names();
	return tap_done();
}
