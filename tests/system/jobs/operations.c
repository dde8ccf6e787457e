/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks a client with a whole agent and its workers: every operation on one
 * row and over two, credit, deadlines, descriptors, and refusals with their
 * reasons.
 */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <gpumap/plan.h>

#include "gpumap.h"
#include "tests/support/process.h"
#include "tests/support/story.h"
#include "tests/support/tap.h"

#define CONFIG                                           \
	"[host]\nrows = 2\n"                             \
	"[limits]\nsessions-per-uid = 3\narena = 256M\n" \
	"[map model]\nspec = 0:2;1:3\n"

#define N 100003 /* elements; odd, so that halves differ */

static struct agent agent;
static struct gpumap *map;

static uint64_t in_ms(uint64_t ms)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec +
	       ms * 1000000u;
}

static int n_open;

/* An agent learns of a session's end a moment later. */
static void settle(void)
{
	for (int i = 0; i < STORY_LOOKS; i++) {
		if (gpumap_session_list(map, NULL, 0) <= n_open)
			return;
		usleep(1000);
	}
}

static void close_session(struct gpumap_session *s)
{
	gpumap_session_close(s);
	n_open--;
	settle();
}

static struct gpumap_session *open_session(uint32_t depth, uint32_t flags)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .depth = depth,
					    .flags = flags,
					    .arena_bytes = 8 << 20 };
	struct gpumap_session *s = NULL;

	if (!EQ(gpumap_session_open(map, &opts, &s), 0))
		NOTE("%s", gpumap_refusal(map));
	n_open++;
	return s;
}

/* Run one job on one row; returns its status. */
static int run(struct gpumap_session *s, uint32_t row,
	       const struct gpumap_job *job)
{
	struct gpumap_done done = { .status = 1 };
	int ret = gpumap_submit(s, row, job, 1);

	if (ret == 0)
		ret = gpumap_wait(s, &done, 1, in_ms(10000));
	return ret == 1 ? done.status : ret;
}

/* Run one job over both rows.  Their weights are equal, whatever their
 * scores. */
static int scatter(struct gpumap_session *s, const struct gpumap_job *job)
{
	static const uint32_t rows[] = { 0, 1 };
	static const double weights[] = { 1, 1 };
	struct gpumap_scatter_opts opts = { .size = sizeof(opts),
					    .rows = rows,
					    .weights = weights,
					    .n_rows = 2,
					    .deadline_ns = in_ms(10000) };
	struct gpumap_tile tiles[2];
	int ret = gpumap_scatter(s, job, &opts, tiles, 2);

	return ret == 2 && tiles[0].n + tiles[1].n == job->n ? 0 : ret;
}

static float value_of(uint32_t i)
{
	return (float)(i % 1000) * 0.25f;
}

/* Is every element the operation's result? */
static bool right(uint32_t op, const float *dst, const float *src)
{
	for (uint32_t i = 0; i < N; i++) {
		float was = value_of(i + 7), want = 0;

		if (op == GPUMAP_OP_FILL)
			want = 42;
		else if (op == GPUMAP_OP_COPY)
			want = src[i];
		else if (op == GPUMAP_OP_SCALE)
			want = 1.5f * src[i];
		else
			want = was + 1.5f * src[i];
		if (dst[i] != want)
			return false;
	}
	return true;
}

static bool operate(struct gpumap_session *s, uint32_t op, int row, float *dst,
		    float *src)
{
	struct gpumap_job job = { .op = op,
				  .dtype = GPUMAP_DTYPE_F32,
				  .dst = dst,
				  .src = src,
				  .n = N,
				  .alpha = 1.5,
				  .pattern = 0x42280000 /* 42 */ };

	for (uint32_t i = 0; i < N; i++) {
		src[i] = value_of(i);
		dst[i] = value_of(i + 7);
	}
	if ((row < 0 ? scatter(s, &job) : run(s, (uint32_t)row, &job)) != 0)
		return false;
	return right(op, dst, src);
}

