/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/cluster.h"

#include <errno.h>
#include <string.h>

#include "gpumap.h"
#include "shm/device_kinds.h"

_Static_assert(GPUMAP_CLUSTER_NODES_MAX == GM_CLUSTER_NODES &&
		       GPUMAP_CLUSTER_ROWS_MAX == GM_CLUSTER_ROWS &&
		       GPUMAP_CLUSTER_SHARES_MAX == GM_CLUSTER_SHARES,
	       "the same limits");

/* ---- writing ------------------------------------------------------------- */

/* Where the tables are, and how long. */
struct places {
	uint64_t n_devices;
	uint64_t n_shares;
	uint64_t devices_at; /* bytes from the block's start */
	uint64_t shares_at;
	uint64_t end;
};

static struct places places_of(const struct gm_cluster *cluster)
{
	struct places p = { .devices_at = sizeof(struct gm_cluster_image) };

	for (uint32_t i = 0; i < cluster->n_nodes; i++) {
		p.n_devices += cluster->nodes[i]->image.n_devices;
		p.n_shares += cluster->nodes[i]->image.n_shares;
	}
	p.devices_at += cluster->n_nodes * sizeof(struct gm_cluster_node_image);
	p.shares_at = p.devices_at +
		      p.n_devices * sizeof(struct gm_cluster_device_image);
	p.end = p.shares_at +
		p.n_shares * sizeof(struct gm_cluster_share_image);
	return p;
}

uint64_t gm_cluster_bytes(const struct gm_cluster *cluster)
{
	return (places_of(cluster).end + GM_UNIT - 1) / GM_UNIT * GM_UNIT;
}

/* Tables that grow node by node. */
struct tables {
	struct gm_cluster_node_image *nodes;
	struct gm_cluster_device_image *devices;
	struct gm_cluster_share_image *shares;
	uint32_t n_devices;
	uint32_t n_shares;
};

static void put_node(struct tables *t, const struct gm_cluster_node *node,
		     uint32_t i)
{
	t->nodes[i] = node->image;
	t->nodes[i].first_device = t->n_devices;
	t->nodes[i].first_share = t->n_shares;
	for (uint32_t k = 0; k < node->image.n_devices; k++) {
		t->devices[t->n_devices] = node->devices[k];
		t->devices[t->n_devices++].node = i;
	}
	for (uint32_t k = 0; k < node->image.n_shares; k++) {
		t->shares[t->n_shares] = node->shares[k];
		t->shares[t->n_shares++].node = i;
	}
}

static uint32_t count(const struct gm_cluster *cluster, uint32_t state)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < cluster->n_nodes; i++)
		n += cluster->nodes[i]->image.state == state;
	return n;
}

void gm_cluster_build(const struct gm_cluster *cluster, uint64_t version,
		      uint64_t *ret_words)
{
	const struct places p = places_of(cluster);
	struct gm_cluster_image image = { .limit = cluster->limit };
	uint64_t bytes = gm_cluster_bytes(cluster);
	char *block = (char *)ret_words;
	struct tables t = {
		.nodes = (void *)(block + sizeof(image)),
		.devices = (void *)(block + p.devices_at),
		.shares = (void *)(block + p.shares_at),
	};

	for (uint32_t i = 0; i < cluster->n_nodes; i++)
		put_node(&t, cluster->nodes[i], i);
	memset(block + p.end, 0, bytes - p.end);
	image.object.kind = GM_KIND_CLUSTER;
	image.object.bytes = (uint32_t)bytes;
	image.object.image_bytes = sizeof(image);
	image.object.version = version;
	image.object.published = cluster->published;
	image.object.owner_uid = cluster->owner_uid;
	memcpy(image.object.name, GM_CLUSTER_OBJECT, sizeof(GM_CLUSTER_OBJECT));
	memcpy(image.cluster, cluster->cluster,
	       gm_object_name(cluster->cluster));
	memcpy(image.node, cluster->node, gm_object_name(cluster->node));
	image.heard = cluster->heard;
	image.n_nodes = cluster->n_nodes;
	image.n_gone = count(cluster, GPUMAP_CLUSTER_GONE);
	image.n_refused = count(cluster, GPUMAP_CLUSTER_REFUSED);
	image.n_devices = t.n_devices;
	image.n_shares = t.n_shares;
	image.nodes_at = sizeof(image);
	image.devices_at = (uint32_t)p.devices_at;
	image.shares_at = (uint32_t)p.shares_at;
	memcpy(block, &image, sizeof(image));
}

/* ---- validating ---------------------------------------------------------- */

/* Text and zeros behind it, @least bytes of text or more. */
static bool is_padded(const char text[GM_NAME_BYTES], size_t least)
{
	size_t n = 0;

	while (n < GM_NAME_BYTES && text[n] != '\0')
		n++;
	if (n < least || n == GM_NAME_BYTES)
		return false;
	while (n < GM_NAME_BYTES && text[n] == '\0')
		n++;
	return n == GM_NAME_BYTES;
}

