/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Traces: each job of a recorded row is there once, as its worker did it, also
 * after the worker's death; only administrators may; one reader has a row.
 */

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "shm/trace.h"
#include "tests/support/raw.h"
#include "tests/support/story_rows.h"

#define N    (UINT32_C(1) << 20)
#define MANY 3000

static struct agent agent;
static struct gpumap *map;
static struct gpumap_trace_job got[2 * MANY];
static uint64_t lost;

/* Read until there are so many, or time is up.  Returns how many there are. */
static uint32_t read_jobs(struct gpumap_trace *trace, uint32_t n)
{
	uint64_t limit = story_now() + STORY_LIMIT_NS;
	uint32_t taken = 0;

	while (taken < n && story_now() < limit) {
		uint64_t more;
		int ret =
			gpumap_trace_read(trace, got + taken, n - taken, &more);

		if (ret < 0)
			break;
		lost += more;
		taken += (uint32_t)ret;
	}
	return taken;
}

/* Nothing has come that was not asked for. */
static void no_more(struct gpumap_trace *trace)
{
	EQ(gpumap_trace_read(trace, got, 1, &lost), 0);
	EQ(lost, 0);
}

static struct gpumap_session *open_session(void)
{
	struct gpumap_session *s = NULL;

	EQ(gpumap_session_open(map, NULL, &s), 0);
	return s;
}

static void each_job_is_recorded_once(void)
{
	struct gpumap_session_info info = { 0 };
	struct gpumap_session *s = open_session();
	struct gpumap_job job = { .op = GPUMAP_OP_FILL,
				  .dtype = GPUMAP_DTYPE_U8 };
	const uint32_t rows[] = { 1, 0 };
	struct gpumap_trace *trace = NULL;
	uint64_t begun, last[2] = { 0 };
	uint32_t n, wrong = 0, of[2] = { 0 };

	EQ(gpumap_alloc(s, 0, N, &job.dst), 0);
	EQ(gpumap_session_list(map, &info, 1), 1);
	begun = story_now();
	EQ(gpumap_trace_open(map, rows, 2, &trace), 0);
	for (int i = 0; i < MANY; i++) {
		job.n = i % 100 == 0 ? N : 1 + (uint32_t)i;
		if (story_run(s, (uint32_t)i % 2, &job) != 0)
			wrong++;
	}
	job.n = UINT64_C(1) << 50;
	EQ(story_run(s, 0, &job), -ERANGE);
	EQ(wrong, 0);

	n = read_jobs(trace, MANY + 1);
	EQ(n, MANY + 1);
	EQ(lost, 0);
	for (uint32_t i = 0; i < n; i++) {
		const struct gpumap_trace_job *j = &got[i];

		if (j->row > 1)
			break;
		of[j->row]++;
		wrong += j->session != info.id || j->uid != geteuid() ||
			 j->op != GPUMAP_OP_FILL ||
			 j->dtype != GPUMAP_DTYPE_U8 ||
			 j->status != (j->n > N ? -ERANGE : 0) ||
			 j->read_ns < begun || j->started_ns < j->read_ns ||
			 j->ended_ns < j->started_ns ||
			 j->ended_ns > story_now() ||
			 j->ended_ns < last[j->row];
		last[j->row] = j->ended_ns;
	}
	EQ(wrong, 0);
	EQ(of[0], MANY / 2 + 1);
	EQ(of[1], MANY / 2);
	no_more(trace);
	gpumap_trace_close(trace);
	gpumap_session_close(s);
}

