/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The devices that a start has found (health/cards.h), in the order of their
 * rows. */

#include "agent/daemon/devices/cards.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/read_file.h"
#include "agent/daemon/base/events.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/health/cards.h"
#include "agent/daemon/health/vendors.h"
#include "gpumap.h"
#include "shm/score.h"

static bool is_instance(const struct gm_device *device)
{
	static const uint8_t none[16];

	return memcmp(device->parent, none, sizeof(none)) != 0;
}

/* An instance is where its card is. */
static const struct gm_row_image *place_of(const struct gm_cards *cards,
					   const struct gm_device *device)
{
	for (uint32_t i = 0; i < cards->n_found; i++) {
		if (is_instance(device) &&
		    memcmp(cards->found[i]->facts.uuid, device->parent,
			   sizeof(device->parent)) == 0)
			return &cards->found[i]->facts;
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
static bool comes_before(const struct gm_cards *cards,
			 const struct gm_device *a, const struct gm_device *b)
{
	int by = compare(a->facts.kind, b->facts.kind);

	if (by == 0)
		by = compare(address_of(place_of(cards, a)),
			     address_of(place_of(cards, b)));
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

static void sort(struct gm_cards *cards)
{
	for (uint32_t i = 1; i < cards->n_found; i++) {
		struct gm_device *device = cards->found[i];
		uint32_t at = i;

		for (; at > 0 &&
		       comes_before(cards, device, cards->found[at - 1]);
		     at--)
			cards->found[at] = cards->found[at - 1];
		cards->found[at] = device;
	}
}

/* Does the configuration require devices that were not found? */
static int check_required(const struct gm_daemon *d, char *ret_why)
{
	static const char *const names[] = { "hip", "opencl", "vulkan" };
	const struct gm_config *config = d->config;
	const struct gm_cards *cards = d->cards;
	uint32_t n = cards->n_found;

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
		return gm_why(ret_why,
			      cards->broken[0] != '\0' ? -EIO : -ENODEV,
			      "cuda.enabled = required, and there is no GPU: "
			      "%.180s",
			      cards->why);
	return 0;
}

int gm_cards_list(struct gm_daemon *d, struct gm_device *ret_devices,
		  size_t max, char ret_why[GM_WHY_BYTES])
{
	struct gm_cards *cards = d->cards;
	uint32_t n = cards->n_found;
	int ret = check_required(d, ret_why);

	cards->is_open = true;
	if (ret != 0)
		return ret;
	if (n > max)
		return gm_why(ret_why, -ENOSPC,
			      "there are %u GPUs and instances, and the device "
			      "table has %u rows: enabled = off in [cuda], "
			      "[hip], [opencl] or [vulkan]",
			      n, GM_ROWS);
	sort(cards);
	for (uint32_t i = 0; i < n; i++) {
		ret_devices[i] = *cards->found[i];
		free(cards->found[i]);
	}
	cards->n_found = 0;
	return (int)n;
}

/* ---- what is free -------------------------------------------------------- */

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

/* The whole less what sessions have, or less what the kernel says is in use on
 * a card of HIP, where that is more. */
static void estimate(const struct gm_daemon *d, struct gm_device *device,
		     bool is_main)
{
	const struct gm_row_image *facts = &device->facts;
	struct gm_moving_image *moving = &device->moving;
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
}

void gm_cards_refresh(const struct gm_daemon *d, struct gm_device *device)
{
	const struct gm_row_image *facts = &device->facts;
	struct gm_moving_image *moving = &device->moving;
	bool is_main = !gm_device_is_watched(device) &&
		       gm_device_can(device, GPUMAP_DEVICE_MAIN_MEMORY);

	if (!gm_device_is_watched(device))
		estimate(d, device, is_main);
	if ((moving->known & GPUMAP_KNOWN_MEMORY) == 0)
		return;
	if (moving->free_bytes > facts->total_bytes)
		moving->free_bytes = facts->total_bytes;
	moving->budget_bytes =
		gm_budget(moving->free_bytes, facts->total_bytes);
	moving->score = gm_score((int32_t)facts->units,
				 is_main ? 0 : moving->free_bytes,
				 (int32_t)facts->cc_major);
}
