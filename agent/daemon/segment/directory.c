/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/segment/directory.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/name.h"
#include "agent/common/node_clock.h"
#include "agent/daemon/base/events.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/user.h"
#include "agent/daemon/config.h"
#include "agent/daemon/segment/segment.h"
#include "lib/model/plan/size_text.h"
#include "shm/objects.h"
#include "shm/point.h"
#include "shm/seq.h"
#include "shm/tracepoint.h"

#define VERSION_MAX ((UINT64_C(1) << (64 - GM_UNIT_BITS)) - 1)

static struct gm_block *find(struct gm_directory *dir, uint32_t kind,
			     const char *name)
{
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		struct gm_block *block = &dir->objects[i];

		if (block->unit != 0 && block->kind == kind &&
		    strcmp(block->name, name) == 0)
			return block;
	}
	return NULL;
}

const struct gm_block *gm_directory_find(const struct gm_daemon *d,
					 uint32_t kind, const char *name)
{
	if (gm_object_name(name) == 0)
		return NULL;
	return find(d->directory, kind, name);
}

/* A slot for a name that has none.  One that no name ever had comes first, for
 * views of an object that was released look where it was. */
static struct gm_block *vacant(struct gm_directory *dir)
{
	struct gm_block *best = NULL;

	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		struct gm_block *block = &dir->objects[i];

		if (block->unit == 0 &&
		    (best == NULL || block->version < best->version))
			best = block;
	}
	return best;
}

/* The name may have been in any slot before: its versions grow all the same. */
static uint64_t highest_version(const struct gm_directory *dir)
{
	uint64_t highest = 0;

	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		if (dir->objects[i].version > highest)
			highest = dir->objects[i].version;
	}
	return highest;
}

/* Free units, unless a client has them pinned. */
static void reclaim(struct gm_daemon *d, uint32_t unit, uint32_t bytes)
{
	if (unit == 0 || gm_events_block_pinned(d, unit))
		return;
	gm_events_block_freed(d, unit);
	gm_blocks_free(&d->directory->heap, unit, bytes / GM_UNIT);
}

static int reserve(struct gm_daemon *d, uint64_t bytes, uint32_t *ret_unit,
		   char *ret_why)
{
	struct gm_heap *heap = &d->directory->heap;
	int ret = gm_blocks_alloc(heap, (uint32_t)(bytes / GM_UNIT), ret_unit);

	if (ret != 0)
		return gm_why(
			ret_why, ret,
			"no room for %s, %s are free: release objects, or "
			"raise size in [segment] of gpumapd.conf and "
			"restart with --remove",
			gm_size_up(bytes).text,
			gm_size_down(heap->n_free * GM_UNIT).text);
	gm_put(&d->segment->map.header->rotor, heap->rotor);
	GM_POINT("publish_reserved");
	return 0;
}

static void fill(struct gm_daemon *d, uint32_t unit, const uint64_t *words,
		 uint64_t bytes)
{
	char *at = d->segment->map.base + (uint64_t)unit * GM_UNIT;

	gm_seq_fill((gm_a64 *)(void *)at, words, bytes / 8);
	GM_POINT("publish_filled");
}

static void show(struct gm_daemon *d, gm_a64 *slot, const struct gm_block *new)
{
	gm_seq_publish(slot, gm_seq_word(new->version, new->unit));
	GM_POINT("publish_visible");
}

/* The object's slot moves on to @new, and all that depends on it. */
static void move_on(struct gm_daemon *d, struct gm_block *block,
		    const struct gm_block *new, const struct gm_put *put)
{
	uint32_t index = (uint32_t)(block - d->directory->objects);
	struct gm_block old = *block;

	*block = *new;
	show(d, &d->segment->map.objects[index].slot, block);
	gm_events_slot_stored(d, index, put);
	gm_segment_changed(d->segment);
	gm_events_object_moved(d, &old, new);
	reclaim(d, old.unit, old.bytes);
}

static void take_out(struct gm_daemon *d, struct gm_block *block)
{
	const struct gm_block none = { .version = block->version + 1 };

	move_on(d, block, &none, NULL);
}