static void every_operation_does_what_it_says(void)
{
	struct gpumap_session *s = open_session(0, 0);
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP, .n = 5 };
	void *dst = NULL, *src = NULL;

	EQ(gpumap_alloc(s, 0, N * sizeof(float), &dst), 0);
	EQ(gpumap_alloc(s, 1, N * sizeof(float), &src), 0);
	for (int row = -1; row < 2; row++) {
		OK(operate(s, GPUMAP_OP_FILL, row, dst, src));
		OK(operate(s, GPUMAP_OP_COPY, row, dst, src));
		OK(operate(s, GPUMAP_OP_SCALE, row, dst, src));
		OK(operate(s, GPUMAP_OP_AXPY, row, dst, src));
		EQ(row < 0 ? scatter(s, &nop) : run(s, (uint32_t)row, &nop), 0);
	}
	close_session(s);
}

static void every_width_is_filled(void)
{
	static const uint8_t bytes_of[] = { 1, 2, 2, 4, 4, 8, 8, 2, 4, 8 };
	uint64_t pattern = UINT64_C(0x8877665544332211);
	struct gpumap_session *s = open_session(0, 0);
	unsigned char *dst = NULL;

	EQ(gpumap_alloc(s, 1, 9000, (void **)&dst), 0);
	for (uint32_t dtype = 0; dtype < 10; dtype++) {
		struct gpumap_job job = { .op = GPUMAP_OP_FILL,
					  .dtype = dtype,
					  .dst = dst,
					  .n = 1001,
					  .pattern = pattern };
		uint64_t end = 1001u * bytes_of[dtype];
		bool good = true;

		memset(dst, 0xee, 9000);
		EQ(run(s, 0, &job), 0);
		for (uint64_t i = 0; i < end; i++)
			good &= dst[i] == 0x11 * (1 + i % bytes_of[dtype]);
		OK(good && dst[end] == 0xee);
	}
	close_session(s);
}

/* An error that a worker finds ends the job, and the session continues. */
static void wrong_jobs_end_with_an_error(void)
{
	struct gpumap_session *s = open_session(0, 0);
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .dtype = GPUMAP_DTYPE_F32,
				  .n = 16 };
	char *memory = NULL;

	EQ(gpumap_alloc(s, 0, 4096, (void **)&memory), 0);
	job.dst = memory;
	job.src = memory + 32;
	EQ(run(s, 0, &job), -EINVAL); /* they overlap */
	job.src = memory + 1025;
	EQ(run(s, 0, &job), -EINVAL); /* not aligned */
	job.src = memory + 1024;
	job.n = UINT64_MAX / 4;
	EQ(run(s, 0, &job), -ERANGE);
	job.n = 16 << 20;
	EQ(run(s, 0, &job), -ERANGE);
	job.n = 16;
	job.op = GPUMAP_OP_AXPY;
	job.dtype = GPUMAP_DTYPE_I32;
	EQ(run(s, 0, &job), -EINVAL);
	job.dtype = GPUMAP_DTYPE_F32;
	EQ(run(s, 0, &job), 0);
	close_session(s);
}

/* Stop the worker of a row.  The worker is stopped when this returns, not some
 * time after. */
static pid_t hold(uint32_t row)
{
	struct gpumap_device device = { .size = sizeof(device) };
	pid_t worker;

	if (gpumap_device_read(map, row, &device) != 0 ||
	    device.worker_pid == 0)
		return 0;
	worker = (pid_t)device.worker_pid;
	return process_stop(worker) ? worker : 0;
}

static void without_credit_nothing_is_submitted(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_job nops[16] = { { .op = GPUMAP_OP_NOP } };
	struct gpumap_done done[16];
	int got = 0;
	pid_t worker;

	EQ(run(s, 0, nops), 0);
	worker = hold(0);
	OK(worker > 0);
	EQ(gpumap_submit(s, 0, nops, 15), 0);
	EQ(gpumap_submit(s, 0, nops, 2), -EAGAIN);
	EQ(gpumap_submit(s, 0, nops, 1), 0);
	EQ(gpumap_submit(s, 0, nops, 1), -EAGAIN);
	EQ(gpumap_wait(s, done, 16, in_ms(20)), -ETIME);
	kill(worker, SIGCONT);
	while (got < 16) {
		int ret = gpumap_wait(s, done, 16, in_ms(10000));

		if (ret <= 0)
			break;
		got += ret;
	}
	EQ(got, 16);
	EQ(gpumap_wait(s, done, 16, in_ms(20)), -ENODATA);
	close_session(s);
}

