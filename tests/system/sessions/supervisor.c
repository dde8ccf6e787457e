/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* gpumap-fdstore: how its command is started, started again, and ended.
 * tests/system/sharing/restart.c has what is kept of gpumapd. */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/story.h"
#include "tests/support/tap.h"

static char path[64]; /* of a file to which the command writes */
static const char *most = "7";

/* Run it with the shell as the command. */
static pid_t start(const char *script)
{
	const char *program = getenv("GPUMAP_FDSTORE");
	pid_t pid;

	if (!program) {
		printf("Bail out! run me by make check: no GPUMAP_FDSTORE\n");
		exit(99);
	}
	unlink(path);
	setenv("OUT", path, 1);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!freopen("/dev/null", "w", stderr))
			_exit(98);
		execl(program, program, "--delay", "0", "--max", most, "--",
		      "sh", "-c", script, NULL);
		_exit(97);
	}
	return pid;
}

static int end_of(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* The lines that the command has written; wait for so many. */
static int lines(int n, char ret_last[256])
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int has;

	do {
		FILE *file = fopen(path, "re");

		for (has = 0; file && fgets(ret_last, 256, file); has++)
			ret_last[strcspn(ret_last, "\n")] = '\0';
		if (file)
			fclose(file);
		if (has < n)
			story_nap(2000);
	} while (has < n && story_now() < until);
	return has;
}

static void a_command_is_started_again(void)
{
	char last[256];
	pid_t pid = start("echo $$ >>$OUT; n=$(wc -l <$OUT); "
			  "[ $n = 1 ] && exit 0; [ $n = 2 ] && exit 1; "
			  "[ $n = 3 ] && kill -9 $$; exec sleep 1000");

	EQ(lines(4, last), 4);
	kill(pid, SIGTERM);
	EQ(end_of(pid), 128 + SIGTERM);
}

static void it_ends_with_the_commands_status(void)
{
	char last[256];
	pid_t pid = start("trap 'exit 5' TERM; echo 1 >>$OUT; "
			  "while :; do sleep 0.01; done");

	EQ(lines(1, last), 1);
	kill(pid, SIGTERM);
	EQ(end_of(pid), 5);
	/* A wrong configuration would be so the next time. */
	pid = start("echo 1 >>$OUT; exit 2");
	EQ(end_of(pid), 2);
	EQ(lines(1, last), 1);
}

static void a_hang_up_is_a_restart(void)
{
	char first[256], last[256];
	pid_t pid = start("echo $$ >>$OUT; exec sleep 1000");

	EQ(lines(1, first), 1);
	kill(pid, SIGHUP);
	EQ(lines(2, last), 2);
	OK(strcmp(first, last) != 0);
	OK(!story_lives((pid_t)atoi(first)));
	kill(pid, SIGINT);
	EQ(end_of(pid), 128 + SIGTERM);
}

static void the_command_ends_with_it(void)
{
	char last[256];
	pid_t pid = start("echo $$ >>$OUT; exec sleep 1000"), command;

	EQ(lines(1, last), 1);
	command = (pid_t)atoi(last);
	kill(pid, SIGKILL);
	EQ(end_of(pid), -SIGKILL);
	STORY_WAIT_WHILE(story_lives(command));
	OK(!story_lives(command));
}

/* $NOTIFY_SOCKET is in a folder that no other user enters, and goes with it. */
static void the_environment_is_as_said(void)
{
	char last[256], folder[256], *mode;
	pid_t pid = start("echo $LISTEN_FDS:$((LISTEN_PID - $$)):$FDSTORE:"
			  "${WATCHDOG_USEC-none}:"
			  "$(stat -c %a ${NOTIFY_SOCKET%/*}) "
			  "${NOTIFY_SOCKET%/*} >>$OUT; exec sleep 1000");

	EQ(lines(1, last), 1);
	mode = strchr(last, ' ');
	if (OK(mode)) {
		snprintf(folder, sizeof(folder), "%s", mode + 1);
		*mode = '\0';
		STR(last, "0:0:7:none:700");
		EQ(access(folder, F_OK), 0);
	}
	kill(pid, SIGTERM);
	EQ(end_of(pid), 128 + SIGTERM);
	EQ(access(folder, F_OK), -1);
}

