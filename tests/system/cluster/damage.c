/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A cluster that an agent left may have been damaged since: each way of it is
 * noticed by the next agent, which retires the segment and waits for all nodes;
 * and no reader believes it meanwhile.
 */

#include <errno.h>

#include "shm/cluster.h"
#include "tests/support/nodes/cluster_nodes.h"
#include "tests/support/damage.h"

#define N         3u
#define N_DEVICES 2u
#define N_SHARES  1u

static const struct cluster_nodes nodes = { N, N_DEVICES, N_SHARES, 7 };

static struct agent agent;

/* ---- words of the cluster ------------------------------------------------ */

/* @at counts 32 bits from the block's start. */
static void set(const struct agent_map *m, size_t at, uint32_t value)
{
	damage_set(m, GM_KIND_CLUSTER, 4 * at, value);
}

static uint32_t get(const struct agent_map *m, size_t at)
{
	gm_a64 *word = damage_word(m, GM_KIND_CLUSTER, at / 2);

	return (uint32_t)(gm_get(word) >> at % 2 * 32);
}

#define NODES   sizeof(struct gm_cluster_image)
#define DEVICES (NODES + N * sizeof(struct gm_cluster_node_image))
#define SHARES \
	(DEVICES + N * N_DEVICES * sizeof(struct gm_cluster_device_image))

#define IMAGE(field) (offsetof(struct gm_cluster_image, field) / 4)
#define NODE(i, field)                                         \
	((NODES + (i) * sizeof(struct gm_cluster_node_image) + \
	  offsetof(struct gm_cluster_node_image, field)) /     \
	 4)
#define DEVICE(i, field)                                           \
	((DEVICES + (i) * sizeof(struct gm_cluster_device_image) + \
	  offsetof(struct gm_cluster_device_image, field)) /       \
	 4)
#define SHARE(i, field)                                          \
	((SHARES + (i) * sizeof(struct gm_cluster_share_image) + \
	  offsetof(struct gm_cluster_share_image, field)) /      \
	 4)

/* ---- damages ------------------------------------------------------------- */

static void no_cluster_name(struct agent_map *m)
{
	set(m, IMAGE(cluster), 0);
}

static void unpadded_node_name(struct agent_map *m)
{
	set(m, IMAGE(node) + 15, 1);
}

static void too_many_nodes(struct agent_map *m)
{
	set(m, IMAGE(n_nodes), GM_CLUSTER_NODES + 1);
}

static void too_many_devices(struct agent_map *m)
{
	set(m, IMAGE(n_devices), UINT32_MAX);
}

static void too_many_shares(struct agent_map *m)
{
	set(m, IMAGE(n_shares), UINT32_MAX);
}

static void nodes_leave_the_block(struct agent_map *m)
{
	set(m, IMAGE(nodes_at), UINT32_MAX - 7);
}

static void nodes_are_in_the_image(struct agent_map *m)
{
	set(m, IMAGE(nodes_at), 0);
}

static void devices_leave_the_block(struct agent_map *m)
{
	set(m, IMAGE(devices_at), get(m, IMAGE(object.bytes)));
}

static void shares_are_half_words(struct agent_map *m)
{
	set(m, IMAGE(shares_at), get(m, IMAGE(shares_at)) - 4);
}

static void flags_of_a_map(struct agent_map *m)
{
	set(m, IMAGE(object.flags), GM_OBJECT_COMMITTED);
}

static void fewer_are_gone(struct agent_map *m)
{
	set(m, IMAGE(n_gone), 1);
}

static void fewer_are_refused(struct agent_map *m)
{
	set(m, IMAGE(n_refused), 1);
}

static void device_without_node(struct agent_map *m)
{
	set(m, IMAGE(n_nodes), N - 1);
}

static void node_without_name(struct agent_map *m)
{
	set(m, NODE(1, name), 0);
}

static void nodes_out_of_order(struct agent_map *m)
{
	set(m, NODE(1, name), get(m, NODE(1, name)) - 1);
}

static void node_twice(struct agent_map *m)
{
	set(m, NODE(1, name) + 1, get(m, NODE(0, name) + 1));
}

static void node_of_no_state(struct agent_map *m)
{
	set(m, NODE(1, state), 0);
}

static void node_has_too_many(struct agent_map *m)
{
	set(m, NODE(1, n_devices), GM_CLUSTER_ROWS + 1);
}

static void devices_of_another(struct agent_map *m)
{
	set(m, NODE(1, first_device), 0);
}

static void devices_past_the_table(struct agent_map *m)
{
	set(m, NODE(2, first_device), N * N_DEVICES);
}

static void shares_past_the_table(struct agent_map *m)
{
	set(m, NODE(2, first_share), UINT32_MAX);
}

static void device_of_another_node(struct agent_map *m)
{
	set(m, DEVICE(1, node), 1);
}

static void device_of_no_node(struct agent_map *m)
{
	set(m, DEVICE(1, node), N);
}

