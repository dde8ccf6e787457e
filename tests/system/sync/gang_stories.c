/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/system/sync/gang_stories.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/story.h"
#include "tests/support/tap.h"

#define STEP_US 2000
#define ALL     ((1u << GANG_NODES) - 1)
#define LIST    64

static const char node_file[] =
	"rows:\n"
	"- { name: A, kind: cuda, count: 2, memory: 16G,\n"
	"    compute-capability: 9.0, sm-count: 100, threads-per-sm: 2048 }\n";

static const char names[GANG_NODES][2] = { "a", "b", "c" };

struct sync_node gang_nodes[GANG_NODES];

static struct sync_place *place;

/* ---- begin and end ------------------------------------------------------- */

void gang_make(uint32_t ttl_ms)
{
	for (unsigned int i = 0; i < GANG_NODES; i++) {
		sync_node_make(&gang_nodes[i], names[i], NULL);
		gang_nodes[i].ttl_ms = ttl_ms;
		agent_configure_dummies(&gang_nodes[i].agent, node_file,
					"[host]\nenabled = no\n");
	}
}

static void each_sees_all(void)
{
	for (unsigned int i = 0; i < GANG_NODES; i++) {
		/* The agent may still have what it was told before. */
		OK(sync_node_wait_log(&gang_nodes[i], "event=ready "));
		for (unsigned int j = 0; j < GANG_NODES; j++)
			OK(sync_node_sees(&gang_nodes[i], names[j],
					  GPUMAP_CLUSTER_LIVE,
					  SYNC_LIMIT_MS) >= 0);
	}
}

void gang_begin(struct sync_place *at)
{
	place = at;
	for (unsigned int i = 0; i < GANG_NODES; i++)
		if (!OK(sync_node_start(&gang_nodes[i], place)))
			exit(tap_done());
	each_sees_all();
}

void gang_end(void)
{
	for (unsigned int i = 0; i < GANG_NODES; i++) {
		EQ(sync_node_kill(&gang_nodes[i], SIGTERM), 0);
		OK(!sync_node_logged(&gang_nodes[i], "level=error"));
		sync_node_remove(&gang_nodes[i]);
	}
}

/* ---- what is asked and seen ---------------------------------------------- */

static struct gpumap_sync *connect_to(unsigned int i)
{
	struct gpumap_sync *sync = NULL;

	EQ(gpumap_sync_open(gang_nodes[i].socket, &sync), 0);
	return sync;
}

int gang_reserve(struct gpumap_sync *sync, const char *name, uint32_t nodes,
		 uint64_t bytes)
{
	struct gpumap_gang_part parts[GANG_NODES];
	struct gpumap_gang_member members[GANG_NODES];
	struct gpumap_gang_request request = { .size = sizeof(request),
					       .name = name,
					       .members = members };

	for (unsigned int i = 0; i < GANG_NODES; i++) {
		struct gpumap_device device =
			story_device(gang_nodes[i].map, 0);

		if ((nodes >> i & 1) == 0)
			continue;
		memcpy(parts[i].uuid, device.uuid, sizeof(parts[i].uuid));
		parts[i].bytes = bytes;
		members[request.n_members++] = (struct gpumap_gang_member){
			.node = names[i], .parts = &parts[i], .n_parts = 1
		};
	}
	return gpumap_gang_reserve(sync, &request);
}

/* On a busy machine a node may be gone for a moment after its start. */
static int reserve_soon(struct gpumap_sync *sync)
{
	uint64_t limit = story_now() + STORY_LIMIT_NS;
	int ret = gang_reserve(sync, "g", ALL, 1);

	for (; ret == -EHOSTUNREACH && story_now() < limit; story_nap(20000))
		ret = gang_reserve(sync, "g", ALL, 1);
	return ret;
}

uint64_t gang_held(unsigned int i, const char *name)
{
	struct gpumap_reservation list[LIST] = { { .size = sizeof(*list) } };
	int n = gpumap_reservation_list(gang_nodes[i].map, list, LIST);

	for (int k = 0; k < n; k++)
		if (strcmp(list[k].name, name) == 0)
			return list[k].bytes;
	return 0;
}

/* Wait until nodes hold so much.  Returns the milliseconds. */
static int wait_held(uint32_t nodes, const char *name, uint64_t bytes)
{
	uint64_t since_ns = story_now(), ms = 0;

	for (unsigned int i = 0; i < GANG_NODES; i++) {
		if ((nodes >> i & 1) == 0)
			continue;
		while (gang_held(i, name) != bytes) {
			ms = (story_now() - since_ns) / 1000000;
			if (ms > SYNC_LIMIT_MS) {
				NOTE("%s has not %llu of %s", names[i],
				     (unsigned long long)bytes, name);
				sync_node_show_log(&gang_nodes[i]);
				return -1;
			}
			story_nap(STEP_US);
		}
	}
	return (int)((story_now() - since_ns) / 1000000);
}

