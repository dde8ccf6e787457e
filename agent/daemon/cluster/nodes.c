/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/cluster/nodes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/name.h"
#include "agent/common/text.h"
#include "agent/daemon/base/connection.h"

/* ---- a request's tail ---------------------------------------------------- */

/* A node with its devices and shares, in one allocation. */
struct copy {
	struct gm_cluster_node node;
	struct gm_cluster_device_image devices[];
	/* then its shares */
};

static struct gm_cluster_node *
make_copy(const struct gm_cluster_node_image *image)
{
	size_t devices =
		image->n_devices * sizeof(struct gm_cluster_device_image);
	struct copy *copy =
		malloc(sizeof(*copy) + devices +
		       image->n_shares * sizeof(struct gm_cluster_share_image));

	if (copy == NULL)
		return NULL;
	copy->node = (struct gm_cluster_node){
		.image = *image,
		.devices = copy->devices,
		.shares = (void *)((char *)copy->devices + devices),
	};
	return &copy->node;
}

/* Text that a terminal can show, with blanks or without. */
static bool is_text(const char *text, bool has_blanks)
{
	uint32_t point, n;

	for (; *text != '\0'; text += n) {
		n = gm_text_decode(text, &point);
		if (n == 0 ||
		    (!gm_text_is_fit(point) && !(has_blanks && point == ' ')))
			return false;
	}
	return true;
}

/* No row twice. */
static int check_devices(const struct gm_cluster_node *node, char *ret_why)
{
	bool taken[GM_ROWS] = { false };

	for (uint32_t i = 0; i < node->image.n_devices; i++) {
		const struct gm_cluster_device_image *device =
			&node->devices[i];

		if (!gm_cluster_device_fits(device) || device->node != 0 ||
		    device->unused != 0 || !is_text(device->name, true))
			return gm_why(ret_why, -EINVAL,
				      "device %u of node %s has a name, a row, "
				      "a kind or a state that none can have",
				      i, node->image.name);
		if (taken[device->row])
			return gm_why(ret_why, -EINVAL,
				      "node %s has row %u twice",
				      node->image.name, device->row);
		taken[device->row] = true;
	}
	return 0;
}

static int check_shares(const struct gm_cluster_node *node, char *ret_why)
{
	for (uint32_t i = 0; i < node->image.n_shares; i++) {
		const struct gm_cluster_share_image *share = &node->shares[i];

		if (!gm_cluster_share_fits(share) || share->node != 0 ||
		    share->unused != 0 || !is_text(share->name, false))
			return gm_why(ret_why, -EINVAL,
				      "share %u of node %s has a name that "
				      "none can have",
				      i, node->image.name);
	}
	return 0;
}

static int check_node(const struct gm_cluster_node_image *image, char *ret_why)
{
	struct gm_cluster_node_image node = *image;
	char why[GM_WHY_BYTES];

	/* Only the name of a node that is to be forgotten counts. */
	if (image->state == 0) {
		memset(node.address, 0, sizeof(node.address));
		node.state = 1;
	}
	if (!gm_cluster_node_fits(&node) || image->first_device != 0 ||
	    image->first_share != 0 || image->unused != 0 ||
	    image->since > INT64_MAX)
		return gm_why(ret_why, -EINVAL,
			      "a node's name, address, state, age or number of "
			      "devices or shares is none that it can have");
	if (image->state == 0 &&
	    (image->n_devices != 0 || image->n_shares != 0))
		return gm_why(ret_why, -EINVAL,
			      "a node that is to be forgotten has devices or "
			      "shares");
	if (gm_name_check(image->name, why) != 0)
		return gm_why(ret_why, -EINVAL, "a node's name: %s", why);
	if (!is_text(node.address, false))
		return gm_why(ret_why, -EINVAL,
			      "the address of node %s is no text without "
			      "blanks",
			      image->name);
	return 0;
}

static int take_node(struct gm_tail *tail, uint64_t now, char *ret_why,
		     struct gm_cluster_node **ret_node)
{
	struct gm_cluster_node_image image;
	struct gm_cluster_node *node;
	int ret;

	if (!gm_connection_take(tail, &image, sizeof(image)))
		return gm_why(ret_why, -EINVAL, "the request is cut");
	ret = check_node(&image, ret_why);
	if (ret != 0)
		return ret;
	image.since = now - image.since;
	node = make_copy(&image);
	if (node == NULL)
		return gm_why(ret_why, -ENOMEM, "out of memory");
	*ret_node = node;
	if (!gm_connection_take(tail, (void *)(uintptr_t)node->devices,
				image.n_devices * sizeof(*node->devices)) ||
	    !gm_connection_take(tail, (void *)(uintptr_t)node->shares,
				image.n_shares * sizeof(*node->shares)))
		return gm_why(ret_why, -EINVAL, "the request is cut");
	ret = check_devices(node, ret_why);
	return ret == 0 ? check_shares(node, ret_why) : ret;
}