/* Requests of other threads, which a job waits for. */
static void allocations_are_recorded(void)
{
	struct gpumap_session *s = open_session();
	struct gpumap_trace *trace = NULL;
	uint64_t begun = story_now(), buffer;
	const uint32_t zero = 0;

	EQ(gpumap_trace_open(map, &zero, 1, &trace), 0);
	EQ(gpumap_buffer_alloc(s, 0, N, 0, GPUMAP_NO_DEADLINE, &buffer), 0);
	EQ(gpumap_buffer_free(s, buffer), 0);
	EQ(read_jobs(trace, 2), 2);
	EQ(got[0].op, GPUMAP_OP_ALLOC);
	EQ(got[0].n, N);
	EQ(got[1].op, GPUMAP_OP_FREE);
	for (int i = 0; i < 2; i++) {
		EQ(got[i].status, 0);
		OK(got[i].read_ns >= begun);
		OK(got[i].started_ns >= got[i].read_ns);
		OK(got[i].ended_ns >= got[i].started_ns);
	}
	no_more(trace);
	gpumap_trace_close(trace);
	gpumap_session_close(s);
}

/* One has a row at a time. */
static void readers_do_not_share(void)
{
	const uint32_t zero = 0;
	struct gpumap_trace *first = NULL, *second = NULL;
	uint64_t limit = story_now() + STORY_LIMIT_NS;
	int ret;

	EQ(gpumap_trace_open(map, &zero, 1, &first), 0);
	EQ(gpumap_trace_open(map, NULL, 0, &second), -EBUSY);
	OK(strstr(gpumap_refusal(map), "has a trace of row 0: wait"));
	gpumap_trace_close(first);
	/* The agent finds the end of the connection when it comes to it. */
	do
		ret = gpumap_trace_open(map, NULL, 0, &second);
	while (ret == -EBUSY && story_now() < limit);
	EQ(ret, 0);
	gpumap_trace_close(second);
}

static void the_next_worker_goes_on(void)
{
	uint32_t restarts = story_device(map, 1).restarts;
	struct gpumap_session *s = open_session();
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_trace *trace = NULL;
	const uint32_t one = 1;

	EQ(gpumap_trace_open(map, &one, 1, &trace), 0);
	EQ(story_run(s, 1, &nop), 0);
	EQ(read_jobs(trace, 1), 1);
	EQ(kill((pid_t)story_device(map, 1).worker_pid, SIGKILL), 0);
	OK(story_back(map, 1, restarts));
	EQ(story_run(s, 1, &nop), 0);
	EQ(story_run(s, 1, &nop), 0);
	EQ(read_jobs(trace, 2), 2);
	EQ(lost, 0);
	gpumap_trace_close(trace);
	gpumap_session_close(s);
}

static int ask_as_another_user(void)
{
	struct gpumap_trace *trace = NULL;

	if (setgid(1) != 0 || setuid(1) != 0)
		return 10;
	map = story_attach(&agent);
	if (map == NULL)
		return 11;
	if (gpumap_trace_open(map, NULL, 0, &trace) != -EPERM)
		return 12;
	return strstr(gpumap_refusal(map), "uid 1 may not trace rows") != NULL
		       ? 0
		       : 13;
}

static void only_administrators_may(void)
{
	int status = -1;
	pid_t child;

	if (geteuid() != 0) {
		SKIP(1, "only root can be another user");
		return;
	}
	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(ask_as_another_user());
	EQ(waitpid(child, &status, 0), child);
	EQ(status, 0);
}

static void bad_calls_are_refused(void)
{
	const uint32_t none[] = { UINT32_MAX, GPUMAP_ROWS_MAX,
				  GPUMAP_ROWS_MAX - 1 };
	struct gpumap_trace *trace = NULL;

	for (int i = 0; i < 3; i++)
		EQ(gpumap_trace_open(map, &none[i], 1, &trace), -ENODEV);
	OK(strstr(gpumap_refusal(map), "row 255 has no worker"));
	EQ(gpumap_trace_open(map, none, 0, &trace), -EINVAL);
	EQ(gpumap_trace_open(map, NULL, 1, &trace), -EINVAL);
	gpumap_trace_close(NULL);
}

static int open_raw(struct raw *c)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	return raw_open(c, path);
}

static int ask_raw(struct raw *c, const struct gm_trace_ask *ask,
		   int ret_fds[GM_CONTROL_FDS_MAX])
{
	return raw_ask(c, GM_CONTROL_TRACE, ask, sizeof(*ask), NULL, 0,
		       ret_fds);
}