/* Wait until the connection has something to say, and hear it. */
static int hear(struct gpumap_sync *sync)
{
	struct pollfd at = { .fd = gpumap_sync_fd(sync), .events = POLLIN };

	EQ(poll(&at, 1, SYNC_LIMIT_MS), 1);
	return gpumap_sync_check(sync);
}

/* ---- stories ------------------------------------------------------------- */

static void all_hold_and_all_release(void)
{
	for (unsigned int i = 0; i < GANG_NODES; i++) {
		struct gpumap_sync *sync = connect_to(i);

		EQ(gang_reserve(sync, "g", ALL, GANG_CARD), 0);
		for (unsigned int j = 0; j < GANG_NODES; j++)
			EQ(gang_held(j, "g"), GANG_CARD);
		EQ(gang_reserve(sync, "h", ALL, 1), -EALREADY);
		EQ(gpumap_sync_check(sync), 0);
		EQ(gpumap_gang_release(sync), 0);
		EQ(gpumap_gang_release(sync), -ENOENT);
		OK(wait_held(ALL, "g", 0) >= 0);
		/* The connection may have another. */
		EQ(gang_reserve(sync, "g", ALL & ~(1u << i), 1), 0);
		EQ(gang_held(i, "g"), 0);
		gpumap_sync_close(sync);
		OK(wait_held(ALL, "g", 0) >= 0);
	}
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *one = a, *other = b;

	return *one < *other ? -1 : *one > *other;
}

/* The time to reserve and to release, for the reader. */
static void tell_times(uint32_t nodes, const char *what)
{
	unsigned int n = (unsigned int)story_rounds_or(40);
	uint64_t *took[2] = { calloc(n, sizeof(uint64_t)),
			      calloc(n, sizeof(uint64_t)) };
	struct gpumap_sync *sync = connect_to(0);
	unsigned int failed = 0;

	for (unsigned int i = 0; took[0] != NULL && took[1] != NULL && i < n;
	     i++) {
		uint64_t since_ns = story_now();

		failed += gang_reserve(sync, "g", nodes, 1) != 0;
		took[0][i] = story_now() - since_ns;
		since_ns = story_now();
		failed += gpumap_gang_release(sync) != 0;
		took[1][i] = story_now() - since_ns;
	}
	EQ(failed, 0);
	for (unsigned int k = 0; k < 2; k++) {
		qsort(took[k], n, sizeof(*took[k]), by_size);
		NOTE("%s %s: median %.1f ms, p99 %.1f ms, most %.1f ms", what,
		     k == 0 ? "reserved" : "released",
		     (double)took[k][n / 2] / 1e6,
		     (double)took[k][n * 99 / 100] / 1e6,
		     (double)took[k][n - 1] / 1e6);
		free(took[k]);
	}
	gpumap_sync_close(sync);
	OK(wait_held(ALL, "g", 0) >= 0);
}

static void refused(int want, const char *says)
{
	if (!OK(strstr(gpumap_refusal(NULL), says) != NULL))
		NOTE("%d: %s", want, gpumap_refusal(NULL));
}

static void a_refusal_names_the_node(void)
{
	struct gpumap_sync *sync = connect_to(0), *other = connect_to(1);
	struct gpumap_gang_part part = { .bytes = 1 };
	struct gpumap_gang_member members[2] = {
		{ .node = "b", .parts = &part, .n_parts = 1 },
		{ .node = "nowhere", .parts = &part, .n_parts = 1 },
	};
	struct gpumap_gang_request request = { .size = sizeof(request),
					       .name = "g",
					       .members = members,
					       .n_members = 2 };

	EQ(gang_reserve(other, "first", 1u << 2, GANG_CARD / 2 + 1), 0);
	EQ(gang_reserve(sync, "g", ALL, GANG_CARD / 2), -ENOSPC);
	refused(-ENOSPC, "node c");
	EQ(gang_reserve(sync, "first", ALL, 1), -EEXIST);
	refused(-EEXIST, "node c");
	EQ(gpumap_gang_reserve(sync, &request), -EHOSTUNREACH);
	refused(-EHOSTUNREACH, "nowhere");
	request.n_members = 1;
	EQ(gpumap_gang_reserve(sync, &request), -ENODEV);
	refused(-ENODEV, "node b");
	part.bytes = 0;
	EQ(gpumap_gang_reserve(sync, &request), -EINVAL);
	refused(-EINVAL, "node b");
	members[0].reserved = 1;
	EQ(gpumap_gang_reserve(sync, &request), -EINVAL);
	refused(-EINVAL, "has to be 0");
	OK(wait_held(ALL, "g", 0) >= 0);
	OK(wait_held(3, "first", 0) >= 0);
	EQ(gpumap_sync_check(other), 0);
	gpumap_sync_close(sync);
	gpumap_sync_close(other);
	OK(wait_held(ALL, "first", 0) >= 0);
}

