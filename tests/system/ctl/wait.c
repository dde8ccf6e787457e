/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl wait: before the agent, while it starts, also after one that
 * was killed, and for a user whom the agent does not let ask.
 */

#include <signal.h>

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
	   complains("add the user to its group (usermod -aG "));
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

TAP_CASE()
{
	agent_make(&agent, CONFIG);
	it_waits_for_an_agent_to_come();
	who_may_not_ask_is_told();
	a_killed_agents_map_is_not_ready();
	one_that_is_gone_is_waited_for();
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
