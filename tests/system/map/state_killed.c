/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * An agent is killed at each instant of a change of each kind that has files,
 * and of one to a held map, which has none: the next agent has what a client
 * was told of, and else all or nothing of the change, on the segment as after a
 * reboot.
 */

#include "tests/support/state_objects.h"

static const char *const points[] = {
	/* of a file that is written */
	"state_created", "state_written", "state_synced", "state_renamed",
	"state_lasting",
	/* of others */
	"publish_reserved", "publish_filled", "publish_key", "publish_visible",
	"control_replied", "state_removed", "state_forgotten", "state_moved"
};

#define WRITTEN 5u
#define POINTS  (sizeof(points) / sizeof(points[0]))

/* A client asks for the change, in which the agent dies.  Returns its
 * answer. */
static int ask(int (*change)(void), const char *ticket)
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		map = story_attach(&agent);
		close(open(ticket, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
		_exit(map ? -change() : 255);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}

static bool ready(void)
{
	return agent_start(&agent) && (map = story_attach(&agent)) != NULL;
}

/* Start an agent that dies at @point, once there is the ticket. */
static bool start_to_die(size_t point, char ret_path[256])
{
	static char env[64], ticket[320];

	path_of("ticket", ret_path);
	unlink(ret_path);
	snprintf(env, sizeof(env), "GM_POINT=%s:kill", points[point]);
	snprintf(ticket, sizeof(ticket), "GM_POINT_TICKET=%s", ret_path);
	agent.env[0] = env;
	agent.env[1] = ticket;
	return agent_start(&agent);
}

static bool start_again(const char *path, bool is_reboot, int *n_killed)
{
	EQ(agent_kill(&agent, SIGKILL), -SIGKILL);
	*n_killed += access(path, F_OK) != 0;
	agent.env[0] = agent.env[1] = NULL;
	if (is_reboot)
		unlink(agent.segment);
	return ready();
}

/* The change is made by an agent that dies at @point, if the change has it. */
static void one_change(const struct state_object *object, size_t point,
		       bool is_publication, bool is_reboot, int *n_killed)
{
	char path[256];
	bool is_there;
	int ret;

	if (!OK(start_to_die(point, path)))
		return;
	ret = ask(is_publication ? object->publish : object->take, path);
	if (!OK(start_again(path, is_reboot, n_killed)))
		return;
	is_there = object->is_there();
	if (!OK(ret != 0 || is_there == is_publication) ||
	    !OK(is_there == has_file(object->file)) ||
	    !OK(!agent_logged(&agent, "event=state_refused"))) {
		NOTE("%s at %s: %d", object->file, points[point], ret);
		agent_show_log(&agent);
	}
	/* As it was to be, for the next one. */
	if (is_there != is_publication)
		EQ(is_publication ? object->publish() : object->take(), 0);
	stop(SIGTERM);
}

/* Hold a map, and live on.  Returns the answer. */
static int hold_on(const char *ticket, pid_t *ret_pid)
{
	int ends[2], ret = -EPIPE;

	EQ(pipe(ends), 0);
	fflush(stdout);
	*ret_pid = fork();
	if (*ret_pid == 0) {
		map = story_attach(&agent);
		close(open(ticket, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
		ret = map ? hold("h") : -EINVAL;
		if (write(ends[1], &ret, sizeof(ret)) == sizeof(ret))
			pause();
		_exit(0);
	}
	close(ends[1]);
	if (read(ends[0], &ret, sizeof(ret)) != sizeof(ret))
		ret = -EPIPE;
	close(ends[0]);
	return ret;
}

/* A held map takes the name of a kept one, which may wait for its device: the
 * one or the other is there. */
static void one_hold(size_t point, bool waits, bool is_reboot, int *n_killed)
{
	bool is_removal = strcmp(points[point], "state_removed") == 0 ||
			  strcmp(points[point], "state_forgotten") == 0;
	bool is_held, is_kept;
	char path[256];
	pid_t holder;
	int ret;

	if (!OK(ready()))
		return;
	EQ(publish("h", "0:3;1:2"), 0);
	stop(SIGTERM);
	if (waits) {
		unlink(agent.segment);
		agent_configure(&agent, ROWS1);
	}
	if (!OK(start_to_die(point, path)))
		return;
	ret = hold_on(path, &holder);
	OK(start_again(path, is_reboot, n_killed));
	is_held = (look("h").layers.flags & GPUMAP_LAYERS_HELD) != 0;
	OK(!is_reboot || !is_held);
	OK(ret != 0 || is_held || is_reboot);
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	stop(SIGTERM);
	if (waits) {
		unlink(agent.segment);
		agent_configure(&agent, ROWS2);
	}
	if (!OK(ready()))
		return;
	is_kept = says("h", "0:3;1:2");
	/* One that was shown may have taken the name, and end with the
	 * machine. */
	if (!OK(ret == 0 || is_held ? !is_kept
				    : is_kept || (is_reboot && is_removal))) {
		NOTE("held at %s: %d, %d, %d", points[point], ret, waits,
		     is_reboot);
		agent_show_log(&agent);
	}
	if (is_kept)
		EQ(gpumap_layers_release(map, "h"), 0);
	OK(!has_file("h.layers.replaced"));
	stop(SIGTERM);
}

TAP_CASE()
{
	int n_killed = 0, n_held = 0;

	if (!tap_has_points()) {
		SKIP(1, "needs --enable-testpoints");
		return tap_done();
	}
	agent_make(&agent, ROWS2);
	for (size_t i = 0; i < STATE_OBJECTS; i++) {
		for (size_t point = 0; point < POINTS; point++) {
			for (int step = 0; step < 2; step++)
				one_change(&state_objects[i], point, step == 0,
					   (i + point) % 2 == 0, &n_killed);
		}
	}
	NOTE("%d changes were cut", n_killed);
	OK(n_killed >= 60);
	for (size_t point = WRITTEN; point < POINTS; point++) {
		one_hold(point, true, false, &n_held);
		one_hold(point, false, true, &n_held);
	}
	NOTE("%d changes to a held map were cut", n_held);
	OK(n_held >= 12);
	agent_remove(&agent);
	return tap_done();
}