static void device_of_no_kind(struct agent_map *m)
{
	set(m, DEVICE(1, kind), 0);
}

static void device_beyond_the_rows(struct agent_map *m)
{
	set(m, DEVICE(1, row), GM_ROWS);
}

static void row_is_there_twice(struct agent_map *m)
{
	set(m, DEVICE(1, row), get(m, DEVICE(0, row)));
}

static void device_without_end(struct agent_map *m)
{
	set(m, DEVICE(1, name) + 15, UINT32_MAX);
}

static void share_of_another_node(struct agent_map *m)
{
	set(m, SHARE(1, node), 2);
}

static void share_without_name(struct agent_map *m)
{
	set(m, SHARE(1, name), 0);
}

static const struct damage damages[] = {
	{ no_cluster_name, "\"the cluster in slot", false },
	{ unpadded_node_name, "\"the cluster in slot", false },
	{ too_many_nodes, "\"the cluster in slot", false },
	{ too_many_devices, "\"the cluster in slot", false },
	{ too_many_shares, "\"the cluster in slot", false },
	{ nodes_leave_the_block, "\"the cluster in slot", false },
	{ nodes_are_in_the_image, "\"the cluster in slot", false },
	{ devices_leave_the_block, "\"the cluster in slot", false },
	{ shares_are_half_words, "\"the cluster in slot", false },
	{ flags_of_a_map, "\"the cluster in slot", true },
	{ fewer_are_gone, "has other numbers than its nodes", true },
	{ fewer_are_refused, "has other numbers than its nodes", true },
	{ device_without_node, "has other numbers than its nodes", false },
	{ node_without_name, "node 1 of the cluster", false },
	{ nodes_out_of_order, "node 1 of the cluster", true },
	{ node_twice, "node 1 of the cluster", true },
	{ node_of_no_state, "node 1 of the cluster", false },
	{ node_has_too_many, "node 1 of the cluster", false },
	{ devices_of_another, "node 1 of the cluster", true },
	{ devices_past_the_table, "node 2 of the cluster", false },
	{ shares_past_the_table, "node 2 of the cluster", false },
	{ device_of_another_node, "node 0 of the cluster", true },
	{ device_of_no_node, "node 0 of the cluster", false },
	{ device_of_no_kind, "node 0 of the cluster", false },
	{ device_beyond_the_rows, "node 0 of the cluster", false },
	{ row_is_there_twice, "node 0 of the cluster", true },
	{ device_without_end, "node 0 of the cluster", false },
	{ share_of_another_node, "node 1 of the cluster", true },
	{ share_without_name, "node 1 of the cluster", false },
};

/* ---- each of them -------------------------------------------------------- */

static bool start(struct gpumap **ret_map)
{
	if (!agent_start_until(&agent, "open"))
		return false;
	*ret_map = story_attach(&agent);
	return *ret_map != NULL;
}

static bool publish(struct gpumap *map)
{
	return cluster_nodes_publish(map, &nodes, GPUMAP_CLUSTER_HEARD) == 0;
}

/* Go through each list, whole and of each node.  Returns how many entries there
 * were, or the first error. */
static int read_all(const struct gpumap *map)
{
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };
	int n = 0, ret = gpumap_cluster_read(map, &cluster);
	uint32_t cursor = 0;

	if (ret != 0)
		return ret;
	do {
		struct gpumap_cluster_node node = { .size = sizeof(node) };

		ret = gpumap_cluster_next_node(map, &cursor, &node);
		n += ret == 1;
	} while (ret == 1);
	for (uint32_t i = 0; ret == 0 && i <= cluster.n_nodes; i++) {
		uint32_t of = i < cluster.n_nodes ? i : GPUMAP_CLUSTER_ANY;
		struct gpumap_cluster_device device = { .size = sizeof(
								device) };
		struct gpumap_cluster_share share = { .size = sizeof(share) };

		cursor = 0;
		do {
			ret = gpumap_cluster_next_device(map, of, &cursor,
							 &device);
			n += ret == 1;
		} while (ret == 1);
		cursor = 0;
		while (ret == 0 &&
		       (ret = gpumap_cluster_next_share(map, of, NULL, &cursor,
							&share)) == 1) {
			n++;
			ret = 0;
		}
	}
	return ret < 0 ? ret : n;
}

static bool readers_are_safe(struct gpumap *map, bool is_readable)
{
	int ret = read_all(map);

	return is_readable ? ret == (int)(N + 2 * N * (N_DEVICES + N_SHARES))
			   : ret == -EPROTO;
}

/* No file brings it back. */
static bool is_as_published(struct gpumap *map)
{
	return read_all(map) == -ENOENT && publish(map) &&
	       cluster_nodes_check(map, &nodes) == 0;
}

TAP_CASE()
{
	static const struct damaged cluster = { &agent, start, publish,
						readers_are_safe,
						is_as_published };

	agent_make(&agent, NULL);
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++)
		damage_is_noticed(&cluster, &damages[i]);
	agent_remove(&agent);
	return tap_done();
}
