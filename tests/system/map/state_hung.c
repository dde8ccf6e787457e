/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks a disk that does not answer, such as that of a server that is away:
 * changes to be written wait for the disk up to their limit, and the end of the
 * agent does not.
 */

#include <poll.h>
#include <seccomp.h>

#include "tests/support/state_agent.h"

/* Processes started from here on wait for ever when they rename a file.
 * Returns a descriptor that is readable when one does, and lets it go when
 * closed. */
static int hang_renames(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int fd = -1;

	if (filter != NULL &&
	    seccomp_rule_add(filter, SCMP_ACT_NOTIFY, SCMP_SYS(renameat), 0) ==
		    0 &&
	    seccomp_rule_add(filter, SCMP_ACT_NOTIFY, SCMP_SYS(renameat2), 0) ==
		    0 &&
	    seccomp_load(filter) == 0)
		fd = seccomp_notify_fd(filter);
	seccomp_release(filter);
	return fd;
}

/* Publish a map in a child, whose exit status is the negative of the answer. */
static pid_t publish_by_another(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		map = story_attach(&agent);
		_exit(map ? -publish("late", "0:5") : 255);
	}
	return pid;
}

static void a_request_has_a_limit(int disk)
{
	struct pollfd writes = { .fd = disk, .events = POLLIN };
	struct gpumap_health health = { .size = sizeof(health) };
	struct gpumap_view view = { .n = 0 };
	uint64_t pin;

	EQ(gpumap_request_limit(map, 0), 0);
	EQ(publish("early", "0:5"), -ETIMEDOUT);
	OK(strstr(gpumap_refusal(map), "the agent runs") != NULL);
	EQ(poll(&writes, 1, AGENT_LIMIT_MS), 1);
	EQ(gpumap_health(map, &health), 0);
	EQ(health.stale, 0);
	/* The next request has a connection of its own, and its own answer. */
	EQ(gpumap_layers_pin(map, "early", &view, &pin), -ENOENT);
	OK(strstr(gpumap_refusal(map), "early") != NULL);
	EQ(gpumap_request_limit(map, GPUMAP_NO_DEADLINE), 0);
}

/* Also where requests have no limit. */
static void a_stopped_agent_holds_up_no_request(void)
{
	kill(agent.pid, SIGSTOP);
	EQ(publish("never", "0:5"), -ECONNRESET);
	EQ(gpumap_layers_release(map, "never"), -ECONNRESET);
	kill(agent.pid, SIGCONT);
}

static void the_end_comes(int disk)
{
	struct pollfd writes = { .fd = disk, .events = POLLIN };
	char path[160];
	int status = 0;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	pid = publish_by_another();
	EQ(poll(&writes, 1, AGENT_LIMIT_MS), 1);
	/* The agent serves other clients meanwhile, and has the next change
	 * wait for the one before it. */
	EQ(look("late").status, -ENOENT);
	gpumap_detach(map);
	map = NULL;
	EQ(agent_kill(&agent, SIGTERM), 1);
	OK(agent_logged(&agent, "event=io_thread_stuck thread=files for_s="));
	EQ(access(path, F_OK), -1);
	EQ(waitpid(pid, &status, 0), pid);
	/* Its request may have come after the signal. */
	OK(WIFEXITED(status) && (WEXITSTATUS(status) == ECONNRESET ||
				 WEXITSTATUS(status) == ESHUTDOWN));
}

TAP_CASE()
{
	int disk;

	agent_make(&agent, ROWS2 "[agent]\ndrain = 50ms\n");
	disk = hang_renames();
	if (disk < 0)
		SKIP(1, "no filter of system calls can be had");
	else if (OK(start())) {
		a_request_has_a_limit(disk);
		a_stopped_agent_holds_up_no_request();
		the_end_comes(disk);
		close(disk);
		OK(start());
		EQ(look("late").status, -ENOENT);
		EQ(agent_kill(&agent, SIGTERM), 0);
	}
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
