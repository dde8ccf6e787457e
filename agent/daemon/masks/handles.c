/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/masks/handles.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/daemon.h"
#include "agent/daemon/masks/masks.h"
#include "agent/daemon/sessions/session.h"
#include "gpumap.h"
#include "shm/queue.h"

struct gm_mask_held {
	struct gm_daemon *d;
	LIST_ENTRY(gm_mask_held) entry; /* of its user's */
	struct gm_user *user;
	uint64_t version;
	uint64_t bytes;
	bool is_counted; /* of those of one publication that uid has, one is */
	char name[GM_NAME_BYTES];
	uint32_t n;
	struct gm_replica_image replicas[];
};

/* ---- what is held -------------------------------------------------------- */

static void count(const struct gm_mask_held *held, bool more)
{
	for (uint32_t i = 0; i < held->n; i++) {
		struct gm_node_segment *segment;
		struct gm_span *span;

		if (!gm_masks_is_first(held->replicas, i))
			continue;
		span = gm_nodes_span(&held->d->nodes, &held->replicas[i],
				     &segment);
		if (span != NULL && more)
			span->refs++;
		else if (span != NULL)
			gm_nodes_drop(segment, span);
	}
}

static struct gm_mask_held *find(const struct gm_user *user, const char *name,
				 uint64_t version)
{
	struct gm_mask_held *held;

	LIST_FOREACH(held, &user->masks, entry)
	{
		if (held->version == version && strcmp(held->name, name) == 0)
			break;
	}
	return held;
}

static void list(struct gm_mask_held *held, struct gm_user *user)
{
	held->user = user;
	held->is_counted = find(user, held->name, held->version) == NULL;
	if (held->is_counted)
		user->mask_bytes += held->bytes;
	LIST_INSERT_HEAD(&user->masks, held, entry);
}

static void unlist(struct gm_mask_held *held)
{
	struct gm_mask_held *twin;

	LIST_REMOVE(held, entry);
	if (!held->is_counted)
		return;
	twin = find(held->user, held->name, held->version);
	if (twin != NULL)
		twin->is_counted = true;
	else
		held->user->mask_bytes -= held->bytes;
}

void gm_mask_held_free(struct gm_mask_held *held)
{
	if (held != NULL) {
		unlist(held);
		count(held, false);
	}
	free(held);
}

static struct gm_mask_held *hold(struct gm_daemon *d, struct gm_user *user,
				 const struct gm_masks_block *block)
{
	size_t bytes = block->image.n_replicas * sizeof(block->replicas[0]);
	struct gm_mask_held *held = calloc(1, sizeof(*held) + bytes);

	if (held == NULL)
		return NULL;
	held->d = d;
	held->n = block->image.n_replicas;
	memcpy(held->name, block->image.object.name, sizeof(held->name));
	memcpy(held->replicas, block->replicas, bytes);
	held->version = block->image.object.version;
	held->bytes = gm_masks_bytes(block);
	list(held, user);
	count(held, true);
	return held;
}

int gm_mask_held_find(const struct gm_mask_held *held, uint32_t row,
		      char ret_why[GM_WHY_BYTES],
		      const struct gm_replica_image **ret_replica)
{
	const struct gm_replica_image *replica = held->replicas;
	struct gm_node_segment *segment;
	uint32_t i = 0;

	while (i < held->n && replica[i].row != row)
		i++;
	if (i == held->n ||
	    gm_nodes_span(&held->d->nodes, &replica[i], &segment) == NULL)
		return gm_why(ret_why, -ENOENT,
			      "mask %s has no replica on row %u: publish it "
			      "for that row, too, and use it anew",
			      held->name, row);
	*ret_replica = &replica[i];
	return 0;
}

int gm_mask_held_open(const struct gm_mask_held *held,
		      const struct gm_replica_image *replica,
		      char ret_why[GM_WHY_BYTES], int *ret_fd)
{
	struct gm_node_segment *segment = held->d->nodes.of[replica->node];
	int fd = gm_nodes_reader(segment);

	if (fd < 0)
		return gm_why(ret_why, fd, "the memory of node %u: %s",
			      segment->node, strerror(-fd));
	*ret_fd = fd;
	return 0;
}