static int end_of(struct gpumap_session *s, uint64_t cookie)
{
	struct gpumap_done done = { .cookie = UINT64_MAX };
	int ret = gpumap_wait(s, &done, 1, in_ms(30000));

	return ret != 1 ? ret : done.cookie != cookie ? -EBADMSG : done.status;
}

/* One job is cancelled while it is in the queue, and one while it waits for
 * another row, whose worker stands. */
static void one_job_is_cancelled(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP }, fills[3];
	struct gpumap_time until;
	pid_t worker;
	void *memory;
	char *bytes;

	EQ(run(s, 0, &nop), 0);
	EQ(run(s, 1, &nop), 0);
	EQ(gpumap_alloc(s, 0, 3, &memory), 0);
	bytes = memory;
	for (uint32_t i = 0; i < 3; i++)
		fills[i] = (struct gpumap_job){ .op = GPUMAP_OP_FILL,
						.dst = bytes + i,
						.n = 1,
						.pattern = 7,
						.cookie = i };
	worker = hold(0);
	OK(worker > 0);
	EQ(gpumap_submit(s, 0, fills, 3), 0);
	EQ(gpumap_cancel_job(s, 0, 1), 1);
	EQ(gpumap_cancel_job(s, 0, 5), 0);
	kill(worker, SIGCONT);
	EQ(end_of(s, 0), 0);
	EQ(end_of(s, 1), -ECANCELED);
	EQ(end_of(s, 2), 0);
	OK(bytes[0] == 7 && bytes[1] == 0 && bytes[2] == 7);

	worker = hold(1);
	OK(worker > 0);
	nop.cookie = 6;
	EQ(gpumap_submit(s, 1, &nop, 1), 0);
	EQ(gpumap_submitted(s, 1, &until), 0);
	fills[1].waits = &until;
	fills[1].n_waits = 1;
	EQ(gpumap_submit(s, 0, fills + 1, 2), 0);
	EQ(gpumap_cancel_job(s, 0, 1), 1);
	EQ(end_of(s, 1), -ECANCELED);
	EQ(end_of(s, 2), 0);
	kill(worker, SIGCONT);
	EQ(end_of(s, 6), 0);
	EQ(bytes[1], 0);
	close_session(s);
}

/* Row 1 is late and row 0 is in time.  The deadline doubles with each try, for
 * on a slow machine row 0 may be late as well. */
static void a_late_scatter_says_who_was_late(void)
{
	static const uint32_t rows[] = { 0, 1 };
	static const double weights[] = { 1, 1 };
	struct gpumap_scatter_opts opts = { .size = sizeof(opts),
					    .rows = rows,
					    .weights = weights,
					    .n_rows = 2 };
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP, .n = 10 };
	struct gpumap_tile tiles[2] = { { .status = -ETIME } };

	EQ(scatter(s, &nop), 0);
	for (uint64_t ms = 100; tiles[0].status == -ETIME && ms < 4000;
	     ms *= 2) {
		pid_t worker = hold(1);

		opts.deadline_ns = in_ms(ms);
		EQ(gpumap_scatter(s, &nop, &opts, tiles, 2), -ETIME);
		EQ(tiles[1].status, -ETIME);
		kill(worker, SIGCONT);
		EQ(scatter(s, &nop), 0);
	}
	EQ(tiles[0].status, 0);
	close_session(s);
}

/* Sleep on the descriptor until a completion was taken.  The byte of an earlier
 * sleep may come late, when there is no completion to take yet. */
static bool sleeps_and_takes(struct gpumap_session *s, struct pollfd *fd)
{
	struct gpumap_done done;

	for (int i = 0; i < 3; i++) {
		int got;

		if (poll(fd, 1, 10000) != 1)
			return false;
		got = gpumap_poll(s, &done, 1);
		if (got == 0 && gpumap_session_arm(s) == 1)
			got = gpumap_poll(s, &done, 1);
		if (got != 0)
			return got == 1;
	}
	return false;
}

