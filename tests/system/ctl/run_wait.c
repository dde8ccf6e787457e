/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl run --wait: commands get their turn as they stand in line,
 * say for whom they wait, and are shown by gpumapctl who; and what becomes of
 * them when they are killed or stopped, and when the agent ends.
 */

#include <signal.h>

#include <gpumap/plan.h>

#include "tests/support/run.h"

static struct gpumap *map;
static char cache[96];

/* Start a command that stays, which wants @size of row 1. */
static void start(struct run_job *job, const char *name, const char *size)
{
	RUN_START(job, "--cache-dir", cache, "--rows", "1", "--name", name,
		  "--reserve", size, "--wait", "600", "--", "sh", "-c",
		  "echo $$ runs; exec sleep 600");
}

/* Start one that is never ready on the host's row, which has a worker. */
#define START_GATED(job, name)                                              \
	RUN_START(job, "--cache-dir", cache, "--rows", "0", "--name", name, \
		  "--reserve", "1M", "--wait", "600", "--gate", "--", "sh", \
		  "-c", "echo $$ runs; exec sleep 600")

/* The one that holds more than half of the row. */
static struct run_job first;

static void begin(void)
{
	start(&first, "first", "800M");
	OK(run_printed(&first, first.out, "runs"));
}

static void end(struct run_job *job)
{
	if (job->pid > 0)
		kill(job->pid, SIGKILL);
	EQ(run_end(job), -SIGKILL);
}

/* ---- the line ------------------------------------------------------------ */

static void who_shows_it(const struct run_job *second,
			 const struct run_job *third)
{
	const json_t *wait;
	json_t *json;
	char pid[64];

	EQ(CTL("who", "--json"), DONE);
	json = object();
	wait = json_array_get(list(json, "waits", 2), 1);
	OK(has_fields(wait, "name uid pid bytes rows age_ns left_ns for_start "
			    "missing_bytes missing_row holders before user "
			    "command command_line"));
	STR(text(wait, "name"), "third");
	EQ(number(wait, "pid"), third->pid);
	EQ(number(wait, "bytes"), 100 << 20);
	EQ(json_integer_value(json_array_get(list(wait, "rows", 1), 0)), 1);
	OK(json_is_false(json_object_get(wait, "for_start")));
	STR(json_string_value(json_array_get(list(wait, "holders", 1), 0)),
	    "first");
	EQ(number(wait, "before"), 1);
	OK(strstr(text(wait, "command_line"), "--name third") != NULL);
	wait = json_array_get(json_object_get(json, "waits"), 0);
	STR(text(wait, "name"), "second");
	EQ(number(wait, "pid"), second->pid);
	EQ(number(wait, "before"), 0);
	EQ(number(wait, "missing_row"), 1);
	EQ(number(wait, "missing_bytes"), 776 << 20);
	json_decref(json);

	EQ(CTL("who"), DONE);
	snprintf(pid, sizeof(pid), "(sleep (pid %d) has 800 MiB)", first.pid);
	OK(prints("for whom") && prints(pid));
	snprintf(pid, sizeof(pid), "%d) has 800 MiB, 1 waits before)",
		 first.pid);
	OK(prints(pid));
}

static void it_is_told_for_whom(const struct run_job *second,
				const struct run_job *third)
{
	char want[128];

	snprintf(want, sizeof(want),
		 "gpumapctl: run: waiting for row 1: 1000 MiB; sleep (pid %d) "
		 "has 800 MiB\n",
		 first.pid);
	OK(run_printed(second, second->err, want));
	snprintf(want, sizeof(want),
		 "waiting for row 1: 100 MiB; sleep (pid %d) has 800 MiB, "
		 "1 waits before\n",
		 first.pid);
	OK(run_printed(third, third->err, want));
}

