/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The devices that a start has found (health/cuda.h), in the order of their
 * rows. */

#include "agent/daemon/devices/cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/health/cuda.h"
#include "agent/daemon/health/vendors.h"
#include "gpumap.h"
#include "shm/score.h"

static bool is_instance(const struct gm_device *device)
{
	static const uint8_t none[16];

	return memcmp(device->parent, none, sizeof(none)) != 0;
}

/* An instance is where its card is. */
static const struct gm_row_image *place_of(const struct gm_cuda_rows *cuda,
					   const struct gm_device *device)
{
	for (uint32_t i = 0; i < cuda->n_found; i++) {
		if (is_instance(device) &&
		    memcmp(cuda->found[i]->facts.uuid, device->parent,
			   sizeof(device->parent)) == 0)
			return &cuda->found[i]->facts;
	}
	return &device->facts;
}

static int compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* Where the bus is not known the card comes last. */
static uint64_t address_of(const struct gm_row_image *facts)
{
	if ((facts->known & GPUMAP_KNOWN_PCI) == 0)
		return UINT64_MAX;
	return (uint64_t)facts->pci_domain << 32 | facts->pci_bus;
}

/* Else as they were listed. */
static bool comes_before(const struct gm_cuda_rows *cuda,
			 const struct gm_device *a, const struct gm_device *b)
{
	int by = compare(a->facts.kind, b->facts.kind);

	if (by == 0)
		by = compare(address_of(place_of(cuda, a)),
			     address_of(place_of(cuda, b)));
	if (by == 0)
		by = compare(is_instance(a), is_instance(b));
	if (by == 0)
		by = compare((uint64_t)((int64_t)a->facts.mig_gi + 1),
			     (uint64_t)((int64_t)b->facts.mig_gi + 1));
	if (by == 0)
		by = compare((uint64_t)((int64_t)a->facts.mig_ci + 1),
			     (uint64_t)((int64_t)b->facts.mig_ci + 1));
	return by < 0;
}

static void sort(struct gm_cuda_rows *cuda)
{
	for (uint32_t i = 1; i < cuda->n_found; i++) {
		struct gm_device *device = cuda->found[i];
		uint32_t at = i;

		for (;
		     at > 0 && comes_before(cuda, device, cuda->found[at - 1]);
		     at--)
			cuda->found[at] = cuda->found[at - 1];
		cuda->found[at] = device;
	}
}

/* Does the configuration require devices that were not found? */
static int check_required(const struct gm_daemon *d, char *ret_why)
{
	static const char *const names[] = { "hip", "opencl", "vulkan" };
	const struct gm_config *config = d->config;
	const struct gm_cuda_rows *cuda = d->cuda;
	uint32_t n = cuda->n_found;

	for (uint32_t i = 0; i < GM_CONFIG_DRIVERS; i++) {
		n -= d->vendors->n_found[i];
		if (config->drivers[i].enabled == GM_CONFIG_CUDA_REQUIRED &&
		    d->vendors->n_found[i] == 0)
			return gm_why(ret_why, -ENODEV,
				      "%s.enabled = required, and there is no "
				      "device: %.180s",
				      names[i], d->vendors->why[i]);
	}
	if (n == 0 && config->cuda_enabled == GM_CONFIG_CUDA_REQUIRED)
		return gm_why(ret_why, cuda->broken[0] != '\0' ? -EIO : -ENODEV,
			      "cuda.enabled = required, and there is no GPU: "
			      "%.180s",
			      cuda->why);
	return 0;
}

int gm_cuda_rows_list(struct gm_daemon *d, struct gm_device *ret_devices,
		      size_t max, char ret_why[GM_WHY_BYTES])
{
	struct gm_cuda_rows *cuda = d->cuda;
	uint32_t n = cuda->n_found;
	int ret = check_required(d, ret_why);

	cuda->is_open = true;
	if (ret != 0)
		return ret;
	if (n > max)
		return gm_why(ret_why, -ENOSPC,
			      "there are %u GPUs and instances, and the device "
			      "table has %u rows: enabled = off in [cuda], "
			      "[hip], [opencl] or [vulkan]",
			      n, GM_ROWS);
	sort(cuda);
	for (uint32_t i = 0; i < n; i++) {
		ret_devices[i] = *cuda->found[i];
		free(cuda->found[i]);
	}
	cuda->n_found = 0;
	return (int)n;
}

void gm_cuda_rows_refresh(struct gm_device *device)
{
	const struct gm_row_image *facts = &device->facts;
	struct gm_moving_image *moving = &device->moving;

	if ((moving->known & GPUMAP_KNOWN_MEMORY) == 0)
		return;
	if (moving->free_bytes > facts->total_bytes)
		moving->free_bytes = facts->total_bytes;
	moving->budget_bytes =
		gm_budget(moving->free_bytes, facts->total_bytes);
	moving->score = gm_score((int32_t)facts->units, moving->free_bytes,
				 (int32_t)facts->cc_major);
}
