/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Published maps are kept in files: they outlive the agent and the machine,
 * bad files are put aside, and a disk that fails changes nothing.
 */

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "story.h"

#define ROWS2 "[host]\nrows = 2\n"
#define ROWS1 "[host]\nrows = 1\n[socket]\nmode = 0666\n"
#define OTHER 54321u /* a uid that is neither root's nor ours */

static struct agent agent;
static struct gpumap *map;

/* ---- helpers ----------------------------------------------------------- */

static bool start(void)
{
	if (!agent_start_until(&agent, "open"))
		return false;
	map = story_attach(&agent);
	return map != NULL;
}

static void stop(int signal)
{
	gpumap_detach(map);
	map = NULL;
	agent_kill(&agent, signal);
}

/* The segment is gone with it, as when the machine starts anew. */
static bool reboot(void)
{
	stop(SIGTERM);
	unlink(agent.segment);
	return start();
}

static int publish(const char *name, const char *spec)
{
	static const uint64_t bytes[5] = { 10, 10, 10, 7, 10 };
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = name,
						 .spec = spec,
						 .n_layers = 5,
						 .dtype = GPUMAP_DTYPE_BF16,
						 .layer_bytes = bytes,
						 .other_bytes = 1000 };

	return gpumap_layers_publish(map, &request);
}

static int hold(const char *name)
{
	struct gpumap_plan_request request = { .size = sizeof(request),
					       .name = name,
					       .flags = GPUMAP_PLAN_COMMIT |
							GPUMAP_PLAN_HELD,
					       .setting = GPUMAP_SETTING_MANUAL,
					       .text = "0:5",
					       .other_bytes = 4096 };
	struct gpumap_plan plan = { .size = sizeof(plan) };

	return gpumap_plan(map, &request, &plan, NULL, 0, NULL, 0);
}

/* A client of another uid publishes; @want is its errno. */
static void others_publish(const char *name, int want)
{
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = name,
						 .spec = "0:1" };
	int status = 0;
	pid_t pid;

	if (geteuid() != 0) {
		SKIP(1, "only root can be somebody else");
		return;
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		map = setuid(OTHER) == 0 ? story_attach(&agent) : NULL;
		_exit(map ? -gpumap_layers_publish(map, &request) : 255);
	}
	waitpid(pid, &status, 0);
	EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, want);
}

/* All of a map that a client can see. */
struct seen {
	int status;
	struct gpumap_layers layers;
	uint32_t rows[5];
	uint64_t bytes[5];
	struct gpumap_charge charges[2];
};

static struct seen look(const char *name)
{
	struct seen s;

	memset(&s, 0, sizeof(s));
	s.layers.size = sizeof(s.layers);
	s.status = gpumap_layers_read(map, name, &s.layers, s.rows, s.bytes, 5,
				      s.charges, 2);
	return s;
}

/* But for the version: is @b what @a was? */
static bool are_one(struct seen a, struct seen b)
{
	a.layers.version = b.layers.version;
	return a.status == 0 && memcmp(&a, &b, sizeof(a)) == 0;
}

static bool says(const char *name, const char *spec)
{
	struct seen s = look(name);

	return s.status == 0 && strcmp(s.layers.spec, spec) == 0;
}

static int count_maps(void)
{
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t cursor = 0;
	int n = 0;

	while (gpumap_layers_next(map, &cursor, name) == 1)
		n++;
	return n;
}

static void path_of(const char *file, char ret_path[256])
{
	snprintf(ret_path, 256, "%s/%s", agent.state, file);
}

static bool has_file(const char *file)
{
	char path[256];

	path_of(file, path);
	return access(path, F_OK) == 0;
}

static void put_file(const char *file, const char *text)
{
	char path[256];
	FILE *to;

	path_of(file, path);
	to = fopen(path, "we");
	OK(to != NULL && fputs(text, to) >= 0);
	if (to != NULL)
		fclose(to);
}

static void move_file(const char *from, const char *to)
{
	char a[256], b[256];

	path_of(from, a);
	path_of(to, b);
	EQ(rename(a, b), 0);
}

static void cut_file(const char *file, off_t less)
{
	char path[256];
	struct stat st;

	path_of(file, path);
	EQ(stat(path, &st), 0);
	EQ(truncate(path, st.st_size - less), 0);
}

/* ---- what comes back --------------------------------------------------- */

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

/* It says what the files say already: nothing is published anew. */
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

