/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl wait: before the agent, while it starts, also after one that
 * was killed, while a row's worker is being started, and for a user whom the
 * agent does not let ask.  A scatter that begins then has every row, and so has
 * the loop of gpumap(3) that goes on after the agent's death.
 */

#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/support/ctl.h"

#define CONFIG "[host]\nrows = 2\n[socket]\nmode = 0600\n"

static void it_waits_for_an_agent_to_come(void)
{
	json_t *json;

	EQ(CTL("wait", "--timeout", "0"), NO_AGENT);
	OK(complains("start gpumapd, or name another instance"));
	agent_spawn(&agent, NULL);
	EQ(CTL("wait", "--timeout", "60"), DONE);
	EQ((intmax_t)(strlen(out) + strlen(err)), 0);
	EQ(CTL("sessions"), DONE);
	EQ(CTL("wait", "--json"), DONE);
	json = object();
	OK(has_fields(json, "instance state epoch agent_pid"));
	STR(text(json, "state"), "READY");
	EQ(number(json, "epoch"), 1);
	EQ(number(json, "agent_pid"), agent.pid);
	json_decref(json);
	EQ(CTL("wait", "--timeout", "soon"), USAGE);
	OK(complains("--timeout: \"soon\" is not a number that fits"));
	EQ(CTL("wait", "for"), USAGE);
}

static void who_may_not_ask_is_told(void)
{
	if (!ctl_as_another(6))
		return;
	EQ(CTL("wait"), FAILED);
	OK(complains("this user may not open ") &&
	   complains("add it to the group (usermod -aG "));
	EQ(CTL("who"), FAILED);
	OK(prints("reserved") && strstr(err, "memory of sessions is not "
					     "listed: this user may not open"));
	EQ(CTL("who", "--json"), FAILED);
	OK(prints("\"usage\":null"));
	user = 0;
}

/* Start the agent, and hold it when it has adopted the map. */
static bool start_to_adoption(void)
{
	siginfo_t info = { .si_pid = 0 };

	agent.env[0] = "GM_POINT=adopt_epoch:stop";
	agent_spawn(&agent, NULL);
	agent.env[0] = NULL;
	return waitid(P_PID, (id_t)agent.pid, &info,
		      WSTOPPED | WEXITED | WNOWAIT) == 0 &&
	       info.si_code == CLD_STOPPED;
}

static void a_killed_agents_map_is_not_ready(void)
{
	json_t *json;

	if (!tap_has_points()) {
		SKIP(8, "needs --enable-testpoints");
		return;
	}
	EQ(CTL("status"), DONE);
	agent_kill(&agent, SIGKILL);
	if (!OK(start_to_adoption()))
		return;
	EQ(CTL("status", "--json"), UNWELL);
	json = object();
	STR(text(json, "state"), "STARTING");
	json_decref(json);
	EQ(CTL("wait", "--timeout", "0"), UNWELL);
	OK(complains("the agent does not serve after 0 s: its map is "
		     "STARTING"));
	kill(agent.pid, SIGCONT);
	EQ(CTL("wait", "--timeout", "60"), DONE);
	EQ(CTL("sessions"), DONE);
}

static void one_that_is_gone_is_waited_for(void)
{
	agent_kill(&agent, SIGTERM);
	EQ(CTL("wait", "--timeout", "0"), UNWELL);
	OK(complains("its map is DRAINING"));
	agent_spawn(&agent, NULL);
	EQ(CTL("wait", "--timeout", "60"), DONE);
	EQ(CTL("sessions"), DONE);
}

/* ---- rows ---------------------------------------------------------------- */

static char go[96];

/* A worker of row 1 that begins once the file is there, as one does that its
 * driver keeps waiting. */
static bool make_slow_worker(char ret_path[96])
{
	const char *worker = getenv("GPUMAP_WORKER");
	FILE *script;

	snprintf(go, sizeof(go), "%s/go", agent.dir);
	snprintf(ret_path, 96, "%s/worker", agent.dir);
	script = fopen(ret_path, "we");
	if (worker == NULL || script == NULL)
		return false;
	fprintf(script,
		"#!/bin/sh\n"
		"case \" $* \" in *' --row 1 '*)\n"
		"\twhile [ ! -e '%s' ]; do sleep 0.01; done ;;\n"
		"esac\n"
		"exec '%s' \"$@\"\n",
		go, worker);
	return fclose(script) == 0 && chmod(ret_path, 0755) == 0;
}

