/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/internal.h"

#include <errno.h>
#include <string.h>

#include "shm/layers.h"
#include "shm/meshes.h"

/* The word that a pinned view checks: it never changes. */
static const uint64_t settled;

_Static_assert(offsetof(struct gm_layers_image, n_layers) % 8 == 0, "a word");
_Static_assert(offsetof(struct gm_layers_image, rows_at) % 8 == 0, "a word");
_Static_assert(offsetof(struct gm_object_image, key) == 8, "the second word");

#define WORD_OF(field) (offsetof(struct gm_layers_image, field) / 8)

/* Find the entries of a block of kind layers that has this key.  Reads four
 * words of its image and not all of it, because while a writer is busy nearly
 * every lookup is followed by this.  The words are valid only if the caller
 * then reads the slot word unchanged. */
static int look(const struct gm_map *map, uint64_t word, uint64_t key,
		struct gpumap_view *ret_view)
{
	const gm_a64 *block =
		gm_check_block(map, word, sizeof(struct gm_layers_image));
	struct gm_layers_image image;
	uint64_t words[4];

	if (block == NULL)
		return -EPROTO;
	gm_seq_read(&block[0], &words[0], 2);
	gm_seq_read(&block[WORD_OF(n_layers)], &words[2], 1);
	gm_seq_read(&block[WORD_OF(rows_at)], &words[3], 1);
	memcpy(&image, &words[0], 16);
	memcpy(&image.n_layers, &words[2], 8);
	memcpy(&image.rows_at, &words[3], 8);
	if (image.object.kind != GM_KIND_LAYERS || image.object.key != key)
		return -ENOENT;
	if (gm_check_block(map, word, image.object.bytes) == NULL ||
	    image.n_layers == 0 || image.n_layers > GM_LAYERS_MAX ||
	    image.rows_at % 8 != 0 || image.rows_at < sizeof(image) ||
	    !gm_check_span(image.rows_at, 4 * (uint64_t)image.n_layers,
			   image.object.bytes))
		return -EPROTO;
	ret_view->entries =
		(const uint32_t *)(const void *)block + image.rows_at / 4;
	ret_view->n = image.n_layers;
	ret_view->expect = word;
	ret_view->key = key;
	return 0;
}

/* The same for a mesh that has a group of this key. */
static int look_mesh(const struct gm_map *map, const gm_a64 *slot, uint64_t key,
		     uint32_t table, struct gpumap_view *ret_view)
{
	struct gm_mesh_image image;
	struct gm_object object;
	int ret = gm_object_open(map, slot, &object);

	if (ret == 0 && object.image.kind != GM_KIND_MESH)
		ret = -ENOENT;
	if (ret == 0)
		ret = gm_meshes_image(&object, &image);
	if (ret != 0)
		return ret;
	for (uint32_t i = 0; i < image.n_groups; i++) {
		struct gm_group_image group;

		if (gm_meshes_group(&object, &image, i, &group) != 0)
			return -EPROTO;
		if (group.key != key)
			continue;
		ret_view->entries =
			(const uint32_t *)(const void *)object.block +
			(table == GPUMAP_MESH_RANKS ? group.ranks_at
						    : group.rows_at) /
				4;
		ret_view->n = group.n;
		ret_view->expect = object.word;
		ret_view->key = key;
		ret_view->table = table;
		return 0;
	}
	return -ENOENT;
}

/* Fill a view from one slot of the directory, if it names an object of this
 * key, or with a group of it. */
static int view_slot(const struct gm_map *map, const gm_a64 *slot, uint64_t key,
		     uint32_t table, struct gpumap_view *ret_view)
{
	struct gpumap_view view = { .check = (const uint64_t *)slot };

	for (int i = 0; i < GM_OBJECT_ATTEMPTS; i++) {
		uint64_t word = gm_seq_open(slot);
		int ret;

		if (gm_seq_unit(word) == 0)
			return -ENOENT;
		if (table == 0)
			ret = look(map, word, key, &view);
		else
			ret = look_mesh(map, slot, key, table, &view);
		if (ret == -EAGAIN || !gm_seq_whole(slot, word))
			continue;
		if (ret == 0)
			*ret_view = view;
		return ret;
	}
	return -EAGAIN;
}

