/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sessions/mask_handles.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/user.h"
#include "agent/daemon/config.h"
#include "agent/daemon/masks/held.h"
#include "agent/daemon/masks/masks.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/sessions/register.h"
#include "agent/daemon/sessions/registration.h"
#include "agent/daemon/sessions/session.h"
#include "gpumap.h"
#include "lib/model/plan/size_text.h"
#include "shm/queue.h"

/* ---- MASK_USE ------------------------------------------------------------ */

static int check_form(struct gm_connection *c, uint64_t handle)
{
	if (gm_handle_kind(handle) == GM_BUFFER_REGISTERED &&
	    gm_handle_row(handle) == 0 && gm_handle_generation(handle) != 0 &&
	    gm_handle_index(handle) < GM_BUFFERS_MAX)
		return 0;
	return gm_connection_bad(c, -EINVAL,
				 "%#" PRIx64 " is no handle of a registration",
				 handle);
}

static int check_mask(struct gm_connection *c, const struct gm_mask_use *ask,
		      struct gm_masks_block *ret_block)
{
	const struct gm_daemon *d = c->server->d;
	const struct gm_block *block = NULL;

	if (memchr(ask->name, '\0', sizeof(ask->name)) != NULL)
		block = gm_directory_find(d, GM_KIND_MASK, ask->name);
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
	return gm_masks_admit_reader(d, c->uid, block->owner_uid,
				     c->server->why);
}

/* Check the uid's limit.  A mask's memory stays in use even after its name is
 * released.  So the masks that a uid uses have the same limit in bytes as the
 * masks that it publishes. */
static int check_bytes(struct gm_connection *c,
		       const struct gm_masks_block *block)
{
	uint64_t limit = c->server->d->config->mask_bytes_per_uid;
	uint64_t bytes = gm_masks_bytes(block);
	const struct gm_user *user = c->session->user;

	if (gm_user_is_privileged(c->uid) ||
	    gm_mask_held_of(user, block->image.object.name,
			    block->image.object.version) != NULL ||
	    (user->mask_bytes <= limit && bytes <= limit - user->mask_bytes))
		return 0;
	return gm_connection_bad(c, -EDQUOT,
				 "uid %u uses masks of %s, and this one has "
				 "%s: forget some, or raise bytes-per-uid in "
				 "[masks] of gpumapd.conf (%s)",
				 (unsigned)c->uid,
				 gm_size_down(user->mask_bytes).text,
				 gm_size_up(bytes).text,
				 gm_size_down(limit).text);
}

int gm_mask_use_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_mask_use_reply reply = { 0 };
	struct gm_masks_block block;
	struct gm_mask_held *held;
	struct gm_mask_use ask;
	int error;

	memcpy(&ask, r->body, sizeof(ask));
	error = check_form(c, ask.handle);
	if (error == 0)
		error = check_mask(c, &ask, &block);
	if (error == 0)
		error = check_bytes(c, &block);
	if (error)
		return error;
	held = gm_mask_held_new(c->server->d, c->session->user, &block);
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
	return gm_connection_reply_body(c, &r->header, &reply, sizeof(reply));
}

/* ---- MASK_SHOW ----------------------------------------------------------- */

int gm_mask_show_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_mask_show ask;
	int error;

	memcpy(&ask, r->body, sizeof(ask));
	error = check_form(c, ask.handle);
	if (error)
		return error;
	if (ask.reserved)
		return gm_connection_bad(c, -EINVAL, "a reserved field is set");
	error = gm_session_check_row(c, ask.row);
	return error ? error
		     : gm_registration_reach_mask(c, &r->header, ask.handle,
						  ask.row);
}
