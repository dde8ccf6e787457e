/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/rows.h"

#include <errno.h>
#include <string.h>

uint32_t gm_rows_used(const struct gm_map *map)
{
	uint32_t used =
		gm_get_acquire(&map->header->rows_used); /* SEQ.publish */

	return used < GM_ROWS ? used : GM_ROWS;
}

static int facts_once(const struct gm_map *map, uint32_t row,
		      struct gm_row_image *ret_image)
{
	struct gm_row_image image;
	struct gm_object object;
	int ret;

	ret = gm_object_open(map, &map->rows[row].facts, &object);
	if (ret != 0)
		return ret == -ENOENT ? -ENODEV : ret;
	ret = gm_object_read_image(&object, &image, sizeof(image),
				   GM_ROW_IMAGE_LEAST);
	if (!gm_object_whole(&object))
		return -EAGAIN;
	if (ret != 0 || image.object.kind != GM_KIND_ROW || image.row != row ||
	    image.cpus[sizeof(image.cpus) - 1] != '\0' ||
	    image.mig_profile[sizeof(image.mig_profile) - 1] != '\0')
		return -EPROTO;
	*ret_image = image;
	return 0;
}

int gm_rows_facts(const struct gm_map *map, uint32_t row,
		  struct gm_row_image *ret_image)
{
	int ret = -ENODEV;

	if (row >= gm_rows_used(map))
		return ret;
	for (int i = 0; i < GM_OBJECT_ATTEMPTS; i++) {
		ret = facts_once(map, row, ret_image);
		if (ret != -EAGAIN)
			break;
	}
	return ret;
}

int gm_rows_moving(const struct gm_map *map, uint32_t row,
		   struct gm_moving_image *ret_image)
{
	uint64_t words[GM_MOVING_WORDS];
	struct gm_moving_image image;
	const struct gm_row *slot;

	if (row >= gm_rows_used(map))
		return -ENODEV;
	slot = &map->rows[row];
	for (int i = 0; i < GM_OBJECT_ATTEMPTS; i++) {
		if (gm_seq_get_latest(&slot->version, slot->moving[0],
				      GM_MOVING_WORDS, words,
				      GM_MOVING_WORDS) == 0)
			continue;
		memcpy(&image, words, sizeof(image));
		if (image.reason[sizeof(image.reason) - 1] != '\0')
			return -EPROTO;
		*ret_image = image;
		return 0;
	}
	return -EAGAIN;
}

int gm_rows_read(const struct gm_map *map, uint32_t row,
		 struct gm_row_image *ret_facts,
		 struct gm_moving_image *ret_moving)
{
	struct gm_moving_image moving;
	struct gm_row_image facts;

	for (int i = 0; i < GM_OBJECT_ATTEMPTS; i++) {
		int ret = gm_rows_facts(map, row, &facts);

		if (ret == 0)
			ret = gm_rows_moving(map, row, &moving);
		if (ret != 0)
			return ret;
		/* Moving facts of the row's next device are stored after its
		 * static facts: recheck that these are the same. */
		if (gm_seq_version(gm_seq_open(&map->rows[row].facts)) !=
		    facts.object.version)
			continue;
		*ret_facts = facts;
		*ret_moving = moving;
		return 0;
	}
	return -EAGAIN;
}

void gm_rows_move(struct gm_row *row, const struct gm_moving_image *image)
{
	uint64_t words[GM_MOVING_WORDS];

	memcpy(words, image, sizeof(words));
	gm_seq_put_next(&row->version, row->moving[0], GM_MOVING_WORDS, words,
			GM_MOVING_WORDS);
}