static void a_killed_process_holds_nothing(void)
{
	int ready[2];
	char byte = 0;
	pid_t child;

	if (!OK(pipe(ready) == 0))
		return;
	fflush(stdout);
	child = fork();
	if (child == 0) {
		struct gpumap_sync *sync = NULL;

		if (gpumap_sync_open(gang_nodes[0].socket, &sync) == 0 &&
		    gang_reserve(sync, "g", ALL, 1) == 0 &&
		    write(ready[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	EQ(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	EQ(gang_held(2, "g"), 1);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	OK(wait_held(ALL, "g", 0) >= 0);
}

static void a_lost_member_ends_the_gang(void)
{
	struct gpumap_sync *sync = connect_to(0);
	uint64_t since_ns;
	int ms;

	EQ(gang_reserve(sync, "g", ALL, 1), 0);
	EQ(sync_node_kill(&gang_nodes[2], SIGKILL), -SIGKILL);
	since_ns = story_now();
	EQ(hear(sync), -ENOLINK);
	refused(-ENOLINK, "node c");
	OK(wait_held(ALL, "g", 0) >= 0);
	ms = (int)((story_now() - since_ns) / 1000000);
	NOTE("the others held for %d ms more", ms);
	EQ(gpumap_gang_release(sync), -ENOENT);
	OK(sync_node_sees(&gang_nodes[0], "c", GPUMAP_CLUSTER_GONE,
			  SYNC_LIMIT_MS) >= 0);
	EQ(gang_reserve(sync, "g", ALL, 1), -EHOSTUNREACH);
	refused(-EHOSTUNREACH, "node c");
	OK(sync_node_start(&gang_nodes[2], place));
	each_sees_all();
	EQ(reserve_soon(sync), 0);
	gpumap_sync_close(sync);
	OK(wait_held(ALL, "g", 0) >= 0);
}

/* Its successor holds the bytes that the agent has given back, and the process
 * hears of nothing. */
static void a_member_that_starts_anew_holds_again(void)
{
	struct gpumap_sync *sync = connect_to(0);
	struct pollfd at = { .events = POLLIN };

	EQ(gang_reserve(sync, "g", ALL, 1), 0);
	EQ(sync_node_kill(&gang_nodes[1], SIGKILL), -SIGKILL);
	OK(sync_node_start(&gang_nodes[1], place));
	OK(wait_held(ALL, "g", 1) >= 0);
	/* Its predecessor's answer would have gone with the lease. */
	at.fd = gpumap_sync_fd(sync);
	EQ(poll(&at, 1, (int)gang_nodes[1].ttl_ms + 1000), 0);
	OK(wait_held(ALL, "g", 1) >= 0);
	gpumap_sync_close(sync);
	OK(wait_held(ALL, "g", 0) >= 0);
}

static void a_killed_coordinator_ends_the_gang(void)
{
	struct gpumap_sync *sync = connect_to(0);

	EQ(gang_reserve(sync, "g", ALL, 1), 0);
	EQ(sync_node_kill(&gang_nodes[0], SIGKILL), -SIGKILL);
	EQ(hear(sync), -ECONNRESET);
	gpumap_sync_close(sync);
	OK(wait_held(ALL, "g", 0) >= 0);
	OK(sync_node_sees(&gang_nodes[1], "a", GPUMAP_CLUSTER_GONE,
			  SYNC_LIMIT_MS) >= 0);
	OK(sync_node_start(&gang_nodes[0], place));
	each_sees_all();
}

static void an_agent_may_start_anew(void)
{
	struct gpumap_sync *sync = connect_to(0);

	EQ(reserve_soon(sync), 0);
	EQ(agent_kill(&gang_nodes[1].agent, SIGKILL), -SIGKILL);
	OK(agent_start(&gang_nodes[1].agent));
	sync_node_attach(&gang_nodes[1]);
	OK(sync_node_wait_log(&gang_nodes[1], "event=agent "));
	EQ(gang_held(1, "g"), 1);
	EQ(gpumap_sync_check(sync), 0);
	/* A gang that ends while it is away ends there when it is back. */
	EQ(agent_kill(&gang_nodes[1].agent, SIGKILL), -SIGKILL);
	EQ(gpumap_gang_release(sync), 0);
	OK(wait_held(5, "g", 0) >= 0);
	OK(agent_start(&gang_nodes[1].agent));
	sync_node_attach(&gang_nodes[1]);
	OK(wait_held(ALL, "g", 0) >= 0);
	gpumap_sync_close(sync);
}

static void a_map_that_is_released_ends_the_gang(void)
{
	struct gpumap_sync *sync = connect_to(0);

	EQ(gang_reserve(sync, "g", ALL, 1), 0);
	EQ(gpumap_layers_release(gang_nodes[2].map, "g"), 0);
	EQ(hear(sync), -ENOLINK);
	refused(-ENOLINK, "node c");
	OK(wait_held(ALL, "g", 0) >= 0);
	gpumap_sync_close(sync);
}

void gang_stories_tell(void)
{
	all_hold_and_all_release();
	tell_times(6, "two nodes");
	tell_times(ALL, "three nodes");
	a_refusal_names_the_node();
	a_killed_process_holds_nothing();
	a_lost_member_ends_the_gang();
	a_member_that_starts_anew_holds_again();
	a_killed_coordinator_ends_the_gang();
	an_agent_may_start_anew();
	a_map_that_is_released_ends_the_gang();
}
