/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* facts - what NVML says of one card, or of one instance of it. */
#ifndef GM_FACTS_H
#define GM_FACTS_H

#include "agent/cuda/nvml.h"
#include "agent/probe/probe.h"
#include "agent/probe/processes.h"
#include "agent/probe/say.h"

struct gm_facts {
	const struct gm_nvml *nvml;
	const char *sysfs;
	uint32_t driver_version; /* as 1000 * major + minor, 0: not told */
	uint32_t cuda_version;
};

/* Types that came with an architecture: GPUMAP_DEVICE_FP16 and so on. */
uint32_t gm_facts_types(uint32_t cc_major, uint32_t cc_minor);

/* The versions, which are the system's. */
void gm_facts_system(struct gm_facts *facts);

/*
 * gm_facts_card - what does not change about a card
 *
 * ret_note	a DEVICE; on failure its health, code and text say why
 *
 * Each fact that the card does not have costs its "known" bit and nothing
 * else; only without its UUID there is no card.
 *
 * Returns	0 or -EIO
 */
int gm_facts_card(const struct gm_facts *facts, struct nvmlDevice_st *dev,
		  uint32_t index, struct gm_probe_wire *ret_note);

/* The same of an instance; what it shares with its card is taken from @card. */
int gm_facts_instance(const struct gm_facts *facts, struct nvmlDevice_st *mig,
		      const struct gm_probe_device *card,
		      struct gm_probe_wire *ret_note);

/*
 * gm_facts_move - what changes about either
 *
 * processes	the device's, of the same look
 * ret_note	a MOVING with health, code and text; uuid is left alone
 */
void gm_facts_move(const struct gm_facts *facts, struct nvmlDevice_st *dev,
		   struct gm_processes *processes,
		   struct gm_probe_wire *ret_note);

/* Is the card split into instances now? */
bool gm_facts_split(const struct gm_facts *facts, struct nvmlDevice_st *dev);

#endif
