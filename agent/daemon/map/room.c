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

uint32_t gm_room_slot(const struct gm_daemon *d, const char *name,
		      uint32_t flags)
{
	const struct gm_block *block = NULL;

	if ((flags & (GPUMAP_PLAN_PUBLISH | GPUMAP_PLAN_COMMIT)) != 0)
		block = gm_directory_find(d, GM_KIND_LAYERS, name);
	return block != NULL ? (uint32_t)(block - d->directory->objects)
			     : GM_LEDGER_NOBODY;
}

bool gm_room_takes_turns(uint32_t flags, uint64_t wait_ns)
{
	return (flags & GPUMAP_PLAN_HELD) != 0 || wait_ns != 0;
}

bool gm_room_is_there(const struct gm_daemon *d, uint32_t row)
{
	const struct gm_device *device =
		row < d->devices->n ? d->devices->of[row] : NULL;

	return device != NULL && device->present &&
	       device->moving.state != GPUMAP_DEVICE_FAILED &&
	       device->moving.state != GPUMAP_DEVICE_LOST;
}

static bool is_drained(const struct gm_device *device)
{
	return device->moving.state == GPUMAP_DEVICE_DRAINING ||
	       (device->facts.flags & GPUMAP_DEVICE_CORDONED) != 0;
}

int gm_room_check_row(const struct gm_daemon *d, uint32_t row,
		      char ret_why[GM_WHY_BYTES])
{
	if (!gm_room_is_there(d, row))
		return gm_why(ret_why, -ENODEV,
			      "row %u is not there, is lost or has failed: "
			      "gpumapctl devices shows which can be used",
			      row);
	if (is_drained(d->devices->of[row]))
		return gm_why(
			ret_why, -ENODEV,
			"row %u is drained or cordoned: gpumapctl undrain "
			"or uncordon brings it back; or leave it out",
			row);
	return 0;
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
		if (gm_room_is_there(d, row))
			ret_rows[n++] = row_of(d, row, slot);
	return n;
}
