/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shm/cluster.h"
#include "shm/control_cluster.h"

/* ---- reading ------------------------------------------------------------- */

/* A publication that is being read, in one attempt. */
struct reading {
	struct gm_object object;
	struct gm_cluster_image image;
	uint64_t now; /* by the node's clock */
};

/* The item that is sought in it, and where its facts go. */
struct question {
	uint32_t node;    /* whose; or GPUMAP_CLUSTER_ANY */
	const char *name; /* of a share; NULL: any */
	uint32_t at;      /* in the list; then behind what was found */
	void *to;
	size_t bytes; /* there */
};

/* Look for it.  Returns 1, 0 at the end of a list, or an error. */
typedef int search_fn(const struct reading *r, struct question *q);

/* Results of an attempt count only if it was at one publication. */
static int ask(const struct gpumap *map, search_fn *search, struct question *q)
{
	struct question ours;
	struct reading r;
	int ret = -EAGAIN;

	for (int i = 0; i < GM_OBJECT_ATTEMPTS && ret == -EAGAIN; i++) {
		ret = gm_cluster_open(&map->map, &r.object, &r.image);
		if (ret != 0)
			continue;
		/* Has this process come into another time namespace? */
		gm_health_map_age(map);
		r.now = gm_now_ns() - gm_get(&map->clock_offset);
		ours = *q;
		ret = search(&r, &ours);
		if (!gm_object_whole(&r.object))
			ret = -EAGAIN;
	}
	if (ret == 1)
		*q = ours;
	return ret;
}

/* Fill in the struct of a caller, which has @least bytes, with what is next. */
static int next(const struct gpumap *map, search_fn *search, struct question *q,
		uint32_t *cursor, void *theirs, size_t least)
{
	int ret = gm_size_out(theirs, least);

	q->at = *cursor;
	if (ret == 0)
		ret = ask(map, search, q);
	if (ret != 1)
		return ret;
	gm_size_put(theirs, q->to, q->bytes);
	*cursor = q->at;
	return 1;
}

/* A time that was stored after @r->now was read has an age of 0. */
static uint64_t age_of(const struct reading *r, uint64_t since)
{
	uint64_t age = r->now - since;

	return age <= INT64_MAX ? age : 0;
}

static int read_cluster(const struct reading *r, struct question *q)
{
	const struct gm_cluster_image *image = &r->image;
	struct gpumap_cluster *cluster = q->to;

	memcpy(cluster->name, image->cluster, sizeof(cluster->name));
	memcpy(cluster->node, image->node, sizeof(cluster->node));
	cluster->version = image->object.version;
	cluster->published_ns = image->object.published;
	cluster->age_ns =
		image->heard != 0 ? age_of(r, image->heard) : UINT64_MAX;
	cluster->limit_ns = image->limit;
	cluster->stale = cluster->age_ns > cluster->limit_ns;
	cluster->n_nodes = image->n_nodes;
	cluster->n_gone = image->n_gone;
	cluster->n_refused = image->n_refused;
	cluster->n_devices = image->n_devices;
	cluster->n_shares = image->n_shares;
	return 1;
}

int gpumap_cluster_read(const struct gpumap *map,
			struct gpumap_cluster *ret_cluster)
{
	struct gpumap_cluster cluster = { 0 };
	struct question q = { .to = &cluster, .bytes = sizeof(cluster) };
	uint32_t cursor = 0;
	int ret = next(map, read_cluster, &q, &cursor, ret_cluster,
		       offsetof(struct gpumap_cluster, version));

	return ret == 1 ? 0 : ret;
}

static int read_node(const struct reading *r, struct question *q)
{
	struct gpumap_cluster_node *node = q->to;
	struct gm_cluster_node_image image;
	int ret;

	if (q->at >= r->image.n_nodes)
		return 0;
	ret = gm_cluster_get_node(&r->object, &r->image, q->at, &image);
	if (ret != 0)
		return ret;
	memcpy(node->name, image.name, sizeof(node->name));
	memcpy(node->address, image.address, sizeof(node->address));
	node->version = r->image.object.version;
	node->state = image.state;
	node->flags = image.flags;
	node->age_ns = age_of(r, image.since);
	node->epoch = image.epoch;
	node->agent_version = image.agent_version;
	node->n_devices = image.n_devices;
	node->n_shares = image.n_shares;
	node->more_devices = image.more_devices;
	node->more_shares = image.more_shares;
	node->index = q->at++;
	return 1;
}

