/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/internal.h"

#include <errno.h>
#include <string.h>

#include "shm/layers.h"

_Static_assert(sizeof(struct gpumap_charge) == sizeof(struct gm_charge_image) &&
		       offsetof(struct gpumap_charge, reserve_bytes) ==
			       offsetof(struct gm_charge_image, reserve_bytes),
	       "charges are copied as they are");
_Static_assert(GPUMAP_LAYERS_COMMITTED == GM_OBJECT_COMMITTED &&
		       GPUMAP_LAYERS_HELD == GM_OBJECT_HELD,
	       "and so are flags");

/* The places for results, as the arguments of gpumap_layers_read() name
 * them. */
struct wanted {
	uint32_t *rows;
	uint64_t *bytes;
	size_t n;
	struct gpumap_charge *charges;
	size_t n_charges;
};

static int put_spec(struct gpumap_layers *layers,
		    const struct gm_object *object,
		    const struct gm_layers_image *image)
{
	static const char cut[] = "...";
	const size_t room = sizeof(layers->spec);
	size_t n = image->spec_bytes < room ? image->spec_bytes : room;
	int ret = gm_object_read(object, image->spec_at, layers->spec,
				 (n + 7) / 8 * 8);

	if (ret != 0)
		return ret;
	layers->spec[n - 1] = '\0';
	if (image->spec_bytes > room)
		memcpy(layers->spec + room - sizeof(cut), cut, sizeof(cut));
	return 0;
}

/* Rows are half words: with an odd number of them the last word has padding,
 * for which the caller's array has no room. */
static int put_rows(uint32_t *rows, const struct gm_object *object,
		    const struct gm_layers_image *image)
{
	uint64_t whole = image->n_layers / 2 * 8;
	uint32_t pair[2];
	int ret = gm_object_read(object, image->rows_at, rows, whole);

	if (ret != 0 || image->n_layers % 2 == 0)
		return ret;
	ret = gm_object_read(object, image->rows_at + whole, pair, 8);
	if (ret == 0)
		rows[image->n_layers - 1] = pair[0];
	return ret;
}

static int put_arrays(const struct wanted *to, const struct gm_object *object,
		      const struct gm_layers_image *image)
{
	int ret = 0;

	if (to->rows != NULL)
		ret = put_rows(to->rows, object, image);
	if (ret == 0 && to->bytes != NULL)
		ret = gm_object_read(object, image->bytes_at, to->bytes,
				     8 * (uint64_t)image->n_layers);
	if (ret == 0 && to->charges != NULL)
		ret = gm_object_read(object, image->charges_at, to->charges,
				     image->n_rows *
					     sizeof(struct gm_charge_image));
	return ret;
}

static int read_once(const struct gpumap *map, const char *name,
		     struct gpumap_layers *layers, const struct wanted *to)
{
	struct gm_layers_image image;
	struct gm_object object;
	bool small;
	int ret = gm_layers_open(&map->map, name, &object, &image);

	if (ret != 0)
		return ret;
	memcpy(layers->name, image.object.name, sizeof(layers->name));
	layers->version = image.object.version;
	layers->published_ns = image.object.published;
	layers->owner_uid = image.object.owner_uid;
	layers->setting = image.setting;
	layers->n_layers = image.n_layers;
	layers->n_rows = image.n_rows;
	layers->base_row = image.base;
	layers->dtype = image.dtype;
	layers->layer_bytes = image.weight_bytes;
	layers->other_bytes = image.other_bytes;
	layers->flags = image.object.flags;
	layers->strategy = image.strategy;
	layers->compute_dtype = image.compute_dtype;
	layers->max_batch_size = image.max_batch_size;
	layers->max_seq_len = image.max_seq_len;
	ret = put_spec(layers, &object, &image);
	small = ((to->rows != NULL || to->bytes != NULL) &&
		 to->n < image.n_layers) ||
		(to->charges != NULL && to->n_charges < image.n_rows);
	if (ret == 0)
		ret = small ? -ENOBUFS : put_arrays(to, &object, &image);
	return gm_object_whole(&object) ? ret : -EAGAIN;
}

int gpumap_layers_read(const struct gpumap *map, const char *name,
		       struct gpumap_layers *ret_layers, uint32_t *ret_rows,
		       uint64_t *ret_bytes, size_t n,
		       struct gpumap_charge *ret_charges, size_t n_charges)
{
	struct wanted to = { ret_rows, ret_bytes, n, ret_charges, n_charges };
	struct gpumap_layers layers = { 0 };
	int ret = -EAGAIN;

	if (ret_layers != NULL) {
		int error = gm_size_out(
			ret_layers, offsetof(struct gpumap_layers, version));
		if (error != 0)
			return error;
	}
	for (int i = 0; i < GM_OBJECT_ATTEMPTS && ret == -EAGAIN; i++)
		ret = read_once(map, name, &layers, &to);
	if (ret_layers != NULL && (ret == 0 || ret == -ENOBUFS))
		gm_size_put(ret_layers, &layers, sizeof(layers));
	return ret;
}

int gm_layers_next_name(const struct gpumap *map, uint32_t kind,
			uint32_t *cursor, char ret_name[GPUMAP_NAME_MAX + 1])
{
	const struct gm_map *m = &map->map;

	while (*cursor < m->n_objects) {
		const gm_a64 *slot = &m->objects[(*cursor)++].slot;
		struct gm_object object;
		int ret = -EAGAIN;

		for (int i = 0; i < GM_OBJECT_ATTEMPTS && ret == -EAGAIN; i++)
			ret = gm_object_open(m, slot, &object);
		if (ret != 0 || object.image.kind != kind)
			continue;
		memcpy(ret_name, object.image.name, GPUMAP_NAME_MAX + 1);
		return 1;
	}
	return 0;
}

int gpumap_layers_next(const struct gpumap *map, uint32_t *cursor,
		       char ret_name[GPUMAP_NAME_MAX + 1])
{
	return gm_layers_next_name(map, GM_KIND_LAYERS, cursor, ret_name);
}
