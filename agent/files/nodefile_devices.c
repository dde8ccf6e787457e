/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The rows of a node file as the planner wants them.  gpumapd, which reads node
 * files, has no planner: this is a file of its own. */

#include "agent/files/nodefile.h"
#include "shm/device_kinds.h"

void gm_nodefile_devices(const struct gm_nodefile *node,
			 struct gm_plan_device ret_devices[GPUMAP_ROWS_MAX])
{
	for (uint32_t i = 0; i < node->n_rows; i++) {
		const struct gm_nodefile_row *row = &node->rows[i];
		bool is_host = (gm_device_kind(row->kind)->flags &
				GPUMAP_DEVICE_MAIN_MEMORY) != 0;
		/* A GPU that is split has no memory: only its instances are
		 * used. */
		uint64_t avail = row->is_split ? 0 : row->free_bytes;

		ret_devices[i] = (struct gm_plan_device){
			.row = i,
			.is_host = is_host,
			.is_cuda = row->has_cc,
			.is_integrated = row->is_integrated,
			.cc_major = row->cc_major,
			.cc_minor = row->cc_minor,
			.avail = avail,
			.total = row->total_bytes,
			.speed = gm_plan_speed(is_host, row->units, avail,
					       row->cc_major),
		};
	}
	gm_plan_number(ret_devices, node->n_rows);
}
