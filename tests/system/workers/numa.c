/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * On a machine with several NUMA nodes: each worker's CPUs, its memory and its
 * range of a session's arena lie on its row's node, whichever process touches
 * them first, and so do its journal, its tile of memory for a scatter, and its
 * replicas of masks; the agent and the map are on the configured node, or on
 * that of most devices.
 *
 * With one node the test sees only what the kernel was told of replicas.
 */

#include <errno.h>
#include <numaif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/common/numa_bind.h"
#include "gpumap.h"
#include "tests/support/agent.h"
#include "tests/support/page_nodes.h"
#include "tests/support/tap.h"

#define MEBIBYTE (UINT64_C(1) << 20)
#define ARENA    (8 * MEBIBYTE)
#define HUGE     (2 * MEBIBYTE)
#define NODES    64

static struct agent agent;
static struct gpumap *map;

/* Pages of private memory of a process, by node, from its numa_maps.  Files
 * are not counted: their pages lie where they were first read. */
struct private_pages {
	uint64_t on[NODES];
	uint64_t all;
};

/* @file: only of the file whose name has this; NULL: private memory. */
static void count_line(char *line, const char *file,
		       struct private_pages *pages)
{
	char *rest = line, *word;

	if (file != NULL && strstr(line, file) == NULL)
		return;
	if (file == NULL &&
	    (strstr(line, "file=") != NULL || strstr(line, "anon=") == NULL))
		return;
	while ((word = strsep(&rest, " \n")) != NULL) {
		unsigned node;
		unsigned long n;

		if (sscanf(word, "N%u=%lu", &node, &n) == 2 && node < NODES) {
			pages->on[node] += n;
			pages->all += n;
		}
	}
}

static bool pages_of(unsigned pid, const char *of,
		     struct private_pages *ret_pages)
{
	char path[64], *line = NULL;
	size_t room = 0;
	FILE *file;

	memset(ret_pages, 0, sizeof(*ret_pages));
	snprintf(path, sizeof(path), "/proc/%u/numa_maps", pid);
	file = fopen(path, "re");
	if (file == NULL)
		return false;
	while (getline(&line, &room, file) > 0)
		count_line(line, of, ret_pages);
	free(line);
	fclose(file);
	return ret_pages->all > 0;
}

static bool private_pages(unsigned pid, struct private_pages *ret_pages)
{
	return pages_of(pid, NULL, ret_pages);
}

/* All pages of this file that the process has mapped are on the node. */
static void file_is_on_node(unsigned pid, const char *file, int node)
{
	struct private_pages pages;

	if (!OK(pages_of(pid, file, &pages)))
		return;
	NOTE("%s: %" PRIu64 " of %" PRIu64 " pages on node %d", file,
	     pages.on[node], pages.all, node);
	EQ(pages.on[node], pages.all);
}

static bool allowed_cpus(unsigned pid, char *ret_list, size_t room)
{
	char path[64], line[4096];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	file = fopen(path, "re");
	if (file == NULL)
		return false;
	while (!found && fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, "Cpus_allowed_list:", 18) == 0) {
			char *list = line + 18 + strspn(line + 18, " \t");

			list[strcspn(list, "\n")] = '\0';
			snprintf(ret_list, room, "%s", list);
			found = true;
		}
	fclose(file);
	return found;
}

static void a_worker_lives_on_its_node(const struct gpumap_device *device)
{
	struct private_pages pages;
	char cpus[256];

	NOTE("row %u: node %d, CPUs %s, worker %u", device->row,
	     device->numa_node, device->cpus, device->worker_pid);
	OK(allowed_cpus(device->worker_pid, cpus, sizeof(cpus)));
	STR(cpus, device->cpus);
	if (!OK(private_pages(device->worker_pid, &pages)))
		return;
	NOTE("%" PRIu64 " of %" PRIu64 " private pages on the node",
	     pages.on[device->numa_node], pages.all);
	/* The first pages of a process are there before it can choose. */
	OK(pages.on[device->numa_node] * 10 >= pages.all * 8);
	file_is_on_node(device->worker_pid, "gpumap-journal",
			device->numa_node);
}

/* All pages of @memory, touched by this process, lie on the row's node. */
static void lies_on_node(void *memory, int node, const char *who)
{
	volatile char *bytes = memory;
	struct page_nodes_count pages;

	for (uint64_t at = 0; at < 4 * MEBIBYTE; at += 4096)
		bytes[at] = bytes[at];
	if (!EQ(page_nodes(memory, 4 * MEBIBYTE, node, &pages), 0))
		return;
	NOTE("%s first: %" PRIu64 " pages here, %" PRIu64 " elsewhere", who,
	     pages.here, pages.elsewhere);
	EQ(pages.here, 4 * MEBIBYTE / 4096);
	EQ(pages.elsewhere, 0);
}

