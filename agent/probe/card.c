/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/probe/card.h"

#include <stdio.h>
#include <string.h>

#include "agent/cuda/nvml.h"
#include "agent/probe/sysfs.h"
#include "gpumap.h"

/* Uncorrectable errors of memory, and the way out of the bus. */
#define XID_DOUBLE_BIT  48u
#define XID_LOST        79u
#define XID_UNCONTAINED 95u

uint32_t gm_card_types(uint32_t major, uint32_t minor)
{
	uint32_t cc = 10 * major + minor, flags = 0;

	if (cc >= 53)
		flags |= GPUMAP_DEVICE_FP16;
	if (cc >= 61)
		flags |= GPUMAP_DEVICE_INT8;
	if (cc >= 80)
		flags |= GPUMAP_DEVICE_BF16;
	return flags;
}

void gm_card_begin(struct gm_card *card, const uint8_t uuid[16], uint32_t slot,
		   uint64_t now)
{
	*card = (struct gm_card){ .used = true, .slot = slot, .since = now };
	memcpy(card->uuid, uuid, sizeof(card->uuid));
	for (int i = 0; i < 2; i++) {
		card->ordinals[i] = -1;
		card->counting[i] = -1;
	}
	card->moving.recovery = UINT32_MAX;
}

void gm_card_check(struct gm_card *card, enum gm_card_voice voice,
		   const struct gm_probe_verdict *verdict)
{
	static const struct gm_probe_verdict usable;
	struct gm_probe_verdict *mine = &card->verdicts[voice];

	if (!verdict)
		verdict = &usable;
	if (mine->health == verdict->health && mine->code == verdict->code &&
	    strcmp(mine->text, verdict->text) == 0)
		return;
	*mine = *verdict;
	card->want_moving = true;
}

static struct gm_probe_verdict verdict_of(const struct gm_note *note)
{
	struct gm_probe_verdict verdict = { .health = note->health,
					    .code = note->code };

	memcpy(verdict.text, note->text, sizeof(verdict.text));
	return verdict;
}

void gm_card_facts(struct gm_card *card, const struct gm_note *note)
{
	static const uint8_t none[16];
	const bool was_lost = gm_card_verdict(card).health == GM_PROBE_LOST;

	card->facts = note->card;
	memcpy(card->facts.device.facts.uuid, card->uuid, sizeof(card->uuid));
	card->has_facts = true;
	card->want_device = true;
	card->is_instance =
		memcmp(note->card.device.parent, none, sizeof(none)) != 0;
	gm_card_check(card, GM_VOICE_SILENCE, NULL);
	/* The card is on the bus, whatever was reported of it before. */
	if (card->verdicts[GM_VOICE_EVENT].health == GM_PROBE_LOST)
		gm_card_check(card, GM_VOICE_EVENT, NULL);
	if (was_lost)
		card->is_asked = false;
}

void gm_card_moving(struct gm_card *card, const struct gm_note *note)
{
	struct gm_probe_verdict verdict = verdict_of(note);

	card->moving = note->moving;
	card->is_next_look = false;
	if (note->moving.n_processes == 0)
		card->n_processes = 0;
	card->has_moving = true;
	card->want_moving = true;
	gm_card_check(card, GM_VOICE_SILENCE, NULL);
	gm_card_check(card, GM_VOICE_NVML, &verdict);
}

void gm_card_process(struct gm_card *card, const struct gm_note *note)
{
	uint32_t i = note->process.index;

	if (i == 0)
		card->n_processes = 0;
	card->is_next_look = true;
	/* One that comes out of turn leaves the look without figures. */
	if (i == card->n_processes)
		card->processes[card->n_processes++] = note->process;
}

void gm_card_driver(struct gm_card *card, const struct gm_note *note)
{
	if (!card->has_driver ||
	    memcmp(&card->driver, &note->driver, sizeof(note->driver)) != 0)
		card->want_device = true;
	card->driver = note->driver;
	card->has_driver = true;
	card->is_asked = true;
	card->asked = 0;
	gm_card_check(card, GM_VOICE_DRIVER, NULL);
}

bool gm_card_event(struct gm_card *card, const struct gm_probe_event *event)
{
	struct gm_probe_verdict verdict = { .health = GM_PROBE_FAILED };

	if (event->kind != GM_NVML_EVENT_XID)
		return false;
	switch (event->xid) {
	case XID_LOST:
		verdict.health = GM_PROBE_LOST;
		snprintf(verdict.text, sizeof(verdict.text),
			 "Xid 79: it has fallen off the bus");
		break;
	case XID_DOUBLE_BIT:
	case XID_UNCONTAINED:
		snprintf(verdict.text, sizeof(verdict.text),
			 "Xid %u: %s ECC error, reset it",
			 (unsigned int)event->xid,
			 event->xid == XID_DOUBLE_BIT ? "double bit"
						      : "uncontained");
		break;
	default:
		return false;
	}
	verdict.code = (int32_t)event->xid;
	/* Lost stays lost. */
	if (card->verdicts[GM_VOICE_EVENT].health == GM_PROBE_LOST)
		return false;
	gm_card_check(card, GM_VOICE_EVENT, &verdict);
	return true;
}

struct gm_probe_verdict gm_card_verdict(const struct gm_card *card)
{
	for (int i = 0; i < GM_CARD_VOICES; i++)
		if (card->verdicts[i].health == GM_PROBE_LOST)
			return card->verdicts[i];
	for (int i = 0; i < GM_CARD_VOICES; i++)
		if (card->verdicts[i].health != GM_PROBE_USABLE)
			return card->verdicts[i];
	return card->verdicts[GM_VOICE_NVML];
}