static void each_gets_its_turn(void)
{
	struct run_job second, third;

	begin();
	start(&second, "second", "1000M");
	OK(run_waiting(map, 1));
	/* There is room for it, but not beside the one before it. */
	start(&third, "third", "100M");
	OK(run_waiting(map, 2));
	EQ(CTL("run", "--cache-dir", cache, "--rows", "1", "--reserve", "100M",
	       "true"),
	   NOT_NOW);
	EQ(CTL("run", "--cache-dir", cache, "--rows", "1", "--reserve", "1M",
	       "true"),
	   0);
	EQ(CTL("run", "--cache-dir", cache, "--rows", "2", "--reserve", "1M",
	       "true"),
	   0);
	who_shows_it(&second, &third);
	it_is_told_for_whom(&second, &third);
	/* A command that is interrupted leaves its place. */
	kill(second.pid, SIGINT);
	EQ(run_end(&second), -SIGINT);
	OK(run_printed(&third, third.out, "runs"));
	start(&second, "second", "900M");
	OK(run_waiting(map, 1));
	end(&first);
	OK(run_printed(&second, second.out, "runs"));
	end(&second);
	end(&third);
	OK(run_all_gone(map));
}

static void waiting_ends(void)
{
	begin();
	EQ(CTL("run", "--cache-dir", cache, "--rows", "1", "--reserve", "500M",
	       "--wait", "1", "true"),
	   NOT_NOW);
	OK(out[0] == '\0' && strstr(err, "row 1") != NULL);
	EQ(CTL("run", "--cache-dir", cache, "--rows", "1", "--reserve", "2G",
	       "--wait", "600", "true"),
	   FAILED);
	end(&first);
	OK(run_all_gone(map));
}

static void an_administrator_drops_it(void)
{
	struct run_job second;

	begin();
	start(&second, "second", "500M");
	OK(run_waiting(map, 1));
	EQ(CTL("wait", "drop", "other"), FAILED);
	OK(strstr(err, "no request for other waits") != NULL);
	EQ(CTL("wait", "drop", "second"), DONE);
	STR(out, "second: dropped\n");
	OK(run_printed(&second, second.err, "waited, and was dropped"));
	EQ(run_end(&second), FAILED);
	end(&first);
	OK(run_all_gone(map));
}

static void a_stop_is_no_end(void)
{
	struct run_job second;

	begin();
	start(&second, "second", "500M");
	OK(run_waiting(map, 1));
	OK(process_stop(second.pid));
	kill(second.pid, SIGCONT);
	EQ(CTL("who"), DONE);
	OK(prints("second "));
	end(&first);
	OK(run_printed(&second, second.out, "runs"));
	end(&second);
	OK(run_all_gone(map));
}

/* ---- closed streams ------------------------------------------------------ */

static bool streams_are_nothing(const struct run_job *job)
{
	for (int fd = 0; fd < 3; fd++) {
		char path[64], target[64];
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", job->pid, fd);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		if (strcmp(target, "/dev/null") == 0)
			continue;
		NOTE("stream %d is %s", fd, target);
		return false;
	}
	return true;
}

/* Messages to a stream that the caller has closed reach neither the agent nor
 * any file, and the command's streams are closed. */
static void closed_streams_stay_closed(void)
{
	char script[256], file[128];
	struct run_job second;

	begin();
	snprintf(file, sizeof(file), "%s/open", agent.dir);
	snprintf(script, sizeof(script),
		 "for i in 0 1 2; do [ -e /proc/$$/fd/$i ] && n=\"$n $i\"; "
		 "done; echo open:$n. > %s; exec sleep 600",
		 file);
	run_start(&second,
		  (const char *const[]){ "env",
					 run_libraries,
					 "sh",
					 "-c",
					 "exec \"$0\" \"$@\" <&- >&- 2>&-",
					 run_program,
					 "--instance",
					 agent.instance,
					 "--runtime-dir",
					 agent.dir,
					 "run",
					 "--cache-dir",
					 cache,
					 "--rows",
					 "1",
					 "--reserve",
					 "500M",
					 "--wait",
					 "600",
					 "--gate",
					 "--",
					 "sh",
					 "-c",
					 script,
					 NULL });
	OK(run_waiting(map, 1));
	OK(streams_are_nothing(&second));
	end(&first);
	OK(run_printed(&second, file, "open:."));
	end(&second);
	unlink(file);
	EQ(run((const char *const[]){
		   "env", run_libraries, "sh", "-c", "exec \"$0\" \"$@\" >&-",
		   run_program, "--instance", agent.instance, "--runtime-dir",
		   agent.dir, "who", NULL }),
	   FAILED);
	OK(complains("cannot write: Bad file descriptor"));
	OK(run_all_gone(map));
}

