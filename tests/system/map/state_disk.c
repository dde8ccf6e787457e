/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks the disk that published maps are kept on.  A disk that fails, is full
 * or cannot be written changes nothing.  Maps whose files it does not remove do
 * not come back.  Maps whose files it does not read stay as they were, and so
 * do cordons.  A burst of changes is written whole.
 */

#include <sched.h>
#include <seccomp.h>
#include <sys/mount.h>

#include "tests/support/state_objects.h"

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

/* A held map is to take the name of one that waits, whose file the disk does
 * not let go of. */
static void a_failure_leaves_what_waits(void)
{
	char path[256];

	agent_make(&agent, ROWS2);
	if (!OK(start()))
		return;
	EQ(publish("waits", "0:3;1:2"), 0);
	agent_configure(&agent, ROWS1);
	if (!OK(reboot()))
		return;
	path_of("old", path);
	EQ(mkdir(path, 0700), 0); /* in the way of a file that is removed */
	EQ(hold("waits"), -EIO);
	EQ(count_maps(), 0);
	EQ(story_device(map, 0).reserved_bytes, 0);
	OK(has_file("waits.layers"));
	others_publish("waits", EPERM);
	EQ(rmdir(path), 0);
	EQ(hold("waits"), 0);
	OK(!has_file("waits.layers"));
	agent_configure(&agent, ROWS2);
	OK(reboot());
	EQ(count_maps(), 0);
	stop(SIGTERM);
	agent_remove(&agent);
}

/* Fill the rest of a file system with a file. */
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
	/* An agent can start on a full disk, and a released map stays gone. */
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
	/* A map without a file needs no disk. */
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

/* ---- replaced maps ----------------------------------------------------- */

/* Hold a map as long as a process lives, and wait until the map is gone with
 * the process. */
static void hold_and_die(const char *name)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		map = story_attach(&agent);
		_exit(map ? -hold(name) : 255);
	}
	waitpid(pid, &status, 0);
	EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
	while (look(name).status == 0 && story_now() < until)
		story_nap(200);
	EQ(look(name).status, -ENOENT);
}

/* A held map took the name and is gone.  The map before it must not come back,
 * whatever file the disk has kept. */
static void what_a_held_map_replaced_stays_away(void)
{
	char path[256], saved[256];

	agent_make(&agent, ROWS2);
	if (!OK(start()))
		return;
	EQ(publish("kept", "0:5"), 0);
	path_of("old", path);
	EQ(mkdir(path, 0700), 0); /* in the way of a file that is removed */
	hold_and_die("kept");
	stop(SIGTERM);
	OK(start());
	EQ(look("kept").status, -ENOENT);
	EQ(rmdir(path), 0);

	/* As if the disk had not removed the file that was set aside. */
	EQ(publish("kept", "0:5"), 0);
	path_of("kept.layers", path);
	path_of("saved", saved);
	EQ(link(path, saved), 0);
	hold_and_die("kept");
	move_file("saved", "kept.layers.replaced");
	stop(SIGTERM);
	OK(start());
	EQ(look("kept").status, -ENOENT);
	OK(!has_file("kept.layers.replaced"));
	OK(reboot());
	EQ(count_maps(), 0);
	stop(SIGTERM);
	agent_remove(&agent);
}

/* The agent had set the file aside and had not stored the slot yet. */
static void what_was_not_replaced_is_still_there(void)
{
	agent_make(&agent, ROWS2);
	if (!OK(start()))
		return;
	EQ(publish("kept", "0:5"), 0);
	stop(SIGKILL);
	move_file("kept.layers", "kept.layers.replaced");
	OK(start());
	OK(says("kept", "0:5"));
	OK(has_file("kept.layers"));
	OK(!has_file("kept.layers.replaced"));
	/* The machine went down before the slot was stored. */
	stop(SIGTERM);
	move_file("kept.layers", "kept.layers.replaced");
	unlink(agent.segment);
	OK(start());
	OK(says("kept", "0:5"));
	OK(!has_file("kept.layers.replaced"));
	EQ(publish("kept", "1:5"), 0);
	put_file("kept.layers.replaced", "older");
	OK(reboot());
	OK(says("kept", "1:5"));
	OK(!has_file("kept.layers.replaced"));
	stop(SIGTERM);
	agent_remove(&agent);
}

/* ---- unreadable files --------------------------------------------------- */

/* From here on no process started by this one can read so many bytes at once,
 * the size of the file. */
static int break_reads(off_t bytes)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	const struct scmp_arg_cmp is_size = { .arg = 2,
					      .op = SCMP_CMP_EQ,
					      .datum_a = (scmp_datum_t)bytes };
	int ret = filter != NULL ? 0 : -ENOMEM;

	if (ret == 0)
		ret = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EIO),
					     SCMP_SYS(read), 1, &is_size);
	if (ret == 0)
		ret = seccomp_load(filter);
	seccomp_release(filter);
	return ret;
}