bool gm_card_is_well(const struct gm_card *card)
{
	uint32_t health = gm_card_verdict(card).health;

	return card->has_moving &&
	       (health == GM_PROBE_USABLE || health == GM_PROBE_TAKEN);
}

bool gm_card_is_askable(const struct gm_card *card)
{
	uint32_t nvml = card->verdicts[GM_VOICE_NVML].health;

	return card->used && card->has_facts && card->has_moving &&
	       !card->is_asked && !card->is_released &&
	       card->slot != UINT32_MAX &&
	       (nvml == GM_PROBE_USABLE || nvml == GM_PROBE_TAKEN) &&
	       card->verdicts[GM_VOICE_SILENCE].health == GM_PROBE_USABLE &&
	       card->verdicts[GM_VOICE_EVENT].health == GM_PROBE_USABLE;
}

void gm_card_made(struct gm_card *card, const struct gm_note *place,
		  uint32_t index)
{
	struct gm_probe_device *device = &card->facts.device;
	struct gm_row_image *row = &device->facts;

	card->has_facts = true;
	card->want_device = true;
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

/* The driver's word on a card's node stands between sysfs and NVML. */
static void join_affinity(const struct gm_card *card, const char *sysfs,
			  struct gm_row_image *row)
{
	int node = card->driver.host_node;
	char cpus[sizeof(row->cpus)];

	if (card->facts.affinity >= GM_AFFINITY_DRIVER || node < 0 ||
	    gm_sysfs_node(sysfs, node, cpus, sizeof(cpus)) < 0)
		return;
	row->numa_node = node;
	memcpy(row->cpus, cpus, sizeof(row->cpus));
	row->known &= ~GPUMAP_KNOWN_CPUS;
	row->known |= GPUMAP_KNOWN_NUMA | (cpus[0] ? GPUMAP_KNOWN_CPUS : 0);
}

static void join_driver(const struct gm_card *card, const char *sysfs,
			struct gm_row_image *row)
{
	const struct gm_note_driver *d = &card->driver;

	if (d->cc_major) {
		row->cc_major = d->cc_major;
		row->cc_minor = d->cc_minor;
		row->flags |= gm_card_types(d->cc_major, d->cc_minor);
		row->known |= GPUMAP_KNOWN_CC;
	}
	if (d->units) {
		row->units = d->units;
		row->threads_per_unit = d->threads_per_unit;
		row->known |= GPUMAP_KNOWN_UNITS;
	}
	row->shared_bytes = d->shared_bytes;
	row->l2_bytes = d->l2_bytes;
	row->flags |= d->flags;
	if (d->flags & GPUMAP_DEVICE_INTEGRATED)
		row->flags |= GPUMAP_DEVICE_MAIN_MEMORY;
	if (d->total_bytes) {
		row->total_bytes = d->total_bytes;
		row->known |= GPUMAP_KNOWN_MEMORY;
	}
	if (d->cuda_version)
		row->cuda_version = d->cuda_version;
	join_affinity(card, sysfs, row);
}

static void begin_wire(const struct gm_card *card, uint32_t type,
		       struct gm_probe_wire *wire)
{
	struct gm_probe_verdict verdict = gm_card_verdict(card);

	*wire = (struct gm_probe_wire){ .type = type };
	memcpy(wire->uuid, card->uuid, sizeof(wire->uuid));
	memcpy(wire->text, verdict.text, sizeof(wire->text));
}

void gm_card_device(const struct gm_card *card, const char *sysfs,
		    struct gm_probe_wire *ret_wire)
{
	struct gm_probe_verdict verdict = gm_card_verdict(card);
	struct gm_row_image *row = &ret_wire->device.facts;

	begin_wire(card, GM_PROBE_DEVICE, ret_wire);
	ret_wire->device = card->facts.device;
	ret_wire->device.health = verdict.health;
	ret_wire->device.code = verdict.code;
	if (card->has_driver)
		join_driver(card, sysfs, row);
	row->ordinal_pci = card->ordinals[0];
	row->ordinal_fastest = card->ordinals[1];
	if (card->has_ordinals)
		row->known |= GPUMAP_KNOWN_ORDINALS;
}

/* The next look may be on its way: its processes are none of this one's. */
static bool has_figures(const struct gm_card *card)
{
	return card->n_processes == card->moving.n_processes &&
	       !card->is_next_look;
}

uint32_t gm_card_n_processes(const struct gm_card *card)
{
	return has_figures(card) ? card->n_processes : 0;
}

void gm_card_wire_process(const struct gm_card *card, uint32_t i,
			  struct gm_probe_wire *ret_wire)
{
	*ret_wire = (struct gm_probe_wire){ .type = GM_PROBE_PROCESS };
	memcpy(ret_wire->uuid, card->uuid, sizeof(ret_wire->uuid));
	ret_wire->process = card->processes[i];
}

void gm_card_wire_moving(const struct gm_card *card,
			 struct gm_probe_wire *ret_wire)
{
	struct gm_probe_verdict verdict = gm_card_verdict(card);

	begin_wire(card, GM_PROBE_MOVING, ret_wire);
	ret_wire->moving = card->moving;
	if (!has_figures(card)) {
		ret_wire->moving.figures = GM_FIGURES_PARTLY;
		ret_wire->moving.n_processes = 0;
	}
	ret_wire->moving.health = verdict.health;
	ret_wire->moving.code = verdict.code;
}