/* An object that its holder's end may take out leaves a version for that. */
static uint64_t next_version(const struct gm_directory *dir,
			     const struct gm_block *present)
{
	if (present->unit == 0)
		return highest_version(dir) + 1;
	return present->version +
	       ((present->flags & GM_OBJECT_HELD) != 0 ? 2 : 1);
}

int gm_directory_prepare(struct gm_daemon *d, uint64_t *words,
			 uint64_t least_version, char ret_why[GM_WHY_BYTES],
			 struct gm_put *ret_put)
{
	struct gm_object_image *image = (void *)words;
	struct gm_directory *dir = d->directory;
	const struct gm_block *present = find(dir, image->kind, image->name);
	struct gm_put put = { .reservation = NULL };
	struct gm_block *block = &put.block;
	int ret;

	if (present == NULL)
		present = vacant(dir);
	if (present == NULL)
		return gm_why(ret_why, -ENOSPC,
			      "all %u places of the directory are taken: "
			      "release an object",
			      GM_OBJECTS);
	put.slot = (uint32_t)(present - dir->objects);
	block->slot = put.slot;
	block->kind = image->kind;
	block->bytes = image->bytes;
	block->owner_uid = image->owner_uid;
	block->flags = image->flags;
	memcpy(block->name, image->name, sizeof(block->name));
	block->version = next_version(dir, present);
	if (block->version < least_version)
		block->version = least_version;
	if (block->version > VERSION_MAX)
		return gm_why(ret_why, -ENOSPC,
			      "versions are used up: restart with --remove");
	ret = reserve(d, block->bytes, &block->unit, ret_why);
	if (ret != 0)
		return ret;
	image->version = block->version;
	if (image->published == 0)
		image->published = gm_node_clock_read(CLOCK_REALTIME);
	fill(d, block->unit, words, block->bytes);
	*ret_put = put;
	return 0;
}

void gm_directory_store(struct gm_daemon *d, const struct gm_put *put)
{
	struct gm_object_slot *slot = &d->segment->map.objects[put->slot];
	struct gm_block *block = &d->directory->objects[put->slot];

	assert(put->block.version > block->version);
	gm_put(&slot->key, gm_object_key(put->block.kind, put->block.name));
	GM_POINT("publish_key");
	move_on(d, block, &put->block, put);
	GM_TRACEPOINT(publish, put->block.kind, put->block.name,
		      put->block.version);
}

void gm_directory_abandon(struct gm_daemon *d, const struct gm_put *put)
{
	gm_blocks_free(&d->directory->heap, put->block.unit,
		       put->block.bytes / GM_UNIT);
	free(put->reservation);
}

/* ---- who may ------------------------------------------------------------ */

static int check_quota(const struct gm_daemon *d, uint32_t uid,
		       const struct gm_block *present, uint64_t bytes,
		       char *ret_why)
{
	uint32_t objects = 1;

	if (gm_user_is_privileged(uid))
		return 0;
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		const struct gm_block *block = &d->directory->objects[i];

		if (block->unit == 0 || block == present ||
		    block->owner_uid != uid)
			continue;
		objects++;
		bytes += block->bytes;
	}
	if (objects > d->config->objects_per_uid)
		return gm_why(
			ret_why, -EDQUOT,
			"uid %u has %u objects published: release one, or "
			"raise objects-per-uid in [limits] of gpumapd.conf",
			uid, objects - 1);
	if (bytes > d->config->object_bytes_per_uid)
		return gm_why(
			ret_why, -EDQUOT,
			"uid %u would have %s published: release objects, "
			"or raise object-bytes-per-uid in [limits] of "
			"gpumapd.conf",
			uid, gm_size_up(bytes).text);
	return 0;
}

static const char *noun_of(uint32_t kind)
{
	return kind == GM_KIND_MASK      ? "mask"
	       : kind == GM_KIND_MESH    ? "mesh"
	       : kind == GM_KIND_CLUSTER ? "cluster"
					 : "map";
}