/* Send a descriptor as the process with this pid does; root may. */
static bool store(int to, pid_t pid, const char *state, int fd)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int)) +
			   CMSG_SPACE(sizeof(struct ucred))];
	} control = { 0 };
	struct ucred as = { .pid = pid };
	struct iovec text = { (void *)(uintptr_t)state, strlen(state) };
	struct msghdr message = { .msg_iov = &text,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *part = CMSG_FIRSTHDR(&message);

	part->cmsg_level = SOL_SOCKET;
	part->cmsg_type = SCM_RIGHTS;
	part->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(part), &fd, sizeof(fd));
	part = CMSG_NXTHDR(&message, part);
	part->cmsg_level = SOL_SOCKET;
	part->cmsg_type = SCM_CREDENTIALS;
	part->cmsg_len = CMSG_LEN(sizeof(as));
	memcpy(CMSG_DATA(part), &as, sizeof(as));
	return sendmsg(to, &message, 0) > 0;
}

/* Names as long as they may be, and each file twice: one string of the
 * environment has 128 KiB, so 511 of 256 bytes fit, with its name. */
static void names_never_keep_the_next_one_from_starting(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char last[256], state[320], *socket_path;
	int to = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), sent = 0;
	pid_t pid, command;

	if (geteuid() != 0) {
		SKIP(1, "to send as another process needs root");
		return;
	}
	most = "600";
	pid = start("echo $$:$LISTEN_FDS:$NOTIFY_SOCKET >>$OUT; "
		    "exec sleep 1000");
	EQ(lines(1, last), 1);
	command = (pid_t)atoi(last);
	socket_path = strrchr(last, ':');
	if (!OK(socket_path))
		return;
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", socket_path + 1);
	EQ(connect(to, (const struct sockaddr *)&at, sizeof(at)), 0);
	for (int i = 0; i < 600; i++) {
		int fd = memfd_create("kept", MFD_CLOEXEC);

		snprintf(state, sizeof(state), "FDSTORE=1\nFDNAME=%0255d", i);
		sent += store(to, command, state, fd);
		sent += store(to, command, state, fd);
		close(fd);
	}
	EQ(sent, 1200);
	kill(command, SIGKILL);
	EQ(lines(2, last), 2);
	EQ(atoi(strchr(last, ':') + 1), 511);
	kill(pid, SIGTERM);
	EQ(end_of(pid), 128 + SIGTERM);
	close(to);
	most = "7";
}

static int run(const char *a, const char *b, const char *c)
{
	const char *program = getenv("GPUMAP_FDSTORE");
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (!freopen("/dev/null", "w", stderr) ||
		    !freopen("/dev/null", "w", stdout))
			_exit(98);
		execl(program, program, a, b, c, NULL);
		_exit(97);
	}
	return end_of(pid);
}

static void a_wrong_command_line_is_refused(void)
{
	EQ(run(NULL, NULL, NULL), 2);
	EQ(run("--max", "0", "true"), 2);
	EQ(run("--max", "4097", "true"), 2);
	EQ(run("--delay", "-1", "true"), 2);
	EQ(run("--delay", "1x", "true"), 2);
	EQ(run("--unknown", "true", NULL), 2);
	EQ(run("/does/not/exist", NULL, NULL), 2);
	EQ(run("--help", NULL, NULL), 0);
	EQ(run("--version", NULL, NULL), 0);
}

TAP_CASE()
{
	setenv("WATCHDOG_USEC", "1000000", 1);
	snprintf(path, sizeof(path), "/tmp/gpumap-supervisor-%d",
		 (int)getpid());
	a_command_is_started_again();
	it_ends_with_the_commands_status();
	a_hang_up_is_a_restart();
	the_command_ends_with_it();
	the_environment_is_as_said();
	names_never_keep_the_next_one_from_starting();
	a_wrong_command_line_is_refused();
	unlink(path);
	return tap_done();
}