/* As if an agent had died between the slot and the file, or the reverse. */
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

/* Its file goes when it is replaced by one that a process holds, and does not
 * come back when that has ended. */
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
		_exit(map ? -gpumap_plan(map, &request, &plan, NULL, 0, NULL, 0)
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
	EQ(gpumap_plan(map, &request, &plan, NULL, 0, NULL, 0), 0);
	OK(has_file("taken.layers"));
	OK(reboot());
	EQ(look("taken").layers.flags, GPUMAP_LAYERS_COMMITTED);
	stop(SIGTERM);
	agent_remove(&agent);
}

/* ---- what does not ----------------------------------------------------- */

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
	put_file("later.layers", "gpumap-state 2 0 0\n");
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
	OK(agent_logged(&agent, "later.layers\" why=\"it is of a version that "
				"this agent does not know\""));
	OK(agent_logged(&agent, "elsewhere.layers\" why=\"name is not its "
				"file's\""));
	OK(has_file("torn.layers.refused-1"));
	OK(has_file("empty.layers.refused-1"));
	OK(has_file("foreign.layers.refused-1"));
	OK(has_file("later.layers.refused-1"));
	OK(has_file("elsewhere.layers.refused-1"));
	OK(has_file("readme.txt"));
	OK(!has_file("torn.layers"));
	OK(!has_file("new"));

	/* Nor is one that was put aside ever written over. */
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

	/* In the table, but lost. */
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
	stop(SIGTERM);
	unlink(agent.segment);
	agent_configure(&agent, ROWS2);
	OK(start());
	OK(are_one(before, look("both")));

	/* Its owner need not wait for its rows to get rid of it. */
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

static void the_configuration_has_its_names(void)
{
	agent_make(&agent, ROWS2 "[map set]\nspec = 0:5\n");
	if (!OK(start()))
		return;
	OK(!has_file("set.layers"));
	EQ(publish("set", "1:5"), 0);
	OK(says("set", "1:5"));
	OK(has_file("set.layers"));
	OK(reboot());
	OK(says("set", "0:5"));
	OK(agent_logged(&agent, "event=state_waits"));
	stop(SIGTERM);

	agent_configure(&agent, ROWS2);
	OK(start());
	OK(says("set", "1:5"));
	EQ(gpumap_layers_release(map, "set"), 0);
	OK(!has_file("set.layers"));
	stop(SIGTERM);
	agent_remove(&agent);
}

/* ---- disks ------------------------------------------------------------- */

static void a_failure_changes_nothing(void)
{
	struct seen before, after;
	char path[256];

	agent_make(&agent, ROWS2);
	if (!OK(start()))
		return;
	EQ(publish("kept", "0:5"), 0);
	before = look("kept");
	path_of("new", path);
	EQ(mkdir(path, 0700), 0); /* in the way of every file */
	EQ(publish("kept", "1:5"), -EIO);
	OK(strstr(gpumap_refusal(map), "kept.layers: ") != NULL);
	OK(strstr(gpumap_refusal(map), agent.state) != NULL);
	EQ(publish("fresh", "1:5"), -EIO);
	after = look("kept");
	EQ(memcmp(&before, &after, sizeof(before)), 0);
	EQ(look("fresh").status, -ENOENT);
	EQ(rmdir(path), 0);
	path_of("old", path);
	EQ(mkdir(path, 0700), 0);
	EQ(gpumap_layers_release(map, "kept"), -EIO);
	EQ(look("kept").status, 0);
	EQ(rmdir(path), 0);
	EQ(publish("kept", "1:5"), 0);
	OK(says("kept", "1:5"));
	EQ(gpumap_layers_release(map, "kept"), 0);
	EQ(count_maps(), 0);
	stop(SIGTERM);
	agent_remove(&agent);
}

