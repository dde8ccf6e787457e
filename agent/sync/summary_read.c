/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/sync/summary_read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/text.h"
#include "agent/reader/list.h"

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Readers refuse figures that cannot be, and the agent publishes a driver's
 * as they came: put them right. */
static void take_device(const struct gpumap_device *device,
			struct gpumap_cluster_device *to)
{
	*to = (struct gpumap_cluster_device){
		.size = sizeof(*to),
		.row = device->row,
		.kind = device->kind,
		.state = device->state,
		.flags = device->flags,
		.numa_node = device->numa_node < 0 ? -1 : device->numa_node,
		.total_bytes = device->total_bytes,
		.free_bytes = least(device->free_bytes, device->total_bytes),
		.reserved_bytes = device->reserved_bytes,
		.used_by_holders =
			least(device->used_by_holders, device->reserved_bytes),
	};
	if ((device->known & GPUMAP_KNOWN_CC) != 0) {
		to->cc_major = device->cc_major;
		to->cc_minor = device->cc_minor;
	}
	memcpy(to->uuid, device->uuid, sizeof(to->uuid));
	snprintf(to->name, sizeof(to->name), "%s",
		 device->name[0] != '\0' ? device->name : "?");
	gm_text_make_plain(to->name, strlen(to->name));
}

static int place_of_kind(uint32_t kind)
{
	return kind == GPUMAP_DEVICE_CUDA   ? 0
	       : kind == GPUMAP_DEVICE_HOST ? 1
					    : 2;
}

static int by_kind_and_row(const void *a, const void *b)
{
	const struct gpumap_cluster_device *one = a, *other = b;
	int by = place_of_kind(one->kind) - place_of_kind(other->kind);

	if (by != 0)
		return by;
	return one->row < other->row ? -1 : one->row > other->row;
}

static uint32_t links_of(const struct gpumap *map,
			 const struct gpumap_cluster_device *devices,
			 uint32_t n, uint32_t row)
{
	struct gpumap_device_path path = { .size = sizeof(path) };
	uint32_t links = 0;

	for (uint32_t i = 0; i < n; i++)
		if (devices[i].row != row &&
		    gpumap_device_path_read(map, row, devices[i].row, &path) ==
			    0)
			links += path.nvlinks;
	return links;
}

/* All rows, in their order.  Returns how many. */
static int read_devices(const struct gpumap *map,
			struct gpumap_cluster_device *devices)
{
	struct gpumap_device device = { .size = sizeof(device) };
	uint32_t rows = gpumap_device_count(map), n = 0;

	for (uint32_t row = 0; row < rows && row < GPUMAP_ROWS_MAX; row++) {
		int r = gpumap_device_read(map, row, &device);

		if (r < 0 && r != -ENODEV)
			return r;
		if (r == 0)
			take_device(&device, &devices[n++]);
	}
	qsort(devices, n, sizeof(*devices), by_kind_and_row);
	return (int)n;
}

int gm_summary_read_rows(const struct gpumap *map, struct gm_summary *summary)
{
	struct gpumap_health health = { .size = sizeof(health) };
	struct gpumap_cluster_node *node = &summary->node;
	struct gpumap_cluster_device *devices =
		calloc(GPUMAP_ROWS_MAX, sizeof(*devices));
	int n, r = gpumap_health(map, &health);

	n = devices == NULL ? -ENOMEM : r < 0 ? r : read_devices(map, devices);
	if (n < 0) {
		free(devices);
		return n;
	}
	node->size = sizeof(*node);
	node->state = GPUMAP_CLUSTER_LIVE;
	node->epoch = health.epoch;
	node->agent_version = health.agent_version;
	node->flags &= ~GPUMAP_CLUSTER_DRAINING;
	if (health.state == GPUMAP_DRAINING)
		node->flags |= GPUMAP_CLUSTER_DRAINING;
	node->n_devices = (uint32_t)least((uint64_t)n, GPUMAP_CLUSTER_ROWS_MAX);
	node->more_devices = (uint32_t)n - node->n_devices;
	for (uint32_t i = 0; i < node->n_devices; i++)
		devices[i].links =
			links_of(map, devices, node->n_devices, devices[i].row);
	free(summary->devices);
	summary->devices = devices;
	return 0;
}

static bool has_fingerprint(const struct gpumap_share_info *info)
{
	static const uint8_t none[sizeof(info->fingerprint)];

	return memcmp(info->fingerprint, none, sizeof(none)) != 0;
}

static void take_share(const struct gpumap_share_info *info,
		       struct gpumap_cluster_share *to)
{
	to->size = sizeof(*to);
	to->uid = info->uid;
	to->flags = info->flags;
	to->bytes = info->bytes;
	memcpy(to->name, info->name, sizeof(to->name));
	memcpy(to->rows, info->rows, sizeof(to->rows));
	memcpy(to->fingerprint, info->fingerprint, sizeof(to->fingerprint));
}

int gm_summary_read_shares(struct gpumap *map, struct gm_summary *summary)
{
	struct gpumap_share_info *list;
	struct gpumap_cluster_share *shares;
	int n = gm_list_share(map, &list);
	uint32_t taken = 0;

	if (n < 0)
		return n;
	shares = calloc(GPUMAP_CLUSTER_SHARES_MAX, sizeof(*shares));
	for (int pass = 0; shares != NULL && pass < 2; pass++)
		for (int i = 0; i < n && taken < GPUMAP_CLUSTER_SHARES_MAX; i++)
			if (has_fingerprint(&list[i]) == (pass == 0))
				take_share(&list[i], &shares[taken++]);
	free(list);
	if (shares == NULL)
		return -ENOMEM;
	free(summary->shares);
	summary->shares = shares;
	summary->node.n_shares = taken;
	summary->node.more_shares = (uint32_t)n - taken;
	return 0;
}
