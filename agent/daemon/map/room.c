/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/room.h"

#include <errno.h>
#include <unistd.h>

#include "agent/daemon/account/ledger.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/segment/directory.h"

uint64_t gm_room_rows_given(const struct gm_daemon *d)
{
	return (uint64_t)getpid() << 32 | d->devices->n_reused;
}

uint32_t gm_room_slot(const struct gm_daemon *d, const struct gm_room *map)
{
	const struct gm_block *block = NULL;

	if ((map->flags & (GPUMAP_PLAN_PUBLISH | GPUMAP_PLAN_COMMIT)) != 0)
		block = gm_directory_find(d, GM_KIND_LAYERS, map->name);
	return block != NULL ? (uint32_t)(block - d->directory->objects)
			     : GM_LEDGER_NOBODY;
}

static bool is_drained(const struct gm_device *device)
{
	return device->moving.state == GPUMAP_DEVICE_DRAINING ||
	       (device->facts.flags & GPUMAP_DEVICE_CORDONED) != 0;
}

int gm_room_check_agent(const struct gm_daemon *d, char ret_why[GM_WHY_BYTES])
{
	if (!d->draining)
		return 0;
	return gm_why(ret_why, -ESHUTDOWN,
		      "the agent is shutting down; try again when it is back");
}

int gm_room_check_row(const struct gm_daemon *d, uint32_t row,
		      char ret_why[GM_WHY_BYTES])
{
	int ret = gm_ledger_check_row(d, row, ret_why);

	if (ret == 0 && is_drained(d->devices->of[row]))
		return gm_why(
			ret_why, -ENODEV,
			"row %u is drained or cordoned: gpumapctl undrain "
			"or uncordon brings it back; or leave it out",
			row);
	return ret;
}

static struct gm_room_row row_of(const struct gm_daemon *d, uint32_t row,
				 uint32_t slot)
{
	const struct gm_device *device = d->devices->of[row];
	const struct gm_row_image *facts = &device->facts;
	uint32_t flags = 0;

	if ((facts->flags & GPUMAP_DEVICE_MAIN_MEMORY) != 0)
		flags |= GM_ROOM_HOST;
	if ((facts->known & GPUMAP_KNOWN_CC) != 0)
		flags |= GM_ROOM_CUDA;
	if ((facts->flags & GPUMAP_DEVICE_INTEGRATED) != 0)
		flags |= GM_ROOM_INTEGRATED;
	if (is_drained(device))
		flags |= GM_ROOM_DRAINED;
	if (!gm_device_can(device, GPUMAP_DEVICE_SERVES))
		flags |= GM_ROOM_DUMMY;
	return (struct gm_room_row){
		.row = row,
		.flags = flags,
		.cc_major = facts->cc_major,
		.cc_minor = facts->cc_minor,
		.units = facts->units,
		.total_bytes = facts->total_bytes,
		.free_bytes = device->moving.free_bytes,
		.avail_bytes = gm_ledger_avail(d, row, slot),
	};
}

uint32_t gm_room_list(const struct gm_daemon *d, uint32_t slot,
		      struct gm_room_row ret_rows[GM_ROWS])
{
	uint32_t n = 0;

	for (uint32_t row = 0; row < d->devices->n; row++)
		if (gm_ledger_has_row(d, row))
			ret_rows[n++] = row_of(d, row, slot);
	return n;
}