/* A reader cannot write the memory, whose writer is the row's worker. */
static void the_memory_is_only_read(void)
{
	const struct gm_trace_ask ask = { .row = 0 };
	int fds[GM_CONTROL_FDS_MAX];
	struct raw c;
	void *at;

	EQ(open_raw(&c), 0);
	EQ(ask_raw(&c, &ask, fds), 0);
	EQ(fcntl(fds[0], F_GETFL) & O_ACCMODE, O_RDONLY);
	at = mmap(NULL, GM_TRACE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		  fds[0], 0);
	OK(at == MAP_FAILED && errno == EACCES);
	close(fds[0]);
	raw_close(&c);
}

static void no_request_is_guessed_at(void)
{
	struct gm_trace_ask ask = { .row = 0, .reserved = 1 };
	struct raw c;

	EQ(open_raw(&c), 0);
	EQ(ask_raw(&c, &ask, NULL), -EINVAL);
	STR(c.refusal, "a reserved field is set");
	EQ(raw_session(&c, 0, 0, 4096), 0);
	ask.reserved = 0;
	EQ(ask_raw(&c, &ask, NULL), -EINVAL);
	OK(strstr(c.refusal, "connect another"));
	raw_close(&c);
}

/* A process has the connection of one that has ended. */
static void a_dead_process_traces_nothing(void)
{
	const struct gm_trace_ask ask = { .row = 0 };
	int begin[2], said[2], status = 0;
	struct raw c;
	char byte;
	pid_t pid;

	EQ(pipe(begin) | pipe(said), 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (open_raw(&c) == 0 && fork() == 0 &&
		    read(begin[0], &byte, 1) == 1) {
			status = ask_raw(&c, &ask, NULL);
			_exit(write(said[1], &status, sizeof(status)) < 0);
		}
		_exit(0);
	}
	close(begin[0]);
	close(said[1]);
	EQ(waitpid(pid, NULL, 0), pid);
	EQ(write(begin[1], "", 1), 1);
	EQ(read(said[0], &status, sizeof(status)), sizeof(status));
	EQ(status, -ESRCH);
	close(begin[1]);
	close(said[0]);
}

/* The agent and the worker of row 0 give the memory back. */
static void nothing_is_kept(void)
{
	pid_t main_pid = agent_main_pid(&agent);
	struct gpumap_trace *trace = NULL;

	EQ(gpumap_trace_open(map, NULL, 0, &trace), 0);
	OK(story_holds(main_pid, "gpumap-trace") > 0);
	gpumap_trace_close(trace);
	story_lets_go((pid_t)story_device(map, 0).worker_pid, "gpumap-trace");
	story_lets_go(main_pid, "gpumap-trace");
}

/* Records of before can still be read. */
static void the_agent_ends(void)
{
	struct gpumap_session *s = open_session();
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_trace *trace = NULL;

	EQ(gpumap_trace_open(map, NULL, 0, &trace), 0);
	EQ(story_run(s, 0, &nop), 0);
	EQ(agent_kill(&agent, SIGKILL), -SIGKILL);
	EQ(gpumap_trace_read(trace, got, 8, &lost), 1);
	EQ(gpumap_trace_read(trace, got, 8, &lost), -ECONNRESET);
	EQ(lost, 0);
	gpumap_trace_close(trace);
	gpumap_session_close(s);
	OK(agent_start(&agent));
}

TAP_CASE()
{
	stage_make(&agent, "[host]\nrows = 2\n[socket]\nmode = 0666\n");
	OK(agent_start(&agent));
	map = story_attach(&agent);
	if (map == NULL)
		return tap_done();
	each_job_is_recorded_once();
	allocations_are_recorded();
	readers_do_not_share();
	the_next_worker_goes_on();
	only_administrators_may();
	bad_calls_are_refused();
	the_memory_is_only_read();
	no_request_is_guessed_at();
	a_dead_process_traces_nothing();
	nothing_is_kept();
	the_agent_ends();
	return stage_finish(&agent, map);
}
