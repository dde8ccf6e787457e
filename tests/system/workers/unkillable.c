/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A worker that does not end, not even by SIGKILL, as one does that sleeps in a
 * driver: its row says so and refuses jobs with a reason, gpumapd starts no
 * other worker there, and the agent ends all the same.
 *
 * The worker is this program, and a tracer that stops it on its way out holds
 * it.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/common/wire.h"
#include "gpumap.h"
#include "tests/support/agent.h"
#include "tests/support/raw.h"
#include "tests/support/tap.h"

#define STEP_NS 10000000

static bool is_traced(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[128];
	int tracer = 0;

	while (file && fgets(line, sizeof(line), file) &&
	       sscanf(line, "TracerPid: %d", &tracer) != 1)
		;
	if (file)
		fclose(file);
	return tracer != 0;
}

/* Once it is held, say what no worker says: that is worth a SIGKILL. */
static int be_a_worker(void)
{
	const struct gm_wire nonsense = { .type = 4711 };

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	for (int i = 0; i < 2000 && !is_traced(); i++)
		raw_nap(STEP_NS);
	if (send(GM_FD_SUPERVISOR, &nonsense, sizeof(nonsense), 0) < 0)
		return 1;
	for (;;)
		pause();
}

/* The pid that the agent's log has, 0 if none comes. */
static pid_t find_worker(struct agent *a)
{
	char line[512];
	long pid = 0;
	FILE *log;

	if (!agent_wait_log(a, "event=worker_started"))
		return 0;
	log = fopen(a->log, "re");
	while (log && pid == 0 && fgets(line, sizeof(line), log)) {
		const char *at = strstr(line, " pid=");

		if (strstr(line, "event=worker_started") && at)
			pid = strtol(at + 5, NULL, 10);
	}
	if (log)
		fclose(log);
	return (pid_t)pid;
}

static void its_row_is_refused(const struct agent *a)
{
	char path[160];
	struct raw c;

	snprintf(path, sizeof(path), "%s/%s.sock", a->dir, a->instance);
	EQ(raw_open(&c, path), 0);
	EQ(raw_session(&c, 16, 0, 4096), 0);
	EQ(raw_queue(&c, 0), -ENODEV);
	OK(strstr(c.refusal, "does not end, not even by SIGKILL") != NULL);
	OK(strstr(c.refusal, "use another row") != NULL);
	OK(!raw_is_over(&c));
	raw_close(&c);
}

static void let_go(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status))
		ptrace(PTRACE_DETACH, pid, NULL, NULL);
}

static void a_worker_that_does_not_end_is_told_of(struct agent *a)
{
	pid_t pid = find_worker(a);

	if (!OK(pid > 0))
		return;
	if (ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACEEXIT) != 0) {
		SKIP(1, "this needs ptrace");
		return;
	}
	OK(agent_wait_log(a, "event=worker_killed"));
	if (OK(agent_wait_log(a, "event=worker_stuck")))
		its_row_is_refused(a);
	EQ(kill(a->pid, SIGTERM), 0);
	EQ(agent_wait(a), 0);
	let_go(pid);
}

TAP_CASE_ARGS(argc, argv)
{
	char self[512], link[600];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	struct agent a;

	(void)argv;
	if (argc > 1)
		return be_a_worker();
	if (!getenv("GM_ROUNDS")) {
		SKIP(1, "takes seven seconds: make check-torture");
		return tap_done();
	}
	if (!OK(n > 0))
		return tap_done();
	self[n] = '\0';
	agent_make(&a, "[agent]\ndrain = 1s\n");
	snprintf(link, sizeof(link), "%s/unkillable", a.dir);
	if (!EQ(symlink(self, link), 0))
		return tap_done();
	a.worker = link;
	if (OK(agent_start_until(&a, "open")))
		a_worker_that_does_not_end_is_told_of(&a);
	if (tap_failures)
		agent_show_log(&a);
	unlink(link);
	agent_remove(&a);
	return tap_done();
}
