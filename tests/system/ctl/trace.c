/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl trace: the file has each job of the rows that it is asked
 * for, by its session's name, and is whole also where a signal ended the
 * recording.
 */

#include <signal.h>

#include "tests/support/chrome_rules.h"
#include "tests/support/ctl.h"
#include "tests/support/story.h"

#define JOBS   200
#define BEHIND 10000 /* records fit into the memory of a row */
#define ENOUGH 8     /* jobs, so that some are of each row */

static struct gpumap *map;
static char path[128];

/* A process that runs a job on each row, all the time. */
static pid_t client_start(void)
{
	int ready[2];
	char byte;
	pid_t pid;

	if (pipe(ready) != 0)
		exit(99);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		struct gpumap_job job = { .op = GPUMAP_OP_SCALE,
					  .dtype = GPUMAP_DTYPE_F32,
					  .n = 1000000,
					  .alpha = 1 };
		struct gpumap_session *s = NULL;
		struct gpumap *own = story_attach(&agent);

		if (gpumap_session_open(own, NULL, &s) != 0 ||
		    gpumap_alloc(s, 0, 4 * job.n, &job.dst) != 0)
			_exit(1);
		job.src = job.dst;
		for (int i = 0;; i++) {
			if (story_run(s, (uint32_t)i % 2, &job) != 0)
				_exit(2);
			if (i == JOBS && write(ready[1], "", 1) != 1)
				_exit(3);
		}
	}
	close(ready[1]);
	EQ(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void client_end(pid_t pid)
{
	EQ(kill(pid, SIGKILL), 0);
	EQ(waitpid(pid, NULL, 0), pid);
}

static json_t *load_trace(void)
{
	json_error_t error;
	json_t *json = json_load_file(path, JSON_REJECT_DUPLICATES, &error);

	if (!OK(json != NULL))
		NOTE("%s", error.text);
	return json;
}

/* The name that the document gives to a thread, or to a process. */
static const char *name_of(const json_t *json, const char *kind, double pid,
			   double tid)
{
	json_t *event;
	size_t i;

	json_array_foreach(json_object_get(json, "traceEvents"), i, event)
	{
		if (strcmp(text(event, "name"), kind) == 0 &&
		    chrome_number(event, "pid") == pid &&
		    chrome_number(event, "tid") == tid)
			return text(json_object_get(event, "args"), "name");
	}
	return "";
}

static void jobs_are_written(pid_t client)
{
	char process[40], seconds[16];
	json_t *report = NULL, *json;
	unsigned int scales = 0;
	intmax_t n = 0;
	json_t *event;
	size_t i;

	snprintf(process, sizeof(process), "process %d of", (int)client);
	/* For longer where the machine is slow. */
	for (int s = 1; s < 64 && n < ENOUGH; s *= 2) {
		json_decref(report);
		snprintf(seconds, sizeof(seconds), "%d", s);
		EQ(CTL("trace", path, "--timeout", seconds, "--json"), DONE);
		report = object();
		n = number(report, "jobs");
	}
	OK(has_fields(report, "file jobs lost"));
	STR(text(report, "file"), path);
	EQ(number(report, "lost"), 0);
	json = load_trace();
	OK(chrome_check(json) > 0);
	EQ((intmax_t)chrome_n, number(report, "jobs"));
	OK(chrome_slices[0].pid == 1);
	OK(chrome_slices[chrome_n - 1].pid == 2);
	OK(strncmp(name_of(json, "process_name", 2, 0), "row 1: ", 7) == 0);
	OK(strstr(name_of(json, "thread_name", 1, chrome_slices[0].tid),
		  process) != NULL);
	json_array_foreach(json_object_get(json, "traceEvents"), i, event)
		scales +=
		strcmp(text(event, "name"), "scale") == 0 &&
		number(json_object_get(event, "args"), "elements") == 1000000;
	EQ((intmax_t)scales, (intmax_t)chrome_n);
	json_decref(json);
	json_decref(report);
}

static void other_rows_are_left_out(void)
{
	json_t *json = NULL;
	char seconds[16];

	for (int s = 1; s < 64 && (s == 1 || chrome_n == 0); s *= 2) {
		json_decref(json);
		snprintf(seconds, sizeof(seconds), "%d", s);
		EQ(CTL("trace", path, "--rows", "1", "--timeout", seconds),
		   DONE);
		OK(out[0] == '\0');
		OK(strstr(err, " jobs in ") != NULL);
		json = load_trace();
		chrome_check(json);
	}
	OK(chrome_n > 0);
	OK(chrome_slices[0].pid == 2 && chrome_slices[chrome_n - 1].pid == 2);
	json_decref(json);
}

/* gpumapctl in the background, recording until it is told to stop. */
static pid_t trace_start(void)
{
	const char *argv[] = { ctl_program(),  "--instance",
			       agent.instance, "--runtime-dir",
			       agent.dir,      "trace",
			       path,           "--timeout",
			       "600",          NULL };
	uint64_t limit = story_now() + STORY_LIMIT_NS;
	char err_path[96];
	pid_t pid;

	snprintf(err_path, sizeof(err_path), "%s/err", agent.dir);
	unlink(path);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		become(argv, "/dev/null", err_path);
	while (access(path, F_OK) != 0 && story_now() < limit)
		story_nap(1000);
	return pid;
}

static json_t *trace_end(pid_t pid)
{
	int status = 0;

	EQ(kill(pid, SIGINT), 0);
	EQ(kill(pid, SIGCONT), 0);
	EQ(waitpid(pid, &status, 0), pid);
	EQ(status, 0);
	return load_trace();
}

static void a_signal_ends_the_recording(void)
{
	struct gpumap_trace *trace = NULL;
	pid_t pid = trace_start();
	json_t *json;

	/* No other process has the rows meanwhile. */
	EQ(gpumap_trace_open(map, NULL, 0, &trace), -EBUSY);
	EQ(CTL("trace", "/dev/null"), FAILED);
	OK(complains("has a trace of row 0: wait until it ends"));
	json = trace_end(pid);
	chrome_check(json);
	json_decref(json);
}

/* The file has all that the rows had recorded when the signal came. */
static void what_came_before_the_end_is_written(void)
{
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_session *s = NULL;
	pid_t pid = trace_start();
	uint32_t wrong = 0;
	json_t *json;

	EQ(gpumap_session_open(map, NULL, &s), 0);
	EQ(kill(pid, SIGSTOP), 0);
	for (int i = 0; i < BEHIND; i++)
		wrong += story_run(s, 0, &nop) != 0;
	EQ(wrong, 0);
	json = trace_end(pid);
	chrome_check(json);
	EQ((intmax_t)chrome_n, BEHIND);
	json_decref(json);
	gpumap_session_close(s);
}

static void bad_calls_are_refused(void)
{
	EQ(CTL("trace"), USAGE);
	EQ(CTL("trace", "/no/such/folder/file"), FAILED);
	OK(complains("/no/such/folder/file: No such file or directory"));
	EQ(CTL("trace", path, "--rows", "9"), FAILED);
	OK(complains("there is no row 9"));
	EQ(CTL("trace", "/dev/full", "--timeout", "0"), FAILED);
	OK(complains("/dev/full: No space left on device"));
}

TAP_CASE()
{
	pid_t client;

	if (!ctl_has_tool("trace")) {
		LACK("python", 1, "built without Python");
		return tap_done();
	}
	agent_make(&agent, "[host]\nrows = 2\n");
	snprintf(path, sizeof(path), "%s/trace.json", agent.dir);
	if (!OK(agent_start(&agent)))
		return tap_done();
	map = story_attach(&agent);
	client = client_start();
	jobs_are_written(client);
	other_rows_are_left_out();
	a_signal_ends_the_recording();
	client_end(client);
	what_came_before_the_end_is_written();
	bad_calls_are_refused();
	unlink(path);
	story_finish(&agent, map);
	agent_remove(&agent);
	return tap_done();
}