static void the_descriptor_wakes(void)
{
	struct gpumap_session *s = open_session(0, GPUMAP_SESSION_POLLABLE);
	struct pollfd fd = { .fd = gpumap_session_fd(s), .events = POLLIN };
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	int taken = 0;

	EQ(run(s, 0, &nop), 0);
	for (int i = 0; i < 20; i++) {
		pid_t worker = hold(0);

		if (gpumap_submit(s, 0, &nop, 1) != 0 ||
		    gpumap_session_arm(s) != 0)
			break;
		kill(worker, SIGCONT);
		taken += sleeps_and_takes(s, &fd);
	}
	EQ(taken, 20);
	close_session(s);
}

/* Run the README's first client with this instance. */
static void the_first_client_runs(void)
{
	const char *build = getenv("abs_top_builddir");
	char command[400], line[80] = "";
	FILE *out;

	snprintf(command, sizeof(command),
		 "%s/tests/support/readme_client %s %s",
		 build != NULL ? build : ".", agent.instance, agent.dir);
	out = popen(command, "re");
	OK(out != NULL && fgets(line, sizeof(line), out) != NULL);
	STR(line, "2 tiles: success\n");
	EQ(out != NULL ? pclose(out) : -1, 0);
	settle();
}

/* ---- refusals ------------------------------------------------------------ */

static int publish(const char *name, const char *spec, uint32_t n_layers)
{
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = name,
						 .spec = spec,
						 .n_layers = n_layers };
	int ret = gpumap_layers_publish(map, &request);

	if (ret != 0)
		NOTE("%s", gpumap_refusal(map));
	return ret;
}

static bool says(const char *text)
{
	return strstr(gpumap_refusal(map), text) != NULL;
}

static void maps_are_published_and_released(void)
{
	struct gpumap_layers layers = { .size = sizeof(layers) };
	struct gpumap_view view, pinned;
	uint64_t pin;

	EQ(publish("two", "1:1;0:1", 2), 0);
	EQ(gpumap_layers_view(map, "two", &view), 0);
	EQ(gpumap_view_get(&view, 0), 1);
	EQ(gpumap_layers_pin(map, "two", &pinned, &pin), 0);
	EQ(publish("two", "0:2", 2), 0);
	EQ(gpumap_view_get(&view, 0), -EAGAIN);
	EQ(gpumap_view_refresh(map, &view), 0);
	EQ(gpumap_view_get(&view, 0), 0);
	EQ(gpumap_view_get(&pinned, 0), 1);
	EQ(gpumap_layers_read(map, "two", &layers, NULL, NULL, 0, NULL, 0), 0);
	EQ(layers.owner_uid, geteuid());
	EQ(gpumap_unpin(map, pin), 0);
	EQ(gpumap_unpin(map, pin), -ENOENT);
	EQ(gpumap_layers_release(map, "two"), 0);
	EQ(gpumap_view_refresh(map, &view), -ENOENT);
	EQ(gpumap_layers_release(map, "two"), -ENOENT);
	OK(says("two"));
	EQ(gpumap_layers_pin(map, "two", &pinned, &pin), -ENOENT);
}

static void bad_specs_are_refused_with_their_fault(void)
{
	EQ(publish("bad", "0:x", 0), -EINVAL);
	OK(says("x"));
	EQ(publish("bad", "0:1;0:2", 0), -EINVAL);
	OK(says("Duplicate"));
	EQ(publish("bad", "0:1;7:2", 0), -ENODEV);
	OK(says("7"));
	EQ(publish("bad", "0:10;1:10", 12), -EINVAL);
	OK(says("20") && says("12"));
	EQ(publish("bad", "", 0), -EINVAL);
	EQ(gpumap_layers_release(map, "bad"), -ENOENT);
}

static void limits_are_said(void)
{
	struct gpumap_session *s[3], *one_more = NULL;
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 1 << 30 };
	struct gpumap_session_info info[8];

	for (int i = 0; i < 3; i++)
		s[i] = open_session(16, 0);
	EQ(gpumap_session_list(map, info, 8), 3);
	EQ(info[0].pid, getpid());
	EQ(info[2].depth, 16);
	EQ(gpumap_session_open(map, NULL, &one_more), -EUSERS);
	OK(says("3") && says("limit"));
	NOTE("%s", gpumap_refusal(map));
	close_session(s[1]);
	EQ(gpumap_session_open(map, &opts, &one_more), -EDQUOT);
	OK(says("arena"));
	s[1] = open_session(16, 0);
	for (int i = 0; i < 3; i++)
		close_session(s[i]);
	OK(one_more == NULL);
}