static void its_range_of_the_arena_too(struct gpumap_session *session,
				       struct gpumap_session *sparse,
				       const struct gpumap_device *device)
{
	struct gpumap_job job = { .op = GPUMAP_OP_FILL, .pattern = 7 };
	struct gpumap_done done;
	void *huge, *by_client, *by_worker;

	if (!EQ(gpumap_alloc(session, device->row, 4 * MEBIBYTE, &huge), 0) ||
	    !EQ(gpumap_alloc(sparse, device->row, 4 * MEBIBYTE, &by_client),
		0) ||
	    !EQ(gpumap_alloc(sparse, device->row, 4 * MEBIBYTE, &by_worker), 0))
		return;
	lies_on_node(huge, device->numa_node, "had at once");
	lies_on_node(by_client, device->numa_node, "touched by the client");

	/* Through the worker of another row, which is on another node. */
	job.dst = by_worker;
	job.n = 4 * MEBIBYTE;
	EQ(gpumap_submit(sparse, device->row == 0, &job, 1), 0);
	EQ(gpumap_wait(sparse, &done, 1, GPUMAP_NO_DEADLINE), 1);
	EQ(done.status, 0);
	lies_on_node(by_worker, device->numa_node, "touched by another row");
}

/* Memory of one scatter over all rows: each finds its tile at home. */
static void tiles_are_where_their_rows_are(uint32_t flags)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = flags,
					    .arena_bytes = 4 * ARENA };
	struct gpumap_job job = { .op = GPUMAP_OP_FILL, .n = 2 * ARENA };
	struct gpumap_tile tiles[NODES];
	struct gpumap_session *s;
	void *memory;
	int n;

	if (!EQ(gpumap_session_open(map, &opts, &s), 0))
		return;
	if (EQ(gpumap_scatter_alloc(s, job.n, 1, NULL, &memory), 0)) {
		job.dst = memory;
		n = gpumap_scatter(s, &job, NULL, tiles, NODES);
		EQ(n, (int)gpumap_device_count(map));
		for (int i = 0; i < n; i++) {
			struct gpumap_device device = { .size = sizeof(
								device) };
			/* The page at an end may be its neighbour's. */
			uint64_t from =
				(tiles[i].first + HUGE - 1) / HUGE * HUGE;
			uint64_t to =
				(tiles[i].first + tiles[i].n) / HUGE * HUGE;
			struct page_nodes_count pages;

			/* Its worker has touched it; this process has not. */
			for (uint64_t at = from; at < to; at += 4096)
				(void)((volatile char *)memory)[at];
			EQ(gpumap_device_read(map, tiles[i].row, &device), 0);
			if (!OK(to > from) ||
			    !EQ(page_nodes((char *)memory + from, to - from,
					   device.numa_node, &pages),
				0))
				continue;
			NOTE("row %u's tile: %" PRIu64 " pages here, %" PRIu64
			     " elsewhere",
			     tiles[i].row, pages.here, pages.elsewhere);
			EQ(pages.here, (intmax_t)((to - from) / 4096));
		}
		EQ(gpumap_free(s, memory), 0);
	}
	/* Where they were, an allocation is its row's again. */
	if (EQ(gpumap_alloc(s, 0, 4 * MEBIBYTE, &memory), 0)) {
		struct gpumap_device device = { .size = sizeof(device) };

		EQ(gpumap_device_read(map, 0, &device), 0);
		lies_on_node(memory, device.numa_node, "after a scatter's");
	}
	gpumap_session_close(s);
}

static void every_row_is_where_it_says(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = ARENA + MEBIBYTE };
	struct gpumap_session *session, *sparse;
	uint32_t n = gpumap_device_count(map);

	OK(n >= 2);
	if (!EQ(gpumap_session_open(map, &opts, &session), 0))
		return;
	opts.flags = GPUMAP_SESSION_SPARSE;
	if (!EQ(gpumap_session_open(map, &opts, &sparse), 0)) {
		gpumap_session_close(session);
		return;
	}
	for (uint32_t row = 0; row < n; row++) {
		struct gpumap_device device = { .size = sizeof(device) };

		if (!EQ(gpumap_device_read(map, row, &device), 0))
			continue;
		EQ(device.state, GPUMAP_DEVICE_READY);
		OK(device.known & GPUMAP_KNOWN_NUMA);
		a_worker_lives_on_its_node(&device);
		its_range_of_the_arena_too(session, sparse, &device);
	}
	gpumap_session_close(sparse);
	gpumap_session_close(session);
}

/* The memory policy of @at as the kernel reports it; -1: none, -2: the call is
 * not permitted here. */
static int preferred_node(const void *at)
{
	unsigned long nodes[1024 / (8 * sizeof(unsigned long))] = { 0 };
	int mode = MPOL_DEFAULT;

	if (get_mempolicy(&mode, nodes, 1024, (void *)(uintptr_t)at,
			  MPOL_F_ADDR) != 0)
		return errno == EPERM || errno == ENOSYS ? -2 : -3;
	for (int node = 0; mode == MPOL_PREFERRED && node < NODES; node++)
		if (nodes[0] >> node & 1)
			return node;
	return -1;
}

