/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/devices/vendors.h"

#include <limits.h>
#include <stdlib.h>

#include "agent/common/read_file.h"
#include "agent/daemon/base/events.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "gpumap.h"
#include "shm/score.h"

/* Is it one of several parts of its card? */
static bool is_part(const struct gm_daemon *d, const struct gm_row_image *facts)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < d->devices->n; i++) {
		const struct gm_row_image *other = &d->devices->of[i]->facts;

		n += other->kind == facts->kind &&
		     other->pci_domain == facts->pci_domain &&
		     other->pci_bus == facts->pci_bus;
	}
	return n > 1;
}

/* By all processes, and of a whole card; 0: the kernel does not tell. */
static uint64_t bytes_in_use(const struct gm_daemon *d,
			     const struct gm_row_image *facts)
{
	char path[PATH_MAX], text[32];

	if (facts->kind != GPUMAP_DEVICE_HIP ||
	    (facts->known & GPUMAP_KNOWN_PCI) == 0 || is_part(d, facts) ||
	    gm_read_file_path(path, sizeof(path), d->config->cuda_sysfs,
			      "/sys/bus/pci/devices/%04x:%02x:%02x.%x/"
			      "mem_info_vram_used",
			      facts->pci_domain, facts->pci_bus >> 8 & 0xff,
			      facts->pci_bus >> 3 & 31,
			      facts->pci_bus & 7) < 0 ||
	    gm_read_file(path, text, sizeof(text)) < 0)
		return 0;
	return strtoull(text, NULL, 10);
}

void gm_vendors_refresh(const struct gm_daemon *d, struct gm_device *device)
{
	const struct gm_row_image *facts = &device->facts;
	struct gm_moving_image *moving = &device->moving;
	bool is_main = (facts->flags & GPUMAP_DEVICE_MAIN_MEMORY) != 0;
	uint64_t used = gm_events_row_used_bytes(d, facts->row);
	uint64_t in_use = is_main ? 0 : bytes_in_use(d, facts);
	uint64_t total, available;

	if (in_use > used)
		used = in_use;
	moving->known |= GPUMAP_KNOWN_MEMORY;
	moving->free_bytes =
		facts->total_bytes > used ? facts->total_bytes - used : 0;
	if (is_main &&
	    gm_meminfo_read(&device->memory, &total, &available) == 0 &&
	    moving->free_bytes > available)
		moving->free_bytes = available;
	moving->budget_bytes =
		gm_budget(moving->free_bytes, facts->total_bytes);
	moving->score = gm_score((int32_t)facts->units,
				 is_main ? 0 : moving->free_bytes, 0);
}
