/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumap_comm_renew: a broken communicator is renewed while collectives
 * of the time before are still under way, after its mesh moved to other rows,
 * and while its mesh is missing.
 */

#include <signal.h>

#include "tests/support/story_rows.h"
#include "tests/support/collective.h"

#define CONFIG "[host]\nrows = 4\n"

static struct agent agent;
static struct gpumap *map;
static struct gpumap_session *session;

static const struct shape sum = { .op = GPUMAP_OP_ALL_REDUCE,
				  .dtype = GPUMAP_DTYPE_F32,
				  .n = 100 };
static const struct shape barrier = { .op = GPUMAP_OP_BARRIER };

static pid_t worker_of(uint32_t row)
{
	return (pid_t)story_device(map, row).worker_pid;
}

/* Publish the mesh "m" on these rows. */
static int arrange(const uint32_t *rows, uint32_t n)
{
	return collective_mesh_of(map, "m", rows, n);
}

/* The communicator's ranks must be on these rows, and a collective on them must
 * be right. */
static void is_on(struct ranks *g, const uint32_t *rows, uint32_t n)
{
	uint32_t now[COLLECTIVE_RANKS];
	uint32_t n_now =
		(uint32_t)gpumap_comm_rows(g->comm, now, COLLECTIVE_RANKS);

	if (!EQ(n_now, n))
		return;
	EQ(memcmp(now, rows, n * sizeof(now[0])), 0);
	g->n = n;
	EQ(collective_once(g, &sum, 1), 0);
}

static void it_follows_its_mesh(void)
{
	static const uint32_t two[] = { 0, 1 }, three[] = { 2, 3, 1 };
	struct ranks g;

	EQ(arrange(three, 3), 0);
	/* The communicator is opened with memory for three ranks. */
	if (!collective_open(session, "m", 65536, &g))
		return;
	EQ(arrange(two, 2), 0);
	is_on(&g, three, 3);
	EQ(gpumap_comm_renew(g.comm), 0);
	is_on(&g, two, 2);
	EQ(arrange(three, 3), 0);
	EQ(gpumap_comm_renew(g.comm), 0);
	is_on(&g, three, 3);
	collective_close(&g);
}

/* A collective that began before the renewal and ends after it does not break
 * the renewed communicator. */
static void old_ones_do_not_break_it(void)
{
	pid_t pid = worker_of(2);
	struct ranks g;
	int32_t status;

	if (!collective_open(session, "ranks3", 65536, &g))
		return;
	/* The deadline ends no part before all are submitted. */
	for (uint32_t row = 0; row < 3; row++)
		OK(process_stop(worker_of(row)));
	g.deadline_ns = story_now() + 100000000;
	EQ(collective_submit(&g, &barrier, 1), 0);
	g.deadline_ns = 0;
	EQ(collective_submit(&g, &barrier, 2), 0);
	for (uint32_t row = 0; row < 2; row++)
		EQ(kill(worker_of(row), SIGCONT), 0);
	EQ(collective_end(session, 1), -ETIME);
	EQ(collective_submit(&g, &barrier, 3), -ESTALE);
	OK(strstr(gpumap_refusal(map), "gpumap_comm_renew") != NULL);
	EQ(kill(pid, SIGCONT), 0);
	EQ(gpumap_comm_renew(g.comm), 0);
	status = collective_end(session, 2);
	OK(status == -ESTALE || status == -EIO);
	EQ(collective_once(&g, &sum, 1), 0);
	/* A communicator that is not broken can be renewed, too. */
	EQ(gpumap_comm_renew(g.comm), 0);
	EQ(collective_once(&g, &sum, 1), 0);
	collective_close(&g);
}

/* Without its mesh the communicator stays broken.  As soon as the mesh is
 * published again, the communicator can be renewed, or closed. */
static void a_mesh_may_be_gone(void)
{
	static const uint32_t rows[] = { 0, 1 };
	struct ranks g;

	EQ(arrange(rows, 2), 0);
	if (!collective_open(session, "m", 65536, &g))
		return;
	EQ(gpumap_mesh_release(map, "m"), 0);
	EQ(collective_once(&g, &sum, 1), 0);
	for (int i = 0; i < 2; i++) {
		EQ(gpumap_comm_renew(g.comm), -ENOENT);
		EQ(collective_submit(&g, &sum, 1), -ESTALE);
	}
	EQ(arrange(rows, 2), 0);
	EQ(gpumap_comm_renew(g.comm), 0);
	EQ(collective_once(&g, &sum, 1), 0);
	EQ(gpumap_mesh_release(map, "m"), 0);
	EQ(gpumap_comm_renew(g.comm), -ENOENT);
	collective_close(&g);
}

/* Renewals leave nothing behind in the agent. */
static void it_may_be_renewed_for_ever(void)
{
	struct ranks g;
	int bad = 0, before;

	if (!collective_open(session, "ranks3", 65536, &g))
		return;
	EQ(gpumap_comm_renew(g.comm), 0);
	before = story_holds_at_rest(agent.pid);
	/* More renewals than a session may have communicators at once. */
	for (int i = 0; i < 300; i++)
		bad += gpumap_comm_renew(g.comm) != 0;
	EQ(bad, 0);
	OK(story_gives_back(agent.pid, before));
	EQ(collective_once(&g, &sum, 1), 0);
	gpumap_session_close(session);
	EQ(gpumap_comm_renew(g.comm), -ECONNRESET);
	gpumap_comm_close(g.comm);
}

TAP_CASE()
{
	stage_make(&agent, CONFIG);
	if (!OK(agent_start(&agent)))
		return tap_done();
	map = story_attach(&agent);
	if (!OK(map != NULL) ||
	    !EQ(gpumap_session_open(map, NULL, &session), 0))
		return tap_done();
	EQ(collective_mesh(map, "ranks3", 3), 0);
	it_follows_its_mesh();
	old_ones_do_not_break_it();
	a_mesh_may_be_gone();
	it_may_be_renewed_for_ever();
	story_finish(&agent, map);
	return tap_done();
}
