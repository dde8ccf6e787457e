/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/sync/link.h"

/* Beyond the time that gpumap-sync was told to wait: it asks the store. */
#define EXTRA_NS (10 * GM_SECOND)

static int put_name(const char *name, const char *what, char ret_name[64])
{
	size_t n = name != NULL ? strnlen(name, GPUMAP_NAME_MAX + 1) : 0;

	if (n == 0 || n > GPUMAP_NAME_MAX)
		return gm_refuse(NULL, -EINVAL,
				 "the name of a %s is missing, or has more "
				 "than %d bytes",
				 what, GPUMAP_NAME_MAX);
	memcpy(ret_name, name, n);
	memset(ret_name + n, 0, 64 - n);
	return 0;
}

static int check_counts(const struct gpumap_gang_request *request)
{
	if (request->flags != 0)
		return gm_refuse(NULL, -EINVAL, "a flag of gangs is not known");
	if (request->n_members < 1 ||
	    request->n_members > GPUMAP_GANG_NODES_MAX ||
	    request->members == NULL)
		return gm_refuse(NULL, -EINVAL, "a gang has 1 to %d nodes",
				 GPUMAP_GANG_NODES_MAX);
	for (uint32_t i = 0; i < request->n_members; i++) {
		const struct gpumap_gang_member *member = &request->members[i];

		if (member->reserved != 0)
			return gm_refuse(NULL, -EINVAL,
					 "a field of a node that has to be 0 "
					 "is not");
		if (member->n_parts < 1 ||
		    member->n_parts > GPUMAP_GANG_PARTS_MAX ||
		    member->parts == NULL)
			return gm_refuse(NULL, -EINVAL,
					 "a node of a gang has 1 to %d devices",
					 GPUMAP_GANG_PARTS_MAX);
	}
	return 0;
}

/* Write the members with their parts.  Returns the bytes, or -EINVAL. */
static long put_members(const struct gpumap_gang_request *request, char *tail)
{
	char *at = tail;

	for (uint32_t i = 0; i < request->n_members; i++) {
		const struct gpumap_gang_member *from = &request->members[i];
		struct gm_sync_gang_member member = { .n_parts =
							      from->n_parts };
		int ret = put_name(from->node, "node", member.node);

		if (ret != 0)
			return ret;
		memcpy(at, &member, sizeof(member));
		at += sizeof(member);
		for (uint32_t k = 0; k < from->n_parts; k++) {
			struct gm_sync_gang_part part = {
				.bytes = from->parts[k].bytes
			};

			memcpy(part.uuid, from->parts[k].uuid, 16);
			memcpy(at, &part, sizeof(part));
			at += sizeof(part);
		}
	}
	return at - tail;
}

static size_t room_of(const struct gpumap_gang_request *request)
{
	size_t n = 0;

	for (uint32_t i = 0; i < request->n_members; i++)
		n += sizeof(struct gm_sync_gang_member) +
		     request->members[i].n_parts *
			     sizeof(struct gm_sync_gang_part);
	return n;
}

static int reserve(struct gpumap_sync *sync,
		   const struct gpumap_gang_request *request, void *tail)
{
	bool has_deadline = request->deadline_ns != 0;
	uint64_t left = has_deadline ? gm_sync_link_left(request->deadline_ns)
				     : sync->lease_ns;
	struct gm_sync_gang body = { .n_members = request->n_members };
	struct gm_call call = { .type = GM_SYNC_GANG_RESERVE,
				.body = &body,
				.body_bytes = sizeof(body),
				.n_tail = 1 };
	int ret = put_name(request->name, "map", body.name);
	long n = ret == 0 ? put_members(request, tail) : ret;

	if (n < 0)
		return (int)n;
	if (has_deadline && left == 0)
		return gm_refuse(NULL, -ETIMEDOUT, "the deadline has passed");
	body.timeout_ns = has_deadline ? left : 0;
	call.tail[0] = (struct iovec){ tail, (size_t)n };
	sync->until_ns = left < UINT64_MAX / 2 ? gm_now_ns() + left + EXTRA_NS
					       : GPUMAP_NO_DEADLINE;
	ret = gm_sync_link_call(sync, &call);
	/* The loss that came before this answer is that of an earlier gang. */
	if (ret == 0)
		sync->gang_lost = false;
	return ret;
}

int gpumap_gang_reserve(struct gpumap_sync *sync,
			const struct gpumap_gang_request *request)
{
	struct gpumap_gang_request ours;
	void *tail = NULL;
	int ret = gm_sync_link_begin(sync);

	if (ret != 0)
		return ret;
	ret = gm_map_size_in(NULL, &ours, sizeof(ours), request);
	if (ret == 0)
		ret = check_counts(&ours);
	if (ret == 0) {
		tail = malloc(room_of(&ours));
		ret = tail != NULL ? reserve(sync, &ours, tail)
				   : gm_refuse_memory(NULL, room_of(&ours));
	}
	free(tail);
	return gm_sync_link_end(sync, ret);
}

int gpumap_gang_release(struct gpumap_sync *sync)
{
	struct gm_call call = { .type = GM_SYNC_GANG_RELEASE };
	int ret = gm_sync_link_begin(sync);

	if (ret != 0)
		return ret;
	ret = gm_sync_link_call(sync, &call);
	if (ret == 0 || ret == -ENOENT)
		sync->gang_lost = false;
	return gm_sync_link_end(sync, ret);
}
