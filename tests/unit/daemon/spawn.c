/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * spawn: a child that is of no use is not waited for, for it may sleep where no
 * signal reaches it; and none is left behind as a zombie.
 */

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include "agent/daemon/base/spawn.h"
#include "tests/support/tap.h"
#include "tests/support/unkillable_child.h"

#define LIMIT_S 30

static char sleeper[] = "/bin/sleep", seconds[] = "1000";
static char *const quiet[] = { sleeper, seconds, NULL };
static char *const none[] = { NULL };

static bool begin(struct gm_spawned *ret_child)
{
	return EQ(gm_spawn(quiet, none, -1, -1, ret_child), 0);
}

static void forget(const struct gm_spawned *child)
{
	close(child->pidfd);
	close(child->socket);
}

/* Does it run, or wait to be reaped? */
static bool is_there(const struct gm_spawned *child)
{
	return kill(child->pid, 0) == 0;
}

/* Is it reaped by those who come after it? */
static bool gets_reaped(const struct gm_spawned *child)
{
	struct timespec nap = { .tv_nsec = 10000000 };
	struct gm_spawned next;

	for (time_t from = time(NULL); time(NULL) - from < LIMIT_S;) {
		if (!begin(&next))
			return false;
		gm_spawn_undo(&next);
		forget(&next);
		if (!is_there(child))
			return true;
		nanosleep(&nap, NULL);
	}
	return false;
}

static void undone_child_is_reaped(void)
{
	struct gm_spawned child;

	if (!begin(&child))
		return;
	OK(is_there(&child));
	gm_spawn_undo(&child);
	OK(gets_reaped(&child));
	forget(&child);
}

/* No other process has to be started for that. */
static void tidying_reaps_it(void)
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	struct gm_spawned child;

	if (!begin(&child))
		return;
	gm_spawn_undo(&child);
	for (int i = 0; i < 30000 && is_there(&child); i++) {
		gm_spawn_tidy();
		nanosleep(&nap, NULL);
	}
	OK(!is_there(&child));
	forget(&child);
}

static void one_that_does_not_die_holds_up_nobody(void)
{
	struct gm_spawned child;
	pid_t tracer;
	int held;

	if (!begin(&child))
		return;
	held = hold(child.pid, &tracer);
	if (held < 0) {
		SKIP(1, "this needs ptrace");
		gm_spawn_undo(&child);
		forget(&child);
		return;
	}
	alarm(LIMIT_S); /* a wait for it would not end */
	gm_spawn_undo(&child);
	OK(is_there(&child));
	alarm(0);
	close(held);
	waitpid(tracer, NULL, 0);
	OK(gets_reaped(&child));
	forget(&child);
}

/* Leave no zero where the next function has its variables. */
static void __attribute__((noinline)) litter_stack(void)
{
	volatile char litter[16384];

	for (size_t i = 0; i < sizeof(litter); i++)
		litter[i] = (char)0xff;
}

/* The text that the child sends. */
static void hear(const struct gm_spawned *child, char text[256])
{
	struct pollfd p = { .fd = child->socket, .events = POLLIN };
	ssize_t n = -1;

	if (poll(&p, 1, LIMIT_S * 1000) == 1)
		n = recv(child->socket, text, 255, 0);
	text[n > 0 ? n : 0] = '\0';
}

