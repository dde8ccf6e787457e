/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/masks/held.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/user.h"
#include "agent/daemon/masks/masks.h"
#include "agent/daemon/masks/numa_segments.h"

struct gm_mask_held {
	struct gm_daemon *d;
	LIST_ENTRY(gm_mask_held) entry; /* of its user's */
	struct gm_user *user;
	uint64_t version;
	uint64_t bytes;
	bool is_counted; /* of those of one publication that uid has, one is */
	char name[GM_NAME_BYTES];
	uint32_t n;
	struct gm_replica_image replicas[];
};

/* ---- what is held -------------------------------------------------------- */

static void count(const struct gm_mask_held *held, bool more)
{
	for (uint32_t i = 0; i < held->n; i++) {
		struct gm_span *span;

		if (!gm_masks_is_first(held->replicas, i))
			continue;
		span = gm_numa_segments_span(held->d->nodes,
					     &held->replicas[i]);
		if (span != NULL && more)
			span->refs++;
		else if (span != NULL)
			gm_numa_segments_drop(span);
	}
}

struct gm_mask_held *gm_mask_held_of(const struct gm_user *user,
				     const char *name, uint64_t version)
{
	struct gm_mask_held *held;

	LIST_FOREACH(held, &user->masks, entry)
	{
		if (held->version == version && strcmp(held->name, name) == 0)
			break;
	}
	return held;
}

static void list(struct gm_mask_held *held, struct gm_user *user)
{
	held->user = user;
	held->is_counted =
		gm_mask_held_of(user, held->name, held->version) == NULL;
	if (held->is_counted)
		user->mask_bytes += held->bytes;
	LIST_INSERT_HEAD(&user->masks, held, entry);
}

static void unlist(struct gm_mask_held *held)
{
	struct gm_mask_held *twin;

	LIST_REMOVE(held, entry);
	if (!held->is_counted)
		return;
	twin = gm_mask_held_of(held->user, held->name, held->version);
	if (twin != NULL)
		twin->is_counted = true;
	else
		held->user->mask_bytes -= held->bytes;
}

void gm_mask_held_free(struct gm_mask_held *held)
{
	if (held != NULL) {
		unlist(held);
		count(held, false);
	}
	free(held);
}

struct gm_mask_held *gm_mask_held_new(struct gm_daemon *d, struct gm_user *user,
				      const struct gm_masks_block *block)
{
	size_t bytes = block->image.n_replicas * sizeof(block->replicas[0]);
	struct gm_mask_held *held = calloc(1, sizeof(*held) + bytes);

	if (held == NULL)
		return NULL;
	held->d = d;
	held->n = block->image.n_replicas;
	memcpy(held->name, block->image.object.name, sizeof(held->name));
	memcpy(held->replicas, block->replicas, bytes);
	held->version = block->image.object.version;
	held->bytes = gm_masks_bytes(block);
	list(held, user);
	count(held, true);
	return held;
}

int gm_mask_held_find(const struct gm_mask_held *held, uint32_t row,
		      char ret_why[GM_WHY_BYTES],
		      const struct gm_replica_image **ret_replica)
{
	const struct gm_replica_image *replica = held->replicas;
	uint32_t i = 0;

	while (i < held->n && replica[i].row != row)
		i++;
	if (i == held->n ||
	    gm_numa_segments_span(held->d->nodes, &replica[i]) == NULL)
		return gm_why(ret_why, -ENOENT,
			      "mask %s has no replica on row %u: publish it "
			      "for that row, too, and use it anew",
			      held->name, row);
	*ret_replica = &replica[i];
	return 0;
}

int gm_mask_held_open(const struct gm_mask_held *held,
		      const struct gm_replica_image *replica,
		      char ret_why[GM_WHY_BYTES], int *ret_fd)
{
	struct gm_node_segment *segment = held->d->nodes->of[replica->node];
	int fd = gm_numa_segments_reader(segment);

	if (fd < 0)
		return gm_why(ret_why, fd, "the memory of node %u: %s",
			      segment->node, strerror(-fd));
	*ret_fd = fd;
	return 0;
}
