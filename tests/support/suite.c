/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * suite - main() of a binary of tests.  Its cases are the files that were
 * linked in, each under the name of its file:
 *
 *	SUITE			run every case, each as a TAP subtest
 *	SUITE --list		print their names, one per line
 *	SUITE --case NAME [ARGUMENT...]
 *				run this one
 *
 * Each case runs in a process of its own.  One that has not ended after
 * TAP_LIMIT seconds (900) is killed, and named.  Processes that a case leaves
 * behind, in whatever session or process group, are killed at its end: the
 * suite is the reaper of their orphans.  The umask is 022, and no signal but
 * SIGHUP is ignored.
 *
 * A case that executes /proc/self/exe comes back to itself with the arguments
 * that it gave: TAP_CASE in the environment names it.  Where the environment is
 * made anew, a link to the binary under the case's name does the same.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/tap.h"

#define LIMIT_S  900
#define NAME_MAX 64

static struct tap_case *cases;

/* In the order of their names, whatever the linker's is. */
void tap_add(struct tap_case *new_case)
{
	struct tap_case **at = &cases;

	while (*at != NULL && strcmp((*at)->file, new_case->file) < 0)
		at = &(*at)->next;
	new_case->next = *at;
	*at = new_case;
}

/* tests/unit/shm/seq.c is "seq". */
static const char *name_of(const struct tap_case *c, char ret_name[NAME_MAX])
{
	const char *slash = strrchr(c->file, '/');
	const char *base = slash != NULL ? slash + 1 : c->file;

	snprintf(ret_name, NAME_MAX, "%.*s", (int)strcspn(base, "."), base);
	return ret_name;
}

static const struct tap_case *find(const char *wanted)
{
	const struct tap_case *c = cases;
	char name[NAME_MAX];

	while (c != NULL && strcmp(name_of(c, name), wanted) != 0)
		c = c->next;
	return c;
}

static long limit_s(void)
{
	const char *text = getenv("TAP_LIMIT");
	long n = text != NULL ? strtol(text, NULL, 10) : 0;

	return n > 0 ? n : LIMIT_S;
}

static struct timespec in_limit(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += limit_s();
	return until;
}

/* Wait for the next SIGCHLD.  Returns false from @until on. */
static bool nap(const struct timespec *until, const sigset_t *child)
{
	struct timespec now, left;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec >= until->tv_sec)
		return false;
	left = (struct timespec){ .tv_sec = until->tv_sec - now.tv_sec };
	sigtimedwait(child, NULL, &left);
	return true;
}

static void kill_children(void)
{
	char path[64];
	FILE *list;
	int pid;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	list = fopen(path, "re");
	while (list != NULL && fscanf(list, "%d", &pid) == 1)
		kill(pid, SIGKILL);
	if (list != NULL)
		fclose(list);
}

/* Until there are no children: those of a child that ends become ours. */
static bool kill_descendants(const sigset_t *child)
{
	struct timespec until = in_limit();
	pid_t pid;

	do {
		kill_children();
		do
			pid = waitpid(-1, NULL, WNOHANG);
		while (pid > 0);
	} while (pid == 0 && nap(&until, child));
	return pid < 0;
}

/* Wait for the case, and for orphans that end before it.  Returns false where
 * its limit is up. */
static bool wait_for(pid_t pid, const sigset_t *child, int *ret_status)
{
	struct timespec until = in_limit();
	pid_t ended;

	do {
		do
			ended = waitpid(-1, ret_status, WNOHANG);
		while (ended > 0 && ended != pid);
	} while (ended == 0 && nap(&until, child));
	return ended == pid;
}