int gpumap_cluster_next_node(const struct gpumap *map, uint32_t *cursor,
			     struct gpumap_cluster_node *ret_node)
{
	struct gpumap_cluster_node node = { 0 };
	struct question q = { .to = &node, .bytes = sizeof(node) };

	return next(map, read_node, &q, cursor, ret_node,
		    offsetof(struct gpumap_cluster_node, name));
}

/* The part of a table that a list goes through. */
struct part {
	uint32_t first;
	uint32_t n;
};

static int find_parts(const struct reading *r, uint32_t node,
		      struct part *ret_devices, struct part *ret_shares)
{
	struct gm_cluster_node_image image;
	int ret;

	*ret_devices = (struct part){ 0, r->image.n_devices };
	*ret_shares = (struct part){ 0, r->image.n_shares };
	if (node == GPUMAP_CLUSTER_ANY)
		return 0;
	if (node >= r->image.n_nodes)
		return -ERANGE;
	ret = gm_cluster_get_node(&r->object, &r->image, node, &image);
	if (ret != 0)
		return ret;
	*ret_devices = (struct part){ image.first_device, image.n_devices };
	*ret_shares = (struct part){ image.first_share, image.n_shares };
	return 0;
}

static int read_device(const struct reading *r, struct question *q)
{
	struct gpumap_cluster_device *device = q->to;
	struct gm_cluster_device_image image;
	struct part devices, shares;
	int ret = find_parts(r, q->node, &devices, &shares);

	if (ret != 0 || q->at >= devices.n)
		return ret;
	ret = gm_cluster_get_device(&r->object, &r->image,
				    devices.first + q->at++, &image);
	if (ret != 0)
		return ret;
	device->version = r->image.object.version;
	device->node = image.node;
	device->row = image.row;
	memcpy(device->uuid, image.uuid, sizeof(device->uuid));
	memcpy(device->name, image.name, sizeof(device->name));
	device->kind = image.kind;
	device->state = image.state;
	device->flags = image.flags;
	device->numa_node = image.numa_node;
	device->cc_major = image.cc_major;
	device->cc_minor = image.cc_minor;
	device->total_bytes = image.total_bytes;
	device->free_bytes = image.free_bytes;
	device->reserved_bytes = image.reserved_bytes;
	device->used_by_holders = image.used_by_holders;
	device->links = image.links;
	return 1;
}

int gpumap_cluster_next_device(const struct gpumap *map, uint32_t node,
			       uint32_t *cursor,
			       struct gpumap_cluster_device *ret_device)
{
	struct gpumap_cluster_device device = { 0 };
	struct question q = { .node = node,
			      .to = &device,
			      .bytes = sizeof(device) };

	return next(map, read_device, &q, cursor, ret_device,
		    offsetof(struct gpumap_cluster_device, uuid));
}

static int read_share(const struct reading *r, struct question *q)
{
	struct gpumap_cluster_share *share = q->to;
	struct gm_cluster_share_image image;
	struct part devices, shares;
	int ret = find_parts(r, q->node, &devices, &shares);

	do {
		if (ret != 0 || q->at >= shares.n)
			return ret;
		ret = gm_cluster_get_share(&r->object, &r->image,
					   shares.first + q->at++, &image);
	} while (ret != 0 ||
		 (q->name != NULL && strcmp(image.name, q->name) != 0));
	share->version = r->image.object.version;
	share->node = image.node;
	share->uid = image.uid;
	share->flags = image.flags;
	memcpy(share->name, image.name, sizeof(share->name));
	share->bytes = image.bytes;
	memcpy(share->rows, image.rows, sizeof(share->rows));
	memcpy(share->fingerprint, image.fingerprint,
	       sizeof(share->fingerprint));
	return 1;
}

int gpumap_cluster_next_share(const struct gpumap *map, uint32_t node,
			      const char *name, uint32_t *cursor,
			      struct gpumap_cluster_share *ret_share)
{
	struct gpumap_cluster_share share = { 0 };
	struct question q = {
		.node = node, .name = name, .to = &share, .bytes = sizeof(share)
	};
	size_t least = offsetof(struct gpumap_cluster_share, name);
	int ret = gm_size_out(ret_share, least);

