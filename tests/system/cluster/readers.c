/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Readers go through the nodes, devices and shares of a cluster that is
 * published all the time, while agents are killed: what they read between two
 * looks at one version is one publication, whole, and none that is older than
 * what its publisher had been told of before.
 *
 *	GM_ROUNDS	times 50 publications (default 20)
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "shm/atomic.h"
#include "tests/support/nodes/cluster_nodes.h"
#include "tests/support/story.h"

#define READERS 4
#define NODES   60u
#define BURST   8u /* publications, and then a reader gets one of them whole */

/* Words by which readers and the publisher talk. */
struct report {
	gm_a64 acknowledged; /* content that the agent has said is published */
	gm_a64 whole;
	gm_a64 dropped;
	gm_a64 torn;
	gm_a64 old;
	gm_a64 failed;
	gm_a32 stop;
};

static struct agent agent;
static struct gpumap *map;
static struct report *report;

/* Each content has another number of nodes, devices and shares.  The segment
 * has room for three of them, so a block is soon written again. */
static struct cluster_nodes nodes_of(uint32_t content)
{
	return (struct cluster_nodes){ NODES - content % 3, 5 + content % 4,
				       content % 5, content };
}

static void read_once(struct gpumap *own)
{
	uint64_t before = gm_get_acquire(&report->acknowledged);
	struct gpumap_cluster_node node = { .size = sizeof(node) };
	struct cluster_nodes nodes;
	uint32_t cursor = 0;
	int ret = gpumap_cluster_next_node(own, &cursor, &node);

	if (ret == 1) {
		if (node.epoch < before)
			gm_add_ordered(&report->old, 1);
		nodes = nodes_of((uint32_t)node.epoch);
		ret = cluster_nodes_check_version(own, &nodes, node.version);
	}
	if (ret == 0)
		gm_add_ordered(&report->whole, 1);
	else if (ret == -EAGAIN)
		gm_add_ordered(&report->dropped, 1);
	else if (ret == -EINVAL)
		gm_add_ordered(&report->torn, 1);
	else
		gm_add_ordered(&report->failed, 1);
}

static void be_reader(void)
{
	struct gpumap *own;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* An agent that gets no turn for seconds is taken for dead. */
	(void)!nice(19);
	own = story_attach(&agent);
	if (own == NULL)
		_exit(1);
	while (gm_get(&report->stop) == 0)
		read_once(own);
	gpumap_detach(own);
	_exit(0);
}

static int publish(uint32_t content)
{
	const struct cluster_nodes nodes = nodes_of(content);
	int ret = cluster_nodes_publish(map, &nodes, GPUMAP_CLUSTER_HEARD);

	if (ret == 0)
		gm_put_release(&report->acknowledged, content);
	else
		NOTE("%u: %d %s", content, ret, gpumap_refusal(map));
	return ret;
}

static void readers_find_whole_publications(uint32_t n)
{
	uint64_t until = story_now() + 20 * STORY_LIMIT_NS;
	pid_t readers[READERS];
	uint32_t content = 1;
	int bad = 0, status;

	for (uint32_t i = 0; i < READERS; i++) {
		readers[i] = fork();
		if (readers[i] == 0)
			be_reader();
		bad += readers[i] < 0;
	}
	while (content < n && bad == 0 && gm_get(&report->failed) == 0 &&
	       story_now() < until) {
		uint64_t whole = gm_get(&report->whole);

		for (uint32_t i = 0; i < BURST; i++)
			bad += publish(++content) != 0;
		while (gm_get(&report->whole) == whole && story_now() < until)
			story_nap(1000);
		if (content % (25 * BURST) == 1) {
			agent_kill(&agent, SIGKILL);
			bad += !agent_start_until(&agent, "open");
		}
	}
	gm_put(&report->stop, 1);
	for (uint32_t i = 0; i < READERS; i++)
		bad += waitpid(readers[i], &status, 0) < 0 || status != 0;
	NOTE("%llu of %u publications, %llu reads thrown away",
	     (unsigned long long)gm_get(&report->whole), content,
	     (unsigned long long)gm_get(&report->dropped));
	EQ(bad, 0);
	EQ(gm_get(&report->failed), 0);
	EQ(gm_get(&report->torn), 0);
	EQ(gm_get(&report->old), 0);
	OK(gm_get(&report->whole) >= n / BURST && content >= n);
	EQ(agent_count_log(&agent, "segment_retired"), 0);
}

TAP_CASE()
{
	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	agent_make(&agent, "[segment]\nsize = 1M\n");
	if (OK(report != MAP_FAILED) && OK(agent_start_until(&agent, "open")) &&
	    OK((map = story_attach(&agent))) && EQ(publish(1), 0))
		readers_find_whole_publications((uint32_t)story_rounds() * 50);
	gpumap_detach(map);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
