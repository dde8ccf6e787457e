/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/masks/masks.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/user.h"
#include "agent/daemon/config.h"
#include "agent/daemon/map/pins.h"
#include "agent/daemon/masks/device_replicas.h"
#include "agent/daemon/masks/numa_segments.h"
#include "agent/daemon/masks/replica_private.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/segment/segment.h"
#include "lib/model/plan/size_text.h"

uint64_t gm_masks_homes(const struct gm_daemon *d,
			const struct gm_replica_image *replicas, uint32_t n)
{
	uint64_t sum = 0, seen[GM_NODES / 64] = { 0 };

	for (uint32_t i = 0; i < n; i++) {
		uint32_t node = replicas[i].node;
		uint64_t bit = UINT64_C(1) << node % 64;

		if (replicas[i].place != GM_REPLICA_DEVICE ||
		    (seen[node / 64] & bit) != 0 || d->nodes->of[node] == NULL)
			continue;
		seen[node / 64] |= bit;
		sum += d->nodes->of[node]->made * (2 * node + 1);
	}
	return sum;
}

/* The bytes of a file that is gone are not those of the one in its place. */
static void look_for_homes(const struct gm_daemon *d,
			   struct gm_masks_block *block)
{
	uint32_t n = block->image.n_replicas;

	if (block->image.homes == gm_masks_homes(d, block->replicas, n))
		return;
	for (uint32_t i = 0; i < n; i++) {
		if (block->replicas[i].place == GM_REPLICA_DEVICE)
			block->replicas[i].at = 0;
	}
}

bool gm_masks_read(const struct gm_daemon *d, uint32_t unit,
		   struct gm_masks_block *ret_block)
{
	gm_a64 slot = gm_seq_word(0, unit);
	struct gm_object object;

	if (unit == 0 ||
	    gm_object_open(&d->segment->map, &slot, &object) != 0 ||
	    object.image.kind != GM_KIND_MASK ||
	    gm_replicas_image(&object, &ret_block->image) != 0)
		return false;
	for (uint32_t i = 0; i < ret_block->image.n_replicas; i++)
		if (gm_replicas_read(&object, &ret_block->image, i,
				     &ret_block->replicas[i]) != 0)
			return false;
	look_for_homes(d, ret_block);
	return true;
}

bool gm_masks_is_first(const struct gm_replica_image *replicas, uint32_t i)
{
	if (replicas[i].place == GM_REPLICA_NOWHERE)
		return false;
	for (uint32_t j = 0; j < i; j++)
		if (replicas[j].place != GM_REPLICA_NOWHERE &&
		    replicas[j].node == replicas[i].node)
			return false;
	return true;
}

/* ---- an adopted segment ------------------------------------------------ */

static int open_nodes(struct gm_daemon *d, const struct gm_masks_block *block,
		      char *ret_why)
{
	for (uint32_t i = 0; i < block->image.n_replicas; i++) {
		struct gm_node_segment *segment;
		int ret;

		if (!gm_masks_is_first(block->replicas, i))
			continue;
		ret = gm_numa_segments_open(d, block->replicas[i].node, false,
					    ret_why, &segment);
		if (ret != 0 && ret != -ENOENT)
			return ret;
	}
	return 0;
}

static bool is_home(const struct gm_daemon *d,
		    const struct gm_replica_image *replica)
{
	const struct gm_node_segment *segment = d->nodes->of[replica->node];

	return segment != NULL && replica->at != 0 &&
	       (replica->place == GM_REPLICA_DEVICE ||
		segment->made == replica->id);
}

/* A mask whose spans cannot be counted stays uncounted, and is removed
 * later. */
static int claim(struct gm_daemon *d, uint32_t unit, char *ret_why)
{
	struct gm_masks_block block;
	int ret = 0;

	if (!gm_masks_read(d, unit, &block))
		return 0;
	ret = open_nodes(d, &block, ret_why);
	if (ret != 0 || !gm_masks_read(d, unit, &block))
		return ret;
	for (uint32_t i = 0; i < block.image.n_replicas; i++) {
		const struct gm_replica_image *replica = &block.replicas[i];

		if (!gm_masks_is_first(block.replicas, i) ||
		    !is_home(d, replica))
			continue;
		ret = gm_numa_segments_claim(d->nodes->of[replica->node],
					     replica->at, replica->bytes,
					     block.image.hash);
		if (ret != 0 && ret != -EPROTO)
			return ret;
	}
	return 0;
}

int gm_masks_adopt(struct gm_daemon *d, char ret_why[GM_WHY_BYTES])
{
	int ret = 0;

	gm_why(ret_why, 0, "out of memory");
	for (uint32_t i = 0; i < GM_OBJECTS && ret == 0; i++)
		ret = claim(d, d->directory->objects[i].unit, ret_why);
	/* Masks that were replaced, and that a process has pinned. */
	for (uint32_t i = 0; i < GM_HOLDERS && ret == 0; i++) {
		const struct gm_holder_image *holder = &d->holders->table[i];
		bool is_counted = holder->kind != GM_HOLDER_PIN;

		for (uint32_t j = 0; j < GM_OBJECTS && !is_counted; j++)
			is_counted =
				d->directory->objects[j].unit == holder->unit;
		for (uint32_t j = 0; j < i && !is_counted; j++)
			is_counted =
				d->holders->table[j].kind == GM_HOLDER_PIN &&
				d->holders->table[j].unit == holder->unit;
		if (!is_counted)
			ret = claim(d, holder->unit, ret_why);
	}
	return ret;
}

