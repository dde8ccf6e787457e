/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks jobs that wait for jobs of other rows: their results show whether they
 * did wait.  Workers are killed meanwhile.  Every job ends exactly once.  A job
 * with status 0 is right unless a job it depends on has failed.
 */

#include "tests/support/dice.h"
#include "tests/support/story.h"
#include "tests/support/story_rows.h"

#define ROWS     3u
#define NODES    48u
#define ELEMENTS 32768u /* of each node: 128 KiB, so that it takes its time */
#define JOBS     3u     /* jobs of a node, at most */

static struct agent agent;
static struct gpumap *map;
static struct gpumap_session *session;

/* A node is some jobs in a row: the first fills in a number, the others add the
 * results of earlier nodes. */
struct node {
	uint32_t row;
	uint32_t n_deps;
	uint32_t deps[2]; /* earlier nodes */
	float own, want;
	float *cell;
	struct gpumap_time time; /* when it has ended */
	uint32_t n_jobs;
	uint32_t ended[JOBS]; /* times */
	int32_t status[JOBS];
};

static struct node nodes[NODES];

static bool open_nodes(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts) };

	if (gpumap_session_open(map, &opts, &session) != 0)
		return false;
	for (uint32_t i = 0; i < NODES; i++) {
		void *memory;

		/* Any row may use a cell, whichever range it lies in. */
		if (gpumap_alloc(session, i % ROWS, ELEMENTS * sizeof(float),
				 &memory) != 0)
			return false;
		nodes[i].cell = memory;
	}
	return true;
}

static void plan_node(uint32_t i)
{
	struct node *n = &nodes[i];
	float *cell = n->cell;

	*n = (struct node){ .row = (uint32_t)dice(ROWS), .cell = cell };
	n->own = (float)(1 + dice(15));
	n->want = n->own;
	n->n_deps = i == 0 ? 0 : (uint32_t)dice(3);
	for (uint32_t d = 0; d < n->n_deps; d++) {
		n->deps[d] = i - 1 - (uint32_t)dice(i < 5 ? i : 5);
		n->want += nodes[n->deps[d]].want;
	}
	if (n->want > 1 << 20) { /* beyond what floats count exactly */
		n->n_deps = 0;
		n->want = n->own;
	}
	n->n_jobs = 1 + n->n_deps;
	for (uint32_t e = 0; e < ELEMENTS; e++)
		cell[e] = -1;
}

static int submit_node(uint32_t i)
{
	struct node *n = &nodes[i];
	struct gpumap_time waits[2];
	struct gpumap_job jobs[JOBS];
	int ret;

	for (uint32_t j = 0; j < n->n_jobs; j++)
		jobs[j] = (struct gpumap_job){ .op = GPUMAP_OP_AXPY,
					       .dtype = GPUMAP_DTYPE_F32,
					       .dst = n->cell,
					       .n = ELEMENTS,
					       .alpha = 1,
					       .cookie = i * JOBS + j };
	jobs[0].op = GPUMAP_OP_FILL;
	memcpy(&jobs[0].pattern, &n->own, sizeof(n->own));
	for (uint32_t d = 0; d < n->n_deps; d++) {
		jobs[1 + d].src = nodes[n->deps[d]].cell;
		waits[d] = nodes[n->deps[d]].time;
	}
	/* The results to be added must be there before the first job begins. */
	jobs[0].waits = waits;
	jobs[0].n_waits = n->n_deps;
	ret = gpumap_submit(session, n->row, jobs, n->n_jobs);
	if (ret == 0)
		ret = gpumap_submitted(session, n->row, &n->time);
	return ret;
}

static uint32_t collect(uint32_t n)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_done done[16];
	uint32_t taken = 0;

	while (taken < n) {
		int got = gpumap_wait(session, done, 16, until);

		if (got < 0) {
			NOTE("wait says %d after %u of %u", got, taken, n);
			return taken;
		}
		for (int k = 0; k < got; k++) {
			struct node *node = &nodes[done[k].cookie / JOBS];

			node->ended[done[k].cookie % JOBS]++;
			node->status[done[k].cookie % JOBS] = done[k].status;
		}
		taken += (uint32_t)got;
	}
	return gpumap_poll(session, done, 1) > 0 ? n + 1 : taken;
}

static bool has_value(const struct node *n)
{
	for (uint32_t e = 0; e < ELEMENTS; e++)
		if (n->cell[e] != n->want)
			return false;
	return true;
}

/* Totals of all rounds. */
static struct {
	int refused, lost, doubled, strange, wrong, failed, sound, absent;
} sum;

static void check_round(bool may_fail)
{
	bool is_sound[NODES];

	for (uint32_t i = 0; i < NODES; i++) {
		const struct node *n = &nodes[i];

		is_sound[i] = true;
		for (uint32_t d = 0; d < n->n_deps; d++)
			is_sound[i] &= is_sound[n->deps[d]];
		for (uint32_t j = 0; j < n->n_jobs; j++) {
			sum.doubled += n->ended[j] != 1;
			sum.failed += n->status[j] != 0;
			sum.strange += n->status[j] != 0 &&
				       !(may_fail && n->status[j] == -EIO);
			is_sound[i] &= n->status[j] == 0;
		}
		sum.sound += is_sound[i];
		sum.wrong += is_sound[i] && !has_value(n);
	}
}

