/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * An agent is killed at each instant of a change of each kind that has files:
 * the next agent has what a client was told of, and else all or nothing of the
 * change, on the segment as after a reboot.
 */

#include "tests/support/state_objects.h"

static const char *const points[] = {
	"publish_reserved", "publish_filled", "state_created",
	"state_written",    "state_synced",   "state_renamed",
	"state_lasting",    "publish_key",    "publish_visible",
	"control_replied",  "state_removed",  "state_forgotten",
};

#define POINTS (sizeof(points) / sizeof(points[0]))

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

/* The change is made by an agent that dies at @point, if the change has it. */
static void one_change(const struct state_object *object, size_t point,
		       bool is_publication, bool is_reboot, int *n_killed)
{
	static char env[64], ticket[320];
	char path[256];
	int ret, status;
	bool is_there;

	path_of("ticket", path);
	unlink(path);
	snprintf(env, sizeof(env), "GM_POINT=%s:kill", points[point]);
	snprintf(ticket, sizeof(ticket), "GM_POINT_TICKET=%s", path);
	agent.env[0] = env;
	agent.env[1] = ticket;
	if (!OK(agent_start(&agent)))
		return;
	ret = ask(is_publication ? object->publish : object->take, path);
	status = agent_kill(&agent, SIGKILL);
	*n_killed += access(path, F_OK) != 0;
	EQ(status, -SIGKILL);
	agent.env[0] = agent.env[1] = NULL;
	if (is_reboot)
		unlink(agent.segment);
	if (!OK(ready()))
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

TAP_CASE()
{
	int n_killed = 0;

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
	agent_remove(&agent);
	return tap_done();
}