static void one_is_where_its_row_is(struct gpumap_mask *mask,
				    const struct gpumap_device *device)
{
	const struct gpumap_mask_view *view = NULL;
	volatile const char *bytes;
	struct page_nodes_count pages;
	int node;

	if (!EQ(gpumap_mask_get(map, mask, device->row, &view), 0))
		return;
	node = preferred_node(view->data);
	if (node == -2) {
		SKIP(1, "the kernel may not be asked for it here");
		return;
	}
	EQ(node, device->numa_node);
	bytes = view->data;
	for (uint64_t at = 0; at < view->bytes; at += 4096)
		(void)bytes[at];
	if (!EQ(page_nodes(view->data, view->bytes, device->numa_node, &pages),
		0))
		return;
	EQ(pages.here, (intmax_t)(view->bytes / 4096));
	EQ(pages.elsewhere, 0);
}

/* Each row's replica, which one agent has written for all nodes. */
static void masks_are_where_their_rows_are(void)
{
	uint32_t rows[GPUMAP_ROWS_MAX], n = gpumap_device_count(map);
	const struct gpumap_mask_request request = {
		.size = sizeof(request),
		.name = "mask",
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_CAUSAL,
		.dtype = GPUMAP_DTYPE_F32,
		.tgt_len = 1024,
		.rows = rows,
		.n_rows = n,
	};
	struct gpumap_mask *mask;

	for (uint32_t row = 0; row < n; row++)
		rows[row] = row;
	if (!EQ(gpumap_mask_publish(map, &request, NULL), 0) ||
	    !EQ(gpumap_mask_open(map, "mask", 0, &mask), 0)) {
		NOTE("%s", gpumap_refusal(map));
		return;
	}
	for (uint32_t row = 0; row < n; row++) {
		struct gpumap_device device = { .size = sizeof(device) };

		if (EQ(gpumap_device_read(map, row, &device), 0))
			one_is_where_its_row_is(mask, &device);
	}
	gpumap_mask_close(map, mask);
}

static void the_agent_is_on(const struct gm_node *node)
{
	struct private_pages pages;
	char cpus[256], want[256];

	OK(allowed_cpus((unsigned)agent.pid, cpus, sizeof(cpus)));
	OK(gm_idset_format(&node->cpus, want, sizeof(want)) >= 0);
	STR(cpus, want);
	if (!OK(private_pages((unsigned)agent.pid, &pages)))
		return;
	NOTE("agent: %" PRIu64 " of %" PRIu64 " private pages on node %d",
	     pages.on[node->id], pages.all, node->id);
	OK(pages.on[node->id] * 10 >= pages.all * 8);
	file_is_on_node((unsigned)agent.pid, agent.segment, node->id);
	file_is_on_node((unsigned)agent.pid, "gpumap-group-page", node->id);
}

/* Each node has one row, so none has more: the first. */
static void without_a_word_it_is_on_the_first(const struct gm_node *node)
{
	agent_configure(&agent, NULL);
	agent_every_node(&agent);
	EQ(agent_run(&agent, "--remove"), 0);
	if (OK(agent_start(&agent)))
		the_agent_is_on(node);
	EQ(agent_kill(&agent, 15), 0);
}

static bool can_be_bound(const struct gm_node *node)
{
	pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(gm_numa_bind_self(NULL, node->id, NULL, NULL) == 0 ? 0
									 : 1);
	return waitpid(child, &status, 0) == child && status == 0;
}

TAP_CASE()
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts) };
	static struct gm_node nodes[NODES];
	char config[64];
	int n, first = -1, last = -1;

	n = gm_numa_bind_nodes(NULL, NULL, nodes, NODES);
	for (int i = 0; i < n; i++)
		if (gm_node_hosts(&nodes[i])) {
			first = first < 0 ? i : first;
			last = i;
		}
	if (last < 0) {
		SKIP(1, "this kernel tells of no NUMA nodes");
		return tap_done();
	}
	snprintf(config, sizeof(config), "[agent]\nnode = %d\n",
		 nodes[last].id);
	agent_make(&agent, config);
	agent_every_node(&agent);
	opts.instance = agent.instance;
	opts.runtime_dir = agent.dir;
	if (OK(agent_start(&agent)) && EQ(gpumap_attach(&opts, &map), 0)) {
		masks_are_where_their_rows_are();
		if (last > first) {
			the_agent_is_on(&nodes[last]);
			every_row_is_where_it_says();
			tiles_are_where_their_rows_are(0);
			tiles_are_where_their_rows_are(GPUMAP_SESSION_SPARSE);
		} else {
			SKIP(1, "this machine has one NUMA node");
		}
		gpumap_detach(map);
	}
	if (can_be_bound(&nodes[last]))
		EQ(agent_count_log(&agent, "event=unpinned"), 0);
	else
		SKIP(1, "this machine lets no process bind itself to a node");
	EQ(agent_kill(&agent, 15), 0);
	if (last > first)
		without_a_word_it_is_on_the_first(&nodes[first]);
	agent_remove(&agent);
	return tap_done();
}
