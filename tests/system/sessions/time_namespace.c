/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Clients and agents in time namespaces, whose CLOCK_MONOTONIC is hours ahead
 * of the others', or behind: a living agent is not stale and a silent one is,
 * slow requests are waited for, and jobs end by the deadlines of the client's
 * clock.
 */

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>

#include "tests/support/nodes/cluster_nodes.h"
#include "tests/support/mesh_agent.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#define SECOND_NS INT64_C(1000000000)
#define AHEAD_NS  (100000 * SECOND_NS)
#define BEHIND_NS (600 * SECOND_NS) /* or half of the machine's time */

static struct agent agent;
static int64_t behind_ns;

/* ---- namespaces ---------------------------------------------------------- */

/* The clock of children is ahead by @ns from now on; this process's is not. */
static bool children_move(int64_t ns)
{
	char text[64];
	int fd, n;

	if (unshare(CLONE_NEWTIME) != 0)
		return false;
	fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
	n = snprintf(text, sizeof(text), "monotonic %lld 0",
		     (long long)(ns / SECOND_NS));
	n -= (int)write(fd, text, (size_t)n);
	close(fd);
	return n == 0;
}

static void children_stay(void)
{
	int fd = open("/proc/self/ns/time", O_RDONLY | O_CLOEXEC);

	OK(fd >= 0 && setns(fd, CLONE_NEWTIME) == 0);
	close(fd);
}

/* ---- what a client sees -------------------------------------------------- */

static int wrong; /* in a child */

static void must(bool good, const char *what)
{
	if (good)
		return;
	wrong++;
	printf("# %s\n", what);
}

static struct gpumap_health health_of(const struct gpumap *map)
{
	struct gpumap_health health = { .size = sizeof(health) };

	must(gpumap_health(map, &health) == 0, "there is no health");
	return health;
}

static bool comes_to_be(const struct gpumap *map, bool stale)
{
	STORY_WAIT_WHILE(health_of(map).stale != stale);
	return health_of(map).stale == stale;
}

static void the_agent_lives(const struct gpumap *map)
{
	int ret;

	must(comes_to_be(map, false), "a living agent is stale");
	do
		ret = gpumap_wait_change(map, gpumap_generation(map),
					 story_now() + 1000000);
	while (ret == 0);
	must(ret == -ETIME, "no change is waited for");
}

static void the_agent_is_silent(const struct gpumap *map)
{
	must(process_stop(agent.pid), "the agent does not stop");
	must(comes_to_be(map, true), "a silent agent is not stale");
	must(gpumap_wait_change(map, gpumap_generation(map),
				GPUMAP_NO_DEADLINE) == -ESTALE,
	     "a silent agent is waited for");
	kill(agent.pid, SIGCONT);
	the_agent_lives(map);
}

/* Longer than the library waits without a look at the heartbeat. */
static void a_request_takes_its_time(struct gpumap *map)
{
	uint8_t id[GPUMAP_MESH_ID_BYTES] = { 1 };
	struct gpumap_mesh_group world = mesh_group(map, NULL);
	struct gpumap_mesh_join ask = {
		.size = sizeof(ask),
		.mesh = "m",
		.epoch = world.epoch,
		.deadline_ns = story_now() + (uint64_t)SECOND_NS * 3 / 2,
		.version = NCCL_NOW,
		.id = id,
	};
	uint64_t ticket;

	must(gpumap_mesh_join(map, &ask, id, &ticket) == -ETIMEDOUT,
	     "a slow request is not waited for");
}

static int end_of_job(struct gpumap_session *session, uint64_t deadline_ns)
{
	struct gpumap_job job = { .op = GPUMAP_OP_NOP,
				  .deadline_ns = deadline_ns };

	return story_run(session, 0, &job);
}

static void jobs_have_deadlines(struct gpumap *map)
{
	struct gpumap_session *session = NULL;
	uint64_t now = story_now();

	must(gpumap_session_open(map, NULL, &session) == 0, "no session");
	if (session == NULL)
		return;
	must(end_of_job(session, now + 2 * STORY_LIMIT_NS) == 0,
	     "a job ends before its deadline");
	must(end_of_job(session, UINT64_MAX - 1) == 0,
	     "a job ends before a time that never comes");
	must(end_of_job(session, now) == -ETIME, "a job outlives its deadline");
	must(end_of_job(session, 1) == -ETIME, "a job outlives time itself");
	gpumap_session_close(session);
}

/* A node that has not changed for longer than some machines run. */
#define NODE_AGE_NS    (5000000 * (uint64_t)SECOND_NS)
#define CLUSTER_AGE_NS (1000 * (uint64_t)SECOND_NS) /* at most */