/* The status that a shell would show. */
static int end_of(const char *name, pid_t pid, const sigset_t *child)
{
	int status = 0;
	bool ended = wait_for(pid, child, &status);

	if (!kill_descendants(child))
		printf("Bail out! a process of %s cannot be killed\n", name);
	else if (!ended)
		printf("Bail out! %s has not ended after %ld s\n", name,
		       limit_s());
	else if (WIFEXITED(status))
		return WEXITSTATUS(status);
	else
		printf("Bail out! %s was ended by signal %d\n", name,
		       WTERMSIG(status));
	return ended && WIFSIGNALED(status) ? 128 + WTERMSIG(status) : 99;
}

/* As from a terminal, whatever has started the suite: a shell's background has
 * SIGINT ignored.  SIGHUP stays ignored, for nohup. */
static void be_ordinary(void)
{
	struct sigaction action;

	umask(022);
	for (int i = 1; i < NSIG; i++) {
		if (i != SIGHUP && sigaction(i, NULL, &action) == 0 &&
		    action.sa_handler == SIG_IGN)
			signal(i, SIG_DFL);
	}
}

/* In a process that ends with this one. */
static int run_case(const struct tap_case *c, int argc, char **argv)
{
	char name[NAME_MAX];
	sigset_t child, before;
	pid_t pid, parent = getpid();
	int status;

	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &before);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	setenv("TAP_CASE", name_of(c, name), 1);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sigprocmask(SIG_SETMASK, &before, NULL);
		if (getppid() != parent)
			_exit(99);
		be_ordinary();
		exit(c->run(argc, argv));
	}
	if (pid < 0) {
		printf("Bail out! fork: %s\n", strerror(errno));
		return 99;
	}
	status = end_of(name, pid, &child);
	fflush(stdout);
	return status;
}

/* Its lines are indented, as a subtest's are. */
static bool run_subtest(const struct tap_case *c, char **argv)
{
	char name[NAME_MAX], line[4096];
	bool starts = true;
	int ends[2], status;
	FILE *lines;
	pid_t pid;

	printf("# Subtest: %s\n", name_of(c, name));
	fflush(stdout);
	if (pipe(ends) < 0)
		return false;
	pid = fork();
	if (pid == 0) {
		char *own[] = { argv[0], NULL };

		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		exit(run_case(c, 1, own));
	}
	close(ends[1]);
	lines = fdopen(ends[0], "r");
	while (lines != NULL && fgets(line, sizeof(line), lines) != NULL) {
		printf("%s%s", starts ? "    " : "", line);
		starts = line[strlen(line) - 1] == '\n';
	}
	if (lines != NULL)
		fclose(lines);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static int run_all(char **argv)
{
	char name[NAME_MAX];
	int n = 0, failures = 0;

	for (const struct tap_case *c = cases; c != NULL; c = c->next) {
		bool pass = run_subtest(c, argv);

		printf("%sok %d - %s\n", pass ? "" : "not ", ++n,
		       name_of(c, name));
		fflush(stdout);
		failures += !pass;
	}
	printf("1..%d\n", n);
	return failures != 0;
}

static int list(void)
{
	char name[NAME_MAX];

	for (const struct tap_case *c = cases; c != NULL; c = c->next)
		puts(name_of(c, name));
	return 0;
}

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	const char *again = getenv("TAP_CASE");
	const struct tap_case *c;

	if (again == NULL)
		again = slash != NULL ? slash + 1 : argv[0];
	c = find(again);
	if (c != NULL)
		return c->run(argc, argv);
	if (argc == 1)
		return run_all(argv);
	if (argc == 2 && strcmp(argv[1], "--list") == 0)
		return list();
	if (argc < 3 || strcmp(argv[1], "--case") != 0) {
		fprintf(stderr,
			"usage: %s [--list | --case NAME [ARGUMENT...]]\n",
			argv[0]);
		return 2;
	}
	c = find(argv[2]);
	if (c == NULL) {
		fprintf(stderr, "%s: no case %s; --list names them\n", argv[0],
			argv[2]);
		return 2;
	}
	argv[2] = argv[0];
	return run_case(c, argc - 2, argv + 2);
}
