/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * objects - the directory: find a published object by kind and name, and read
 * its block whole.
 *
 * A reader never waits for the writer.  Each read is an attempt: its result is
 * of one publication, or the reader discards it.  After GM_OBJECT_ATTEMPTS of
 * them it returns -EAGAIN.  Freed blocks are reused as late as the heap allows,
 * so a second attempt is rare and a third does not occur in practice.
 */
#ifndef GM_OBJECTS_H
#define GM_OBJECTS_H

#include "shm/check.h"
#include "shm/seq.h"

#define GM_OBJECT_ATTEMPTS 64

/* A publication that is being read. */
struct gm_object {
	const gm_a64 *slot;
	uint64_t word; /* the slot word when reading began */
	gm_a64 *block; /* image.bytes, inside of the heap */
	struct gm_object_image image;
};

/*
 * gm_object_open - start to read the object that a slot names
 *
 * Returns	0; what is read from the block is valid only if
 *		gm_object_whole() returns true afterwards
 *		-ENOENT		the slot names no object
 *		-EAGAIN		it was published again meanwhile
 *		-EPROTO		the block does not lie in the heap
 */
int gm_object_open(const struct gm_map *map, const gm_a64 *slot,
		   struct gm_object *ret_object);

/* Is everything read since gm_object_open() of one publication? */
static inline bool gm_object_whole(const struct gm_object *object)
{
	return gm_seq_whole(object->slot, object->word);
}

/*
 * gm_object_read - copy bytes of the block: @at and @bytes multiples of 8
 *
 * Returns	0, or -EPROTO: not inside of the block
 */
int gm_object_read(const struct gm_object *object, uint64_t at, void *ret_bytes,
		   uint64_t bytes);

/*
 * gm_object_find - find an object in the directory by its name
 *
 * Returns	0 with the object opened
 *		-ENOENT, -EAGAIN, -EPROTO	as gm_object_open()
 *		-EINVAL		the name is empty or too long
 */
int gm_object_find(const struct gm_map *map, uint32_t kind, const char *name,
		   struct gm_object *ret_object);

/*
 * gm_object_read_image - read the whole image of an open object
 *
 * bytes	of the caller's image, a multiple of 8
 * least	bytes that every image of its kind has, a multiple of 8
 *
 * The image is zero behind what its agent wrote, if that was an earlier one.
 *
 * Returns	0; the result is valid only if gm_object_whole() returns true
 *		afterwards
 *		-EPROTO		the image is shorter than @least, or longer than
 *				its block
 */
int gm_object_read_image(const struct gm_object *object, void *ret_image,
			 uint64_t bytes, uint64_t least);

/* The length of @name, or 0 when it is NULL, empty, or has more than
 * GM_NAME_BYTES - 1 bytes. */
size_t gm_object_name(const char *name);

#endif
