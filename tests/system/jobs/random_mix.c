/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks a long history of random jobs of many kinds on three rows.  Jobs wait
 * for each other, have deadlines and are canceled, and workers are killed.
 * Buffers come and go among the jobs, and are copied from row to row.  Every
 * job ends exactly once, in the order of its row, with a status that it may
 * have.  A round has a thousand jobs, and where GM_ROUNDS sets the number of
 * rounds, five thousand: a million in the torture target.
 *
 * On host rows a second history has programs among the jobs, and the workers
 * for programs are killed instead.
 */

#include <stdlib.h>

#include "tests/support/dice.h"
#include "tests/support/story_rows.h"
#include "tests/support/load_file.h"
#include "tests/support/program_agent.h"

#define ROWS       3u
#define PER_ROUND  (getenv("GM_ROUNDS") ? UINT64_C(5000) : UINT64_C(1000))
#define BATCH      8u
#define HALF       UINT64_C(2048)
#define KILL_EVERY 1000u

static struct gpumap_session *session;
static uint32_t *words; /* memory for jobs that do something, 2 * HALF */
static uint64_t file;   /* that LOADs read, of HALF words */

static uint64_t buffers[ROWS];  /* of HALF words of each; 0: none now */
static uint64_t programs[ROWS]; /* 0: the session has none */

enum kind { PLAIN, CROSSES, RUNS };

static struct {
	uint8_t *ended; /* times that each job ended */
	uint8_t *kind;  /* enum kind of each job */
	uint64_t n;
	uint64_t submitted;
	uint64_t taken;
	uint64_t last[ROWS]; /* job that ended last, plus 1 */
	uint64_t by_status[6];
	uint64_t crossed; /* copies from row to row that ended well */
	uint64_t ran;     /* programs, likewise */
	uint64_t made;    /* buffers */
	uint64_t refused; /* copies from a row whose worker had died */
	int doubled, misplaced, strange;
} history;

static void note(const struct gpumap_done *done)
{
	static const int known[] = { 0, -EIO, -ETIME, -ECANCELED, -ESTALE };
	uint32_t k = 0;

	if (done->cookie >= history.submitted) {
		history.strange++;
		return;
	}
	history.doubled += history.ended[done->cookie]++ != 0;
	history.misplaced += done->cookie < history.last[done->row];
	history.last[done->row] = done->cookie + 1;
	while (k < 5 && known[k] != done->status)
		k++;
	history.by_status[k]++;
	history.crossed += k == 0 && history.kind[done->cookie] == CROSSES;
	history.ran += k == 0 && history.kind[done->cookie] == RUNS;
	history.strange += k == 5;
	if (k == 5)
		NOTE("row %u ended a job with %d", done->row, done->status);
	history.taken++;
}

/* Returns whether any completion came. */
static bool take(uint64_t until)
{
	struct gpumap_done done[32];
	int got = until ? gpumap_wait(session, done, 32, until)
			: gpumap_poll(session, done, 32);

	for (int i = 0; i < got; i++)
		note(&done[i]);
	return got > 0;
}

/* Pick a recent time of any row, so that some have been reached and some have
 * not. */
static struct gpumap_time some_time(void)
{
	struct gpumap_time time = { 0 };
	uint64_t back = dice(40);

	if (gpumap_submitted(session, (uint32_t)dice(ROWS), &time) == 0)
		time.value -= back < time.value ? back : time.value;
	return time;
}

/* Let the job write or read the row's own buffer, or read another row's, as far
 * as there is one. */
static void use_buffers(struct gpumap_job *job, uint32_t row)
{
	if (job->op == GPUMAP_OP_COPY)
		job->src_buffer = buffers[dice(ROWS)];
	else if (job->op == GPUMAP_OP_FILL || job->op == GPUMAP_OP_LOAD ||
		 dice(2) == 0)
		job->dst_buffer = buffers[row];
	else
		job->src_buffer = buffers[row];
}

/* Run square.c, whose items are floats. */
static void run_program(struct gpumap_job *job, uint32_t row)
{
	job->op = GPUMAP_OP_RUN;
	job->dtype = GPUMAP_DTYPE_F32;
	job->program = programs[row];
	job->dst = words;
	job->src = words + HALF;
	job->n = 1 + dice(HALF);
	job->src_item_bytes = job->dst_item_bytes = sizeof(*words);
	if (dice(2) == 0)
		job->dst_buffer = buffers[row];
}

