/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumapd under a service manager, which this test plays: what it is told and
 * when, and the socket that it passes, on which clients may have come before
 * the agent.
 */

#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "shm/layout.h"
#include "tests/support/story.h"

#define PASSED_FD 3

static struct agent agent;
static char socket_path[128], notify[160], states[4096];
static int notified = -1;

/* ---- the manager's side -------------------------------------------------- */

static struct sockaddr_un address(const char *path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	return at;
}

static int bound(int type, const char *path)
{
	struct sockaddr_un at = address(path);
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	unlink(path);
	if (OK(fd >= 0))
		EQ(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static bool has_state(const char *state)
{
	return strstr(states, state) != NULL;
}

/* Add the states that come to @states, a line each, until one is @state. */
static bool hear(const char *state)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (!has_state(state) && story_now() < until) {
		struct pollfd ready = { .fd = notified, .events = POLLIN };
		size_t n = strlen(states);
		ssize_t got;

		if (poll(&ready, 1, 100) != 1 || n + 300 > sizeof(states))
			continue;
		got = recv(notified, states + n, 256, MSG_DONTWAIT);
		if (got > 0)
			memcpy(states + n + got, "\n", 2);
	}
	return has_state(state);
}

/* A manager knows the process's pid only when it is there. */
static void start_by_script(void)
{
	char path[160];
	FILE *script;

	snprintf(path, sizeof(path), "%s/start", agent.dir);
	script = fopen(path, "we");
	if (!OK(script != NULL))
		return;
	fprintf(script,
		"#!/bin/sh\n"
		"LISTEN_PID=$$ WATCHDOG_PID=$$ exec '%s' \"$@\"\n",
		getenv("GPUMAPD"));
	fclose(script);
	EQ(chmod(path, 0700), 0);
	setenv("GPUMAPD", path, 1);
}

/* For the next starts. */
static void set(const char *first, const char *second)
{
	agent.env[0] = first;
	agent.env[1] = second;
	agent.env[2] = NULL;
}

static void pass(int fd)
{
	if (fd == PASSED_FD) {
		EQ(fcntl(fd, F_SETFD, 0), 0);
		return;
	}
	EQ(dup2(fd, PASSED_FD), PASSED_FD);
	close(fd);
}

/* ---- states -------------------------------------------------------------- */

static void a_manager_is_told(void)
{
	set(notify, "WATCHDOG_USEC=1000000");
	if (!OK(agent_start(&agent)))
		return;
	OK(hear("READY=1\n"));
	OK(agent_logged(&agent, "event=ready"));
	OK(hear("STATUS=serving; 1 of 1 rows ready; 0 sessions\n"));
	OK(hear("WATCHDOG=1\n"));
	OK(!has_state("STOPPING=1"));
	/* And again, as long as it lives. */
	states[0] = '\0';
	OK(hear("WATCHDOG=1\n"));
	states[0] = '\0';
	OK(hear("WATCHDOG=1\n"));
	kill(agent.pid, SIGTERM);
	OK(hear("STOPPING=1\n"));
	EQ(agent_wait(&agent), 0);
	set(NULL, NULL);
}

/* One that does not go round its loop is not fed for. */
static void a_loop_that_stands_is_not_fed(void)
{
	set(notify, "WATCHDOG_USEC=1000000");
	if (!OK(agent_start(&agent)))
		return;
	OK(hear("READY=1\n"));
	OK(process_stop(agent.pid));
	while (recv(notified, states, sizeof(states), MSG_DONTWAIT) > 0)
		;
	story_nap(600000);
	EQ(recv(notified, states, sizeof(states), MSG_DONTWAIT), -1);
	kill(agent.pid, SIGCONT);
	states[0] = '\0';
	OK(hear("WATCHDOG=1\n"));
	kill(agent.pid, SIGTERM);
	EQ(agent_wait(&agent), 0);
	set(NULL, NULL);
}

static void wait_for_beats(const struct gm_header *header, int n)
{
	for (; n > 0; n--) {
		uint64_t last = gm_get(&header->heartbeat);

		STORY_WAIT_WHILE(gm_get(&header->heartbeat) == last);
	}
}

/* Other states may come. */
static bool is_fed(void)
{
	ssize_t n;

	states[0] = '\0';
	while ((n = recv(notified, states, sizeof(states) - 1, MSG_DONTWAIT)) >
	       0) {
		states[n] = '\0';
		if (has_state("WATCHDOG=1"))
			return true;
	}
	return false;
}

/* Twice is not at all. */
static void change(struct gm_header *header, int word)
{
	states[0] = '\0';
	if (word == 0)
		gm_put(&header->magic, gm_get(&header->magic) ^ 1);
	else if (word == 1)
		gm_put(&header->epoch, gm_get(&header->epoch) ^ 1);
	else
		gm_put(&header->agent_pid, gm_get(&header->agent_pid) ^ 1);
}

/* Its heart goes on beating, in a map that another process has written. */
static void a_map_of_another_is_not_fed_for(void)
{
	struct gm_header *header;
	int fd;

	set(notify, "WATCHDOG_USEC=1000000");
	if (!OK(agent_start(&agent)))
		return;
	OK(hear("READY=1\n"));
	fd = open(agent.segment, O_RDWR | O_CLOEXEC);
	header = mmap(NULL, sizeof(*header), PROT_READ | PROT_WRITE, MAP_SHARED,
		      fd, 0);
	close(fd);
	if (!OK(header != MAP_FAILED))
		return;
	for (int word = 0; word < 3; word++) {
		change(header, word);
		/* The beat that goes on now may have looked before. */
		wait_for_beats(header, 2);
		while (is_fed())
			;
		wait_for_beats(header, 2);
		OK(!is_fed());
		change(header, word);
		OK(hear("WATCHDOG=1\n"));
	}
	munmap(header, sizeof(*header));
	kill(agent.pid, SIGTERM);
	EQ(agent_wait(&agent), 0);
	set(NULL, NULL);
}

/* ---- the socket ---------------------------------------------------------- */

/* A client that attaches while there is no agent yet. */
static pid_t come_early(int *ret_result)
{
	int result[2];
	pid_t pid;

	if (!EQ(pipe2(result, O_CLOEXEC), 0))
		return -1;
	pid = fork();
	if (pid == 0) {
		struct gpumap_attach_opts opts = { .size = sizeof(opts),
						   .instance = agent.instance,
						   .runtime_dir = agent.dir };
		struct gpumap *map;
		int ret;

		close(PASSED_FD);
		ret = gpumap_attach(&opts, &map);
		_exit(write(result[1], &ret, sizeof(ret)) != sizeof(ret));
	}
	close(result[1]);
	*ret_result = result[0];
	return pid;
}

static void an_early_client_is_served(void)
{
	int result = -1, ret = 1;
	struct gpumap *map;
	struct stat st;
	pid_t client;

	pass(bound(SOCK_SEQPACKET, socket_path));
	EQ(listen(PASSED_FD, 16), 0);
	client = come_early(&result);
	set(notify, "LISTEN_FDS=1");
	if (!OK(agent_start(&agent)))
		return;
	OK(read(result, &ret, sizeof(ret)) == sizeof(ret));
	EQ(ret, 0);
	waitpid(client, NULL, 0);
	close(result);
	kill(agent.pid, SIGTERM);
	EQ(agent_wait(&agent), 0);
	/* The socket is the manager's, and the next agent's. */
	EQ(stat(socket_path, &st), 0);
	if (OK(agent_start(&agent))) {
		map = story_attach(&agent);
		OK(map != NULL);
		gpumap_detach(map);
		kill(agent.pid, SIGTERM);
		EQ(agent_wait(&agent), 0);
	}
	close(PASSED_FD);
	unlink(socket_path);
	set(NULL, NULL);
}

static void refused(int fd, const char *passed, int status, const char *why)
{
	char number[32];

	snprintf(number, sizeof(number), "LISTEN_FDS=%s", passed);
	pass(fd);
	set(number, NULL);
	EQ(agent_run(&agent, NULL), status);
	if (!OK(agent_logged(&agent, why)))
		agent_show_log(&agent);
	close(PASSED_FD);
	set(NULL, NULL);
}

static void another_socket_is_refused(void)
{
	char path[160];
	int fd;

	snprintf(path, sizeof(path), "%s/elsewhere.sock", agent.dir);
	fd = bound(SOCK_SEQPACKET, path);
	EQ(listen(fd, 1), 0);
	refused(fd, "1", 1, "clients look for");
	fd = bound(SOCK_SEQPACKET, path);
	refused(fd, "1", 2, "is no listening SOCK_SEQPACKET socket");
	fd = bound(SOCK_STREAM, path);
	EQ(listen(fd, 1), 0);
	refused(fd, "1", 2, "is no listening SOCK_SEQPACKET socket");
	refused(open("/dev/null", O_RDONLY | O_CLOEXEC), "1", 2,
		"is no listening SOCK_SEQPACKET socket");
	unlink(path);
}

static void a_second_socket_is_refused(void)
{
	int other = fcntl(PASSED_FD + 1, F_DUPFD_CLOEXEC, PASSED_FD + 2);
	int fd = bound(SOCK_SEQPACKET, socket_path);

	EQ(listen(fd, 1), 0);
	EQ(dup2(fd, PASSED_FD + 1), PASSED_FD + 1);
	refused(fd, "2", 2, "passed a second socket");
	close(PASSED_FD + 1);
	if (other >= 0) {
		EQ(dup3(other, PASSED_FD + 1, O_CLOEXEC), PASSED_FD + 1);
		close(other);
	}
	unlink(socket_path);
}

TAP_CASE()
{
	char path[128];

	agent_make(&agent, "[host]\nrows = 1\n");
	start_by_script();
	snprintf(socket_path, sizeof(socket_path), "%s/%s.sock", agent.dir,
		 agent.instance);
	snprintf(path, sizeof(path), "%s/notify", agent.dir);
	snprintf(notify, sizeof(notify), "NOTIFY_SOCKET=%s", path);
	notified = bound(SOCK_DGRAM, path);

	a_manager_is_told();
	states[0] = '\0';
	a_loop_that_stands_is_not_fed();
	a_map_of_another_is_not_fed_for();
	an_early_client_is_served();
	another_socket_is_refused();
	a_second_socket_is_refused();

	close(notified);
	unlink(path);
	agent_remove(&agent);
	return tap_done();
}