static void let_go(void)
{
	close(open(go, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

/* Let it begin once the caller has had the time to begin its wait: without one
 * it would not see the row. */
static pid_t let_go_later(void)
{
	const struct timespec while_ns = { .tv_nsec = 300000000 };
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	nanosleep(&while_ns, NULL);
	let_go();
	_exit(0);
}

static bool start_slowly(void)
{
	agent_kill(&agent, SIGKILL);
	unlink(go);
	return agent_start_until(&agent, "open");
}

static void a_row_that_starts_is_waited_for(void)
{
	pid_t helper;

	if (!OK(start_slowly()))
		return;
	EQ(CTL("status"), DONE);
	EQ(CTL("wait", "--timeout", "0"), UNWELL);
	OK(complains("after 0 s: the worker of row "));
	helper = let_go_later();
	EQ(CTL("wait", "--timeout", "60"), DONE);
	EQ(CTL("scatter", "--bytes", "1M"), DONE);
	OK(prints("over 2 rows"));
	EQ(waitpid(helper, NULL, 0), helper);
	/* Without one a scatter waits by itself. */
	if (!OK(start_slowly()))
		return;
	helper = let_go_later();
	EQ(CTL("scatter", "--bytes", "1M"), DONE);
	OK(prints("over 2 rows"));
	EQ(waitpid(helper, NULL, 0), helper);
}

/* ---- a program that goes on ---------------------------------------------- */

/* The client with gpumap(3)'s loop; it scatters when it begins, and for each
 * line that it is sent. */
static struct {
	pid_t pid;
	FILE *to, *from;
} client;

static bool client_begin(void)
{
	const char *build = getenv("abs_top_builddir");
	char path[512];
	int in[2], back[2];

	snprintf(path, sizeof(path), "%s/tests/support/restart_client",
		 build != NULL ? build : ".");
	if (pipe2(in, O_CLOEXEC) != 0 || pipe2(back, O_CLOEXEC) != 0)
		return false;
	client.pid = fork();
	if (client.pid == 0) {
		dup2(in[0], STDIN_FILENO);
		dup2(back[1], STDOUT_FILENO);
		execl(path, path, agent.instance, agent.dir, NULL);
		_exit(96);
	}
	close(in[0]);
	close(back[1]);
	client.to = fdopen(in[1], "we");
	client.from = fdopen(back[0], "re");
	return client.pid > 0 && client.to != NULL && client.from != NULL;
}

/* The next line that it says. */
static const char *client_says(void)
{
	static char line[200];

	if (fgets(line, sizeof(line), client.from) == NULL)
		return "nothing";
	return line;
}

static void client_ask(void)
{
	fputc('\n', client.to);
	fflush(client.to);
}

static void a_program_goes_on_with_the_next_agent(void)
{
	int status = -1;

	if (!OK(client_begin()))
		return;
	STR(client_says(), "2 tiles: success\n");
	if (!OK(start_slowly()))
		return;
	client_ask();
	let_go();
	STR(client_says(), "2 tiles: success\n");
	/* Another map has the name. */
	agent_kill(&agent, SIGTERM);
	EQ(agent_run(&agent, "--remove"), 0);
	client_ask();
	agent_spawn(&agent, NULL);
	STR(client_says(), "2 tiles: success\n");
	fclose(client.to);
	EQ(waitpid(client.pid, &status, 0), client.pid);
	EQ(status, 0);
	fclose(client.from);
}

TAP_CASE()
{
	char worker[96];

	agent_make(&agent, CONFIG);
	it_waits_for_an_agent_to_come();
	who_may_not_ask_is_told();
	a_killed_agents_map_is_not_ready();
	one_that_is_gone_is_waited_for();
	if (OK(make_slow_worker(worker))) {
		agent.worker = worker;
		a_row_that_starts_is_waited_for();
		a_program_goes_on_with_the_next_agent();
	}
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
