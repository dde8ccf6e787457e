/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/devices/dummy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/devices/uuid.h"
#include "agent/files/nodefile.h"
#include "gpumap.h"
#include "shm/device_kinds.h"
#include "shm/score.h"

/* The abilities of a GPU follow from its compute capability, 10 times here. */
static const struct {
	uint32_t from;
	uint32_t flag;
} abilities[] = {
	{ 53, GPUMAP_DEVICE_FP16 },
	{ 61, GPUMAP_DEVICE_INT8 },
	{ 80, GPUMAP_DEVICE_BF16 },
};

int gm_dummyrows_read(struct gm_daemon *d, char ret_why[GM_CONFIG_WHY_BYTES])
{
	struct gm_plan_error error = { .code = 0 };
	int ret;

	if (d->config->dummy_file == NULL)
		return 0;
	ret = gm_nodefile_read(d->config->dummy_file, d->dummies, &error);
	if (ret != 0) {
		snprintf(ret_why, GM_CONFIG_WHY_BYTES, "%.*s%s%s",
			 GM_CONFIG_WHY_BYTES - (int)sizeof(error.remedy) - 3,
			 error.text, error.remedy[0] != '\0' ? "; " : "",
			 error.remedy);
		return ret;
	}
	gm_log(GM_LOG_INFO, "dummy_rows", "file=%s node=%s rows=%u",
	       gm_quote(d->config->dummy_file).text,
	       gm_quote(d->dummies->name).text, d->dummies->n_rows);
	return 0;
}

static uint32_t find_abilities(const struct gm_nodefile_row *row)
{
	uint32_t flags = 0;

	for (size_t i = 0; i < sizeof(abilities) / sizeof(abilities[0]); i++)
		if (10 * row->cc_major + row->cc_minor >= abilities[i].from)
			flags |= abilities[i].flag;
	return flags;
}

static void write_facts(const struct gm_nodefile_row *row,
			struct gm_row_image *ret_facts)
{
	ret_facts->kind = GPUMAP_DEVICE_DUMMY;
	ret_facts->known = GPUMAP_KNOWN_MEMORY;
	ret_facts->nvml_index = ret_facts->minor_number = -1;
	ret_facts->ordinal_pci = ret_facts->ordinal_fastest = -1;
	ret_facts->mig_gi = ret_facts->mig_ci = -1;
	ret_facts->recovery = UINT32_MAX;
	ret_facts->total_bytes = row->total_bytes;
	ret_facts->numa_node = row->numa_node;
	if (row->numa_node >= 0)
		ret_facts->known |= GPUMAP_KNOWN_NUMA;
	ret_facts->units = row->units;
	ret_facts->threads_per_unit = row->threads_per_unit;
	if (row->units != 0)
		ret_facts->known |= GPUMAP_KNOWN_UNITS;
	ret_facts->cc_major = row->cc_major;
	ret_facts->cc_minor = row->cc_minor;
	if (row->has_cc) {
		ret_facts->known |= GPUMAP_KNOWN_CC;
		ret_facts->flags |= find_abilities(row);
	}
	/* A dummy has no ability of the kind, but the same place of memory. */
	ret_facts->flags |=
		gm_device_kind(row->kind)->flags & GPUMAP_DEVICE_MAIN_MEMORY;
	if (row->is_integrated)
		ret_facts->flags |= GPUMAP_DEVICE_INTEGRATED;
	if (row->is_split)
		ret_facts->flags |= GPUMAP_DEVICE_MIG;
	memcpy(ret_facts->mig_profile, row->mig, sizeof(row->mig));
}

/* Rows of this name before row @n. */
static uint32_t count_alike(const struct gm_nodefile *node, uint32_t n)
{
	uint32_t alike = 0;

	for (uint32_t i = 0; i < n; i++)
		alike += strcmp(node->rows[i].name, node->rows[n].name) == 0;
	return alike;
}

int gm_dummyrows_list(const struct gm_daemon *d, struct gm_device *ret_devices,
		      size_t max, char ret_why[GM_WHY_BYTES])
{
	const struct gm_nodefile *node = d->dummies;
	uint8_t key[16];

	if (node->n_rows > max)
		return gm_why(ret_why, -EINVAL,
			      "the device table has %u rows, %zu of them for "
			      "the host: there is no room for the %u of "
			      "dummy.file; lower host.rows or leave some out",
			      GM_ROWS, GM_ROWS - max, node->n_rows);
	gm_uuid_key(key);
	for (uint32_t i = 0; i < node->n_rows; i++) {
		const struct gm_nodefile_row *row = &node->rows[i];
		struct gm_device *device = &ret_devices[i];
		struct gm_row_image *facts = &device->facts;

		memset(device, 0, sizeof(*device));
		memcpy(facts->object.name, row->name, sizeof(row->name));
		gm_uuid_dummy(key, node->name, row->name, count_alike(node, i),
			      facts->uuid);
		write_facts(row, facts);
		device->dummy_free = row->is_split ? 0 : row->free_bytes;
	}
	return (int)node->n_rows;
}

void gm_dummyrows_refresh(struct gm_device *device)
{
	const struct gm_row_image *facts = &device->facts;
	struct gm_moving_image *moving = &device->moving;

	moving->known |= GPUMAP_KNOWN_MEMORY;
	moving->free_bytes = device->dummy_free;
	moving->budget_bytes =
		gm_budget(moving->free_bytes, facts->total_bytes);
	moving->score = gm_score((int32_t)facts->units, moving->free_bytes,
				 (int32_t)facts->cc_major);
}