/* A child's findings: a bit for each error. */
enum {
	CANNOT = 1,
	NO_START = 2,
	NOT_LOGGED = 4,
	NOT_KEPT = 8,
	NOT_TAKEN = 16,
	NOT_WRITTEN = 32
};

/* Another user publishes under a name.  Returns the errno; EPERM, too, where
 * this process cannot be another user. */
static int as_other(const char *name)
{
	int status = 0;
	pid_t pid;

	if (geteuid() != 0)
		return EPERM;
	pid = fork();
	if (pid == 0) {
		map = setuid(OTHER) == 0 ? story_attach(&agent) : NULL;
		_exit(map ? -publish(name, "0:5") : 255);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int with_bad_disk(off_t bytes, bool is_rebooted)
{
	int found = 0;

	if (break_reads(bytes) != 0)
		return CANNOT;
	if (!start())
		return NO_START;
	if (!agent_logged(&agent, "event=state_unread path="))
		found |= NOT_LOGGED;
	if (!says("other", "0:2;1:3"))
		found |= NOT_KEPT;
	if (is_rebooted) {
		if (look("kept").status != -ENOENT || as_other("kept") != EPERM)
			found |= NOT_TAKEN;
	} else {
		if (!says("kept", "0:5"))
			found |= NOT_KEPT;
		if (publish("kept", "1:5") != 0)
			found |= NOT_WRITTEN;
		if (publish("kept", "0:5") != 0)
			found |= NOT_WRITTEN;
	}
	if (!has_file("kept.layers"))
		found |= NOT_TAKEN;
	stop(SIGTERM);
	return found;
}

static int before_a_reboot(off_t bytes)
{
	return with_bad_disk(bytes, false);
}

static int after_a_reboot(off_t bytes)
{
	return with_bad_disk(bytes, true);
}

static void unread(const char *file, int (*find)(off_t bytes))
{
	char path[256];
	struct stat st;
	int status = 0;
	pid_t pid;

	path_of(file, path);
	EQ(stat(path, &st), 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(find(st.st_size));
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT)
		SKIP(1, "no seccomp filter can be loaded here");
	else
		EQ(status, 0);
}

/* The segment still has every acknowledged map, and is good. */
static void what_cannot_be_read_is_kept(void)
{
	agent_make(&agent, ROWS2 "[socket]\nmode = 0666\n");
	if (!OK(start()))
		return;
	EQ(publish("kept", "0:5"), 0);
	EQ(publish("other", "0:2;1:3"), 0);
	stop(SIGTERM);
	unread("kept.layers", before_a_reboot);
	OK(start());
	OK(says("kept", "0:5"));
	stop(SIGTERM);

	/* Without a segment the map is unknown.  Its name stays refused until
	 * the disk gives the file out. */
	unlink(agent.segment);
	unread("kept.layers", after_a_reboot);
	OK(start());
	OK(says("kept", "0:5"));
	OK(says("other", "0:2;1:3"));
	stop(SIGTERM);
	agent_remove(&agent);
}

/* A kind with one file for all rows: a change would replace the file, of which
 * nothing is known. */
static const struct state_object *single;

static int single_with_bad_disk(off_t bytes)
{
	int found = 0;

	if (break_reads(bytes) != 0)
		return CANNOT;
	if (!start())
		return NO_START;
	if (!agent_logged(&agent, "event=state_unread path="))
		found |= NOT_LOGGED;
	if (single->publish() != -EIO || single->take() != -EIO)
		found |= NOT_TAKEN;
	stop(SIGTERM);
	return found;
}

static void singles_that_cannot_be_read_are_kept(void)
{
	agent_make(&agent, ROWS2);
	for (size_t i = STATE_SINGLES; i < STATE_OBJECTS; i++) {
		single = &state_objects[i];
		if (!OK(start()))
			return;
		EQ(single->publish(), 0);
		stop(SIGTERM);
		unread(single->file, single_with_bad_disk);
		OK(start());
		OK(single->is_there());
		EQ(single->take(), 0);
		OK(!single->is_there());
		stop(SIGTERM);
	}
	agent_remove(&agent);
}

/* A change that the I/O thread has begun is finished when the agent ends. */
static void what_is_in_hand_is_finished(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int status = 0;
	pid_t pid;

	if (!tap_has_points()) {
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

/* A model server that moves layers all day makes as many changes. */
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

TAP_CASE()
{
	a_failure_changes_nothing();
	a_failure_leaves_what_waits();
	a_directory_of_others_is_refused();
	what_a_held_map_replaced_stays_away();
	what_was_not_replaced_is_still_there();
	what_cannot_be_read_is_kept();
	singles_that_cannot_be_read_are_kept();
	what_is_in_hand_is_finished();
	many_changes_are_taken();
	full_and_read_only_disks_are_named(); /* enters a namespace: last */
	return tap_done();
}
