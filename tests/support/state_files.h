/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * state_files - a good state file of each kind, of three devices, "m" where the
 * kind has objects.
 */
#ifndef GM_TEST_SUPPORT_STATE_FILES_H
#define GM_TEST_SUPPORT_STATE_FILES_H

#include <stdlib.h>
#include <string.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/map/calibration.h"
#include "agent/daemon/map/cordon.h"
#include "agent/daemon/map/map_kind.h"
#include "agent/daemon/masks/state.h"
#include "agent/daemon/meshes/mesh_kind.h"
#include "gpumap.h"

#define STATE_DEVICES 3u

enum { MAP, MESH, MASK, CORDONS, CALIBRATIONS, N_STATE_KINDS };

static const struct gm_state_kind *const state_kinds[N_STATE_KINDS] = {
	&gm_map_kind, &gm_mesh_kind, &gm_mask_kind, &gm_cordons_kind,
	&gm_calibrations_kind
};

/* The names of their files. */
static const char *const state_names[N_STATE_KINDS] = { "m.layers", "m.mesh",
							"m.mask", "cordons",
							"calibrations" };

static struct gm_daemon state_daemon;

/* Three devices, each in the row that @rows says. */
static inline void state_devices(const uint32_t rows[STATE_DEVICES])
{
	static struct gm_devices devices;
	static struct gm_device of[STATE_DEVICES];

	devices.n = STATE_DEVICES;
	for (uint32_t i = 0; i < STATE_DEVICES; i++) {
		of[i].present = true;
		of[i].facts.row = rows[i];
		memset(of[i].facts.uuid, (int)(0x11 * (i + 1)), 16);
		devices.of[rows[i]] = &of[i];
	}
	state_daemon.devices = &devices;
}

static inline struct gm_layers state_map(void)
{
	static const struct gm_charge_image charges[] = {
		{ .row = 2, .n_layers = 2, .weight_bytes = 20 },
		{ .row = 0, .n_layers = 1, .weight_bytes = 7, .kv_bytes = 5 },
	};
	static const uint32_t rows[] = { 2, 0, 2 };
	static const uint64_t bytes[] = { 10, 7, 10 };

	return (struct gm_layers){ .name = "m",
				   .spec = "2:1;0:1;2:1",
				   .owner_uid = 7,
				   .flags = GM_OBJECT_COMMITTED,
				   .n_layers = 3,
				   .n_rows = 2,
				   .base = 2,
				   .published = 9,
				   .rows = rows,
				   .bytes = bytes,
				   .charges = charges };
}

static inline struct gm_meshes state_mesh(void)
{
	static const uint32_t rows[] = { 1, 2 }, ranks[] = { 0, 1 };
	static const struct gm_meshes_group groups[] = {
		{ "world", GPUMAP_MESH_MOCK, 2, ranks },
		{ "tp_0", GPUMAP_MESH_NCCL, 1, ranks },
		{ "tp_1", GPUMAP_MESH_NCCL, 1, ranks + 1 },
	};

	return (struct gm_meshes){ .name = "m",
				   .owner_uid = 7,
				   .topology = GPUMAP_MESH_TENSOR,
				   .tp = 1,
				   .pp = 1,
				   .dp = 1,
				   .world = 2,
				   .published = 9,
				   .rows = rows,
				   .n_groups = 3,
				   .groups = groups };
}

/* The file of an object whose block has version 5. */
static inline struct gm_state_file *state_file_of(uint32_t kind,
						  uint64_t *words)
{
	struct gm_state_file *file;

	((struct gm_object_image *)words)->version = 5;
	file = gm_state_file_make(&state_daemon, state_kinds[kind], words);
	free(words);
	return file;
}

static inline struct gm_state_file *state_mask(void)
{
	static const uint8_t uuids[2][16] = { { 1 }, { 2 } };
	const struct gm_mask_image image = {
		.object = { .name = "m", .version = 5, .owner_uid = 7 },
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_LOADED,
		.dtype = GPUMAP_DTYPE_U8,
		.rank = 1,
		.shape = { 13 },
		.strides = { 1 },
		.bytes = 13,
		.hash = 77
	};

	return gm_mask_state_make(&image, 2, uuids, "thirteen byte");
}

/* To be freed, and given its sum. */
static inline struct gm_state_file *state_file(uint32_t kind)
{
	struct gm_state_file *file = NULL;
	struct gm_calibration *of;
	struct gm_layers map = state_map();
	struct gm_meshes mesh = state_mesh();

	switch (kind) {
	case MAP:
		file = state_file_of(kind, gm_map_kind_words(&map));
		break;
	case MESH:
		file = state_file_of(kind, gm_mesh_kind_words(&mesh));
		break;
	case MASK:
		file = state_mask();
		break;
	case CORDONS:
		file = gm_state_file_new(&gm_cordons_kind, 2, 0);
		file->uuids[0][0] = 1;
		break;
	default:
		file = gm_state_file_new(&gm_calibrations_kind, 0,
					 2 * sizeof(*of));
		of = (void *)gm_state_file_words(file);
		strcpy(of[0].device, "0 card");
		strcpy(of[1].device, "1 host");
		of[1].least[0] = 4;
		break;
	}
	gm_state_file_seal(file);
	return file;
}

#endif
