/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The agent's copies of the nodes of a cluster: random updates, beside a table
 * that says which nodes there are and what each said last.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/cluster/nodes.h"
#include "gpumap.h"
#include "tests/support/dice.h"
#include "tests/support/tap.h"

#define NAMES  40u
#define ROUNDS 4000
#define NOW    UINT64_C(1000000)

static struct gm_cluster_list list;
static uint64_t said[NAMES]; /* epoch; 0: there is no such node */

static char tail[NAMES * (sizeof(struct gm_cluster_node_image) +
			  4 * sizeof(struct gm_cluster_device_image) +
			  4 * sizeof(struct gm_cluster_share_image))];
static uint32_t tail_bytes;

static void append(const void *bytes, size_t n)
{
	memcpy(tail + tail_bytes, bytes, n);
	tail_bytes += (uint32_t)n;
}

static void append_node(uint32_t name, uint64_t epoch, uint32_t n_devices,
			uint32_t n_shares)
{
	struct gm_cluster_node_image node = {
		.state = epoch != 0 ? GPUMAP_CLUSTER_LIVE : 0,
		.since = epoch,
		.epoch = epoch,
		.n_devices = n_devices,
		.n_shares = n_shares
	};

	snprintf(node.name, sizeof(node.name), "n%u", name);
	append(&node, sizeof(node));
	for (uint32_t i = 0; i < n_devices; i++) {
		struct gm_cluster_device_image device = {
			.row = i,
			.kind = GPUMAP_DEVICE_HOST,
			.state = GPUMAP_DEVICE_READY,
			.total_bytes = epoch,
			.name = "d"
		};

		append(&device, sizeof(device));
	}
	for (uint32_t i = 0; i < n_shares; i++) {
		struct gm_cluster_share_image share = { .bytes = epoch,
							.name = "s" };

		append(&share, sizeof(share));
	}
}

static int take(uint32_t n, char why[GM_WHY_BYTES],
		struct gm_cluster_update *update)
{
	/* Without alignment, and a read behind the end would be seen. */
	char *copy = malloc(tail_bytes + 1);
	int ret;

	if (copy == NULL)
		return -ENOMEM;
	memcpy(copy + 1, tail, tail_bytes);
	ret = gm_cluster_update_take(copy + 1, tail_bytes, n, NOW, why, update);
	free(copy);
	return ret;
}

/* By name, each once, and each as it was said last. */
static bool is_right(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < NAMES; i++)
		n += said[i] != 0;
	if (n != list.n)
		return false;
	for (uint32_t i = 0; i < list.n; i++) {
		const struct gm_cluster_node *node = list.of[i];
		uint64_t epoch = node->image.epoch;
		uint32_t name = (uint32_t)atoi(node->image.name + 1);

		if (said[name] != epoch || node->image.since != NOW - epoch ||
		    (i > 0 &&
		     strcmp(list.of[i - 1]->image.name, node->image.name) >= 0))
			return false;
		for (uint32_t k = 0; k < node->image.n_devices; k++)
			if (node->devices[k].row != k ||
			    node->devices[k].total_bytes != epoch)
				return false;
		for (uint32_t k = 0; k < node->image.n_shares; k++)
			if (node->shares[k].bytes != epoch)
				return false;
	}
	return true;
}

static void updates_are_applied(void)
{
	static struct gm_cluster_update update;
	char why[GM_WHY_BYTES];
	uint32_t wrong = 0, refused = 0;

	for (uint32_t round = 1; round <= ROUNDS; round++) {
		uint64_t next[NAMES];
		bool named[NAMES] = { false }, twice = false;
		uint32_t n = (uint32_t)dice(6);

		tail_bytes = 0;
		memcpy(next, said, sizeof(next));
		for (uint32_t i = 0; i < n; i++) {
			uint32_t name = (uint32_t)dice(NAMES);
			uint64_t epoch = dice(3) != 0 ? round : 0;

			twice |= named[name];
			named[name] = true;
			next[name] = epoch;
			append_node(name, epoch,
				    epoch != 0 ? (uint32_t)dice(4) : 0,
				    epoch != 0 ? (uint32_t)dice(4) : 0);
		}
		if (take(n, why, &update) != (twice ? -EINVAL : 0)) {
			wrong++;
			continue;
		}
		refused += twice;
		if (twice)
			continue;
		wrong += !gm_cluster_list_admits(&list, &update);
		gm_cluster_list_apply(&list, &update);
		memcpy(said, next, sizeof(said));
		wrong += !is_right();
	}
	OK(refused > 0);
	EQ(wrong, 0);
	gm_cluster_list_clear(&list);
	EQ(list.n, 0);
}

static int one(struct gm_cluster_update *update, uint32_t name, uint64_t epoch)
{
	char why[GM_WHY_BYTES];

	tail_bytes = 0;
	append_node(name, epoch, 0, 0);
	return take(1, why, update);
}

/* A node that goes makes room, and one that is there needs none. */
static void the_last_place_is_given_once(void)
{
	static struct gm_cluster_update update;
	char why[GM_WHY_BYTES];

	for (uint32_t i = 0; i < GM_CLUSTER_NODES; i++) {
		if (one(&update, i, 1) != 0 ||
		    !gm_cluster_list_admits(&list, &update))
			OK(!"there is room");
		gm_cluster_list_apply(&list, &update);
	}
	EQ(list.n, GM_CLUSTER_NODES);
	EQ(one(&update, GM_CLUSTER_NODES, 1), 0);
	OK(!gm_cluster_list_admits(&list, &update));
	gm_cluster_update_drop(&update);
	EQ(one(&update, 7, 2), 0);
	OK(gm_cluster_list_admits(&list, &update));
	gm_cluster_list_apply(&list, &update);
	tail_bytes = 0;
	append_node(GM_CLUSTER_NODES, 1, 0, 0);
	append_node(7, 0, 0, 0);
	EQ(take(2, why, &update), 0);
	OK(gm_cluster_list_admits(&list, &update));
	gm_cluster_list_apply(&list, &update);
	EQ(list.n, GM_CLUSTER_NODES);
	gm_cluster_list_clear(&list);
}

TAP_CASE()
{
	dice_state = 23;
	updates_are_applied();
	the_last_place_is_given_once();
	return tap_done();
}