static bool is_whole(const struct gm_daemon *d,
		     const struct gm_masks_block *block)
{
	for (uint32_t i = 0; i < block->image.n_replicas; i++) {
		if (block->replicas[i].place != GM_REPLICA_NOWHERE &&
		    gm_numa_segments_span(d->nodes, &block->replicas[i]) ==
			    NULL)
			return false;
	}
	return true;
}

void gm_masks_drop_lost(struct gm_daemon *d)
{
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		const struct gm_block *block = &d->directory->objects[i];
		struct gm_masks_block mask;
		char name[GM_NAME_BYTES], why[GM_WHY_BYTES];

		if (block->unit == 0 || block->kind != GM_KIND_MASK ||
		    (gm_masks_read(d, block->unit, &mask) &&
		     is_whole(d, &mask)))
			continue;
		memcpy(name, block->name, sizeof(name));
		gm_log(GM_LOG_ERROR, "mask_lost", "name=%s version=%llu", name,
		       (unsigned long long)block->version);
		gm_directory_remove(d, GM_KIND_MASK, name, geteuid(), why);
	}
}

void gm_masks_reclaim(struct gm_daemon *d, uint32_t unit)
{
	struct gm_masks_block block;

	if (!gm_masks_read(d, unit, &block))
		return;
	for (uint32_t i = 0; i < block.image.n_replicas; i++) {
		const struct gm_replica_image *replica = &block.replicas[i];
		struct gm_span *span;

		if (replica->place == GM_REPLICA_DEVICE)
			gm_mask_device_drop(
				gm_mask_devices_find(d, replica->id));
		if (!gm_masks_is_first(block.replicas, i))
			continue;
		span = gm_numa_segments_span(d->nodes, replica);
		if (span != NULL)
			gm_numa_segments_drop(span);
	}
}

/* ---- limits ------------------------------------------------------------ */

uint64_t gm_masks_bytes(const struct gm_masks_block *block)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < block->image.n_replicas; i++)
		if (gm_masks_is_first(block->replicas, i))
			bytes += block->image.bytes;
	return bytes;
}

static uint64_t bytes_of(const struct gm_daemon *d, uint32_t unit)
{
	struct gm_masks_block block;

	return gm_masks_read(d, unit, &block) ? gm_masks_bytes(&block) : 0;
}

/* Sums of what lies in files of ours: they cannot wrap. */
int gm_masks_admit_quota(const struct gm_daemon *d, uint32_t uid,
			 const char *name, uint64_t bytes,
			 char ret_why[GM_WHY_BYTES])
{
	const struct gm_block *present =
		gm_directory_find(d, GM_KIND_MASK, name);
	uint64_t has = 0;

	if (gm_user_is_privileged(uid))
		return 0;
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		const struct gm_block *block = &d->directory->objects[i];

		if (block->unit != 0 && block->kind == GM_KIND_MASK &&
		    block->owner_uid == uid && block != present)
			has += bytes_of(d, block->unit);
	}
	if (bytes <= d->config->mask_bytes_per_uid &&
	    has <= d->config->mask_bytes_per_uid - bytes)
		return 0;
	return gm_why(ret_why, -EDQUOT,
		      "uid %u has masks of %s, and this one takes %s more: "
		      "release some, or raise bytes-per-uid in [masks] of "
		      "gpumapd.conf (%s)",
		      uid, gm_size_down(has).text, gm_size_up(bytes).text,
		      gm_size_down(d->config->mask_bytes_per_uid).text);
}

/* The memory belongs to the socket's group.  A client that has connected is in
 * it, unless all users may connect. */
int gm_masks_admit_reader(const struct gm_daemon *d, uint32_t uid,
			  uint32_t owner_uid, char ret_why[GM_WHY_BYTES])
{
	if ((d->config->socket_mode & S_IRWXO) == 0 || uid == owner_uid ||
	    gm_user_is_privileged(uid))
		return 0;
	return gm_why(ret_why, -EACCES,
		      "everybody may connect, but masks are for a group: set "
		      "mode to 0660, and group, in [socket] of gpumapd.conf");
}

int gm_masks_check_pin(const struct gm_daemon *d, uint32_t uid,
		       const char *name, char ret_why[GM_WHY_BYTES])
{
	const struct gm_block *block = gm_directory_find(d, GM_KIND_MASK, name);
	uint64_t bytes = block != NULL ? bytes_of(d, block->unit) : 0;

	if (gm_user_is_privileged(uid))
		return 0;
	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		const struct gm_holder_image *holder = &d->holders->table[i];

		if (holder->kind == GM_HOLDER_PIN && holder->uid == uid)
			bytes += bytes_of(d, holder->unit);
	}
	if (bytes <= d->config->mask_bytes_per_uid)
		return 0;
	return gm_why(ret_why, -EDQUOT,
		      "uid %u would pin masks of %s: unpin some, or raise "
		      "bytes-per-uid in [masks] of gpumapd.conf",
		      uid, gm_size_up(bytes).text);
}
