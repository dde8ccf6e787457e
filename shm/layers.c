/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/layers.h"

#include <errno.h>
#include <string.h>

static uint64_t align8(uint64_t bytes)
{
	return (bytes + 7) / 8 * 8;
}

/* Set the offsets of the block's parts, in the order of struct
 * gm_layers_image's offsets. */
static uint64_t lay_out(const struct gm_layers *layers, uint32_t spec_bytes,
			struct gm_layers_image *image)
{
	uint64_t at = sizeof(*image);

	image->rows_at = (uint32_t)at;
	at += align8((uint64_t)layers->n_layers * sizeof(uint32_t));
	image->bytes_at = (uint32_t)at;
	at += (uint64_t)layers->n_layers * sizeof(uint64_t);
	image->charges_at = (uint32_t)at;
	at += layers->n_rows * sizeof(struct gm_charge_image);
	image->spec_at = (uint32_t)at;
	at += align8(spec_bytes);
	return (at + GM_UNIT - 1) / GM_UNIT * GM_UNIT;
}

static uint32_t text_bytes(const char *text)
{
	uint32_t n = 0;

	while (text[n] != '\0')
		n++;
	return n + 1;
}

uint64_t gm_layers_bytes(const struct gm_layers *layers)
{
	struct gm_layers_image image;

	return lay_out(layers, text_bytes(layers->spec), &image);
}

void gm_layers_build(const struct gm_layers *layers, uint64_t version,
		     uint64_t *ret_words)
{
	char *block = (char *)ret_words;
	struct gm_layers_image image;
	uint64_t bytes;

	memset(&image, 0, sizeof(image));
	image.spec_bytes = text_bytes(layers->spec);
	bytes = lay_out(layers, image.spec_bytes, &image);
	image.object.kind = GM_KIND_LAYERS;
	image.object.bytes = (uint32_t)bytes;
	image.object.image_bytes = sizeof(image);
	image.object.version = version;
	image.object.published = layers->published;
	image.object.owner_uid = layers->owner_uid;
	image.object.flags = layers->flags;
	memcpy(image.object.name, layers->name, gm_object_name(layers->name));
	image.n_layers = layers->n_layers;
	image.n_rows = layers->n_rows;
	image.base = layers->base;
	image.setting = layers->setting;
	image.dtype = layers->dtype;
	image.other_bytes = layers->other_bytes;
	image.max_seq_len = layers->max_seq_len;
	image.max_batch_size = layers->max_batch_size;
	image.strategy = layers->strategy;
	image.compute_dtype = layers->compute_dtype;

	memset(block, 0, bytes);
	memcpy(block + image.rows_at, layers->rows,
	       layers->n_layers * sizeof(uint32_t));
	if (layers->bytes != NULL) {
		memcpy(block + image.bytes_at, layers->bytes,
		       layers->n_layers * sizeof(uint64_t));
		for (uint32_t i = 0; i < layers->n_layers; i++)
			image.weight_bytes += layers->bytes[i];
	}
	memcpy(block + image.charges_at, layers->charges,
	       layers->n_rows * sizeof(struct gm_charge_image));
	memcpy(block + image.spec_at, layers->spec, image.spec_bytes);
	memcpy(block, &image, sizeof(image));
}

static bool inside(uint32_t at, uint64_t bytes, const struct gm_object *object)
{
	return at % 8 == 0 && at >= object->image.image_bytes &&
	       gm_check_span(at, align8(bytes), object->image.bytes);
}

int gm_layers_image(const struct gm_object *object,
		    struct gm_layers_image *ret_image)
{
	struct gm_layers_image image;

	if (gm_object_read_image(object, &image, sizeof(image),
				 GM_LAYERS_IMAGE_LEAST) != 0)
		return -EPROTO;
	if (!gm_object_whole(object))
		return -EAGAIN;
	if (image.object.kind != GM_KIND_LAYERS || image.n_layers == 0 ||
	    image.n_layers > GM_LAYERS_MAX || image.n_rows > GM_ROWS ||
	    image.spec_bytes == 0 ||
	    !inside(image.rows_at, 4 * (uint64_t)image.n_layers, object) ||
	    !inside(image.bytes_at, 8 * (uint64_t)image.n_layers, object) ||
	    !inside(image.charges_at,
		    image.n_rows * sizeof(struct gm_charge_image), object) ||
	    !inside(image.spec_at, image.spec_bytes, object))
		return -EPROTO;
	*ret_image = image;
	return 0;
}

int gm_layers_open(const struct gm_map *map, const char *name,
		   struct gm_object *ret_object,
		   struct gm_layers_image *ret_image)
{
	struct gm_object object;
	int ret = -EAGAIN;

	for (int i = 0; i < GM_OBJECT_ATTEMPTS && ret == -EAGAIN; i++) {
		ret = gm_object_find(map, GM_KIND_LAYERS, name, &object);
		if (ret == 0)
			ret = gm_layers_image(&object, ret_image);
	}
	if (ret == 0)
		*ret_object = object;
	return ret;
}