/* Pick a job of one slot or of two, for the row or for its I/O thread. */
static void do_something(struct gpumap_job *job, uint32_t row)
{
	static const uint32_t ops[] = { GPUMAP_OP_FILL, GPUMAP_OP_COPY,
					GPUMAP_OP_AXPY, GPUMAP_OP_MASK_ADD,
					GPUMAP_OP_SUM,  GPUMAP_OP_LOAD };

	job->op = ops[dice(sizeof(ops) / sizeof(ops[0]))];
	job->dtype = GPUMAP_DTYPE_F32;
	job->dst = words;
	job->src = words + HALF;
	job->n = 1 + dice(HALF);
	job->alpha = 0;
	job->mask = words + HALF;
	job->mask_n = job->op == GPUMAP_OP_MASK_ADD ? 16 : 0;
	if (job->op == GPUMAP_OP_SUM) {
		job->dst = words + HALF;
		job->src = words;
	}
	if (job->op == GPUMAP_OP_LOAD) {
		job->dtype = GPUMAP_DTYPE_U8;
		job->src = NULL;
		job->src_buffer = file;
	}
	if (dice(2) == 0)
		use_buffers(job, row);
}

static struct gpumap_job some_job(uint32_t row,
				  struct gpumap_time waits[GPUMAP_WAITS_MAX])
{
	struct gpumap_job job = { .op = GPUMAP_OP_NOP };

	if (dice(4) == 0)
		do_something(&job, row);
	else if (programs[row] != 0 && dice(8) == 0)
		run_program(&job, row);
	if (dice(3) == 0)
		job.n_waits = 1 + (uint32_t)dice(GPUMAP_WAITS_MAX);
	for (uint32_t i = 0; i < job.n_waits; i++)
		waits[i] = some_time();
	job.waits = waits;
	if (dice(16) == 0)
		job.deadline_ns = story_now() + dice(2000000);
	return job;
}

static bool is_crossing(const struct gpumap_job *job, uint32_t row)
{
	return job->op == GPUMAP_OP_COPY && job->src_buffer != 0 &&
	       job->src_buffer != buffers[row];
}

/* Does any of the next @n jobs copy from another row? */
static bool crosses(uint32_t n)
{
	return memchr(&history.kind[history.submitted], CROSSES, n) != NULL;
}

/* A worker has died, and with it a buffer that another row would copy from, so
 * none of these jobs was submitted. */
static int forget_stale(void)
{
	history.refused++;
	for (uint32_t row = 0; row < ROWS; row++) {
		int ret = gpumap_buffer_free(session, buffers[row]);

		if (ret != 0)
			return ret;
		buffers[row] = 0;
	}
	return 0;
}

static int submit_some(uint32_t row)
{
	struct gpumap_time waits[BATCH][GPUMAP_WAITS_MAX];
	struct gpumap_job jobs[BATCH];
	uint32_t n = 1 + (uint32_t)dice(BATCH);
	int ret;

	if (n > history.n - history.submitted)
		n = (uint32_t)(history.n - history.submitted);
	for (uint32_t i = 0; i < n; i++) {
		jobs[i] = some_job(row, waits[i]);
		jobs[i].cookie = history.submitted + i;
		history.kind[history.submitted + i] =
			is_crossing(&jobs[i], row)    ? CROSSES
			: jobs[i].op == GPUMAP_OP_RUN ? RUNS
						      : PLAIN;
	}
	ret = gpumap_submit(session, row, jobs, n);
	if (ret == 0)
		history.submitted += n;
	if (ret == -ESTALE && crosses(n))
		ret = forget_stale();
	return ret;
}

/* Put an ALLOC or a FREE among the jobs.  A full queue, a worker's death or the
 * deadline may make it fail. */
static void change_buffer(uint32_t row)
{
	uint64_t limit = dice(4) == 0 ? dice(2000000) : STORY_LIMIT_NS;
	int ret;

	if (buffers[row] != 0) {
		ret = gpumap_buffer_free(session, buffers[row]);
		if (ret == 0)
			buffers[row] = 0;
	} else {
		ret = gpumap_buffer_alloc(session, row, HALF * sizeof(*words),
					  0, story_now() + limit,
					  &buffers[row]);
		history.made += ret == 0;
	}
	if (ret == 0 || ret == -EAGAIN || ret == -EIO || ret == -ETIME)
		return;
	history.strange++;
	NOTE("row %u says %d of a buffer: %s", row, ret, gpumap_refusal(map));
}

/* Returns the worker for this user's programs, or 0 when it has already been
 * killed. */
static pid_t next_program_worker(uint32_t row)
{
	static pid_t killed[ROWS];
	char of[64];
	pid_t pid = 0;

	snprintf(of, sizeof(of), "row=%u programs_of=%u ", row,
		 (unsigned)geteuid());
	log_lines("event=worker_ready", of, &pid);
	if (pid == killed[row])
		return 0;
	killed[row] = pid;
	return pid;
}

/* Kill a worker that serves.  The agent delays the restart of a worker that
 * died before its first job. */
static void kill_one(void)
{
	uint32_t row = (uint32_t)dice(ROWS);
	struct gpumap_device device = story_device(map, row);
	pid_t pid;

	if (programs[row] != 0) {
		pid = next_program_worker(row);
		if (pid > 0)
			kill(pid, SIGKILL);
		return;
	}
	if (device.state == GPUMAP_DEVICE_READY && device.worker_pid != 0)
		kill((pid_t)device.worker_pid, SIGKILL);
}

