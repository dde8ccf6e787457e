/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Join a mesh as a rank of a group, and list the processes that have joined. */

#include "lib/internal.h"

#include <errno.h>
#include <string.h>

/* The agent's clock may differ from this process's, so it is told how long. */
static uint64_t time_left(uint64_t deadline_ns)
{
	uint64_t now = gm_now_ns();

	if (deadline_ns == 0 || deadline_ns == GPUMAP_NO_DEADLINE)
		return UINT64_MAX;
	return deadline_ns > now ? deadline_ns - now : 0;
}

static int put_request(struct gpumap *map, const struct gpumap_mesh_join *join,
		       struct gm_join *body)
{
	int ret = gm_map_put_name(map, join->mesh, body->mesh);

	if (ret == 0)
		ret = gm_map_put_name(
			map, join->group != NULL ? join->group : "world",
			body->group);
	if (ret == 0 && (join->id != NULL) != (join->rank == 0))
		ret = gm_refuse(map, -EINVAL,
				"rank 0 brings an id, and no other rank does");
	body->epoch = join->epoch;
	body->timeout_ns = time_left(join->deadline_ns);
	body->rank = join->rank;
	body->version = join->version;
	return ret;
}

int gpumap_mesh_join(struct gpumap *map, const struct gpumap_mesh_join *join,
		     uint8_t ret_id[GPUMAP_MESH_ID_BYTES], uint64_t *ret_ticket)
{
	struct gm_join_reply reply;
	struct gm_join body = { .epoch = 0 };
	struct gpumap_mesh_join ours;
	struct gm_call call = { GM_REQUEST(GM_CONTROL_JOIN, body),
				GM_REPLY(reply) };
	int ret = gm_map_begin(map);

	if (ret == 0)
		ret = gm_map_size_in(map, &ours, sizeof(ours), join);
	if (ret == 0)
		ret = put_request(map, &ours, &body);
	if (ret != 0)
		return ret;
	if (ours.id != NULL) {
		call.tail[0] =
			(struct iovec){ (void *)ours.id, GM_JOIN_ID_BYTES };
		call.n_tail = 1;
	}
	call.wait_ns = body.timeout_ns;
	ret = gm_map_call(map, &call, 0);
	if (ret != 0)
		return ret;
	memcpy(ret_id, reply.id, GM_JOIN_ID_BYTES);
	*ret_ticket = reply.ticket;
	return 0;
}

int gpumap_mesh_leave(struct gpumap *map, uint64_t ticket, uint32_t flags)
{
	struct gm_leave body = { .ticket = ticket,
				 .broken = flags == GPUMAP_MESH_BROKEN };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_LEAVE, body) };

	if ((flags & ~GPUMAP_MESH_BROKEN) != 0)
		return gm_refuse(map, -EINVAL,
				 "a flag of leaving is not known");
	return gm_map_call(map, &call, 0);
}

_Static_assert(GPUMAP_MESH_ID_BYTES == GM_JOIN_ID_BYTES, "one id");
