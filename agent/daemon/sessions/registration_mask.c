/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * registration_mask - register masks for a session's rows.
 *
 * A host row maps the node's memory of the mask.  A card imports a replica
 * in its memory, made for the session's own uid, which may have to be created
 * first.  Such a replica ends with the row's worker, and the library asks the
 * next worker again.
 */

#include "agent/daemon/masks/held.h"
#include "agent/daemon/sessions/registration.h"

#include <errno.h>
#include <inttypes.h>

#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/masks/device_replicas.h"
#include "agent/daemon/masks/numa_segments.h"
#include "agent/daemon/sessions/session.h"
#include "gpumap.h"

int gm_registration_mask(struct gm_connection *c, uint64_t handle,
			 struct gm_mask_held *held, uint64_t bytes,
			 uint64_t charged)
{
	const struct gm_register as = { .handle = handle,
					.bytes = bytes,
					.flags = GPUMAP_BUFFER_READ_ONLY };
	struct gm_registration *reg;
	int error;

	if (gm_registration_find(c->session, handle))
		return gm_connection_bad(c, -EEXIST,
					 "the handle %#" PRIx64 " is that of "
					 "something else",
					 handle);
	error = gm_registration_keep(c, &as, -1, charged, &reg);
	if (error == 0)
		reg->mask = held;
	return error;
}

/* ---- on a device --------------------------------------------------------- */

static int ask(struct gm_registered *reach, struct gm_connection *c,
	       const struct gm_control *request)
{
	reach->request.buffer.is_card = true;
	reach->request.fd = gm_mask_device_lend(reach->device);
	return gm_registered_ask(reach, c, request);
}

static void told(struct gm_mask_wait *wait, int status, const char *why)
{
	struct gm_registered *reach =
		gm_owner(wait, struct gm_registered, wait);
	struct gm_session *session = reach->of->session;
	struct gm_connection *c = session->connection;
	struct gm_control request;

	if (!c || !session->queue[reach->row]) {
		gm_registered_free(reach);
		return;
	}
	request = c->pending;
	if (status != 0)
		gm_registered_free(reach);
	else
		status = ask(reach, c, &request);
	if (status == 0)
		return;
	gm_connection_wait(c, &request);
	gm_connection_answer(c, status, why[0] ? why : c->server->why, NULL, 0,
			     -1);
}

static int begin_device(struct gm_connection *c, struct gm_registration *reg,
			uint32_t row, const struct gm_replica_image *replica,
			const struct gm_control *request)
{
	struct gm_daemon *d = c->server->d;
	struct gm_registered *reach = gm_registered_new(reg, row);
	struct gm_span *span = gm_numa_segments_span(d->nodes, replica);
	int error = reach && span ? 0 : -ENOMEM;

	if (error == 0)
		error = gm_mask_devices_take(d, row, c->uid, span,
					     c->server->why, &reach->device);
	if (error) {
		if (reach)
			gm_registered_free(reach);
		return error;
	}
	gm_mask_device_borrow(reach->device);
	if (gm_mask_device_is_ready(reach->device))
		return ask(reach, c, request);
	reach->wait.done = told;
	gm_connection_wait(c, request);
	gm_mask_device_wait(reach->device, &reach->wait);
	return 0;
}

static int begin_node(struct gm_connection *c, struct gm_registration *reg,
		      uint32_t row, const struct gm_replica_image *replica,
		      const struct gm_control *request)
{
	struct gm_registered *reach;
	int fd, error = gm_mask_held_open(reg->mask, replica, c->server->why,
					  &fd);

	if (error)
		return error;
	reach = gm_registered_new(reg, row);
	if (!reach)
		return -ENOMEM;
	reach->request.fd = fd;
	reach->request.buffer.at = replica->at;
	return gm_registered_ask(reach, c, request);
}

int gm_registration_reach_mask(struct gm_connection *c,
			       const struct gm_control *request,
			       uint64_t handle, uint32_t row)
{
	struct gm_registration *reg = gm_registration_find(c->session, handle);
	const struct gm_replica_image *replica;
	int error;

	if (!reg || !reg->mask || reg->is_forgotten)
		return gm_connection_bad(c, -ENOENT,
					 "the session has no mask with the "
					 "handle %#" PRIx64,
					 handle);
	error = gm_registration_check_row(c, row, reg);
	if (error == 0)
		error = gm_mask_held_find(reg->mask, row, c->server->why,
					  &replica);
	if (error)
		return error;
	return replica->place == GM_REPLICA_DEVICE
		       ? begin_device(c, reg, row, replica, request)
		       : begin_node(c, reg, row, replica, request);
}