/* ---- MASK_USE ------------------------------------------------------------ */

static int judge_form(struct gm_connection *c, uint64_t handle)
{
	if (!c->session)
		return gm_connection_bad(c, -EINVAL,
					 "this connection is no session");
	if (gm_handle_kind(handle) == GM_BUFFER_REGISTERED &&
	    gm_handle_row(handle) == 0 && gm_handle_generation(handle) != 0 &&
	    gm_handle_index(handle) < GM_BUFFERS_MAX)
		return 0;
	return gm_connection_bad(c, -EINVAL,
				 "%#" PRIx64 " is no handle of a registration",
				 handle);
}

static int judge_mask(struct gm_connection *c, const struct gm_mask_use *ask,
		      struct gm_masks_block *ret_block)
{
	const struct gm_daemon *d = c->server->d;
	const struct gm_block *block = NULL;

	if (memchr(ask->name, '\0', sizeof(ask->name)) != NULL)
		block = gm_publish_find(d, GM_KIND_MASK, ask->name);
	if (block == NULL || !gm_masks_read(d, block->unit, ret_block))
		return gm_connection_bad(
			c, -ENOENT,
			"no mask is called %.*s: gpumapctl "
			"mask list shows them",
			(int)strnlen(ask->name, sizeof(ask->name)), ask->name);
	if (ret_block->image.bytes == 0)
		return gm_connection_bad(c, -EINVAL,
					 "mask %s has no tensor that a job "
					 "could take",
					 ask->name);
	return gm_masks_judge_reader(d, c->uid, block->owner_uid,
				     c->server->why);
}

/* Whatever becomes of the name, the memory is in use: so of that a uid has as
 * much as of masks that it publishes. */
static int judge_bytes(struct gm_connection *c,
		       const struct gm_masks_block *block)
{
	uint64_t limit = c->server->d->config.mask_bytes_per_uid;
	uint64_t bytes = gm_masks_bytes(block);
	const struct gm_user *user = c->session->user;

	if (gm_publish_privileged(c->uid) ||
	    find(user, block->image.object.name, block->image.object.version) !=
		    NULL ||
	    (user->mask_bytes <= limit && bytes <= limit - user->mask_bytes))
		return 0;
	return gm_connection_bad(c, -EDQUOT,
				 "uid %u uses masks of %" PRIu64
				 " bytes, and this one has %" PRIu64
				 ": forget some, or raise masks.bytes-per-uid "
				 "(%" PRIu64 ")",
				 (unsigned)c->uid, user->mask_bytes, bytes,
				 limit);
}

int gm_mask_use_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_mask_use_reply reply = { 0 };
	struct gm_masks_block block;
	struct gm_mask_held *held;
	struct gm_mask_use ask;
	int error;

	memcpy(&ask, r->body, sizeof(ask));
	error = judge_form(c, ask.handle);
	if (error == 0)
		error = judge_mask(c, &ask, &block);
	if (error == 0)
		error = judge_bytes(c, &block);
	if (error)
		return error;
	held = hold(c->server->d, c->session->user, &block);
	if (held == NULL)
		return -ENOMEM;
	error = gm_registration_mask(c, ask.handle, held, block.image.bytes,
				     gm_masks_bytes(&block));
	if (error) {
		gm_mask_held_free(held);
		return error;
	}
	reply.version = block.image.object.version;
	reply.bytes = block.image.bytes;
	reply.dtype = block.image.dtype;
	gm_connection_reply(c, &r->header, &reply, sizeof(reply), NULL, 0, NULL,
			    0);
	return 0;
}

/* ---- MASK_SHOW ----------------------------------------------------------- */

int gm_mask_show_handle(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_session *session = c->session;
	struct gm_mask_show ask;
	int error;

	memcpy(&ask, r->body, sizeof(ask));
	error = judge_form(c, ask.handle);
	if (error)
		return error;
	if (ask.reserved)
		return gm_connection_bad(c, -EINVAL, "a reserved field is set");
	if (ask.row >= session->n_rows || !session->queue[ask.row])
		return gm_connection_bad(c, -ENODEV,
					 "row %u: this session has no queue "
					 "there; open it first",
					 ask.row);
	return gm_registration_show_mask(c, &r->header, ask.handle, ask.row);
}
