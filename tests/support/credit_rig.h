/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * credit_rig - looks at the rows of ledger_rig.h, as the probe tells of them.
 */
#ifndef GM_TEST_SUPPORT_CREDIT_RIG_H
#define GM_TEST_SUPPORT_CREDIT_RIG_H

#include "agent/common/node_clock.h"
#include "agent/common/probe_wire.h"
#include "shm/device_kinds.h"
#include "tests/support/ledger_rig.h"

/* The look that is being told. */
static struct {
	uint32_t row;
	struct gm_probe_moving moving;
} told;

static inline void look_begin(uint32_t row, uint64_t free_bytes)
{
	told.row = row;
	told.moving = (struct gm_probe_moving){
		.known = GPUMAP_KNOWN_MEMORY,
		.free_bytes = free_bytes,
		.used_bytes = TOTAL - free_bytes,
		.looked_ns = gm_node_clock_now(),
		.figures = GM_FIGURES_KNOWN,
	};
}

/* A process that has between @low and @high, with its line of descent. */
static inline void look_at(uint64_t low, uint64_t high,
			   const struct gm_lineage_member *line, uint32_t n)
{
	struct gm_probe_process process = {
		.index = told.moving.n_processes++,
		.n = n,
		.low_bytes = low,
		.high_bytes = high,
	};

	memcpy(process.line, line, n * sizeof(*line));
	gm_credit_process(d, told.row, &process);
}

/* As health/cards.c does. */
static inline void look_end(void)
{
	struct gm_device *device = d->devices->of[told.row];

	device->moving.free_bytes = told.moving.free_bytes;
	gm_devices_memory_read(device, told.moving.looked_ns);
	gm_credit_look(d, told.row, &told.moving);
	gm_credit_row_read(d, told.row);
	gm_devices_move(d, told.row);
}

static inline void make_cards(void)
{
	for (uint32_t row = 0; row < ROWS; row++)
		d->devices->of[row]->facts.flags =
			gm_device_kind(GPUMAP_DEVICE_CUDA)->flags;
}

static inline uint64_t used(uint32_t row)
{
	struct gm_moving_image moving;

	if (gm_rows_moving(&d->segment->map, row, &moving) != 0)
		return UINT64_MAX;
	return moving.used_by_holders;
}

#endif