static void one_round(int round, bool kills)
{
	uint32_t victim = (uint32_t)dice(ROWS), n_jobs = 0;
	struct gpumap_device device = story_device(map, victim);

	for (uint32_t i = 0; i < NODES; i++)
		plan_node(i);
	for (uint32_t i = 0; i < NODES; i++) {
		if (submit_node(i) != 0) {
			sum.refused++;
			return;
		}
		n_jobs += nodes[i].n_jobs;
	}
	if (kills) {
		story_nap(story_moment(round, 2500));
		kill((pid_t)device.worker_pid, SIGKILL);
	}
	sum.lost += collect(n_jobs) != n_jobs;
	check_round(kills);
	if (kills)
		sum.absent += !story_back(map, victim, device.restarts);
}

static void play(int rounds, bool kills)
{
	memset(&sum, 0, sizeof(sum));
	for (int round = 0; round < rounds; round++)
		one_round(round, kills);
	EQ(sum.refused, 0);
	EQ(sum.lost, 0);
	EQ(sum.doubled, 0);
	EQ(sum.strange, 0);
	EQ(sum.wrong, 0);
	EQ(sum.absent, 0);
	OK(sum.sound > 0);
	NOTE("%d nodes checked, %d jobs ended with -EIO", sum.sound,
	     sum.failed);
}

/* Returns how many eventfds the rows' workers hold. */
static int count_eventfds(void)
{
	int n = 0;

	for (uint32_t row = 0; row < ROWS; row++)
		n += story_holds((pid_t)story_device(map, row).worker_pid,
				 "[eventfd]");
	return n;
}

static void what_is_waited_for_has_been_done(void)
{
	int held = count_eventfds();

	play(story_rounds(), false);
	/* By now each worker holds the eventfd that wakes it, and at least one
	 * other row's. */
	if (story_sees((pid_t)story_device(map, 0).worker_pid, 1))
		OK(count_eventfds() >= held + 2 * (int)ROWS);
	EQ(sum.failed, 0);
	EQ(sum.sound, story_rounds() * (int)NODES);
}

static void deaths_leave_nothing_half_done(void)
{
	play(story_rounds(), true);
}

/* A scatter waits for a job, and a job waits for a scatter's tiles. */
static void scatters_wait_too(void)
{
	const uint32_t rows[] = { 0, 1 };
	struct gpumap_scatter_opts opts = { .size = sizeof(opts),
					    .rows = rows,
					    .n_rows = 2 };
	struct gpumap_job job = { .op = GPUMAP_OP_FILL,
				  .dtype = GPUMAP_DTYPE_F32,
				  .dst = nodes[0].cell,
				  .n = ELEMENTS };
	struct gpumap_tile tiles[2];
	struct gpumap_time waits[2];
	struct gpumap_done done;
	float two = 2, one = 1;
	int ret;

	/* The scatter waits for a slow job of a third row. */
	memcpy(&job.pattern, &two, sizeof(two));
	job.dst = nodes[1].cell;
	EQ(gpumap_submit(session, 2, &job, 1), 0);
	EQ(gpumap_submitted(session, 2, &waits[0]), 0);
	job = (struct gpumap_job){ .op = GPUMAP_OP_COPY,
				   .dtype = GPUMAP_DTYPE_F32,
				   .dst = nodes[0].cell,
				   .src = nodes[1].cell,
				   .n = ELEMENTS,
				   .waits = waits,
				   .n_waits = 1 };
	EQ(gpumap_scatter(session, &job, &opts, tiles, 2), 2);
	nodes[0].want = 2;
	OK(has_value(&nodes[0]));
	EQ(gpumap_wait(session, &done, 1, GPUMAP_NO_DEADLINE), 1);
	EQ(done.status, 0);

	/* The caller of this scatter does not wait; a job of a third row
	 * does. */
	opts.deadline_ns = 1;
	memcpy(&job.pattern, &one, sizeof(one));
	job.op = GPUMAP_OP_FILL;
	job.n_waits = 0;
	ret = gpumap_scatter(session, &job, &opts, tiles, 2);
	OK(ret == -ETIME || ret == 2); /* some machines are as fast as that */
	for (uint32_t i = 0; i < 2; i++)
		waits[i] = (struct gpumap_time){ .row = tiles[i].row,
						 .value = tiles[i].value };
	job = (struct gpumap_job){ .op = GPUMAP_OP_COPY,
				   .dtype = GPUMAP_DTYPE_F32,
				   .dst = nodes[2].cell,
				   .src = nodes[0].cell,
				   .n = ELEMENTS,
				   .waits = waits,
				   .n_waits = 2 };
	EQ(gpumap_submit(session, 2, &job, 1), 0);
	EQ(gpumap_wait(session, &done, 1, GPUMAP_NO_DEADLINE), 1);
	EQ(done.status, 0);
	nodes[2].want = 1;
	OK(has_value(&nodes[2]));
}

TAP_CASE()
{
	stage_make(&agent, "[host]\nrows = 3\n");
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent))) &&
	    OK(open_nodes())) {
		what_is_waited_for_has_been_done();
		scatters_wait_too();
		deaths_leave_nothing_half_done();
		gpumap_session_close(session);
	}
	return stage_finish(&agent, map);
}
