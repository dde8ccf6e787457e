/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * engine_table.h - a table of cards and hosts, and maps on it, in the settings
 * of engines.
 *
 * Cards have the first rows.  A device's UUID begins with its row and one, as
 * engine_rules.h has it.
 */
#ifndef GM_TEST_SUPPORT_ENGINE_TABLE_H
#define GM_TEST_SUPPORT_ENGINE_TABLE_H

#include <stdlib.h>
#include <string.h>

#include <gpumap/engine.h>

#include "shm/device_kinds.h"
#include "tests/support/engine_rules.h"

#define TABLE_LAYERS 2048

static struct gpumap_device table[32];
static uint32_t n_cards, n_hosts;
static uint32_t rows[TABLE_LAYERS], n_layers, base_row;
static const char *model_path; /* of requests; NULL: none */

/* With parts, the second half of the cards is instances of the first of
 * these. */
static inline void table_make(uint32_t cards, uint32_t hosts, bool parts)
{
	n_cards = cards;
	n_hosts = hosts;
	memset(table, 0, sizeof(table));
	for (uint32_t row = 0; row < cards + hosts; row++) {
		struct gpumap_device *d = &table[row];
		bool is_part = parts && row >= cards / 2 && row < cards;

		d->size = sizeof(*d);
		d->kind = row < cards ? GPUMAP_DEVICE_CUDA : GPUMAP_DEVICE_HOST;
		d->flags = gm_device_kind(d->kind)->flags;
		d->uuid[0] = (uint8_t)(row + 1);
		d->uuid[15] = 0xf0;
		d->pci_bus = (is_part ? cards / 2 : row) << 8;
		d->mig_gi = is_part ? (int32_t)row : -1;
		d->mig_ci = is_part ? 0 : -1;
		d->cuda_version = 13000;
		d->numa_node = (int32_t)(row - cards);
	}
}

/* "ROW:LAYERS;ROW:LAYERS", where a row may come again; the base row is that of
 * the first layer. */
static inline void table_map(const char *spec)
{
	char *end;

	n_layers = 0;
	for (;; spec = end + 1) {
		uint32_t row = (uint32_t)strtoul(spec, &end, 10);

		for (unsigned long n = strtoul(end + 1, &end, 10); n > 0; n--)
			rows[n_layers++] = row;
		if (*end == '\0')
			break;
	}
	base_row = rows[0];
}

static inline int table_export(uint32_t engine, uint32_t flags,
			       struct gpumap_engine_settings **ret_settings)
{
	struct gpumap_engine_request request = { .size = sizeof(request),
						 .engine = engine,
						 .flags = flags,
						 .model = model_path,
						 .rows = rows,
						 .n_layers = n_layers,
						 .base_row = base_row,
						 .devices = table,
						 .n_devices =
							 n_cards + n_hosts };

	*ret_settings = NULL;
	return gpumap_engine_export(NULL, NULL, &request, ret_settings);
}

#endif
