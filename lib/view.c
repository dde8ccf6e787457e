/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/internal.h"

#include <errno.h>
#include <string.h>

#include "shm/layers.h"
#include "shm/meshes.h"

_Static_assert(offsetof(struct gm_layers_image, n_layers) % 8 == 0, "a word");
_Static_assert(offsetof(struct gm_layers_image, rows_at) % 8 == 0, "a word");
_Static_assert(offsetof(struct gm_object_image, name) % 8 == 0, "a word");
_Static_assert(sizeof(((struct gpumap_view *)0)->name) == GM_NAME_BYTES,
	       "a view's name has the bytes of an image's");

#define WORD_OF(field) (offsetof(struct gm_layers_image, field) / 8)

struct found {
	const uint32_t *entries;
	uint64_t word; /* of the slot */
	uint32_t n;
};

/* Find the entries of a layer map that has the view's name.  Reads eleven words
 * of its image and not all of it, because while a writer is busy nearly every
 * lookup is followed by this.  The words are valid only if the caller then
 * reads the slot word unchanged. */
static int look(const struct gm_map *map, uint64_t word,
		const struct gpumap_view *view, struct found *ret_found)
{
	const gm_a64 *block = gm_check_block(map, word, GM_LAYERS_IMAGE_LEAST);
	struct gm_layers_image image;
	uint64_t words[3], name[GM_NAME_BYTES / 8];

	if (block == NULL)
		return -EPROTO;
	gm_seq_read(&block[0], &words[0], 1);
	gm_seq_read(&block[WORD_OF(object.name)], name, GM_NAME_BYTES / 8);
	gm_seq_read(&block[WORD_OF(n_layers)], &words[1], 1);
	gm_seq_read(&block[WORD_OF(rows_at)], &words[2], 1);
	memcpy(&image, &words[0], 8);
	memcpy(&image.n_layers, &words[1], 8);
	memcpy(&image.rows_at, &words[2], 8);
	if (image.object.kind != GM_KIND_LAYERS ||
	    memcmp(name, view->name, GM_NAME_BYTES) != 0)
		return -ENOENT;
	if (gm_check_block(map, word, image.object.bytes) == NULL ||
	    image.n_layers == 0 || image.n_layers > GM_LAYERS_MAX ||
	    image.rows_at % 8 != 0 || image.rows_at < GM_LAYERS_IMAGE_LEAST ||
	    !gm_check_span(image.rows_at, 4 * (uint64_t)image.n_layers,
			   image.object.bytes))
		return -EPROTO;
	ret_found->entries =
		(const uint32_t *)(const void *)block + image.rows_at / 4;
	ret_found->n = image.n_layers;
	ret_found->word = word;
	return 0;
}

/* The same for a mesh that has the view's names. */
static int look_mesh(const struct gm_map *map, const gm_a64 *slot,
		     const struct gpumap_view *view, struct found *ret_found)
{
	struct gm_mesh_image image;
	struct gm_object object;
	int ret = gm_object_open(map, slot, &object);

	if (ret == 0 && (object.image.kind != GM_KIND_MESH ||
			 strcmp(object.image.name, view->name) != 0))
		ret = -ENOENT;
	if (ret == 0)
		ret = gm_meshes_image(&object, &image);
	if (ret != 0)
		return ret;
	for (uint32_t i = 0; i < image.n_groups; i++) {
		struct gm_group_image group;

		if (gm_meshes_group(&object, &image, i, &group) != 0)
			return -EPROTO;
		if (strcmp(group.name, view->group) != 0)
			continue;
		ret_found->entries =
			(const uint32_t *)(const void *)object.block +
			(view->table == GPUMAP_MESH_RANKS ? group.ranks_at
							  : group.rows_at) /
				4;
		ret_found->n = group.n;
		ret_found->word = object.word;
		return 0;
	}
	return -ENOENT;
}

static void fill(struct gpumap_view *view, const struct found *found,
		 const uint64_t *check, uint64_t expect)
{
	view->entries = found->entries;
	view->n = found->n;
	view->check = check;
	view->expect = expect;
}

