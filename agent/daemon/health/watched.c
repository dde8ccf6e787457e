/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/health/watched.h"

#include <stdio.h>
#include <string.h>

#include "agent/cuda/nvml.h"
#include "gpumap.h"

/* Uncorrectable errors of memory, and the way out of the bus. */
static const struct gm_verdict grave_xids[] = {
	{ GM_PROBE_FAILED, 48, "Xid 48: double bit ECC error, reset it" },
	{ GM_PROBE_LOST, 79, "Xid 79: it has fallen off the bus" },
	{ GM_PROBE_FAILED, 95, "Xid 95: uncontained ECC error, reset it" },
};

void gm_watched_begin(struct gm_watched *card, const uint8_t uuid[16],
		      uint64_t now)
{
	*card = (struct gm_watched){ .slot = GM_NO_CARD,
				     .since_ns = now,
				     .ordinals = { -1, -1 },
				     .counting = { -1, -1 } };
	memcpy(card->uuid, uuid, sizeof(card->uuid));
	card->moving.recovery = UINT32_MAX;
}

/* ---- verdicts ------------------------------------------------------------ */

void gm_watched_set(struct gm_watched *card, enum gm_verdict_source source,
		    const struct gm_verdict *verdict)
{
	static const struct gm_verdict usable;
	struct gm_verdict *mine = &card->verdicts[source];

	if (!verdict)
		verdict = &usable;
	if (mine->health == verdict->health && mine->code == verdict->code &&
	    strcmp(mine->text, verdict->text) == 0)
		return;
	*mine = *verdict;
	card->verdict_is_due = true;
	if (source == GM_VERDICT_XID)
		card->wanted_reset = false;
}

bool gm_watched_is_grave(uint64_t xid, struct gm_verdict *ret_verdict)
{
	for (size_t i = 0; i < sizeof(grave_xids) / sizeof(grave_xids[0]);
	     i++) {
		if ((uint64_t)grave_xids[i].code != xid)
			continue;
		*ret_verdict = grave_xids[i];
		return true;
	}
	return false;
}

const struct gm_verdict *gm_watched_verdict(const struct gm_watched *card)
{
	for (int i = 0; i < GM_VERDICTS; i++)
		if (card->verdicts[i].health == GM_PROBE_LOST)
			return &card->verdicts[i];
	for (int i = 0; i < GM_VERDICTS; i++)
		if (card->verdicts[i].health != GM_PROBE_USABLE)
			return &card->verdicts[i];
	return &card->verdicts[GM_VERDICT_NVML];
}

bool gm_watched_is_well(const struct gm_watched *card)
{
	uint32_t health = gm_watched_verdict(card)->health;

	return card->has_moving &&
	       (health == GM_PROBE_USABLE || health == GM_PROBE_TAKEN);
}

bool gm_watched_is_askable(const struct gm_watched *card)
{
	uint32_t nvml = card->verdicts[GM_VERDICT_NVML].health;

	return card->has_facts && card->has_moving && !card->is_asked &&
	       !card->is_released && card->slot != GM_NO_CARD &&
	       (nvml == GM_PROBE_USABLE || nvml == GM_PROBE_TAKEN) &&
	       card->verdicts[GM_VERDICT_SILENCE].health == GM_PROBE_USABLE &&
	       card->verdicts[GM_VERDICT_XID].health == GM_PROBE_USABLE;
}

/* ---- facts --------------------------------------------------------------- */

void gm_watched_facts(struct gm_watched *card, const struct gm_probe_wire *w)
{
	static const uint8_t none[16];
	const bool was_lost = gm_watched_verdict(card)->health == GM_PROBE_LOST;

	card->device = w->device;
	memcpy(card->device.facts.uuid, card->uuid, sizeof(card->uuid));
	card->has_facts = true;
	card->is_awaited = false;
	card->facts_are_due = true;
	card->is_instance = memcmp(w->device.parent, none, sizeof(none)) != 0;
	gm_watched_set(card, GM_VERDICT_SILENCE, NULL);
	/* The card is on the bus, whatever was reported of it before. */
	if (card->verdicts[GM_VERDICT_XID].health == GM_PROBE_LOST)
		gm_watched_set(card, GM_VERDICT_XID, NULL);
	if (was_lost)
		card->is_asked = false;
}

