/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Gangs' maps are held by this process: they last when the agent starts anew,
 * and end with this process.
 */

#include "agent/sync/gangs.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* The row of a device.  Returns 0 or -ENODEV. */
static int find_row(const struct gpumap *map, const uint8_t uuid[16],
		    uint32_t *ret_row, char ret_why[GM_WHY_BYTES])
{
	struct gpumap_device device = { .size = sizeof(device) };
	uint32_t n = gpumap_device_count(map);

	for (uint32_t row = 0; row < n; row++) {
		if (gpumap_device_read(map, row, &device) != 0 ||
		    memcmp(device.uuid, uuid, sizeof(device.uuid)) != 0)
			continue;
		if (device.state != GPUMAP_DEVICE_READY)
			return gm_why(ret_why, -ENODEV,
				      "row %u, %s, is not ready: %s", row,
				      device.name, device.reason);
		*ret_row = row;
		return 0;
	}
	return gm_why(ret_why, -ENODEV,
		      "it has no device %02x%02x%02x%02x-%02x%02x-...: "
		      "gpumapctl cluster devices lists them",
		      uuid[0], uuid[1], uuid[2], uuid[3], uuid[4], uuid[5]);
}

/* The agent's error as gpumap/sync.h has it. */
static int translate(int error)
{
	switch (error) {
	case 0:
	case -ENOSPC:
	case -EEXIST:
	case -ENODEV:
	case -EINVAL:
	case -ENOMEM:
	case -ETIMEDOUT:
		return error;
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -ESHUTDOWN:
	case -ESTALE:
		return -EAGAIN;
	case -EBUSY:
	case -EDQUOT:
		return -ENOSPC;
	case -EPERM: /* another user has the name */
		return -EEXIST;
	case -EAGAIN: /* the row was given to another device */
		return -ENODEV;
	default:
		return -EHOSTUNREACH;
	}
}

static int reserve(struct gm_sync *sync, const struct gm_gang_record *record,
		   const struct gm_gang_member *member, uint64_t *ret_version,
		   char ret_why[GM_WHY_BYTES])
{
	uint32_t rows[GM_GANG_PARTS_MAX];
	uint64_t bytes[GM_GANG_PARTS_MAX];
	struct gpumap_plan plan = { .size = sizeof(plan) };
	const struct gpumap_plan_request request = {
		.size = sizeof(request),
		.name = record->name,
		.flags = GPUMAP_PLAN_COMMIT | GPUMAP_PLAN_HELD |
			 GPUMAP_PLAN_NEW | GPUMAP_PLAN_FOR,
		.owner_uid = record->uid,
		.setting = GPUMAP_SETTING_RESERVE,
		.rows = rows,
		.n_rows = member->n_parts,
		.n_layers = member->n_parts,
		.layer_bytes = bytes,
	};
	int r = 0;

	for (uint32_t i = 0; i < member->n_parts && r == 0; i++) {
		bytes[i] = member->parts[i].bytes;
		r = find_row(sync->map, member->parts[i].uuid, &rows[i],
			     ret_why);
	}
	if (r != 0)
		return r;
	r = gpumap_plan_make(sync->map, &request, &plan, NULL, 0, NULL, 0);
	if (r == 0)
		*ret_version = plan.version;
	else
		gm_why(ret_why, 0, "%s", gpumap_refusal(sync->map));
	return translate(r);
}

/* A user that no limits apply to has no map of its own. */
static bool is_for(const struct gpumap_holder *holder,
		   const struct gm_gang_record *record)
{
	return holder->pid != 0 &&
	       (holder->uid == record->uid || holder->uid == geteuid());
}

static bool has(const struct gm_sync *sync, const struct gm_gang_record *record,
		uint64_t version)
{
	struct gpumap_holder holder = { .size = sizeof(holder) };
	uint32_t cursor = 0;

	while (gpumap_holder_next(sync->map, &cursor, &holder) == 1)
		if (strcmp(holder.name, record->name) == 0)
			return version != 0 ? holder.version == version
					    : is_for(&holder, record);
	return false;
}

static int release(struct gm_sync *sync, const char *name)
{
	return gpumap_layers_release(sync->map, name);
}

const struct gm_gangs_ops gm_gang_agent_ops = {
	.now = gm_sync_now,
	.agent_answers = gm_sync_agent_answers,
	.reserve = reserve,
	.has = has,
	.release = release,
};