/* Fill a view that has its names from one slot of the directory. */
static int view_slot(const struct gm_map *map, const gm_a64 *slot,
		     struct gpumap_view *view)
{
	for (int i = 0; i < GM_OBJECT_ATTEMPTS; i++) {
		uint64_t word = gm_seq_open(slot);
		struct found found;
		int ret;

		if (gm_seq_unit(word) == 0)
			return -ENOENT;
		if (view->table == 0)
			ret = look(map, word, view, &found);
		else
			ret = look_mesh(map, slot, view, &found);
		if (ret == -EAGAIN || !gm_seq_whole(slot, word))
			continue;
		if (ret == 0)
			fill(view, &found, (const uint64_t *)slot, found.word);
		return ret;
	}
	return -EAGAIN;
}

/* Fill a view that has its names from the slot that the directory has them
 * in. */
static int view_name(const struct gm_map *map, struct gpumap_view *view)
{
	uint32_t kind = view->table == 0 ? GM_KIND_LAYERS : GM_KIND_MESH;
	struct gm_object object;
	int ret = -EAGAIN;

	for (int i = 0; i < GM_OBJECT_ATTEMPTS && ret == -EAGAIN; i++) {
		ret = gm_object_find(map, kind, view->name, &object);
		if (ret != 0)
			break;
		ret = view_slot(map, object.slot, view);
		/* Another object took the slot meanwhile: search again. */
		if (ret == -ENOENT && !gm_object_whole(&object))
			ret = -EAGAIN;
	}
	return ret;
}

/* Begin a view of the names, which fit. */
static struct gpumap_view begin(const char *name, const char *group,
				uint32_t table)
{
	struct gpumap_view view = { .table = table };

	memcpy(view.name, name, gm_object_name(name));
	if (group != NULL)
		memcpy(view.group, group, gm_object_name(group));
	return view;
}

int gpumap_layers_view(const struct gpumap *map, const char *name,
		       struct gpumap_view *ret_view)
{
	struct gpumap_view view;
	int ret;

	if (gm_object_name(name) == 0)
		return -EINVAL;
	view = begin(name, NULL, 0);
	ret = view_name(&map->map, &view);
	if (ret == 0)
		*ret_view = view;
	return ret;
}

int gpumap_mesh_view(const struct gpumap *map, const char *name,
		     const char *group, uint32_t table,
		     struct gpumap_view *ret_view)
{
	struct gpumap_view view;
	int ret;

	if (group == NULL)
		group = "world";
	if ((table != GPUMAP_MESH_ROWS && table != GPUMAP_MESH_RANKS) ||
	    gm_object_name(name) == 0 || gm_object_name(group) == 0)
		return -EINVAL;
	view = begin(name, group, table);
	ret = view_name(&map->map, &view);
	if (ret == 0)
		*ret_view = view;
	return ret;
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

	if (view->check != NULL && view->check == gm_get(&map->mine.mine))
		return gm_fork_map_mine(map); /* pinned */
	if (gm_health_retired(map))
		return -ESTALE;
	slot = slot_of(m, view);
	if (slot == NULL)
		return -EINVAL;
	ret = view_slot(m, slot, view);
	/* The object was released, and perhaps published again in another
	 * slot. */
	return ret == -ENOENT ? view_name(m, view) : ret;
}

int gm_view_pinned(const struct gpumap *map, const char *name,
		   const char *group, uint32_t table, uint64_t word,
		   struct gpumap_view *ret_view)
{
	struct gpumap_view view = begin(name, group, table);
	struct gm_object object;
	struct found found;
	gm_a64 slot;
	int ret;

	gm_put(&slot, word);
	/* The agent has named this block, and this publication of it. */
	if (gm_object_open(&map->map, &slot, &object) != 0 ||
	    object.image.version != gm_seq_version(word))
		return -EPROTO;
	if (table == 0)
		ret = look(&map->map, word, &view, &found);
	else
		ret = look_mesh(&map->map, &slot, &view, &found);
	if (ret == -ENOENT && table != 0)
		return ret;
	if (ret != 0)
		return -EPROTO;
	fill(&view, &found, gm_get(&map->mine.mine), GM_GUARD_MINE);
	*ret_view = view;
	return 0;
}