	if (ret == 0 && name != NULL && gm_object_name(name) == 0)
		ret = -EINVAL;
	return ret != 0 ? ret
			: next(map, read_share, &q, cursor, ret_share, least);
}

/* ---- publishing ---------------------------------------------------------- */

/* A fixed field of the caller's, padded with zeros. */
static int put_text(struct gpumap *map, const char from[64], char ret_text[64])
{
	size_t n = strnlen(from, 64);

	if (n == 64)
		return gm_refuse(map, -EINVAL,
				 "a name has at most 63 bytes, and a zero byte "
				 "behind them");
	memset(ret_text, 0, 64);
	memcpy(ret_text, from, n);
	return 0;
}

static int put_entry(struct gpumap *map,
		     const struct gpumap_cluster_entry *entry, char **at)
{
	struct gm_cluster_node_image image = { .state = 0 };
	struct gpumap_cluster_node node;
	int ret = gm_map_size_in(map, &node, sizeof(node), entry->node);

	if (ret == 0)
		ret = put_text(map, node.name, image.name);
	if (ret == 0)
		ret = put_text(map, node.address, image.address);
	if (ret != 0)
		return ret;
	if (entry->remove == 0) {
		image.state = node.state;
		image.flags = node.flags;
		image.since = node.age_ns;
		image.epoch = node.epoch;
		image.agent_version = node.agent_version;
		image.n_devices = entry->n_devices;
		image.n_shares = entry->n_shares;
		image.more_devices = node.more_devices;
		image.more_shares = node.more_shares;
		if (node.state == 0)
			return gm_refuse(map, -EINVAL,
					 "node %s has no state: set it to one "
					 "of enum gpumap_cluster_state",
					 image.name);
	}
	memcpy(*at, &image, sizeof(image));
	*at += sizeof(image);
	return 0;
}

static int put_device(struct gpumap *map, const void *theirs, char **at)
{
	struct gm_cluster_device_image image = { .node = 0 };
	struct gpumap_cluster_device device;
	int ret = gm_map_size_in(map, &device, sizeof(device), theirs);

	if (ret == 0)
		ret = put_text(map, device.name, image.name);
	if (ret != 0)
		return ret;
	if (device.kind > UINT16_MAX || device.state > UINT16_MAX ||
	    device.cc_major > UINT16_MAX || device.cc_minor > UINT16_MAX)
		return gm_refuse(map, -EINVAL,
				 "row %u has a kind, a state or a compute "
				 "capability above 65535",
				 device.row);
	image.row = device.row;
	memcpy(image.uuid, device.uuid, sizeof(image.uuid));
	image.kind = (uint16_t)device.kind;
	image.state = (uint16_t)device.state;
	image.cc_major = (uint16_t)device.cc_major;
	image.cc_minor = (uint16_t)device.cc_minor;
	image.flags = device.flags;
	image.numa_node = device.numa_node;
	image.total_bytes = device.total_bytes;
	image.free_bytes = device.free_bytes;
	image.reserved_bytes = device.reserved_bytes;
	image.used_by_holders = device.used_by_holders;
	image.links = device.links;
	memcpy(*at, &image, sizeof(image));
	*at += sizeof(image);
	return 0;
}

static int put_one_share(struct gpumap *map, const void *theirs, char **at)
{
	struct gm_cluster_share_image image = { .node = 0 };
	struct gpumap_cluster_share share;
	int ret = gm_map_size_in(map, &share, sizeof(share), theirs);

	if (ret == 0)
		ret = put_text(map, share.name, image.name);
	if (ret != 0)
		return ret;
	image.uid = share.uid;
	image.flags = share.flags;
	image.bytes = share.bytes;
	memcpy(image.rows, share.rows, sizeof(image.rows));
	memcpy(image.fingerprint, share.fingerprint, sizeof(image.fingerprint));
	memcpy(*at, &image, sizeof(image));
	*at += sizeof(image);
	return 0;
}

/* The tail's entries, one after the other.  Each array of the caller's has
 * elements of the size that its first one says. */
