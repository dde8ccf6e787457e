/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks two rows that drain, of which one has finished long before the other,
 * which still has to copy out of its memory.  The first row goes on lending
 * until the copies are made, for drain-row and no longer, or until its worker
 * dies.
 */

#include <signal.h>
#include <sys/wait.h>

#include "tests/support/program_agent.h"

#define BYTES (UINT64_C(256) << 10)
#define KINDS 2 /* kinds of buffers: lent, and mapped by the other row */

static struct gpumap_session *session;
static uint32_t *memory; /* memory of the program that holds row 1 up */
static unsigned char *here[KINDS];
static uint64_t buffer[KINDS];
static pid_t drains[2];

static struct gpumap_job copy_of(int kind)
{
	return (struct gpumap_job){ .op = GPUMAP_OP_COPY,
				    .dtype = GPUMAP_DTYPE_U8,
				    .dst = here[kind],
				    .src_buffer = buffer[kind],
				    .n = BYTES };
}

/* Make a buffer of row 0 that row 1 has copied from once. */
static bool make_buffer(int kind)
{
	struct gpumap_job job = { .op = GPUMAP_OP_FILL,
				  .dtype = GPUMAP_DTYPE_U8,
				  .pattern = 7 + (uint64_t)kind,
				  .n = BYTES };
	void *at = NULL;

	if (!EQ(gpumap_alloc(session, 1, BYTES, &at), 0) ||
	    !EQ(gpumap_buffer_alloc(
			session, 0, BYTES, kind ? GPUMAP_BUFFER_EXPORTABLE : 0,
			story_now() + STORY_LIMIT_NS, &buffer[kind]),
		0))
		return false;
	here[kind] = at;
	job.dst_buffer = buffer[kind];
	if (!EQ(story_run(session, 0, &job), 0))
		return false;
	job = copy_of(kind);
	if (!EQ(story_run(session, 1, &job), 0))
		return false;
	memset(here[kind], 0, BYTES);
	return true;
}

/* Row 1 runs a program, and has copies to make after that. */
static bool begin(const char *more)
{
	char config[128];
	uint64_t odd = 0;
	void *at = NULL;
	struct gpumap_job job;

	put("odd", "odd");
	snprintf(config, sizeof(config), "policy = any\nlimit = 0\n%s", more);
	if (!OK(start(config)) || !OK((session = open_with(true)) != NULL) ||
	    !EQ(gpumap_alloc(session, 1, 4096, &at), 0) ||
	    !EQ(gpumap_program_load(session, 1, "odd", &odd), 0))
		return false;
	memory = at;
	for (int kind = 0; kind < KINDS; kind++)
		if (!make_buffer(kind))
			return false;
	job = odd_job(odd, memory, ODD_WAITS);
	if (!EQ(gpumap_submit(session, 1, &job, 1), 0))
		return false;
	for (int kind = 0; kind < KINDS; kind++) {
		job = copy_of(kind);
		if (!EQ(gpumap_submit(session, 1, &job, 1), 0))
			return false;
	}
	return OK(goes_on(memory));
}

static pid_t drain(uint32_t row)
{
	pid_t pid = fork();

	if (pid == 0) {
		map = story_attach(&agent);
		_exit(!map || gpumap_device_drain(map, row) != 0);
	}
	STORY_WAIT_WHILE(story_device(map, row).state !=
			 GPUMAP_DEVICE_DRAINING);
	EQ(story_device(map, row).state, GPUMAP_DEVICE_DRAINING);
	return pid;
}

/* Row 0 has no jobs.  Its drain begins once row 1 is draining. */
static void drain_both(void)
{
	drains[1] = drain(1);
	drains[0] = drain(0);
}

static void both_are_drained(void)
{
	for (uint32_t row = 0; row < 2; row++) {
		int status = -1;

		EQ(waitpid(drains[row], &status, 0), drains[row]);
		EQ(status, 0);
	}
}

static bool is_lending(void)
{
	return OK(agent_wait_log(&agent, "event=worker_lends row=0"));
}

static void let_row_1_go_on(void)
{
	*(volatile uint32_t *)(memory + 4) = 2;
}

static void all_was_copied(void)
{
	EQ(story_end(session), 0); /* the program */
	for (int kind = 0; kind < KINDS; kind++) {
		uint64_t n_right = 0;

		EQ(story_end(session), 0);
		for (uint64_t i = 0; i < BYTES; i++)
			n_right += here[kind][i] == 7 + kind;
		EQ(n_right, BYTES);
	}
}

/* Lent memory is gone.  Memory that row 1 has mapped may stay a little
 * longer. */
static void the_lender_was_gone(void)
{
	int status;

	EQ(story_end(session), 0);
	EQ(story_end(session), -ESTALE);
	status = story_end(session);
	if (status != 0)
		EQ(status, -ESTALE);
}

static bool was_killed(void)
{
	return agent_logged(&agent, "event=worker_killed row=0 programs_of=");
}

static void finish(void)
{
	if (tap_failures)
		agent_show_log(&agent);
	gpumap_session_close(session);
	gpumap_detach(map);
	map = NULL;
}

static void one_lends_until_the_other_is_through(void)
{
	if (!begin(""))
		return;
	drain_both();
	if (is_lending())
		OK(story_lives(program_worker(0)));
	let_row_1_go_on();
	all_was_copied();
	both_are_drained();
	OK(!agent_logged(&agent, "event=lent_long"));
	OK(!was_killed());
	EQ(agent_kill(&agent, SIGTERM), 0);
	finish();
}

/* The row's own worker has no memory to lend, and ends. */
static void likewise_at_the_end_of_the_agent(void)
{
	pid_t own;

	if (!begin("[agent]\ndrain = 60s\n"))
		return;
	own = (pid_t)story_device(map, 0).worker_pid;
	kill(agent.pid, SIGTERM);
	is_lending();
	OK(gone_soon(own));
	let_row_1_go_on();
	all_was_copied();
	EQ(agent_wait(&agent), 0);
	OK(!was_killed());
	finish();
}

/* On a machine that is held up for so long the lender may be killed, because it
 * has not reported yet that it has nothing left to do. */
static void nobody_lends_for_ever(void)
{
	pid_t lender;

	if (!begin("[agent]\ndrain-row = 1s\n"))
		return;
	lender = program_worker(0);
	drain_both();
	OK(gone_soon(lender));
	OK(agent_logged(&agent, "event=lent_long row=0") || was_killed());
	let_row_1_go_on();
	the_lender_was_gone();
	for (uint32_t row = 0; row < 2; row++)
		waitpid(drains[row], NULL, 0); /* may have been told to wait */
	EQ(agent_kill(&agent, SIGTERM), 0);
	finish();
}

static void one_that_dies_lends_no_more(void)
{
	if (!begin(""))
		return;
	drain_both();
	if (is_lending()) {
		kill(program_worker(0), SIGKILL);
		OK(gone_soon(program_worker(0)));
	}
	let_row_1_go_on();
	the_lender_was_gone();
	both_are_drained();
	EQ(agent_kill(&agent, SIGTERM), 0);
	finish();
}

TAP_CASE()
{
	make();
	one_lends_until_the_other_is_through();
	likewise_at_the_end_of_the_agent();
	nobody_lends_for_ever();
	one_that_dies_lends_no_more();
	agent_remove(&agent);
	return tap_done();
}
