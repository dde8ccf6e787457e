/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Requests to the agent about meshes. */

#include "lib/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shm/meshes.h"

/* The tail of a request: rows, then groups and their ranks.  To be freed. */
static char *make_tail(const struct gpumap_mesh_request *request,
		       size_t *ret_bytes)
{
	size_t bytes = request->n_rows * sizeof(uint32_t);
	char *tail, *at;

	for (uint32_t i = 0; i < request->n_added; i++)
		bytes += sizeof(struct gm_mesh_publish_group) +
			 request->added[i].n * sizeof(uint32_t);
	tail = calloc(1, bytes + 1);
	if (tail == NULL)
		return NULL;
	at = tail;
	if (request->n_rows != 0)
		memcpy(at, request->rows, request->n_rows * sizeof(uint32_t));
	at += request->n_rows * sizeof(uint32_t);
	for (uint32_t i = 0; i < request->n_added; i++) {
		const struct gpumap_mesh_added *added = &request->added[i];
		struct gm_mesh_publish_group group = {
			.backend = added->backend,
			.n = added->n,
		};

		memcpy(group.name, added->name, gm_object_name(added->name));
		memcpy(at, &group, sizeof(group));
		at += sizeof(group);
		if (added->n != 0)
			memcpy(at, added->ranks, added->n * sizeof(uint32_t));
		at += added->n * sizeof(uint32_t);
	}
	*ret_bytes = bytes;
	return tail;
}

static int check_mesh(struct gpumap *map,
		      const struct gpumap_mesh_request *request)
{
	if (request->n_rows > GM_ROWS)
		return gm_refuse(map, -E2BIG, "a mesh has at most 256 ranks");
	if (request->n_added > GM_MESH_ADDED)
		return gm_refuse(map, -E2BIG,
				 "a mesh has at most 64 groups beside those of "
				 "its topology");
	for (uint32_t i = 0; i < request->n_added; i++) {
		const struct gpumap_mesh_added *added = &request->added[i];

		if (added->name == NULL || gm_object_name(added->name) == 0)
			return gm_refuse(
				map, -EINVAL,
				"a group's name has between 1 and 63 bytes");
		if ((added->spare[0] | added->spare[1]) != 0)
			return gm_refuse(
				map, -EINVAL,
				"an added group has a field that this library "
				"does not know: set spare to 0");
		if (added->n > GM_ROWS)
			return gm_refuse(map, -E2BIG,
					 "a group has at most 256 ranks");
	}
	return 0;
}

int gpumap_mesh_publish(struct gpumap *map,
			const struct gpumap_mesh_request *request)
{
	struct gpumap_mesh_request ours;
	struct gm_mesh_publish body = { .n_groups = 0 };
	struct gm_mesh_publish_reply reply;
	struct gm_call call = { GM_REQUEST(GM_CONTROL_MESH_PUBLISH, body),
				GM_REPLY(reply) };
	bool is_mixed, has_tp, has_pp;
	size_t bytes;
	char *tail;
	int ret = gm_map_begin(map);

	if (ret == 0)
		ret = gm_map_size_in(map, &ours, sizeof(ours), request);
	if (ret == 0)
		ret = gm_map_put_name(map, ours.name, body.name);
	if (ret == 0)
		ret = check_mesh(map, &ours);
	if (ret != 0)
		return ret;
	tail = make_tail(&ours, &bytes);
	if (tail == NULL)
		return gm_refuse_memory(map, ours.n_rows * sizeof(uint32_t));
	body.topology = ours.topology;
	body.n_rows = ours.n_rows;
	/* A factor that the topology does not have may be left 0. */
	is_mixed = ours.topology == GPUMAP_MESH_MIXED;
	has_tp = is_mixed || ours.topology == GPUMAP_MESH_TENSOR;
	has_pp = is_mixed || ours.topology == GPUMAP_MESH_PIPELINE;
	body.tp = ours.tp == 0 && !has_tp ? 1 : ours.tp;
	body.pp = ours.pp == 0 && !has_pp ? 1 : ours.pp;
	body.dp = ours.dp == 0 && !is_mixed ? 1 : ours.dp;
	body.n_groups = ours.n_added;
	call.tail[0] = (struct iovec){ tail, bytes };
	call.n_tail = 1;
	ret = gm_map_call(map, &call, 0);
	free(tail);
	return ret;
}

int gpumap_mesh_release(struct gpumap *map, const char *name)
{
	return gm_map_release(map, GM_KIND_MESH, name);
}

int gpumap_mesh_pin(struct gpumap *map, const char *name, const char *group,
		    uint32_t table, struct gpumap_view *ret_view,
		    uint64_t *ret_pin)
{
	if (group == NULL)
		group = "world";
	if (table != GPUMAP_MESH_ROWS && table != GPUMAP_MESH_RANKS)
		return gm_refuse(map, -EINVAL, "a mesh has no such table");
	if (gm_object_name(group) == 0)
		return gm_refuse(map, -EINVAL,
				 "a group's name has between 1 and 63 bytes");
	return gm_map_pin_view(map, name, group, table, ret_view, ret_pin);
}
