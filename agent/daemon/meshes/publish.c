/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/meshes/publish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/daemon/base/connection.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/meshes/arrange.h"
#include "agent/daemon/meshes/mesh_kind.h"
#include "gpumap.h"
#include "shm/device_kinds.h"

/* ---- publish ----------------------------------------------------------- */

struct publish {
	struct gm_change change;
	struct gm_arrange_ask ask;
	struct gm_arranged arranged;
	char name[GM_NAME_BYTES];
	uint32_t rows[GM_ROWS];
	struct gm_meshes_group groups[GM_MESH_ADDED];
	char names[GM_MESH_ADDED][GM_NAME_BYTES];
	uint32_t ranks[]; /* of the groups */
};

static struct publish *publish_of(struct gm_change *change)
{
	return gm_owner(change, struct publish, change);
}

/* Every device of the first class that is there: cards before the host, and
 * both before what only pretends. */
static void choose_rows(struct publish *publish)
{
	const struct gm_daemon *d = publish->change.d;
	struct gm_arrange_ask *ask = &publish->ask;
	uint32_t first = 0;

	for (uint32_t row = 0; row < d->devices->n; row++) {
		const struct gm_device *device = d->devices->of[row];
		uint32_t class = device->facts.flags & GM_DEVICE_CLASS;

		if (!device->present || class < first)
			continue;
		if (class > first)
			ask->n_rows = 0;
		first = class;
		publish->rows[ask->n_rows++] = row;
	}
}

static int check_publish(struct gm_change *change)
{
	struct publish *publish = publish_of(change);
	const struct gm_daemon *d = change->d;
	struct gm_arrange_ask *ask = &publish->ask;
	int ret;

	if (ask->n_rows == 0)
		choose_rows(publish);
	for (uint32_t i = 0; i < ask->n_rows; i++) {
		uint32_t row = publish->rows[i];

		if (row >= d->devices->n || !d->devices->of[row]->present)
			return gm_why(change->why, -ENODEV,
				      "row %u is not there: see gpumapctl "
				      "devices",
				      row);
	}
	ask->uid = change->uid;
	ret = gm_arrange(ask, change->why, &publish->arranged);
	if (ret != 0)
		return ret;
	change->act = GM_CHANGE_PUT;
	change->object = &gm_mesh_kind;
	change->words = gm_mesh_kind_words(&publish->arranged.mesh);
	return change->words != NULL
		       ? 0
		       : gm_why(change->why, -ENOMEM, "out of memory");
}

static void answer_publish(struct gm_change *change, struct gm_connection *c,
			   const struct gm_control *request)
{
	const struct gm_meshes *mesh = &publish_of(change)->arranged.mesh;
	struct gm_mesh_publish_reply reply = { .version = change->version,
					       .world = mesh->world,
					       .n_groups = mesh->n_groups };

	gm_connection_reply_body(c, request, &reply, sizeof(reply));
}

static void free_publish(struct gm_change *change)
{
	struct publish *publish = publish_of(change);

	gm_arranged_free(&publish->arranged);
	free(publish);
}

static const struct gm_change_kind publish_kind = {
	.check = check_publish,
	.answer = answer_publish,
	.free = free_publish,
};

/* ---- what the request says --------------------------------------------- */

static bool take_group(struct gm_tail *tail, struct publish *publish,
		       uint32_t i, uint32_t *at)
{
	char *name = publish->names[i];
	struct gm_mesh_publish_group group;

	if (!gm_connection_take(tail, &group, sizeof(group)) ||
	    group.name[sizeof(group.name) - 1] != '\0' ||
	    !gm_connection_take(tail, &publish->ranks[*at],
				group.n * (uint64_t)sizeof(uint32_t)))
		return false;
	memcpy(name, group.name, sizeof(group.name));
	publish->groups[i] =
		(struct gm_meshes_group){ name, group.backend, group.n,
					  &publish->ranks[*at] };
	*at += group.n;
	return group.backend >= GPUMAP_MESH_MOCK &&
	       group.backend <= GPUMAP_MESH_MPI;
}

static bool take_parts(const struct gm_request *r,
		       const struct gm_mesh_publish *body,
		       struct publish *publish)
{
	struct gm_tail tail = { r->tail, r->tail_bytes };
	uint32_t at = 0;
	bool good = body->name[sizeof(body->name) - 1] == '\0' &&
		    body->topology >= GPUMAP_MESH_DATA &&
		    body->topology <= GPUMAP_MESH_MIXED &&
		    body->reserved == 0 && body->n_rows <= GM_ROWS &&
		    body->n_groups <= GM_MESH_ADDED;

	good = good &&
	       gm_connection_take(&tail, publish->rows,
				  body->n_rows * sizeof(publish->rows[0]));
	for (uint32_t i = 0; good && i < body->n_groups; i++)
		good = take_group(&tail, publish, i, &at);
	if (!good || tail.left != 0)
		return false;
	memcpy(publish->name, body->name, sizeof(publish->name));
	publish->ask = (struct gm_arrange_ask){
		.name = publish->name,
		.shape = { body->topology, body->tp, body->pp, body->dp },
		.n_rows = body->n_rows,
		.rows = publish->rows,
		.n_added = body->n_groups,
		.added = publish->groups,
	};
	return true;
}

int gm_mesh_change_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_mesh_publish body;
	struct publish *publish;

	memcpy(&body, r->body, sizeof(body));
	publish = calloc(1, sizeof(*publish) + r->tail_bytes);
	if (publish == NULL)
		return -ENOMEM;
	if (!take_parts(r, &body, publish)) {
		free(publish);
		return gm_connection_bad(c, -EINVAL,
					 "the request's parts do not fit "
					 "together; this is a client's fault");
	}
	publish->change.kind = &publish_kind;
	publish->change.bytes = sizeof(*publish) + r->tail_bytes;
	return gm_transactions_add(c, &r->header, &publish->change);
}