static int put_entries(struct gpumap *map,
		       const struct gpumap_cluster_request *request, char *at)
{
	int ret = 0;

	for (uint32_t i = 0; i < request->n_entries && ret == 0; i++) {
		const struct gpumap_cluster_entry *entry = &request->entries[i];
		const char *devices = (const char *)entry->devices;
		const char *shares = (const char *)entry->shares;

		ret = put_entry(map, entry, &at);
		if (entry->remove != 0)
			continue;
		for (uint32_t k = 0; k < entry->n_devices && ret == 0; k++)
			ret = put_device(
				map, devices + k * entry->devices->size, &at);
		for (uint32_t k = 0; k < entry->n_shares && ret == 0; k++)
			ret = put_one_share(
				map, shares + k * entry->shares->size, &at);
	}
	return ret;
}

static int check_entry(struct gpumap *map,
		       const struct gpumap_cluster_entry *entry)
{
	if (entry->remove > 1 || entry->reserved != 0)
		return gm_refuse(map, -EINVAL,
				 "an entry's remove is 0 or 1, and its "
				 "reserved 0");
	if (entry->node == NULL ||
	    (entry->devices == NULL && entry->n_devices != 0) ||
	    (entry->shares == NULL && entry->n_shares != 0))
		return gm_refuse(map, -EINVAL,
				 "an entry's node, devices or shares are NULL");
	if (entry->n_devices > GM_CLUSTER_ROWS)
		return gm_refuse(map, -E2BIG,
				 "a node tells of at most %u devices",
				 GM_CLUSTER_ROWS);
	if (entry->n_shares > GM_CLUSTER_SHARES)
		return gm_refuse(map, -E2BIG,
				 "a node tells of at most %u shares",
				 GM_CLUSTER_SHARES);
	return 0;
}

/* Check the request's numbers, and sum the bytes of its tail. */
static int measure(struct gpumap *map,
		   const struct gpumap_cluster_request *request,
		   size_t *ret_bytes)
{
	size_t bytes = 0;

	if (request->n_entries > GM_CLUSTER_NODES)
		return gm_refuse(map, -E2BIG, "a cluster has at most %u nodes",
				 GM_CLUSTER_NODES);
	if (request->entries == NULL && request->n_entries != 0)
		return gm_refuse(map, -EINVAL, "the entries are NULL");
	for (uint32_t i = 0; i < request->n_entries; i++) {
		const struct gpumap_cluster_entry *entry = &request->entries[i];
		int ret = check_entry(map, entry);

		if (ret != 0)
			return ret;
		bytes += sizeof(struct gm_cluster_node_image);
		if (entry->remove != 0)
			continue;
		bytes +=
			entry->n_devices *
				sizeof(struct gm_cluster_device_image) +
			entry->n_shares * sizeof(struct gm_cluster_share_image);
	}
	if (bytes > GM_CONTROL_BYTES_MAX - GM_WHY)
		return gm_refuse(map, -EMSGSIZE,
				 "%zu bytes are too much for one request: use "
				 "GPUMAP_CLUSTER_MORE",
				 bytes);
	*ret_bytes = bytes;
	return 0;
}

int gpumap_cluster_publish(struct gpumap *map,
			   const struct gpumap_cluster_request *request)
{
	struct gpumap_cluster_request ours;
	struct gm_cluster_publish body = { .n_entries = 0 };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_CLUSTER, body) };
	size_t bytes = 0;
	char *tail;
	int ret = gm_map_begin(map);

	if (ret == 0)
		ret = gm_map_size_in(map, &ours, sizeof(ours), request);
	if (ret == 0)
		ret = gm_map_put_name(map, ours.name, body.cluster);
	if (ret == 0)
		ret = gm_map_put_name(map, ours.node, body.node);
	if (ret == 0)
		ret = measure(map, &ours, &bytes);
	if (ret != 0)
		return ret;
	tail = malloc(bytes + 1);
	if (tail == NULL)
		return gm_refuse_memory(map, bytes);
	ret = put_entries(map, &ours, tail);
	if (ret == 0) {
		body.limit_ns = ours.limit_ns;
		body.n_entries = ours.n_entries;
		body.flags = ours.flags;
		call.tail[0] = (struct iovec){ tail, bytes };
		call.n_tail = 1;
		ret = gm_map_call(map, &call, 0);
	}
	free(tail);
	return ret;
}
