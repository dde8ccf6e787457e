/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * place - decide which device holds each layer.
 *
 * The rules are those of mistral.rs's into_mapper: a topology that places
 * layers comes first, then the manual map, whose entries take their layers in
 * order; layers that it leaves over go to the first host and come last, so that
 * activations pass to the host once; without either everything is on the base
 * device.  Where the original guesses or crashes, this differs:
 *
 *   - An entry's number is honoured also when it is the only entry.
 *   - Entries that sum above the model, a device that does not exist (even for
 *     no layers), a model without layers, and a topology's range that ends
 *     beyond the model are errors.
 *   - Layers past a topology's end go to the base device.
 *   - A topology that places no layer keeps the map.
 *
 * A map names rows, and the host is a row like any other; or as in mistral.rs
 * it names ordinals among the devices of the base's kind.
 */
#ifndef GM_PLACE_H
#define GM_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/model/plan/error.h"
#include "lib/model/plan/spec.h"
#include "lib/model/plan/topology.h"

#define GM_LAYERS_UNKNOWN UINT64_MAX /* as many as the spec places */
#define GM_ROW_FIRST      UINT32_MAX /* the row of layer 0 */

/* A device that may hold layers. */
struct gm_plan_device {
	uint32_t row;
	bool is_host;
	bool is_cuda;
	bool is_integrated; /* its memory is the host's */
	bool is_drained;    /* or cordoned: gm_plan_choose() */
	bool is_dummy;
	uint32_t cc_major, cc_minor; /* of a CUDA row */
	uint32_t links; /* NVLinks to the node's other devices, in all */
	uint64_t avail; /* free bytes less the reservations */
	uint64_t total;
	uint64_t speed; /* gm_plan_speed(); a strategy that uses speeds gives a
			 * row with 0 no layer */
	struct gm_location at; /* as topologies name it: gm_plan_number() */
};

struct gm_place_request {
	const struct gm_plan_device *devices; /* each row once */
	uint32_t n_devices;
	/* For the weights of no layer, and the layers that have no other place;
	 * GM_ROW_FIRST: only with a map of rows. */
	uint32_t base_row;
	const struct gm_spec *map;          /* NULL for none */
	bool by_ordinal;                    /* the map names no rows */
	const struct gm_topology *topology; /* NULL for none */
	bool is_nccl;                       /* on the base, whatever they say */
	uint64_t n_layers; /* of the model; or GM_LAYERS_UNKNOWN, with a map of
			    * rows */
	uint64_t host_layers;    /* or GM_LAYERS_REST */
	const uint32_t *drained; /* rows on which nothing may be placed now */
	uint32_t n_drained;
};

struct gm_place_run {
	const struct gm_plan_device *device;
	uint64_t first;
	uint64_t n; /* layers, at least 1 */
};

struct gm_place {
	uint64_t n_layers; /* at least 1; with a map of rows GM_LAYERS_MAX at
			    * most */
	uint32_t base_row;
	struct gm_place_run *runs; /* all layers once, neighbours differ */
	size_t n_runs;
};

/*
 * gm_place_make - place every layer
 *
 * ret_place	give it back with gm_place_free()
 *
 * Returns	0
 *		-EINVAL	numbers that do not fit the model, an automatic map, a
 *			quantisation that a device cannot compute with
 *		-ENODEV	a device that does not exist, or no host for the rest
 *		-E2BIG	more than GM_LAYERS_MAX layers on rows
 *		-ENOMEM
 * Threads	any
 */
int gm_place_make(const struct gm_place_request *request,
		  struct gm_place *ret_place, struct gm_plan_error *ret_err);

/* The row of each layer, for the caller to free(); NULL if out of memory. */
uint32_t *gm_place_rows(const struct gm_place *place);

/*
 * gm_place_no_row - refuse a row that is not among those to use
 *
 * rows		the rows to use, such as "0, 1 and 2"; NULL: not given
 *
 * Returns	-ENODEV, with the reason
 * Threads	any
 */
int gm_place_no_row(const struct gm_place_request *request, uint64_t row,
		    const char *rows, struct gm_plan_error *ret_err);

/*
 * gm_place_capacity - the bytes that a plan may use of those that are left
 *
 * On a GPU a fiftieth is kept free, at least 512 MiB; on the host nothing.
 *
 * Threads	any
 */
uint64_t gm_place_capacity(const struct gm_plan_device *device);

/* Free what gm_place_make() gave.  NULL is allowed. */
void gm_place_free(struct gm_place *place);

#endif