static int view_name(const struct gm_map *map, uint32_t kind, const char *name,
		     uint64_t key, uint32_t table, struct gpumap_view *ret_view)
{
	struct gm_object object;
	int ret = -EAGAIN;

	for (int i = 0; i < GM_OBJECT_ATTEMPTS && ret == -EAGAIN; i++) {
		ret = gm_object_find(map, kind, name, &object);
		if (ret != 0)
			break;
		ret = view_slot(map, object.slot, key, table, ret_view);
		/* Another object took the slot meanwhile: search again. */
		if (ret == -ENOENT && !gm_object_whole(&object))
			ret = -EAGAIN;
	}
	return ret;
}

int gpumap_layers_view(const struct gpumap *map, const char *name,
		       struct gpumap_view *ret_view)
{
	return view_name(&map->map, GM_KIND_LAYERS, name,
			 gm_object_key(GM_KIND_LAYERS, name), 0, ret_view);
}

int gpumap_mesh_view(const struct gpumap *map, const char *name,
		     const char *group, uint32_t table,
		     struct gpumap_view *ret_view)
{
	if (group == NULL)
		group = "world";
	if ((table != GPUMAP_MESH_ROWS && table != GPUMAP_MESH_RANKS) ||
	    gm_object_name(name) == 0 || gm_object_name(group) == 0)
		return -EINVAL;
	return view_name(&map->map, GM_KIND_MESH, name,
			 gm_meshes_key(name, group), table, ret_view);
}

/* The slot that a view was filled from, or NULL: it is not of this map. */
static const gm_a64 *slot_of(const struct gm_map *map,
			     const struct gpumap_view *view)
{
	uintptr_t first = (uintptr_t)&map->objects[0].slot;
	uintptr_t at = (uintptr_t)view->check;
	uintptr_t index = (at - first) / sizeof(map->objects[0]);

	if (at < first || index >= map->n_objects ||
	    at != (uintptr_t)&map->objects[index].slot)
		return NULL;
	return &map->objects[index].slot;
}

int gpumap_view_refresh(const struct gpumap *map, struct gpumap_view *view)
{
	const struct gm_map *m = &map->map;
	const gm_a64 *slot;
	int ret;

	if (view->check == &settled)
		return 0;
	if (gm_get(&m->header->state) == GM_STATE_RETIRED)
		return -ESTALE;
	slot = slot_of(m, view);
	if (slot == NULL)
		return -EINVAL;
	ret = view_slot(m, slot, view->key, view->table, view);
	/* The object was released, and perhaps published again in another slot.
	 * A mesh's slot does not have the group's key, so try all. */
	for (uint32_t i = 0; i < m->n_objects && ret == -ENOENT; i++)
		if (view->table != 0 || gm_get(&m->objects[i].key) == view->key)
			ret = view_slot(m, &m->objects[i].slot, view->key,
					view->table, view);
	return ret;
}

int gm_view_pinned(const struct gpumap *map, uint64_t key, uint32_t table,
		   uint64_t word, struct gpumap_view *ret_view)
{
	struct gpumap_view view = { 0 };
	gm_a64 slot;
	int ret;

	gm_put(&slot, word);
	if (table == 0)
		ret = look(&map->map, word, key, &view);
	else
		ret = look_mesh(&map->map, &slot, key, table, &view);
	if (ret == -ENOENT && table != 0)
		return ret;
	if (ret != 0)
		return -EPROTO; /* the agent named this block */
	view.check = &settled;
	view.expect = settled;
	*ret_view = view;
	return 0;
}