static int publish_cluster(struct gpumap *map)
{
	static const struct cluster_nodes one = { 1, 1, 0, 1 };
	struct cluster_node made = { .node = { .size = 0 } };
	struct gpumap_cluster_entry entry = cluster_node_make(&one, 0, &made);
	struct gpumap_cluster_request request = cluster_request(
		&entry, 1, GPUMAP_CLUSTER_BEGIN | GPUMAP_CLUSTER_HEARD);

	made.node.age_ns = NODE_AGE_NS;
	request.limit_ns = CLUSTER_AGE_NS;
	return gpumap_cluster_publish(map, &request);
}

static void the_cluster_has_its_age(const struct gpumap *map)
{
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };
	struct gpumap_cluster_node node = { .size = sizeof(node) };
	uint32_t cursor = 0;

	must(gpumap_cluster_read(map, &cluster) == 0 && cluster.stale == 0 &&
		     cluster.age_ns > 0 && cluster.age_ns < CLUSTER_AGE_NS,
	     "the cluster was heard of at another time");
	must(gpumap_cluster_next_node(map, &cursor, &node) == 1 &&
		     node.age_ns >= NODE_AGE_NS &&
		     node.age_ns < NODE_AGE_NS + CLUSTER_AGE_NS,
	     "a node has changed at another time");
}

/* In a child whose clock is ahead of its parent's by @ahead_ns, where row 0 has
 * its state since @since_ns.  @inherited: the parent's attachment. */
static int look_around(struct gpumap *inherited, int64_t ahead_ns,
		       uint64_t since_ns)
{
	struct gpumap *map = inherited;

	if (map == NULL)
		map = story_attach(&agent);
	if (map == NULL)
		return 1;
	the_cluster_has_its_age(map);
	if (inherited != NULL)
		the_agent_lives(map); /* the library looks at the clock anew */
	must(story_device(map, 0).since_ns == since_ns + (uint64_t)ahead_ns,
	     "a row has its state since another time");
	the_agent_lives(map);
	the_agent_is_silent(map);
	if (inherited == NULL) {
		a_request_takes_its_time(map);
		jobs_have_deadlines(map);
	}
	gpumap_detach(map);
	return wrong;
}

/* @children_ns: how far the clock of children is ahead of ours. */
static void child_looks_around(struct gpumap *map, bool inherits,
			       int64_t children_ns)
{
	uint64_t since_ns = story_device(map, 0).since_ns;
	int status = -1;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		int ret = look_around(inherits ? map : NULL, children_ns,
				      since_ns);

		fflush(NULL);
		_exit(ret != 0);
	}
	OK(waitpid(pid, &status, 0) == pid && status == 0);
}

/* ---- stories ------------------------------------------------------------- */

static void clients_are_elsewhere(struct gpumap *map, int64_t ahead_ns)
{
	if (!OK(children_move(ahead_ns)))
		return;
	child_looks_around(map, false, ahead_ns);
	child_looks_around(map, true, ahead_ns);
	children_stay();
}

static bool agent_begins(int64_t ahead_ns, struct gpumap **ret_map)
{
	bool good = ahead_ns == 0 || OK(children_move(ahead_ns));

	good = good && OK(agent_start(&agent));
	if (ahead_ns != 0)
		children_stay();
	return good && OK((*ret_map = story_attach(&agent))) &&
	       EQ(mesh_publish(*ret_map), 0) &&
	       EQ(publish_cluster(*ret_map), 0);
}

static void agent_is_here(void)
{
	struct gpumap *map = NULL;

	if (agent_begins(0, &map)) {
		clients_are_elsewhere(map, AHEAD_NS);
		clients_are_elsewhere(map, -behind_ns);
	}
	story_finish(&agent, map);
}

/* Clients in the initial namespace, and in a third one. */
static void agent_is_elsewhere(int64_t ahead_ns)
{
	struct gpumap *map = NULL;

	if (agent_begins(ahead_ns, &map)) {
		child_looks_around(map, false, 0);
		clients_are_elsewhere(map, AHEAD_NS / 2);
	}
	story_finish(&agent, map);
}

TAP_CASE()
{
	behind_ns = (int64_t)(story_now() / 2);
	if (behind_ns > BEHIND_NS)
		behind_ns = BEHIND_NS;
	behind_ns -= behind_ns % SECOND_NS;
	if (!children_move(AHEAD_NS)) {
		SKIP(1, "this process may make no time namespace");
		return tap_done();
	}
	children_stay();
	agent_make(&agent, "[host]\nrows = 4\n");
	agent_is_here();
	agent_is_elsewhere(AHEAD_NS);
	agent_is_elsewhere(-behind_ns);
	agent_remove(&agent);
	return tap_done();
}
