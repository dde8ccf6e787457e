/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/publish.h"

#include <stdlib.h>

#include "agent/common/log.h"
#include "agent/daemon/account/ledger.h"
#include "agent/daemon/base/events.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/segment/directory.h"

/* The memory that it is to reserve; @is_restored: it did already. */
static int make_promise(const struct gm_daemon *d,
			const struct gm_layers *layers,
			const struct gm_block *present, bool is_restored,
			char *ret_why, struct gm_reservation **ret_reservation)
{
	uint32_t slot = present != NULL
				? (uint32_t)(present - d->directory->objects)
				: GM_LEDGER_NOBODY;
	struct gm_reservation *reservation;
	int ret = gm_ledger_reservation(layers, ret_why, &reservation);

	if (ret != 0)
		return ret;
	if (is_restored)
		ret = gm_ledger_fits(d, reservation, slot, ret_why);
	else
		ret = gm_ledger_admit(d, reservation, slot, ret_why, NULL);
	if (ret != 0) {
		free(reservation);
		return ret;
	}
	*ret_reservation = reservation;
	return 0;
}

static void build_layers(const struct gm_draft *draft, uint64_t published,
			 uint64_t version, uint64_t *ret_words)
{
	struct gm_layers dated = *(const struct gm_layers *)draft->content;

	dated.published = published;
	gm_layers_build(&dated, version, ret_words);
}

/* @reservation is the put's on success. */
static int prepare_layers(struct gm_daemon *d, const struct gm_layers *layers,
			  uint64_t least_version,
			  struct gm_reservation *reservation, char *ret_why,
			  struct gm_put *ret_put)
{
	const struct gm_draft draft = { .build = build_layers,
					.content = layers,
					.kind = GM_KIND_LAYERS,
					.owner_uid = layers->owner_uid,
					.flags = layers->flags,
					.name = layers->name,
					.bytes = gm_layers_bytes(layers),
					.published = layers->published };
	int ret = gm_directory_prepare(d, &draft, least_version, ret_why,
				       ret_put);

	if (ret != 0)
		return ret;
	ret_put->reservation = reservation;
	ret_put->n_layers = layers->n_layers;
	ret_put->n_rows = layers->n_rows;
	return 0;
}

int gm_publish_prepare(struct gm_daemon *d, const struct gm_layers *layers,
		       char ret_why[GM_WHY_BYTES], struct gm_put *ret_put)
{
	const struct gm_block *present;
	struct gm_reservation *mine;
	int ret = gm_directory_may_replace(d, GM_KIND_LAYERS, layers->name,
					   layers->owner_uid,
					   gm_layers_bytes(layers), ret_why);

	if (ret != 0)
		return ret;
	present = gm_directory_find(d, GM_KIND_LAYERS, layers->name);
	ret = make_promise(d, layers, present, false, ret_why, &mine);
	if (ret != 0)
		return ret;
	ret = prepare_layers(d, layers, 0, mine, ret_why, ret_put);
	if (ret != 0)
		free(mine);
	return ret;
}

static void store(struct gm_daemon *d, const struct gm_put *put,
		  bool is_restored)
{
	const struct gm_block *block = &d->directory->objects[put->slot];

	gm_directory_store(d, put);
	gm_log_of(block->owner_uid, GM_LOG_INFO,
		  is_restored ? "restored" : "published",
		  "kind=layers name=%s layers=%u rows=%u version=%llu uid=%u",
		  block->name, put->n_layers, put->n_rows,
		  (unsigned long long)block->version, block->owner_uid);
	gm_events_map_published(d, block->name);
}

void gm_publish_store(struct gm_daemon *d, const struct gm_put *put)
{
	store(d, put, false);
}

int gm_publish_layers(struct gm_daemon *d, const struct gm_layers *layers,
		      char ret_why[GM_WHY_BYTES], uint64_t *ret_version)
{
	struct gm_put put;
	int ret = gm_publish_prepare(d, layers, ret_why, &put);

	if (ret != 0)
		return ret;
	gm_publish_store(d, &put);
	*ret_version = put.block.version;
	return 0;
}

int gm_publish_restore(struct gm_daemon *d, const struct gm_layers *layers,
		       uint64_t version, char ret_why[GM_WHY_BYTES])
{
	const struct gm_block *present =
		gm_directory_find(d, GM_KIND_LAYERS, layers->name);
	struct gm_reservation *mine;
	struct gm_put put;
	int ret = make_promise(d, layers, present, true, ret_why, &mine);

	if (ret != 0)
		return ret;
	ret = prepare_layers(d, layers, version + 1, mine, ret_why, &put);
	if (ret != 0) {
		free(mine);
		return ret;
	}
	store(d, &put, true);
	return 0;
}