static bool submit_all(void)
{
	uint64_t next_kill = KILL_EVERY;
	int ret = 0;

	while (history.submitted < history.n) {
		uint32_t row = (uint32_t)dice(ROWS);

		ret = submit_some(row);
		if (ret == -EAGAIN && take(story_now() + STORY_LIMIT_NS))
			continue;
		/* A worker died while it was told of a buffer. */
		if (ret == -EIO)
			continue;
		if (ret != 0)
			break;
		if (dice(8) == 0)
			change_buffer((uint32_t)dice(ROWS));
		if (dice(256) == 0 && gpumap_cancel(session, row) != 0)
			break;
		if (dice(32) == 0 &&
		    gpumap_cancel_job(session, row,
				      history.submitted - 1 - dice(8)) < 0)
			break;
		if (history.submitted >= next_kill) {
			next_kill += 1 + dice(2 * KILL_EVERY);
			kill_one();
		}
		if (dice(4) == 0)
			take(0);
	}
	if (ret != 0)
		NOTE("submit says %d after %llu jobs", ret,
		     (unsigned long long)history.submitted);
	return history.submitted == history.n;
}

static void every_job_ends_once(void)
{
	uint64_t missing = 0;

	memset(&history, 0, sizeof(history));
	history.n = (uint64_t)story_rounds() * PER_ROUND;
	history.ended = calloc(history.n, 1);
	history.kind = calloc(history.n, 1);
	OK(submit_all());
	while (history.taken < history.submitted &&
	       take(story_now() + STORY_LIMIT_NS))
		;
	OK(!take(0));
	for (uint64_t i = 0; i < history.submitted; i++)
		missing += history.ended[i] != 1;
	EQ(missing, 0);
	EQ(history.doubled, 0);
	EQ(history.misplaced, 0);
	EQ(history.strange, 0);
	EQ(history.taken, history.submitted);
	NOTE("%llu jobs: %llu with 0, %llu -EIO, %llu -ETIME, %llu -ECANCELED, "
	     "%llu -ESTALE",
	     (unsigned long long)history.taken,
	     (unsigned long long)history.by_status[0],
	     (unsigned long long)history.by_status[1],
	     (unsigned long long)history.by_status[2],
	     (unsigned long long)history.by_status[3],
	     (unsigned long long)history.by_status[4]);
	NOTE("%llu buffers, %llu copies from row to row, %llu refused, %llu "
	     "programs",
	     (unsigned long long)history.made,
	     (unsigned long long)history.crossed,
	     (unsigned long long)history.refused,
	     (unsigned long long)history.ran);
	OK(history.by_status[0] > history.n / 4);
	OK(history.by_status[1] > 0); /* workers died while it ran */
	OK(history.made > ROWS && history.crossed > 0);
	OK(programs[0] == 0 || history.ran > 0);
	free(history.ended);
	free(history.kind);
}

/* Load the program on every row, before there is any buffer. */
static bool load_programs(void)
{
	for (uint32_t row = 0; row < ROWS; row++) {
		int ret = gpumap_program_load(session, row, "square",
					      &programs[row]);

		if (EQ(ret, 0))
			continue;
		NOTE("%s", gpumap_refusal(map));
		return false;
	}
	return true;
}

static void play(int fd, bool with_programs)
{
	struct gpumap_session_opts opts = {
		.size = sizeof(opts),
		.flags = with_programs ? GPUMAP_SESSION_PROGRAMS : 0,
	};
	void *memory;

	memset(buffers, 0, sizeof(buffers));
	if (!EQ(gpumap_session_open(map, &opts, &session), 0))
		return;
	if (EQ(gpumap_alloc(session, 0, 2 * HALF * sizeof(*words), &memory),
	       0) &&
	    (!with_programs || load_programs())) {
		words = memory;
		file = load_register(session, fd);
		every_job_ends_once();
	}
	gpumap_session_close(session);
}

#ifdef STAGE_CUDA

static bool begin(void)
{
	stage_make(&agent, "[host]\nrows = 3\n");
	return OK(agent_start(&agent)) && OK((map = story_attach(&agent)));
}

#else

static bool begin(void)
{
	char config[256];

	make();
	put("square", "square");
	snprintf(config, sizeof(config),
		 "[host]\nrows = 3\n[programs]\ndirectory = %s\n"
		 "policy = any\n",
		 folder);
	stage_make(&agent, config);
	return OK(agent_start(&agent)) && OK((map = story_attach(&agent)));
}

#endif

TAP_CASE()
{
	int fd = load_file(".", HALF * sizeof(*words));

	if (begin()) {
		play(fd, false);
		if (folder[0])
			play(fd, true);
	}
	close(fd);
	return stage_finish(&agent, map);
}
