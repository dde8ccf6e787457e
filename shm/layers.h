/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * layers - lay out and read the block of a layer map: its image, the row of
 * each layer, the bytes of each layer, a charge for each row, and the spec's
 * text.
 */
#ifndef GM_LAYERS_H
#define GM_LAYERS_H

#include "shm/objects.h"

/* The content of a block.  In private memory. */
struct gm_layers {
	const char *name;
	const char *spec;
	uint32_t owner_uid;
	uint32_t flags;    /* GM_OBJECT_* */
	uint32_t n_layers; /* 1 to GM_LAYERS_MAX */
	uint32_t n_rows;   /* charges; 1 to GM_ROWS */
	uint32_t base;
	uint32_t setting;
	uint32_t dtype;
	uint16_t strategy;
	uint16_t compute_dtype;
	uint32_t max_batch_size;
	uint64_t max_seq_len;
	uint64_t published; /* ns since 1970 */
	uint64_t other_bytes;
	const uint32_t *rows;  /* n_layers */
	const uint64_t *bytes; /* n_layers, or NULL: not known */
	const struct gm_charge_image *charges; /* n_rows */
};

/* Bytes that the block takes, a multiple of GM_UNIT. */
uint64_t gm_layers_bytes(const struct gm_layers *layers);

/* Lay the block out in private memory: gm_layers_bytes() / 8 words, to be
 * published as @version. */
void gm_layers_build(const struct gm_layers *layers, uint64_t version,
		     uint64_t *ret_words);

/*
 * gm_layers_open - read a layer map's image, and validate its offsets
 *
 * Returns	0 with the object opened and the image copied
 *		-ENOENT, -EAGAIN, -EPROTO, -EINVAL	as gm_object_find()
 */
int gm_layers_open(const struct gm_map *map, const char *name,
		   struct gm_object *ret_object,
		   struct gm_layers_image *ret_image);

/* The same for an object that has been opened already; makes one attempt. */
int gm_layers_image(const struct gm_object *object,
		    struct gm_layers_image *ret_image);

#endif