/* Leave enough descriptors for the connection, but not for all that arrive over
 * it. */
static void a_process_without_descriptors_is_told(void)
{
	struct gpumap_session *session = NULL;
	struct rlimit before, low;
	int next = dup(0);

	close(next);
	EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
	for (int room = 0; room < 3; room++) {
		low = before;
		low.rlim_cur = (rlim_t)(next + room);
		EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
		EQ(gpumap_session_open(map, NULL, &session), -EMFILE);
		EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
	}
	OK(says("descriptor"));
	EQ(dup(0), next); /* none was left open */
	close(next);
	close_session(open_session(16, 0));
}

/* ---- ends ---------------------------------------------------------------- */

static void the_agents_death_ends_the_session(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_health health = { .size = sizeof(health) };
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_done done;
	struct gpumap_view view;
	pid_t worker;
	int ret;

	/* This process becomes the parent of the agent's children when the
	 * agent dies.  Otherwise their process group would be orphaned, and the
	 * kernel continues the stopped members of an orphaned group. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	EQ(run(s, 0, &nop), 0);
	worker = hold(0);
	EQ(gpumap_submit(s, 0, &nop, 1), 0);
	EQ(agent_kill(&agent, SIGKILL), -SIGKILL);
	ret = gpumap_wait(s, &done, 1, in_ms(10000));
	EQ(ret, 1);
	EQ(done.status, -ECONNRESET);
	EQ(gpumap_wait(s, &done, 1, in_ms(10000)), -ECONNRESET);
	kill(worker, SIGCONT); /* to notice that its agent is gone */
	EQ(waitpid(worker, NULL, 0), worker);
	close_session(s);
	EQ(gpumap_layers_view(map, "model", &view), 0);
	EQ(publish("two", "0:2", 0), -ECONNREFUSED);

	OK(agent_start(&agent));
	EQ(gpumap_health(map, &health), 0);
	EQ(health.epoch, 2);
	EQ(health.stale, 0);
	EQ(gpumap_view_get(&view, 0), 0);
	s = open_session(16, 0);
	EQ(run(s, 0, &nop), 0);
	close_session(s);
}

/* A client that does only what it may, from the agent's start to its end. */
static void a_healthy_run_warns_of_nothing(void)
{
	struct gpumap_session *session = NULL;
	void *memory = NULL;
	struct gpumap_job job = { .op = GPUMAP_OP_FILL,
				  .dtype = GPUMAP_DTYPE_U8,
				  .n = 4096 };

	EQ(agent_kill(&agent, SIGTERM), 0);
	if (!OK(agent_start(&agent)))
		return;
	map = story_attach(&agent);
	if (EQ(gpumap_session_open(map, NULL, &session), 0)) {
		for (uint32_t row = 0; row < 2; row++) {
			EQ(gpumap_alloc(session, row, job.n, &memory), 0);
			job.dst = memory;
			EQ(story_run(session, row, &job), 0);
		}
		gpumap_session_close(session);
	}
	gpumap_detach(map);
	map = NULL;
	EQ(agent_kill(&agent, SIGTERM), 0);
	OK(!agent_warned(&agent));
}

TAP_CASE()
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts) };

	agent_make(&agent, CONFIG);
	if (!OK(agent_start(&agent))) {
		agent_show_log(&agent);
		return tap_done();
	}
	opts.instance = agent.instance;
	opts.runtime_dir = agent.dir;
	if (EQ(gpumap_attach(&opts, &map), 0)) {
		EQ(gpumap_device_count(map), 2);
		every_operation_does_what_it_says();
		every_width_is_filled();
		wrong_jobs_end_with_an_error();
		without_credit_nothing_is_submitted();
		one_job_is_cancelled();
		a_late_scatter_says_who_was_late();
		the_descriptor_wakes();
		the_first_client_runs();
		maps_are_published_and_released();
		bad_specs_are_refused_with_their_fault();
		limits_are_said();
		a_process_without_descriptors_is_told();
		the_agents_death_ends_the_session();
	}
	gpumap_detach(map);
	a_healthy_run_warns_of_nothing();
	if (tap_failures != 0)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
