/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/objects.h"

#include <errno.h>
#include <string.h>

#define IMAGE_WORDS (sizeof(struct gm_object_image) / 8)

_Static_assert(sizeof(struct gm_object_image) % 8 == 0, "whole words");

size_t gm_object_name(const char *name)
{
	size_t n = 0;

	if (name == NULL)
		return 0;
	while (n < GM_NAME_BYTES && name[n] != '\0')
		n++;
	return n < GM_NAME_BYTES ? n : 0;
}

int gm_object_open(const struct gm_map *map, const gm_a64 *slot,
		   struct gm_object *ret_object)
{
	struct gm_object object = { .slot = slot };
	uint64_t words[IMAGE_WORDS];

	object.word = gm_seq_open(slot);
	if (gm_seq_unit(object.word) == 0)
		return -ENOENT;
	object.block = gm_check_block(map, object.word, sizeof(object.image));
	if (object.block == NULL)
		return -EPROTO;
	gm_seq_read(object.block, words, IMAGE_WORDS);
	if (!gm_object_whole(&object))
		return -EAGAIN;

	/* From here on the image is of one publication: validate it. */
	memcpy(&object.image, words, sizeof(object.image));
	if (gm_check_block(map, object.word, object.image.bytes) == NULL ||
	    object.image.bytes < sizeof(object.image) ||
	    object.image.name[GM_NAME_BYTES - 1] != '\0')
		return -EPROTO;
	*ret_object = object;
	return 0;
}

int gm_object_read(const struct gm_object *object, uint64_t at, void *ret_bytes,
		   uint64_t bytes)
{
	char *to = ret_bytes;

	if (at % 8 != 0 || bytes % 8 != 0 ||
	    !gm_check_span(at, bytes, object->image.bytes))
		return -EPROTO;
	for (uint64_t i = 0; i < bytes / 8; i++) {
		uint64_t word;

		gm_seq_read(&object->block[at / 8 + i], &word, 1);
		memcpy(to + 8 * i, &word, 8);
	}
	return 0;
}

int gm_object_read_image(const struct gm_object *object, void *ret_image,
			 uint64_t bytes, uint64_t least)
{
	uint64_t there = object->image.image_bytes;

	if (there < least || there > object->image.bytes || there % 8 != 0)
		return -EPROTO;
	memset(ret_image, 0, bytes);
	return gm_object_read(object, 0, ret_image,
			      there < bytes ? there : bytes);
}

/* The image's name is padded with zeros, so equal names are equal bytes. */
static bool named(const struct gm_object *object, uint32_t kind,
		  const char *name, size_t n)
{
	return object->image.kind == kind &&
	       memcmp(object->image.name, name, n) == 0 &&
	       object->image.name[n] == '\0';
}

static int find_once(const struct gm_map *map, uint32_t kind, const char *name,
		     struct gm_object *ret_object)
{
	uint64_t key = gm_object_key(kind, name);
	size_t n = gm_object_name(name);
	int ret = -ENOENT;

	for (uint32_t i = 0; i < map->n_objects; i++) {
		struct gm_object object;
		int error;

		if (gm_get(&map->objects[i].key) != key)
			continue;
		error = gm_object_open(map, &map->objects[i].slot, &object);
		if (error == 0 && named(&object, kind, name, n)) {
			*ret_object = object;
			return 0;
		}
		if (error != 0 && error != -ENOENT)
			ret = error;
	}
	return ret;
}

int gm_object_find(const struct gm_map *map, uint32_t kind, const char *name,
		   struct gm_object *ret_object)
{
	int ret = -EINVAL;

	if (gm_object_name(name) == 0)
		return ret;
	for (int i = 0; i < GM_OBJECT_ATTEMPTS; i++) {
		ret = find_once(map, kind, name, ret_object);
		if (ret != -EAGAIN)
			break;
	}
	return ret;
}
