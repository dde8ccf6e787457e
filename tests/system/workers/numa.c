/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * On a machine with several NUMA nodes: each worker's CPUs, its memory and its
 * range of a session's arena lie on its row's node, whichever process touches
 * them first, and so do its replicas of masks; the agent is on its configured
 * node.
 *
 * With one node the test sees only what the kernel was told of replicas.
 */

#include <errno.h>
#include <numaif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/common/numa_bind.h"
#include "gpumap.h"
#include "tests/support/agent.h"
#include "tests/support/page_nodes.h"
#include "tests/support/tap.h"

#define MEBIBYTE (UINT64_C(1) << 20)
#define ARENA    (8 * MEBIBYTE)
#define NODES    64

static struct agent agent;
static struct gpumap *map;

/* Pages of private memory of a process, by node, from its numa_maps.  Files
 * are not counted: their pages lie where they were first read. */
struct private_pages {
	uint64_t on[NODES];
	uint64_t all;
};

static void count_line(char *line, struct private_pages *pages)
{
	char *rest = line, *word;

	if (strstr(line, "file=") != NULL || strstr(line, "anon=") == NULL)
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

static bool private_pages(unsigned pid, struct private_pages *ret_pages)
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
		count_line(line, ret_pages);
	free(line);
	fclose(file);
	return ret_pages->all > 0;
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

static void the_agent_is_where_it_was_told(const struct gm_node *node)
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
}

TAP_CASE()
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts) };
	static struct gm_node nodes[NODES];
	char config[64];
	int n, last = -1;

	n = gm_numa_bind_nodes(NULL, NULL, nodes, NODES);
	for (int i = 0; i < n; i++)
		if (gm_node_hosts(&nodes[i]))
			last = i;
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
		if (last > 0) {
			the_agent_is_where_it_was_told(&nodes[last]);
			every_row_is_where_it_says();
		} else {
			SKIP(1, "this machine has one NUMA node");
		}
		gpumap_detach(map);
	}
	EQ(agent_kill(&agent, 15), 0);
	agent_remove(&agent);
	return tap_done();
}
