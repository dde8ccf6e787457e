/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Who has reserved what: the directory, and the holders of what is held. */

#include "lib/internal.h"

#include <errno.h>
#include <string.h>

#include "shm/objects.h"

/*
 * The process that a held map's entry names, or 0.
 *
 * The entry was there before the slot named the block and stays until after
 * the slot has moved on, so whoever finds the slot unchanged afterwards has
 * read a whole one.
 */
static uint32_t holder_of(const struct gm_map *map,
			  const struct gm_object *object)
{
	for (uint32_t i = 0; i < map->n_holders; i++) {
		struct gm_holder_image image;
		uint64_t words[sizeof(image) / 8];

		gm_seq_read(map->holders[i].w, words, sizeof(words) / 8);
		memcpy(&image, words, sizeof(image));
		if (image.kind == GM_HOLDER_RESERVE &&
		    image.unit == gm_seq_unit(object->word) &&
		    image.version == object->image.version &&
		    image.key == object->image.key)
			return image.pid;
	}
	return 0;
}

static int read_once(const struct gm_map *map, const gm_a64 *slot,
		     struct gpumap_holder *holder)
{
	struct gm_object object;
	int ret = gm_object_open(map, slot, &object);

	if (ret != 0)
		return ret;
	if ((object.image.flags & GM_OBJECT_COMMITTED) == 0)
		return -ENOENT;
	memcpy(holder->name, object.image.name, sizeof(holder->name));
	holder->version = object.image.version;
	holder->since_ns = object.image.published;
	holder->uid = object.image.owner_uid;
	holder->pid = 0;
	if ((object.image.flags & GM_OBJECT_HELD) != 0)
		holder->pid = holder_of(map, &object);
	return gm_object_whole(&object) ? 0 : -EAGAIN;
}

int gpumap_who(const struct gpumap *map, uint32_t *cursor,
	       struct gpumap_holder *ret_holder)
{
	struct gpumap_holder holder = { .size = ret_holder->size };
	const struct gm_map *m = &map->map;
	int ret;

	ret = gm_size_out(holder.size, offsetof(struct gpumap_holder, version),
			  sizeof(holder));
	if (ret != 0)
		return ret;
	while (*cursor < m->n_objects) {
		const gm_a64 *slot = &m->objects[(*cursor)++].slot;

		ret = -EAGAIN;
		for (int i = 0; i < GM_OBJECT_ATTEMPTS && ret == -EAGAIN; i++)
			ret = read_once(m, slot, &holder);
		if (ret == 0) {
			memcpy(ret_holder, &holder, holder.size);
			return 1;
		}
	}
	return 0;
}
