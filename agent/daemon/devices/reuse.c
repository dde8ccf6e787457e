/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/devices/reuse.h"

#include <string.h>

#include "agent/daemon/base/events.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/segment/segment.h"
#include "shm/layers.h"
#include "shm/meshes.h"
#include "shm/replicas.h"
#include "shm/seq.h"

struct named {
	bool row[GM_ROWS];
	bool all; /* who knows */
};

/* ---- layer maps -------------------------------------------------------- */

static void name_rows(const struct gm_object *object, struct named *named)
{
	struct gm_layers_image image;

	if (gm_layers_image(object, &image) != 0) {
		named->all = true;
		return;
	}
	for (uint32_t i = 0; i < image.n_rows; i++) {
		struct gm_charge_image charge;

		if (gm_object_read(object,
				   image.charges_at + i * sizeof(charge),
				   &charge, sizeof(charge)) != 0 ||
		    charge.row >= GM_ROWS)
			named->all = true;
		else
			named->row[charge.row] = true;
	}
}

static void name_ranks(const struct gm_object *object, struct named *named)
{
	struct gm_mesh_image image;
	struct gm_group_image world;
	uint32_t rows[GM_ROWS];

	if (gm_meshes_image(object, &image) != 0 ||
	    gm_meshes_group(object, &image, 0, &world) != 0 ||
	    gm_meshes_table(object, world.rows_at, rows, world.n) != 0) {
		named->all = true;
		return;
	}
	for (uint32_t i = 0; i < world.n; i++) {
		if (rows[i] >= GM_ROWS)
			named->all = true;
		else
			named->row[rows[i]] = true;
	}
}

/* Its list, or its map, means the device that had the row. */
static void name_replicas(const struct gm_object *object, struct named *named)
{
	struct gm_mask_image image;

	if (gm_replicas_image(object, &image) != 0) {
		named->all = true;
		return;
	}
	for (uint32_t i = 0; i < image.n_replicas; i++) {
		struct gm_replica_image replica;

		if (gm_replicas_read(object, &image, i, &replica) != 0)
			named->all = true;
		else
			named->row[replica.row] = true;
	}
}

static void by_slot(const struct gm_map *map, const gm_a64 *slot,
		    struct named *named)
{
	struct gm_object object;

	if (gm_seq_unit(gm_get(slot)) == 0)
		return;
	if (gm_object_open(map, slot, &object) != 0)
		named->all = true;
	else if (object.image.kind == GM_KIND_LAYERS)
		name_rows(&object, named);
	else if (object.image.kind == GM_KIND_MESH)
		name_ranks(&object, named);
	else if (object.image.kind == GM_KIND_MASK)
		name_replicas(&object, named);
}

/* From the segment: at a start no module knows yet. */
static void by_maps(const struct gm_map *map, struct named *named)
{
	for (uint32_t i = 0; i < map->n_objects; i++)
		by_slot(map, &map->objects[i].slot, named);
	for (uint32_t i = 0; i < map->n_holders; i++) {
		struct gm_holder_image holder;
		uint64_t words[sizeof(holder) / 8];
		gm_a64 slot;

		gm_seq_read(map->holders[i].w, words, sizeof(words) / 8);
		memcpy(&holder, words, sizeof(holder));
		if (holder.kind != GM_HOLDER_PIN)
			continue;
		gm_put(&slot, gm_seq_word(holder.version, holder.unit));
		by_slot(map, &slot, named);
	}
}

/* ---- everything else --------------------------------------------------- */

static bool is_lost_instance(const struct gm_device *device)
{
	return (device->facts.known & GPUMAP_KNOWN_MIG) != 0 &&
	       device->facts.mig_gi >= 0 && !device->present &&
	       device->moving.state == GPUMAP_DEVICE_LOST;
}

static bool is_free(const struct gm_daemon *d, uint32_t row)
{
	const struct gm_device *device = d->devices->of[row];

	return is_lost_instance(device) && !gm_events_row_used(d, row);
}

bool gm_reuse_find(const struct gm_daemon *d, uint32_t *ret_row)
{
	struct named named = { .all = false };
	uint64_t since = UINT64_MAX;
	bool is_looked = false;

	for (uint32_t row = 0; row < d->devices->n; row++) {
		const struct gm_device *device = d->devices->of[row];

		if (device->moving.since >= since || !is_free(d, row))
			continue;
		if (!is_looked)
			by_maps(&d->segment->map, &named);
		is_looked = true;
		if (named.all || named.row[row])
			continue;
		since = device->moving.since;
		*ret_row = row;
	}
	return since != UINT64_MAX;
}
