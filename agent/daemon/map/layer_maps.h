/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * layer_maps - from the text of a spec to a published layer map: what [map
 * NAME] and a client's request have in common.
 */
#ifndef GM_DAEMON_MAP_LAYER_MAPS_H
#define GM_DAEMON_MAP_LAYER_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/daemon/segment/segment.h"
#include "lib/model/plan/place.h"
#include "shm/layers.h"

struct gm_daemon;
struct gm_plan_error;

struct gm_map_request {
	const char *name;
	const char *spec;      /* "0:16;1:16" */
	uint32_t uid;          /* who asks */
	uint32_t n_layers;     /* of the model; 0: as the spec says */
	uint32_t dtype;        /* enum gpumap_dtype */
	uint64_t other_bytes;  /* of what belongs to no layer */
	const uint64_t *bytes; /* n_layers, or NULL: not known */
	bool keep; /* leave a map alone that says the same already */
};

/* The rows that layers can be given to. */
struct gm_map_rows {
	uint32_t n;
	struct gm_plan_device of[GM_ROWS]; /* the row, and is_host */
};

/* A map that has been made, and all that it points to but for what the request
 * has: name, spec and bytes. */
struct gm_map_made {
	struct gm_layers layers;
	uint32_t *rows;
	struct gm_charge_image charges[GM_ROWS];
};

/* Those that are there now. */
void gm_maps_list(const struct gm_daemon *d, struct gm_map_rows *ret_rows);

/*
 * gm_maps_make - give each layer its row
 *
 * ret_made	stays where it is, for it points into itself; give it back with
 *		gm_maps_free()
 *
 * Returns	0
 *		-EINVAL		the spec, or its numbers, or the name
 *		-ENODEV		a row that is not there
 *		-E2BIG		more layers than a map can have
 *		-ENOMEM
 * Cost		some ten milliseconds for what the longest spec says
 */
int gm_maps_make(const struct gm_map_rows *rows,
		 const struct gm_map_request *request,
		 char ret_why[GM_WHY_BYTES], struct gm_map_made *ret_made);

/* Allowed for a zeroed one. */
void gm_maps_free(struct gm_map_made *made);

/*
 * gm_maps_configured - publish every [map NAME] of the configuration
 *
 * ret_why	"file:line: what is wrong"
 *
 * Returns	as gm_maps_make() and gm_map_kind_publish() for the first that
 *		could not be
 */
int gm_maps_configured(struct gm_daemon *d, char *ret_why, size_t bytes);

#endif
