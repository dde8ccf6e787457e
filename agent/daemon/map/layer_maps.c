/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/layer_maps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/map/map_kind.h"
#include "agent/daemon/segment/segment.h"
#include "gpumap.h"

static int explain(char *ret_why, int ret, const struct gm_plan_error *error)
{
	gm_error_explain(error, ret_why, GM_WHY_BYTES);
	return ret;
}

void gm_maps_list(const struct gm_daemon *d, struct gm_map_rows *ret_rows)
{
	ret_rows->n = 0;
	for (uint32_t row = 0; row < d->devices->n; row++) {
		const struct gm_device *device = d->devices->of[row];

		if (device->present)
			ret_rows->of[ret_rows->n++] = (struct gm_plan_device){
				.row = row,
				.is_host = (device->facts.flags &
					    GPUMAP_DEVICE_MAIN_MEMORY) != 0,
			};
	}
}

static int place(const struct gm_map_rows *rows,
		 const struct gm_map_request *request,
		 struct gm_place *ret_place, char *ret_why)
{
	struct gm_place_request ask = {
		.devices = rows->of,
		.n_devices = rows->n,
		.n_layers = request->n_layers != 0 ? request->n_layers
						   : GM_LAYERS_UNKNOWN,
		.host_layers = GM_LAYERS_REST,
		.base_row = GM_ROW_FIRST,
	};
	struct gm_plan_error error = { .code = 0 };
	struct gm_spec spec;
	int ret;

	ret = gm_spec_parse(request->spec, &spec, &error);
	if (ret != 0)
		return explain(ret_why, ret, &error);
	ask.map = &spec;
	ret = gm_place_make(&ask, ret_place, &error);
	gm_spec_free(&spec);
	return ret == 0 ? 0 : explain(ret_why, ret, &error);
}

/* Tensors outside of the layers lie on the base row.  Returns the number of
 * charges, in the order of first use. */
static uint32_t charge(const struct gm_map_request *request,
		       const struct gm_place *made,
		       struct gm_charge_image *ret_charges)
{
	uint32_t n = 0;

	for (size_t i = 0; i < made->n_runs; i++) {
		const struct gm_place_run *run = &made->runs[i];
		uint32_t row = run->device->row, at = 0;

		while (at < n && ret_charges[at].row != row)
			at++;
		if (at == n)
			ret_charges[n++] = (struct gm_charge_image){
				.row = row,
				.weight_bytes = row == made->base_row
							? request->other_bytes
							: 0,
			};
		ret_charges[at].n_layers += (uint32_t)run->n;
		for (uint64_t l = 0; request->bytes != NULL && l < run->n; l++)
			ret_charges[at].weight_bytes +=
				request->bytes[run->first + l];
	}
	return n;
}

/* Would publishing it anew change what readers see? */
static bool says_same(const struct gm_daemon *d, const struct gm_layers *layers,
		      uint64_t *ret_version)
{
	struct gm_layers_image image;
	struct gm_object object;
	uint64_t words[(GM_WHY_BYTES + 7) / 8];
	uint64_t bytes;

	if (gm_layers_open(&d->segment->map, layers->name, &object, &image) !=
	    0)
		return false;
	bytes = strlen(layers->spec) + 1;
	if (image.n_layers != layers->n_layers || image.base != layers->base ||
	    image.object.owner_uid != layers->owner_uid ||
	    image.object.flags != layers->flags ||
	    image.dtype != layers->dtype || image.weight_bytes != 0 ||
	    image.other_bytes != 0 || image.spec_bytes != bytes ||
	    bytes > sizeof(words))
		return false;
	gm_object_read(&object, image.spec_at, words, (bytes + 7) / 8 * 8);
	if (memcmp(words, layers->spec, bytes) != 0)
		return false;
	for (uint32_t i = 0; i < image.n_layers; i += 2) {
		uint32_t rows[2];

		gm_object_read(&object, image.rows_at + 4 * (uint64_t)i, rows,
			       sizeof(rows));
		if (rows[0] != layers->rows[i] ||
		    (i + 1 < image.n_layers && rows[1] != layers->rows[i + 1]))
			return false;
	}
	*ret_version = image.object.version;
	return true;
}

int gm_maps_make(const struct gm_map_rows *rows,
		 const struct gm_map_request *request,
		 char ret_why[GM_WHY_BYTES], struct gm_map_made *ret_made)
{
	struct gm_place made;
	int ret = place(rows, request, &made, ret_why);
	uint32_t n;

	if (ret != 0)
		return ret;
	ret_made->rows = gm_place_rows(&made);
	n = charge(request, &made, ret_made->charges);
	if (ret_made->rows == NULL) {
		gm_place_free(&made);
		return -ENOMEM;
	}
	ret_made->layers = (struct gm_layers){
		.name = request->name,
		.spec = request->spec,
		.owner_uid = request->uid,
		.n_layers = (uint32_t)made.n_layers,
		.n_rows = n,
		.base = made.base_row,
		.setting = GPUMAP_SETTING_MANUAL,
		.dtype = request->dtype,
		.other_bytes = request->other_bytes,
		.rows = ret_made->rows,
		.bytes = request->bytes,
		.charges = ret_made->charges,
	};
	gm_place_free(&made);
	return 0;
}

void gm_maps_free(struct gm_map_made *made)
{
	free(made->rows);
	made->rows = NULL;
}

static int publish(struct gm_daemon *d, const struct gm_map_request *request,
		   char ret_why[GM_WHY_BYTES], uint64_t *ret_version)
{
	struct gm_map_made made;
	struct gm_map_rows rows;
	int ret;

	gm_maps_list(d, &rows);
	ret = gm_maps_make(&rows, request, ret_why, &made);
	if (ret != 0)
		return ret;
	if (!request->keep || !says_same(d, &made.layers, ret_version))
		ret = gm_map_kind_publish(d, &made.layers, ret_why,
					  ret_version);
	gm_maps_free(&made);
	return ret;
}

int gm_maps_configured(struct gm_daemon *d, char *ret_why, size_t bytes)
{
	for (uint32_t i = 0; i < d->config->n_maps; i++) {
		const struct gm_config_map *map = &d->config->maps[i];
		struct gm_map_request request = {
			.name = map->name,
			.spec = map->spec,
			.uid = geteuid(),
			.n_layers = map->layers,
			.dtype = GPUMAP_DTYPE_F16,
			.keep = true,
		};
		char why[GM_WHY_BYTES];
		uint64_t version;
		int ret;

		ret = publish(d, &request, why, &version);
		if (ret == 0)
			continue;
		snprintf(ret_why, bytes, "%s:%d: map %s: %s", map->file,
			 map->line, map->name, why);
		return ret;
	}
	return 0;
}