/* ---- another agent ------------------------------------------------------- */

/* The held map stays with its process, and who waited waits again. */
static void an_agent_that_comes_back_is_found(int signal)
{
	struct run_job second;

	begin();
	start(&second, "second", "500M");
	OK(run_waiting(map, 1));
	EQ(agent_kill(&agent, signal), signal == SIGTERM ? 0 : -signal);
	gpumap_detach(map);
	if (!OK(agent_start(&agent)))
		return;
	map = story_attach(&agent);
	OK(run_waiting(map, 1));
	end(&first);
	OK(run_printed(&second, second.out, "runs"));
	end(&second);
	OK(run_all_gone(map));
}

/* The rows are drained as long as the agent needs to end, which is no reason to
 * refuse. */
static void an_agent_that_ends_is_waited_for(void)
{
	struct gpumap_device device = { .size = sizeof(device) };
	const uint64_t bytes = 1 << 20;
	const struct gpumap_plan_request request = {
		.size = sizeof(request),
		.setting = GPUMAP_SETTING_RESERVE,
		.rows = (const uint32_t[]){ 0 },
		.n_rows = 1,
		.n_layers = 1,
		.layer_bytes = &bytes,
	};
	struct gpumap_plan answer = { .size = sizeof(answer) };
	struct run_job second;

	START_GATED(&first, "first");
	OK(run_printed(&first, first.out, "runs"));
	START_GATED(&second, "second");
	OK(run_waiting(map, 1));
	EQ(gpumap_plan_make(map, &request, &answer, NULL, 0, NULL, 0), 0);
	EQ(gpumap_device_read(map, 0, &device), 0);
	OK(process_stop((pid_t)device.worker_pid));
	kill(agent.pid, SIGTERM);
	OK(agent_wait_log(&agent, "event=draining"));
	EQ(gpumap_plan_make(map, &request, &answer, NULL, 0, NULL, 0),
	   -ESHUTDOWN);
	kill((pid_t)device.worker_pid, SIGCONT);
	EQ(agent_kill(&agent, SIGTERM), 0);
	gpumap_detach(map);
	if (!OK(agent_start(&agent)))
		return;
	map = story_attach(&agent);
	OK(run_waiting(map, 1));
	end(&first);
	OK(run_printed(&second, second.out, "runs"));
	end(&second);
	OK(run_all_gone(map));
}

static void one_that_does_not_is_waited_for(void)
{
	struct run_job second;

	begin();
	RUN_START(&second, "--cache-dir", cache, "--rows", "1", "--reserve",
		  "500M", "--wait", "3", "true");
	OK(run_waiting(map, 1));
	EQ(agent_kill(&agent, SIGKILL), -SIGKILL);
	EQ(run_end(&second), NO_AGENT);
	end(&first);
	OK(agent_start(&agent));
}

TAP_CASE()
{
	agent_make(&agent, NULL);
	agent_configure_dummies(&agent, RUN_NODE, "[host]\nrows = 1\n");
	snprintf(cache, sizeof(cache), "%s/cache", agent.dir);
	run_find_program();
	if (!OK(agent_start(&agent)))
		return tap_done();
	map = story_attach(&agent);
	each_gets_its_turn();
	waiting_ends();
	an_administrator_drops_it();
	a_stop_is_no_end();
	closed_streams_stay_closed();
	an_agent_that_comes_back_is_found(SIGKILL);
	an_agent_that_comes_back_is_found(SIGTERM);
	an_agent_that_ends_is_waited_for();
	one_that_does_not_is_waited_for();
	rmdir(cache);
	story_finish(&agent, map);
	return tap_done();
}