int gm_directory_may_replace(const struct gm_daemon *d, uint32_t kind,
			     const char *name, uint32_t uid, uint64_t bytes,
			     char ret_why[GM_WHY_BYTES])
{
	const struct gm_block *present;
	int ret = gm_name_check(name, ret_why);

	if (ret != 0)
		return ret;
	present = gm_directory_find(d, kind, name);
	if (present != NULL && !gm_user_is_privileged(uid) &&
	    present->owner_uid != uid)
		return gm_why(ret_why, -EACCES,
			      "%s %s belongs to uid %u: choose another name",
			      noun_of(kind), name, present->owner_uid);
	return check_quota(d, uid, present, bytes, ret_why);
}

static int find_removable(const struct gm_daemon *d, uint32_t kind,
			  const char *name, uint32_t uid, char *ret_why,
			  struct gm_block **ret_block)
{
	struct gm_block *block;
	int ret;

	ret = gm_name_check(name, ret_why);
	if (ret != 0)
		return ret;
	block = find(d->directory, kind, name);
	if (block == NULL)
		return gm_why(ret_why, -ENOENT, "nothing is published as %s",
			      name);
	if (!gm_user_is_privileged(uid) && block->owner_uid != uid)
		return gm_why(ret_why, -EACCES,
			      "%s belongs to uid %u, who may release it", name,
			      block->owner_uid);
	*ret_block = block;
	return 0;
}

int gm_directory_may_remove(const struct gm_daemon *d, uint32_t kind,
			    const char *name, uint32_t uid,
			    char ret_why[GM_WHY_BYTES])
{
	struct gm_block *block;

	return find_removable(d, kind, name, uid, ret_why, &block);
}

/* ---- taking out --------------------------------------------------------- */

int gm_directory_remove(struct gm_daemon *d, uint32_t kind, const char *name,
			uint32_t uid, char ret_why[GM_WHY_BYTES])
{
	struct gm_block *block;
	int ret = find_removable(d, kind, name, uid, ret_why, &block);

	if (ret != 0)
		return ret;
	take_out(d, block);
	gm_log_of(uid, GM_LOG_INFO, "released", "name=%s uid=%u", name, uid);
	return 0;
}

void gm_directory_withdraw(struct gm_daemon *d, uint32_t unit, uint64_t version)
{
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		struct gm_block *block = &d->directory->objects[i];
		struct gm_block old = *block;

		if (block->unit != unit || block->version != version ||
		    (block->flags & GM_OBJECT_HELD) == 0)
			continue;
		take_out(d, block);
		gm_log(GM_LOG_INFO, "withdrawn", "name=%s uid=%u", old.name,
		       old.owner_uid);
		return;
	}
}

void gm_directory_unpinned(struct gm_daemon *d, uint32_t unit, uint32_t bytes)
{
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		if (d->directory->objects[i].unit == unit)
			return;
	}
	reclaim(d, unit, bytes);
}

/* ---- rows --------------------------------------------------------------- */

int gm_directory_row(struct gm_daemon *d, const struct gm_row_image *facts)
{
	uint64_t words[(sizeof(*facts) + GM_UNIT - 1) / GM_UNIT * GM_UNIT / 8];
	struct gm_block *block = &d->directory->rows[facts->row];
	struct gm_row_image image = *facts;
	struct gm_block old = *block;
	char why[GM_WHY_BYTES];
	int ret;

	assert(gm_object_name(image.object.name) != 0);
	*block = (struct gm_block){ .kind = GM_KIND_ROW,
				    .bytes = sizeof(words),
				    .version = old.version + 1,
				    .owner_uid = geteuid() };
	ret = reserve(d, sizeof(words), &block->unit, why);
	if (ret != 0) {
		*block = old;
		return ret;
	}
	memcpy(block->name, image.object.name, sizeof(block->name));
	image.object.kind = block->kind;
	image.object.bytes = block->bytes;
	image.object.image_bytes = sizeof(image);
	image.object.version = block->version;
	image.object.published = gm_node_clock_read(CLOCK_REALTIME);
	image.object.owner_uid = block->owner_uid;
	memset(words, 0, sizeof(words));
	memcpy(words, &image, sizeof(image));
	fill(d, block->unit, words, sizeof(words));
	show(d, &d->segment->map.rows[facts->row].facts, block);
	gm_segment_changed(d->segment);
	reclaim(d, old.unit, old.bytes);
	return 0;
}
