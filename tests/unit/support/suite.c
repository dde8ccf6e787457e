/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The suite ends the processes that a case leaves behind, and hides from a case
 * how the suite was called.  The cases are this file again, in a suite of their
 * own, with their output in a pipe: its end comes when no process holds the
 * pipe.
 */

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/tap.h"

#define LIMIT_MS 60000 /* against hanging */

/* A child in a session of its own, whose parent ends before it.  Prints the
 * child's pid. */
static void leave_an_orphan(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setsid();
		pid = fork();
		if (pid == 0) {
			while (true)
				pause();
		}
		_exit(dprintf(STDOUT_FILENO, "left %d\n", (int)pid) < 0);
	}
	waitpid(pid, NULL, 0);
}

/* The test has started the suite with another umask, and ignores SIGINT. */
static bool is_ordinary(void)
{
	struct sigaction action;

	return umask(0) == 022 && sigaction(SIGINT, NULL, &action) == 0 &&
	       action.sa_handler == SIG_DFL;
}

static int play(const char *part)
{
	leave_an_orphan();
	if (strcmp(part, "passes") == 0)
		return is_ordinary() ? 0 : 4;
	if (strcmp(part, "is killed") == 0)
		raise(SIGKILL);
	while (strcmp(part, "hangs") == 0)
		pause();
	return strcmp(part, "fails") == 0 ? 3 : 0;
}

struct heard {
	char text[512];
	bool ended; /* no process holds the pipe any more */
	pid_t left;
	int status;
};

static struct heard hear(int fd)
{
	struct pollfd end = { .fd = fd, .events = POLLIN };
	struct heard heard = { .ended = false };
	size_t used = 0;
	ssize_t n = 1;

	while (n > 0 && used < sizeof(heard.text) - 1 &&
	       poll(&end, 1, LIMIT_MS) == 1) {
		n = read(fd, heard.text + used, sizeof(heard.text) - 1 - used);
		used += n > 0 ? (size_t)n : 0;
	}
	heard.ended = n == 0;
	return heard;
}

static struct heard run_part(const char *part)
{
	struct heard heard = { .status = -1 };
	const char *left;
	int ends[2];
	pid_t pid;

	if (!OK(pipe2(ends, O_CLOEXEC) == 0))
		return heard;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		dup2(ends[1], STDOUT_FILENO);
		umask(077);
		signal(SIGINT, SIG_IGN);
		unsetenv("TAP_CASE");
		setenv("TAP_LIMIT", strcmp(part, "hangs") == 0 ? "1" : "900",
		       1);
		execl("/proc/self/exe", "parts", "--case", "suite", part,
		      (char *)NULL);
		_exit(98);
	}
	close(ends[1]);
	heard = hear(ends[0]);
	close(ends[0]);
	waitpid(pid, &heard.status, 0);
	left = strstr(heard.text, "left ");
	heard.left = left != NULL ? atoi(left + 5) : 0;
	return heard;
}

static void dies_with(const char *part, int status, const char *says)
{
	struct heard heard = run_part(part);

	NOTE("a case that %s", part);
	OK(heard.ended);
	OK(heard.left == 0 || kill(heard.left, 0) != 0);
	EQ(WEXITSTATUS(heard.status), status);
	if (!OK(strstr(heard.text, says) != NULL))
		NOTE("printed: %s", heard.text);
	if (!heard.ended && heard.left > 0)
		kill(heard.left, SIGKILL);
}

TAP_CASE_ARGS(argc, argv)
{
	if (argc > 1)
		return play(argv[1]);
	dies_with("passes", 0, "left");
	dies_with("fails", 3, "left");
	dies_with("is killed", 128 + SIGKILL, "was ended by signal 9");
	dies_with("hangs", 99, "has not ended after 1 s");
	return tap_done();
}
