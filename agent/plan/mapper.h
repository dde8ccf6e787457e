/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mapper - decide which device holds each layer.
 *
 * The rules are those of mistral.rs's into_mapper: a topology that places
 * layers comes first, then the manual map; layers that neither places go to the
 * host, and come last; without either everything is on the base device (dummy);
 * with NCCL every rank has all layers on its own device.  Where the original
 * guesses or crashes, this differs:
 *
 *   - An entry's ordinal is honoured also when it is the only entry.
 *   - Entries that sum above the model, a model without layers, and a
 *     topology's range that ends beyond the model are errors.
 *   - Layers past a topology's end go to the base device.
 *   - A topology that places no layer keeps the map.
 *
 * Devices of one location are one device.
 */
#ifndef GM_MAPPER_H
#define GM_MAPPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/plan/error.h"
#include "agent/plan/location.h"
#include "agent/plan/spec.h"
#include "agent/plan/topology.h"

enum gm_mapper_kind { GM_MAPPER_LAYER, GM_MAPPER_DUMMY, GM_MAPPER_NCCL };

struct gm_mapper_request {
	const struct gm_spec *map;          /* NULL for none */
	uint64_t host_layers;               /* or GM_LAYERS_REST */
	const struct gm_topology *topology; /* NULL for none */
	uint64_t n_layers;                  /* of the model */
	struct gm_location base;
	const struct gm_location *devices; /* the devices, without the base */
	size_t n_devices;
	bool is_nccl;
};

struct gm_mapper_run {
	struct gm_location location;
	uint64_t first;
	uint64_t n; /* layers, at least 1 */
};

struct gm_mapper {
	enum gm_mapper_kind kind;
	struct gm_location base;
	uint64_t n_layers;
	struct gm_mapper_run *runs; /* all layers once, neighbours differ */
	size_t n_runs;
	struct gm_location *unique; /* in the order of first use */
	size_t n_unique;
};

/*
 * gm_mapper_make - place every layer
 *
 * ret_mapper	give it back with gm_mapper_free()
 *
 * Returns	0
 *		-EINVAL	numbers that do not fit the model, an automatic map, a
 *			quantisation that a device cannot compute with
 *		-ENODEV	a device that does not exist
 *		-ENOMEM
 * Threads	any
 */
int gm_mapper_make(const struct gm_mapper_request *request,
		   struct gm_mapper *ret_mapper, struct gm_plan_error *ret_err);

/* Free what gm_mapper_make() gave.  NULL is allowed. */
void gm_mapper_free(struct gm_mapper *mapper);

#endif
