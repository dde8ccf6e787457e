/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/publish.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/base/name.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/masks/masks.h"
#include "agent/daemon/masks/publish.h"
#include "agent/daemon/meshes/rendezvous.h"
#include "shm/point.h"
#include "shm/seq.h"

/* What a block is to be made of. */
struct draft {
	void (*build)(const struct draft *draft, uint64_t published,
		      uint64_t version, uint64_t *ret_words);
	const struct gm_layers *layers;
	const struct gm_mask_image *mask;
	const struct gm_replica_image *replicas; /* of the mask */
	const struct gm_meshes *mesh;
	uint32_t kind;
	uint32_t owner_uid;
	uint32_t flags;
	const char *name;
	uint64_t bytes;
	uint64_t published; /* 0: now */
};

#define VERSION_MAX ((UINT64_C(1) << (64 - GM_UNIT_BITS)) - 1)

static uint64_t wall_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) +
	       (uint64_t)now.tv_nsec;
}

static struct gm_block *find(struct gm_directory *dir, uint32_t kind,
			     const char *name)
{
	uint64_t key = gm_object_key(kind, name);

	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		struct gm_block *block = &dir->objects[i];

		if (block->unit != 0 && block->key == key &&
		    block->kind == kind && strcmp(block->name, name) == 0)
			return block;
	}
	return NULL;
}