static int by_name(const void *a, const void *b)
{
	const struct gm_cluster_node *const *one = a, *const *other = b;

	return strcmp((*one)->image.name, (*other)->image.name);
}

void gm_cluster_update_drop(struct gm_cluster_update *update)
{
	for (uint32_t i = 0; i < update->n; i++)
		free(update->of[i]);
	update->n = 0;
}

int gm_cluster_update_take(const char *tail, uint32_t tail_bytes, uint32_t n,
			   uint64_t now, char ret_why[GM_WHY_BYTES],
			   struct gm_cluster_update *ret_update)
{
	struct gm_tail rest = { tail, tail_bytes };
	int ret = 0;

	ret_update->n = 0;
	if (n > GM_CLUSTER_NODES)
		return gm_why(ret_why, -E2BIG, "a cluster has at most %u nodes",
			      GM_CLUSTER_NODES);
	while (ret == 0 && ret_update->n < n) {
		struct gm_cluster_node **node = &ret_update->of[ret_update->n];

		*node = NULL;
		ret = take_node(&rest, now, ret_why, node);
		ret_update->n += *node != NULL;
	}
	if (ret == 0 && rest.left != 0)
		ret = gm_why(ret_why, -EINVAL,
			     "the request has %u bytes behind its nodes",
			     rest.left);
	qsort(ret_update->of, ret_update->n, sizeof(ret_update->of[0]),
	      by_name);
	for (uint32_t i = 1; ret == 0 && i < ret_update->n; i++)
		if (by_name(&ret_update->of[i - 1], &ret_update->of[i]) == 0)
			ret = gm_why(ret_why, -EINVAL,
				     "the request has node %s twice",
				     ret_update->of[i]->image.name);
	if (ret != 0)
		gm_cluster_update_drop(ret_update);
	return ret;
}

/* ---- the list ------------------------------------------------------------ */

void gm_cluster_list_clear(struct gm_cluster_list *list)
{
	for (uint32_t i = 0; i < list->n; i++)
		free(list->of[i]);
	list->n = 0;
}

/* The place of a node of this name, or where it would be. */
static uint32_t find(const struct gm_cluster_list *list,
		     const struct gm_cluster_node *node, bool *ret_there)
{
	uint32_t low = 0, high = list->n;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (by_name(&list->of[middle], &node) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_there = low < list->n && by_name(&list->of[low], &node) == 0;
	return low;
}

bool gm_cluster_list_admits(const struct gm_cluster_list *list,
			    const struct gm_cluster_update *update)
{
	uint32_t n = list->n;

	for (uint32_t i = 0; i < update->n; i++) {
		bool is_there;

		find(list, update->of[i], &is_there);
		if (update->of[i]->image.state == 0)
			n -= is_there;
		else
			n += !is_there;
	}
	return n <= GM_CLUSTER_NODES;
}

static void remove_node(struct gm_cluster_list *list,
			struct gm_cluster_node *node)
{
	bool is_there;
	uint32_t at = find(list, node, &is_there);

	free(node);
	if (!is_there)
		return;
	free(list->of[at]);
	memmove(&list->of[at], &list->of[at + 1],
		(--list->n - at) * sizeof(list->of[0]));
}

static void put_node(struct gm_cluster_list *list, struct gm_cluster_node *node)
{
	bool is_there;
	uint32_t at = find(list, node, &is_there);

	if (is_there) {
		free(list->of[at]);
	} else {
		memmove(&list->of[at + 1], &list->of[at],
			(list->n++ - at) * sizeof(list->of[0]));
	}
	list->of[at] = node;
}

/* Nodes go first, for those that come may need their room. */
void gm_cluster_list_apply(struct gm_cluster_list *list,
			   struct gm_cluster_update *update)
{
	for (uint32_t i = 0; i < update->n; i++)
		if (update->of[i]->image.state == 0) {
			remove_node(list, update->of[i]);
			update->of[i] = NULL;
		}
	for (uint32_t i = 0; i < update->n; i++)
		if (update->of[i] != NULL)
			put_node(list, update->of[i]);
	update->n = 0;
}