bool gm_cluster_node_fits(const struct gm_cluster_node_image *node)
{
	return is_padded(node->name, 1) && is_padded(node->address, 0) &&
	       node->state >= GPUMAP_CLUSTER_LIVE &&
	       node->state <= GPUMAP_CLUSTER_REFUSED &&
	       node->n_devices <= GM_CLUSTER_ROWS &&
	       node->n_shares <= GM_CLUSTER_SHARES;
}

bool gm_cluster_device_fits(const struct gm_cluster_device_image *device)
{
	return is_padded(device->name, 1) && device->row < GM_ROWS &&
	       device->kind != 0 && device->kind < GM_DEVICE_KINDS &&
	       device->state >= GPUMAP_DEVICE_PROBING &&
	       device->state <= GPUMAP_DEVICE_LOST;
}

bool gm_cluster_share_fits(const struct gm_cluster_share_image *share)
{
	return is_padded(share->name, 1);
}

/* ---- reading ------------------------------------------------------------- */

static bool inside(uint32_t at, uint64_t bytes, const struct gm_object *object)
{
	return at % 8 == 0 && at >= object->image.image_bytes &&
	       gm_check_span(at, bytes, object->image.bytes);
}

int gm_cluster_image(const struct gm_object *object,
		     struct gm_cluster_image *ret_image)
{
	struct gm_cluster_image image;

	if (gm_object_read_image(object, &image, sizeof(image),
				 GM_CLUSTER_IMAGE_LEAST) != 0)
		return -EPROTO;
	if (!gm_object_whole(object))
		return -EAGAIN;
	if (image.object.kind != GM_KIND_CLUSTER ||
	    !is_padded(image.cluster, 1) || !is_padded(image.node, 1) ||
	    image.n_nodes > GM_CLUSTER_NODES ||
	    image.n_devices > GM_CLUSTER_NODES * GM_CLUSTER_ROWS ||
	    image.n_shares > GM_CLUSTER_NODES * GM_CLUSTER_SHARES ||
	    !inside(image.nodes_at,
		    image.n_nodes * sizeof(struct gm_cluster_node_image),
		    object) ||
	    !inside(image.devices_at,
		    image.n_devices * sizeof(struct gm_cluster_device_image),
		    object) ||
	    !inside(image.shares_at,
		    image.n_shares * sizeof(struct gm_cluster_share_image),
		    object))
		return -EPROTO;
	*ret_image = image;
	return 0;
}

int gm_cluster_get_node(const struct gm_object *object,
			const struct gm_cluster_image *image, uint32_t i,
			struct gm_cluster_node_image *ret_node)
{
	struct gm_cluster_node_image node;

	if (gm_object_read(object, image->nodes_at + i * sizeof(node), &node,
			   sizeof(node)) != 0 ||
	    !gm_cluster_node_fits(&node) ||
	    !gm_check_span(node.first_device, node.n_devices,
			   image->n_devices) ||
	    !gm_check_span(node.first_share, node.n_shares, image->n_shares))
		return -EPROTO;
	*ret_node = node;
	return 0;
}

int gm_cluster_get_device(const struct gm_object *object,
			  const struct gm_cluster_image *image, uint32_t i,
			  struct gm_cluster_device_image *ret_device)
{
	struct gm_cluster_device_image device;

	if (gm_object_read(object, image->devices_at + i * sizeof(device),
			   &device, sizeof(device)) != 0 ||
	    !gm_cluster_device_fits(&device) || device.node >= image->n_nodes)
		return -EPROTO;
	*ret_device = device;
	return 0;
}

int gm_cluster_get_share(const struct gm_object *object,
			 const struct gm_cluster_image *image, uint32_t i,
			 struct gm_cluster_share_image *ret_share)
{
	struct gm_cluster_share_image share;

	if (gm_object_read(object, image->shares_at + i * sizeof(share), &share,
			   sizeof(share)) != 0 ||
	    !gm_cluster_share_fits(&share) || share.node >= image->n_nodes)
		return -EPROTO;
	*ret_share = share;
	return 0;
}

int gm_cluster_open(const struct gm_map *map, struct gm_object *ret_object,
		    struct gm_cluster_image *ret_image)
{
	struct gm_object object;
	int ret = -EAGAIN;

	for (int i = 0; i < GM_OBJECT_ATTEMPTS && ret == -EAGAIN; i++) {
		ret = gm_object_find(map, GM_KIND_CLUSTER, GM_CLUSTER_OBJECT,
				     &object);
		if (ret == 0)
			ret = gm_cluster_image(&object, ret_image);
	}
	if (ret == 0)
		*ret_object = object;
	return ret;
}