const struct gm_block *gm_publish_find(const struct gm_daemon *d, uint32_t kind,
				       const char *name)
{
	if (gm_object_name(name) == 0)
		return NULL;
	return find((struct gm_directory *)&d->directory, kind, name);
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

/* Give units back, unless somebody still reads them in place. */
static void reclaim(struct gm_daemon *d, uint32_t unit, uint32_t bytes)
{
	if (unit == 0 || gm_holders_have(d, unit))
		return;
	gm_masks_reclaim(d, unit);
	gm_heap_free(&d->directory.heap, unit, bytes / GM_UNIT);
}

static int reserve(struct gm_daemon *d, uint64_t bytes, uint32_t *ret_unit,
		   char *ret_why)
{
	struct gm_heap *heap = &d->directory.heap;
	int ret = gm_heap_alloc(heap, (uint32_t)(bytes / GM_UNIT), ret_unit);

	if (ret != 0)
		return gm_why(ret_why, ret,
			      "no room for %llu bytes, %llu are free: release "
			      "objects, or raise segment.size and restart with "
			      "--remove",
			      (unsigned long long)bytes,
			      (unsigned long long)heap->n_free * GM_UNIT);
	gm_put(&d->segment.map.header->rotor, heap->rotor);
	GM_POINT("publish_reserved");
	return 0;
}

static void fill(struct gm_daemon *d, uint32_t unit, const uint64_t *words,
		 uint64_t bytes)
{
	char *at = d->segment.map.base + (uint64_t)unit * GM_UNIT;

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
		    const struct gm_block *new, struct gm_promise *promise)
{
	uint32_t index = (uint32_t)(block - d->directory.objects);
	struct gm_block old = *block;

	*block = *new;
	show(d, &d->segment.map.objects[index].slot, block);
	gm_ledger_put(d, index, promise);
	gm_segment_changed(&d->segment);
	if ((old.flags & GM_OBJECT_HELD) != 0)
		gm_holders_moved_on(d, &old);
	reclaim(d, old.unit, old.bytes);
	if (new->kind == GM_KIND_MESH || old.kind == GM_KIND_MESH)
		gm_rendezvous_look(d);
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

/* Everything has been judged: from here on only room can be short. */
static int make_block(struct gm_daemon *d, const struct draft *draft,
		      uint64_t published, struct gm_block *block, char *ret_why)
{
	uint64_t *words;
	int ret;

	if (block->version > VERSION_MAX)
		return gm_why(ret_why, -ENOSPC,
			      "versions are used up: restart with --remove");
	words = malloc(block->bytes);
	if (words == NULL)
		return gm_why(ret_why, -ENOMEM, "out of memory");
	ret = reserve(d, block->bytes, &block->unit, ret_why);
	if (ret == 0) {
		draft->build(draft, published, block->version, words);
		fill(d, block->unit, words, block->bytes);
	}
	free(words);
	return ret;
}

/* What it is to reserve; @is_restored: it did already. */
static int make_promise(const struct gm_daemon *d,
			const struct gm_layers *layers,
			const struct gm_block *present, bool is_restored,
			char *ret_why, struct gm_promise **ret_promise)
{
	uint32_t slot = present != NULL
				? (uint32_t)(present - d->directory.objects)
				: GM_LEDGER_NOBODY;
	struct gm_promise *promise;
	int ret = gm_ledger_promise(layers, ret_why, &promise);

	if (ret != 0)
		return ret;
	if (is_restored)
		ret = gm_ledger_fits(d, promise, slot, ret_why);
	else
		ret = gm_ledger_judge(d, promise, slot, ret_why, NULL);
	if (ret != 0) {
		free(promise);
		return ret;
	}
	*ret_promise = promise;
	return 0;
}

static int prepare(struct gm_daemon *d, const struct draft *draft,
		   const struct gm_block *present, uint64_t least_version,
		   char *ret_why, struct gm_put *ret_put)
{
	struct gm_directory *dir = &d->directory;
	struct gm_put put = { .published = draft->published };
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
	if (put.published == 0)
		put.published = wall_clock();
	block->kind = draft->kind;
	block->bytes = (uint32_t)draft->bytes;
	block->owner_uid = draft->owner_uid;
	block->flags = draft->flags;
	block->key = gm_object_key(draft->kind, draft->name);
	memcpy(block->name, draft->name, gm_object_name(draft->name));
	block->version = next_version(dir, present);
	if (block->version < least_version)
		block->version = least_version;
	ret = make_block(d, draft, put.published, block, ret_why);
	if (ret == 0)
		*ret_put = put;
	return ret;
}

static void build_layers(const struct draft *draft, uint64_t published,
			 uint64_t version, uint64_t *ret_words)
{
	struct gm_layers dated = *draft->layers;

	dated.published = published;
	gm_layers_build(&dated, version, ret_words);
}

/* @promise is the put's on success. */
static int prepare_layers(struct gm_daemon *d, const struct gm_layers *layers,
			  const struct gm_block *present,
			  uint64_t least_version, struct gm_promise *promise,
			  char *ret_why, struct gm_put *ret_put)
{
	const struct draft draft = { .build = build_layers,
				     .layers = layers,
				     .kind = GM_KIND_LAYERS,
				     .owner_uid = layers->owner_uid,
				     .flags = layers->flags,
				     .name = layers->name,
				     .bytes = gm_layers_bytes(layers),
				     .published = layers->published };
	int ret = prepare(d, &draft, present, least_version, ret_why, ret_put);

	if (ret != 0)
		return ret;
	ret_put->promise = promise;
	ret_put->n_layers = layers->n_layers;
	ret_put->n_rows = layers->n_rows;
	return 0;
}

int gm_publish_prepare(struct gm_daemon *d, const struct gm_layers *layers,
		       char ret_why[GM_WHY_BYTES], struct gm_put *ret_put)
{
	const struct gm_block *present;
	struct gm_promise *mine;
	int ret = gm_publish_may_replace(d, GM_KIND_LAYERS, layers->name,
					 layers->owner_uid,
					 gm_layers_bytes(layers), ret_why);

	if (ret != 0)
		return ret;
	present = find(&d->directory, GM_KIND_LAYERS, layers->name);
	ret = make_promise(d, layers, present, false, ret_why, &mine);
	if (ret != 0)
		return ret;
	ret = prepare_layers(d, layers, present, 0, mine, ret_why, ret_put);
	if (ret != 0)
		free(mine);
	return ret;
}

static void store_slot(struct gm_daemon *d, const struct gm_put *put)
{
	struct gm_object_slot *slot = &d->segment.map.objects[put->slot];
	struct gm_block *block = &d->directory.objects[put->slot];

	assert(put->block.version > block->version);
	if (put->block.kind == GM_KIND_MESH)
		gm_epochs_give(d, &put->block);
	gm_put(&slot->key, put->block.key);
	GM_POINT("publish_key");
	move_on(d, block, &put->block, put->promise);
}

static void store(struct gm_daemon *d, const struct gm_put *put,
		  bool is_restored)
{
	const struct gm_block *block = &d->directory.objects[put->slot];

	store_slot(d, put);
	if (block->kind == GM_KIND_LAYERS) {
		gm_log(GM_LOG_INFO, is_restored ? "restored" : "published",
		       "kind=layers name=%s layers=%u rows=%u version=%llu "
		       "uid=%u",
		       block->name, put->n_layers, put->n_rows,
		       (unsigned long long)block->version, block->owner_uid);
		gm_mask_changes_follow(d, block->name);
	} else {
		gm_log(GM_LOG_INFO, is_restored ? "restored" : "published",
		       "kind=mesh name=%s world=%u version=%llu uid=%u",
		       block->name, put->n_rows,
		       (unsigned long long)block->version, block->owner_uid);
	}
}

void gm_publish_show(struct gm_daemon *d, const struct gm_put *put)
{
	if (put->block.kind == GM_KIND_MASK)
		store_slot(d, put);
	else
		store(d, put, false);
}

/* ---- masks -------------------------------------------------------------- */

static void build_mask(const struct draft *draft, uint64_t published,
		       uint64_t version, uint64_t *ret_words)
{
	struct gm_mask_image dated = *draft->mask;

	dated.object.published = published;
	gm_replicas_build(&dated, draft->replicas, version, ret_words);
}

int gm_publish_prepare_mask(struct gm_daemon *d,
			    const struct gm_mask_image *mask,
			    const struct gm_replica_image *replicas,
			    uint64_t least_version, char ret_why[GM_WHY_BYTES],
			    struct gm_put *ret_put)
{
	const struct draft draft = {
		.build = build_mask,
		.mask = mask,
		.replicas = replicas,
		.kind = GM_KIND_MASK,
		.owner_uid = mask->object.owner_uid,
		.name = mask->object.name,
		.bytes = gm_replicas_bytes(mask->n_replicas),
		.published = mask->object.published,
	};

	return prepare(d, &draft,
		       find(&d->directory, GM_KIND_MASK, mask->object.name),
		       least_version, ret_why, ret_put);
}

/* ---- meshes ------------------------------------------------------------- */

static void build_mesh(const struct draft *draft, uint64_t published,
		       uint64_t version, uint64_t *ret_words)
{
	struct gm_meshes dated = *draft->mesh;

	dated.published = published;
	gm_meshes_build(&dated, version, ret_words);
}

int gm_publish_prepare_mesh(struct gm_daemon *d, const struct gm_meshes *mesh,
			    uint64_t least_version, char ret_why[GM_WHY_BYTES],
			    struct gm_put *ret_put)
{
	const struct draft draft = { .build = build_mesh,
				     .mesh = mesh,
				     .kind = GM_KIND_MESH,
				     .owner_uid = mesh->owner_uid,
				     .name = mesh->name,
				     .bytes = gm_meshes_bytes(mesh),
				     .published = mesh->published };
	int ret = prepare(d, &draft,
			  find(&d->directory, GM_KIND_MESH, mesh->name),
			  least_version, ret_why, ret_put);

	if (ret == 0)
		ret_put->n_rows = mesh->world;
	return ret;
}

int gm_publish_restore_mesh(struct gm_daemon *d, const struct gm_meshes *mesh,
			    uint64_t version, char ret_why[GM_WHY_BYTES])
{
	struct gm_put put;
	int ret = gm_publish_prepare_mesh(d, mesh, version + 1, ret_why, &put);

	if (ret == 0)
		store(d, &put, true);
	return ret;
}

void gm_publish_abandon(struct gm_daemon *d, const struct gm_put *put)
{
	gm_heap_free(&d->directory.heap, put->block.unit,
		     put->block.bytes / GM_UNIT);
	free(put->promise);
}

int gm_publish_layers(struct gm_daemon *d, const struct gm_layers *layers,
		      char ret_why[GM_WHY_BYTES], uint64_t *ret_version)
{
	struct gm_put put;
	int ret = gm_publish_prepare(d, layers, ret_why, &put);

	if (ret != 0)
		return ret;
	gm_publish_show(d, &put);
	*ret_version = put.block.version;
	return 0;
}

int gm_publish_restore(struct gm_daemon *d, const struct gm_layers *layers,
		       uint64_t version, char ret_why[GM_WHY_BYTES])
{
	const struct gm_block *present =
		find(&d->directory, GM_KIND_LAYERS, layers->name);
	struct gm_promise *mine;
	struct gm_put put;
	int ret = make_promise(d, layers, present, true, ret_why, &mine);

	if (ret != 0)
		return ret;
	ret = prepare_layers(d, layers, present, version + 1, mine, ret_why,
			     &put);
	if (ret != 0) {
		free(mine);
		return ret;
	}
	store(d, &put, true);
	return 0;
}

static int find_removable(const struct gm_daemon *d, uint32_t kind,
			  const char *name, uint32_t uid, char *ret_why,
			  struct gm_block **ret_block)
{
	struct gm_block *block;
	int ret;

	ret = gm_name_judge(name, ret_why);
	if (ret != 0)
		return ret;
	block = find((struct gm_directory *)&d->directory, kind, name);
	if (block == NULL)
		return gm_why(ret_why, -ENOENT, "nothing is published as %s",
			      name);
	if (!gm_publish_privileged(uid) && block->owner_uid != uid)
		return gm_why(ret_why, -EACCES,
			      "%s belongs to uid %u, who may release it", name,
			      block->owner_uid);
	*ret_block = block;
	return 0;
}

int gm_publish_may_remove(const struct gm_daemon *d, uint32_t kind,
			  const char *name, uint32_t uid,
			  char ret_why[GM_WHY_BYTES])
{
	struct gm_block *block;

	return find_removable(d, kind, name, uid, ret_why, &block);
}

int gm_publish_remove(struct gm_daemon *d, uint32_t kind, const char *name,
		      uint32_t uid, char ret_why[GM_WHY_BYTES])
{
	struct gm_block *block;
	int ret = find_removable(d, kind, name, uid, ret_why, &block);

	if (ret != 0)
		return ret;
	take_out(d, block);
	gm_log(GM_LOG_INFO, "released", "name=%s uid=%u", name, uid);
	return 0;
}

void gm_publish_withdraw(struct gm_daemon *d, uint32_t unit, uint64_t version)
{
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		struct gm_block *block = &d->directory.objects[i];
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

void gm_publish_unpinned(struct gm_daemon *d, uint32_t unit, uint32_t bytes)
{
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		if (d->directory.objects[i].unit == unit)
			return;
	}
	reclaim(d, unit, bytes);
}

int gm_publish_row(struct gm_daemon *d, const struct gm_row_image *facts)
{
	uint64_t words[(sizeof(*facts) + GM_UNIT - 1) / GM_UNIT * GM_UNIT / 8];
	struct gm_block *block = &d->directory.rows[facts->row];
	struct gm_row_image image = *facts;
	struct gm_block old = *block;
	char why[GM_WHY_BYTES];
	int ret;

	assert(gm_object_name(image.object.name) != 0);
	*block = (struct gm_block){ .kind = GM_KIND_ROW,
				    .bytes = sizeof(words),
				    .version = old.version + 1,
				    .owner_uid = geteuid() };
	block->key = gm_object_key(GM_KIND_ROW, image.object.name);
	ret = reserve(d, sizeof(words), &block->unit, why);
	if (ret != 0) {
		*block = old;
		return ret;
	}
	memcpy(block->name, image.object.name, sizeof(block->name));
	image.object.kind = block->kind;
	image.object.bytes = block->bytes;
	image.object.key = block->key;
	image.object.version = block->version;
	image.object.published = wall_clock();
	image.object.owner_uid = block->owner_uid;
	memset(words, 0, sizeof(words));
	memcpy(words, &image, sizeof(image));
	fill(d, block->unit, words, sizeof(words));
	show(d, &d->segment.map.rows[facts->row].facts, block);
	gm_segment_changed(&d->segment);
	reclaim(d, old.unit, old.bytes);
	return 0;
}
