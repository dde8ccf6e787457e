/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The role --peers: NVML's report of the path between each two cards.  A no is
 * enough not to copy there; a yes is not enough to copy.
 */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/probe/nvml_session.h"
#include "agent/probe/parse.h"

#define LINKS_MAX 64u /* of one card; NVML's own most is 18 */

struct end {
	struct nvmlDevice_st *dev;
	uint8_t uuid[16];
	struct gm_nvml_pci pci;
};

static struct gm_nvml nvml;
static struct end ends[GM_PROBE_GPUS];

static bool open_end(unsigned long index, struct end *end)
{
	char text[GM_NVML_UUID_BYTES + 1] = "";

	return nvml.nvmlDeviceGetHandleByIndex_v2(
		       (unsigned int)index, &end->dev) == GM_NVML_SUCCESS &&
	       nvml.nvmlDeviceGetUUID(end->dev, text, GM_NVML_UUID_BYTES) ==
		       GM_NVML_SUCCESS &&
	       gm_parse_uuid(text, end->uuid) == 0 &&
	       nvml.nvmlDeviceGetPciInfo_v3(end->dev, &end->pci) ==
		       GM_NVML_SUCCESS;
}

/* Which cards: "0,2,3". */
static uint32_t open_ends(const char *list)
{
	uint32_t n = 0;

	while (list && *list && n < GM_PROBE_GPUS) {
		char *end;
		unsigned long index = strtoul(list, &end, 10);

		if (end == list)
			break;
		if (open_end(index, &ends[n]))
			n++;
		list = *end == ',' ? end + 1 : NULL;
	}
	return n;
}

static bool is_ok(const struct end *a, const struct end *b, unsigned int what)
{
	unsigned int status = UINT32_MAX;

	return nvml.nvmlDeviceGetP2PStatus(a->dev, b->dev, what, &status) ==
		       GM_NVML_SUCCESS &&
	       status == GM_NVML_P2P_STATUS_OK;
}

/*
 * NVLinks of @a that end at @b.  Where a switch is between the two no link
 * does, and all that are up lead there.
 */
static uint32_t links_of(const struct end *a, const struct end *b)
{
	uint32_t direct = 0, up = 0;

	for (unsigned int i = 0; i < LINKS_MAX; i++) {
		struct gm_nvml_pci far = { 0 };
		unsigned int state = 0;

		if (nvml.nvmlDeviceGetNvLinkState(a->dev, i, &state) !=
		    GM_NVML_SUCCESS)
			break;
		if (state != GM_NVML_FEATURE_ENABLED)
			continue;
		up++;
		direct += nvml.nvmlDeviceGetNvLinkRemotePciInfo_v2(
				  a->dev, i, &far) == GM_NVML_SUCCESS &&
			  far.domain == b->pci.domain &&
			  far.bus == b->pci.bus && far.device == b->pci.device;
	}
	if (direct == 0 && up && is_ok(a, b, GM_NVML_P2P_NVLINK))
		return up;
	return direct;
}

static void say_pair(const struct end *a, const struct end *b)
{
	struct gm_probe_wire note = { .type = GM_PROBE_PEERS };
	unsigned int level;

	memcpy(note.uuid, a->uuid, sizeof(note.uuid));
	memcpy(note.peers.other, b->uuid, sizeof(note.peers.other));
	note.peers.read = is_ok(a, b, GM_NVML_P2P_READ);
	note.peers.write = is_ok(a, b, GM_NVML_P2P_WRITE);
	note.peers.level = UINT32_MAX;
	if (nvml.nvmlDeviceGetTopologyCommonAncestor(a->dev, b->dev, &level) ==
	    GM_NVML_SUCCESS)
		note.peers.level = level;
	note.peers.links = links_of(a, b);
	gm_say_record(&note);
}

int gm_peers_run(const struct gm_probe_options *o)
{
	struct gm_probe_wire note = { 0 };
	uint32_t n;

	/* Pairs without a report are unknown. */
	if (gm_nvml_session_open(o, &nvml, &note) < 0)
		_exit(EXIT_FAILURE);
	n = open_ends(o->list);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < n; j++)
			if (i != j)
				say_pair(&ends[i], &ends[j]);
	nvml.nvmlShutdown();
	_exit(EXIT_SUCCESS);
}
