/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/map_publish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/base/connection.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/map/map_kind.h"
#include "agent/daemon/map/transaction.h"

/* ---- publish ----------------------------------------------------------- */

struct publish {
	struct gm_change change;
	struct gm_map_request request; /* of what follows */
	struct gm_map_rows rows;       /* as they were when its turn came */
	struct gm_map_made made;
	char name[GM_NAME_BYTES];
	uint64_t tail[]; /* the bytes of layers, if known; the spec */
};

static struct publish *publish_of(struct gm_change *change)
{
	return gm_owner(change, struct publish, change);
}

static int check_publish(struct gm_change *change)
{
	gm_maps_list(change->d, &publish_of(change)->rows);
	return 0;
}

/* A long spec takes long to read, also one that is refused then. */
static int make_publish(struct gm_change *change)
{
	struct publish *publish = publish_of(change);
	int ret;

	ret = gm_maps_make(&publish->rows, &publish->request, change->why,
			   &publish->made);
	if (ret != 0)
		return ret;
	change->act = GM_CHANGE_PUT;
	change->object = &gm_map_kind;
	change->words = gm_map_kind_words(&publish->made.layers);
	return change->words != NULL
		       ? 0
		       : gm_why(change->why, -ENOMEM, "out of memory");
}

static void answer_publish(struct gm_change *change, struct gm_connection *c,
			   const struct gm_control *request)
{
	struct gm_layers_publish_reply reply = { .version = change->version };

	gm_connection_reply_body(c, request, &reply, sizeof(reply));
}

static void free_publish(struct gm_change *change)
{
	struct publish *publish = publish_of(change);

	gm_maps_free(&publish->made);
	free(publish);
}

static const struct gm_change_kind publish_kind = {
	.check = check_publish,
	.plan = make_publish,
	.answer = answer_publish,
	.free = free_publish,
};

int gm_map_change_publish(struct gm_connection *c,
			  const struct gm_control *header,
			  const struct gm_map_request *request)
{
	size_t bytes = request->bytes != NULL
			       ? request->n_layers * sizeof(uint64_t)
			       : 0;
	size_t spec_bytes = strlen(request->spec) + 1;
	struct publish *publish =
		calloc(1, sizeof(*publish) + bytes + spec_bytes);
	char *spec;

	if (publish == NULL)
		return -ENOMEM;
	spec = (char *)publish->tail + bytes;
	if (bytes != 0)
		memcpy(publish->tail, request->bytes, bytes);
	memcpy(spec, request->spec, spec_bytes);
	strncpy(publish->name, request->name, sizeof(publish->name) - 1);
	publish->request = *request;
	publish->request.name = publish->name;
	publish->request.spec = spec;
	publish->request.bytes = bytes != 0 ? publish->tail : NULL;
	publish->change.kind = &publish_kind;
	publish->change.bytes = sizeof(*publish) + bytes + spec_bytes;
	return gm_transactions_add(c, header, &publish->change);
}