/* Whatever this process does with its signals. */
static void no_signal_is_blocked_or_ignored(void)
{
	static char shell[] = "/bin/sh", flag[] = "-c";
	static char script[] =
		"exec grep -E '^Sig(Blk|Ign)' /proc/self/status >&3";
	static char *const reports[] = { shell, flag, script, NULL };
	sigset_t all, before;
	uint64_t blocked = 1, ignored = 1;
	struct gm_spawned child;
	char text[256];

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	signal(SIGPIPE, SIG_IGN);
	litter_stack();
	if (EQ(gm_spawn(reports, none, -1, -1, &child), 0)) {
		hear(&child, text);
		/* The C library ignores its own two signals, 32 and 33. */
		EQ(sscanf(text, "SigBlk: %" SCNx64 " SigIgn: %" SCNx64,
			  &blocked, &ignored),
		   2);
		EQ(blocked, 0);
		EQ(ignored & ~(UINT64_C(3) << 31), 0);
		gm_spawn_undo(&child);
		forget(&child);
	}
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

static void a_memfd_that_fails_leaves_no_descriptor(void)
{
	int before = gm_spawn_memfd("test-spawn", 4096), after;

	OK(before >= 0);
	close(before);
	EQ(gm_spawn_memfd("test-spawn", UINT64_MAX), -EINVAL);
	after = gm_spawn_memfd("test-spawn", 4096);
	EQ(after, before);
	close(after);
}

static int threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int n = 0;

	while (tasks != NULL && readdir(tasks) != NULL)
		n++;
	if (tasks != NULL)
		closedir(tasks);
	return n - 2; /* . and .. */
}

/* The loop is told of the end; the kernel, which may take long to clear up
 * behind a process that others look at, has a thread of its own for that. */
static void a_thread_reaps(void)
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	struct gm_spawned child;
	char how[64] = "";
	int status = 0;

	if (!begin(&child))
		return;
	EQ(gm_spawn_reap(&child, how, &status), 0);
	kill(child.pid, SIGKILL);
	for (int i = 0; i < 30000 && !gm_spawn_reap(&child, how, &status); i++)
		nanosleep(&nap, NULL);
	STR(how, "killed by SIGKILL");
	EQ(status, -1);
	EQ(threads(), 2);
	for (int i = 0; i < 30000 && is_there(&child); i++)
		nanosleep(&nap, NULL);
	OK(!is_there(&child));
	forget(&child);
}

/* The dynamic linker, as shells do, ends with status 127 what it cannot
 * load. */
static void a_missing_library_is_said(void)
{
	static char shell[] = "/bin/sh", option[] = "-c";
	static char ends[] = "exit 127", differs[] = "exit 3";
	char *const lacks[] = { shell, option, ends, NULL };
	char *const other[] = { shell, option, differs, NULL };
	const struct timespec nap = { .tv_nsec = 1000000 };
	struct gm_spawned child;
	char how[64] = "";
	int status = 0;

	if (EQ(gm_spawn(lacks, none, -1, -1, &child), 0)) {
		while (!gm_spawn_reap(&child, how, &status))
			nanosleep(&nap, NULL);
		STR(how, "exited with status 127: ldd shows which library it "
			 "lacks");
		EQ(status, 127);
		forget(&child);
	}
	if (EQ(gm_spawn(other, none, -1, -1, &child), 0)) {
		while (!gm_spawn_reap(&child, how, &status))
			nanosleep(&nap, NULL);
		STR(how, "exited with status 3");
		forget(&child);
	}
}

/* Both outputs of the child, a record for each write. */
static void a_child_is_heard(void)
{
	static char shell[] = "/bin/sh", c[] = "-c",
		    words[] = "echo one; echo two >&2";
	char *const speaks[] = { shell, c, words, NULL };
	struct timespec nap = { .tv_nsec = 1000000 };
	char text[256] = "", how[64];
	struct gm_spawned child;
	int status = -1;

	if (!EQ(gm_spawn_heard(speaks, none, &child), 0))
		return;
	while (!gm_spawn_reap(&child, how, &status))
		nanosleep(&nap, NULL);
	EQ(recv(child.socket, text, sizeof(text), 0), 4);
	EQ(memcmp(text, "one\n", 4), 0);
	EQ(recv(child.socket, text, sizeof(text), 0), 4);
	EQ(memcmp(text, "two\n", 4), 0);
	forget(&child);
}

TAP_CASE()
{
	EQ(threads(), 1);
	a_thread_reaps();
	undone_child_is_reaped();
	tidying_reaps_it();
	one_that_does_not_die_holds_up_nobody();
	no_signal_is_blocked_or_ignored();
	a_memfd_that_fails_leaves_no_descriptor();
	a_missing_library_is_said();
	a_child_is_heard();
	return tap_done();
}