/* Make the rest of a file system a file of ours. */
static void fill_up(const char *file)
{
	static const char zeros[4096];
	char path[256];
	int fd;

	path_of(file, path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	OK(fd >= 0);
	while (write(fd, zeros, sizeof(zeros)) > 0)
		;
	close(fd);
}

static void full_and_read_only_disks_are_named(void)
{
	char path[256];

	agent_make(&agent, ROWS2);
	if (mkdir(agent.state_dir, 0700) != 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("small", agent.state_dir, "tmpfs", 0, "size=64k,mode=700") !=
		    0) {
		SKIP(1, "cannot mount a small disk here");
		agent_remove(&agent);
		return;
	}
	if (!OK(start()))
		return;
	EQ(publish("kept", "0:5"), 0);
	fill_up("ballast");
	EQ(publish("kept", "1:5"), -ENOSPC);
	OK(strstr(gpumap_refusal(map), "make room on its disk") != NULL);
	EQ(publish("fresh", "0:5"), -ENOSPC);
	OK(says("kept", "0:5"));
	EQ(count_maps(), 1);
	/* An agent can start on it, and what is released is gone. */
	OK(reboot());
	OK(says("kept", "0:5"));
	path_of("ballast", path);
	EQ(unlink(path), 0);
	EQ(publish("fresh", "0:5"), 0);

	EQ(mount("small", agent.state_dir, NULL, MS_REMOUNT | MS_RDONLY, NULL),
	   0);
	EQ(publish("kept", "1:5"), -EROFS);
	OK(strstr(gpumap_refusal(map), "mount it for writing") != NULL);
	EQ(gpumap_layers_release(map, "kept"), -EROFS);
	EQ(hold("kept"), -EROFS);
	OK(says("kept", "0:5"));
	/* What has no file needs no disk. */
	EQ(hold("held"), 0);
	OK(!agent_logged(&agent, "event=state_stays"));
	EQ(gpumap_layers_release(map, "held"), 0);
	EQ(count_maps(), 2);
	OK(reboot());
	OK(says("kept", "0:5"));
	OK(says("fresh", "0:5"));
	EQ(mount("small", agent.state_dir, NULL, MS_REMOUNT, NULL), 0);
	EQ(gpumap_layers_release(map, "kept"), 0);
	stop(SIGTERM);
	agent_forget(&agent);
	EQ(umount(agent.state_dir), 0);
	agent_remove(&agent);
}

static void a_directory_of_others_is_refused(void)
{
	agent_make(&agent, ROWS2);
	EQ(mkdir(agent.state_dir, 0700), 0);
	EQ(chmod(agent.state_dir, 0777), 0);
	EQ(agent_run(&agent, NULL), 6);
	OK(agent_logged(&agent, "event=state why=\"others may write "));
	EQ(chmod(agent.state_dir, 0700), 0);
	EQ(mkdir(agent.state, 0700), 0);
	EQ(chmod(agent.state, 0720), 0);
	EQ(agent_run(&agent, NULL), 6);
	agent_remove(&agent);
}

/* A change that the clerk has in its hands when the end is asked for. */
static void what_is_in_hand_is_finished(void)
{
	const char *build = getenv("GM_BUILD");
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int status = 0;
	pid_t pid;

	if (build == NULL || strstr(build, "testpoints") == NULL) {
		SKIP(1, "needs --enable-testpoints");
		return;
	}
	agent_make(&agent, ROWS2);
	agent.env[0] = "GM_POINT=state_created:pause";
	if (!OK(start()))
		return;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		map = story_attach(&agent);
		_exit(map ? -publish("late", "0:5") : 255);
	}
	while (!has_file("new") && story_now() < until)
		story_nap(200);
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	waitpid(pid, &status, 0);
	EQ(status, 0);
	agent.env[0] = NULL;
	OK(start());
	OK(says("late", "0:5"));
	stop(SIGTERM);
	agent_remove(&agent);
}

/* As a model server that moves layers about all day. */
static void many_changes_are_taken(void)
{
	struct story_times times = { 0 };
	int wrong = 0;

	agent_make(&agent, ROWS2);
	if (!OK(start()))
		return;
	for (int i = 0; i < 1000; i++) {
		uint64_t since = story_now();

		wrong += publish("busy", i % 2 ? "0:5" : "1:5") != 0;
		story_time(&times, since);
	}
	EQ(wrong, 0);
	OK(says("busy", "0:5"));
	story_tell(&times, "a map published");
	stop(SIGTERM);
	agent_remove(&agent);
}

int main(void)
{
	maps_outlive_the_machine();
	an_adopted_map_is_left_alone();
	the_files_are_right();
	held_maps_have_no_file();
	bad_files_are_put_aside();
	a_map_waits_for_its_rows();
	the_configuration_has_its_names();
	a_failure_changes_nothing();
	a_directory_of_others_is_refused();
	what_is_in_hand_is_finished();
	many_changes_are_taken();
	full_and_read_only_disks_are_named(); /* in a namespace: last */
	return tap_done();
}