/* Has the driver wanted a reset, and has had it? */
static void end_fault(struct gm_watched *card, const struct gm_probe_wire *w)
{
	bool wants_reset = w->code == GM_NVML_RESET_REQUIRED ||
			   (w->moving.recovery != GM_NVML_RECOVERY_NONE &&
			    w->moving.recovery != UINT32_MAX);

	if (card->wanted_reset && !wants_reset && w->health == GM_PROBE_USABLE)
		gm_watched_set(card, GM_VERDICT_XID, NULL);
	else if (card->verdicts[GM_VERDICT_XID].health != GM_PROBE_USABLE)
		card->wanted_reset |= wants_reset;
}

void gm_watched_moving(struct gm_watched *card, const struct gm_probe_wire *w)
{
	struct gm_verdict verdict = { .health = w->health, .code = w->code };

	memcpy(verdict.text, w->text, sizeof(verdict.text));
	card->moving = w->moving;
	card->has_moving = true;
	card->is_awaited = false;
	end_fault(card, w);
	gm_watched_set(card, GM_VERDICT_SILENCE, NULL);
	gm_watched_set(card, GM_VERDICT_NVML, &verdict);
}

void gm_watched_driver(struct gm_watched *card, const struct gm_probe_wire *w)
{
	struct gm_row_image driver = w->device.facts;

	/* Each list has ordinals of its own. */
	driver.ordinal_pci = 0;
	if (!card->has_driver ||
	    memcmp(&card->driver, &driver, sizeof(driver)) != 0)
		card->facts_are_due = true;
	card->driver = driver;
	card->has_driver = true;
	card->is_asked = true;
	card->refusals = 0;
	gm_watched_set(card, GM_VERDICT_DRIVER, NULL);
}

void gm_watched_made(struct gm_watched *card, const struct gm_probe_wire *place,
		     uint32_t index)
{
	struct gm_probe_device *device = &card->device;
	struct gm_row_image *row = &device->facts;

	card->has_facts = true;
	card->facts_are_due = true;
	row->kind = GPUMAP_DEVICE_CUDA;
	memcpy(row->uuid, card->uuid, sizeof(row->uuid));
	row->numa_node = -1;
	row->minor_number = -1;
	row->mig_gi = -1;
	row->mig_ci = -1;
	row->nvml_index = (int32_t)index;
	row->known = GPUMAP_KNOWN_NVML;
	if (!place) {
		snprintf(device->name, sizeof(device->name), "NVML index %u",
			 index);
		return;
	}
	row->pci_domain = place->place.domain;
	row->pci_bus = place->place.bus;
	row->minor_number = place->place.minor;
	row->known |= GPUMAP_KNOWN_PCI;
	snprintf(device->name, sizeof(device->name), "%04x:%02x:%02x.%x",
		 row->pci_domain, row->pci_bus >> 8 & 0xff,
		 row->pci_bus >> 3 & 31, row->pci_bus & 7);
	memcpy(device->id, place->place.id, sizeof(device->id));
}

/* The driver's facts; its word on a card's node stands between sysfs and
 * NVML. */
static void join_driver(const struct gm_watched *card, struct gm_row_image *row)
{
	const struct gm_row_image *d = &card->driver;

	if (d->known & GPUMAP_KNOWN_CC) {
		row->cc_major = d->cc_major;
		row->cc_minor = d->cc_minor;
	}
	if (d->known & GPUMAP_KNOWN_UNITS) {
		row->units = d->units;
		row->threads_per_unit = d->threads_per_unit;
	}
	if (d->known & GPUMAP_KNOWN_MEMORY)
		row->total_bytes = d->total_bytes;
	row->shared_bytes = d->shared_bytes;
	row->l2_bytes = d->l2_bytes;
	row->flags |= d->flags;
	row->known |= d->known & (GPUMAP_KNOWN_CC | GPUMAP_KNOWN_UNITS |
				  GPUMAP_KNOWN_MEMORY);
	if (d->cuda_version)
		row->cuda_version = d->cuda_version;
	if (card->device.affinity >= GM_AFFINITY_DRIVER ||
	    (d->known & GPUMAP_KNOWN_NUMA) == 0)
		return;
	row->numa_node = d->numa_node;
	memcpy(row->cpus, d->cpus, sizeof(row->cpus));
	row->known &= ~GPUMAP_KNOWN_CPUS;
	row->known |= d->known & (GPUMAP_KNOWN_NUMA | GPUMAP_KNOWN_CPUS);
}

struct gm_probe_device gm_watched_device(const struct gm_watched *card)
{
	struct gm_probe_device device = card->device;
	struct gm_row_image *row = &device.facts;

	if (card->has_driver)
		join_driver(card, row);
	row->ordinal_pci = card->ordinals[0];
	row->ordinal_fastest = card->ordinals[1];
	if (card->has_ordinals)
		row->known |= GPUMAP_KNOWN_ORDINALS;
	return device;
}
