/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/layout.h"

/* FNV-1a, 64 bits: short and well known; nothing here needs a secret hash. */
#define FNV_START UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x00000100000001b3)

static uint64_t mix(uint64_t hash, uint64_t value)
{
	for (int i = 0; i < 8; i++) {
		hash = (hash ^ (value & 0xff)) * FNV_PRIME;
		value >>= 8;
	}
	return hash;
}

uint64_t gm_layout_hash(void)
{
	static const uint32_t shape[] = {
		GM_LAYOUT_MAJOR,
		GM_UNIT,
		GM_UNIT_BITS,
		GM_ROWS,
		GM_OBJECTS,
		GM_HOLDERS,
		GM_NAME_BYTES,
		GM_MOVING_BUFFERS,
		GM_MOVING_WORDS,
		GM_JOB_TIMES,
		GM_ROWS_AT,
		GM_OBJECTS_AT,
		GM_HOLDERS_AT,
		GM_HEAP_AT,
		sizeof(struct gm_header),
		offsetof(struct gm_header, epoch),
		offsetof(struct gm_header, generation),
		offsetof(struct gm_header, heartbeat),
		offsetof(struct gm_header, rotor),
		sizeof(struct gm_row),
		offsetof(struct gm_row, calibrated),
		offsetof(struct gm_row, moving),
		offsetof(struct gm_row, jobs),
		offsetof(struct gm_row, paths),
		offsetof(struct gm_row, loaded_bytes),
		sizeof(struct gm_object_slot),
		sizeof(struct gm_holder),
		sizeof(struct gm_object_image),
		offsetof(struct gm_object_image, name),
		offsetof(struct gm_object_image, image_bytes),
		offsetof(struct gm_row_image, cpus),
		sizeof(struct gm_moving_image),
		offsetof(struct gm_moving_image, reason),
		offsetof(struct gm_moving_image, used_by_holders),
		offsetof(struct gm_layers_image, rows_at),
		sizeof(struct gm_charge_image),
		offsetof(struct gm_mask_image, replicas_at),
		sizeof(struct gm_replica_image),
		offsetof(struct gm_mesh_image, groups_at),
		sizeof(struct gm_group_image),
		offsetof(struct gm_cluster_image, heard),
		offsetof(struct gm_cluster_image, shares_at),
		sizeof(struct gm_cluster_node_image),
		sizeof(struct gm_cluster_device_image),
		sizeof(struct gm_cluster_share_image),
		sizeof(struct gm_holder_image),
	};
	uint64_t hash = FNV_START;

	for (size_t i = 0; i < sizeof(shape) / sizeof(shape[0]); i++)
		hash = mix(hash, shape[i]);
	return hash;
}

uint64_t gm_object_key(uint32_t kind, const char *name)
{
	uint64_t hash = mix(FNV_START, kind);

	for (size_t i = 0; i < GM_NAME_BYTES && name[i] != '\0'; i++)
		hash = (hash ^ (unsigned char)name[i]) * FNV_PRIME;
	return hash != 0 ? hash : 1;
}
