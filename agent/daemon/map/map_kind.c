/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/map_kind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/daemon/account/ledger.h"
#include "agent/daemon/base/events.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"

static struct gm_charge_image *charges_of(const uint64_t *words)
{
	const struct gm_layers_image *image = (const void *)words;

	return (void *)((char *)(uintptr_t)words + image->charges_at);
}

static void visit_rows(uint64_t *words, void (*visit)(uint32_t *row, void *arg),
		       void *arg)
{
	struct gm_layers_image *image = (void *)words;
	struct gm_charge_image *charges = charges_of(words);
	uint32_t *rows = (void *)((char *)words + image->rows_at);

	for (uint32_t i = 0; i < image->n_rows; i++)
		visit(&charges[i].row, arg);
	for (uint32_t i = 0; i < image->n_layers; i++)
		visit(&rows[i], arg);
	visit(&image->base, arg);
}

static int promise(const struct gm_daemon *d, const uint64_t *words,
		   uint32_t slot, bool is_restored, char ret_why[GM_WHY_BYTES],
		   struct gm_reservation **ret_reservation)
{
	const struct gm_layers_image *image = (const void *)words;
	const struct gm_layers charged = { .owner_uid = image->object.owner_uid,
					   .flags = image->object.flags,
					   .n_rows = image->n_rows,
					   .charges = charges_of(words) };
	struct gm_reservation *reservation;
	int ret = gm_ledger_reservation(&charged, ret_why, &reservation);

	if (ret != 0)
		return ret;
	if (is_restored)
		ret = gm_ledger_fits(d, reservation, slot, ret_why);
	else
		ret = gm_ledger_admit(d, reservation, slot, ret_why, NULL);
	if (ret == 0)
		*ret_reservation = reservation;
	else
		free(reservation);
	return ret;
}

static void after_show(struct gm_daemon *d, const struct gm_put *put,
		       const uint64_t *words, bool is_restored)
{
	const struct gm_layers_image *image = (const void *)words;
	const struct gm_block *block = &d->directory->objects[put->slot];

	gm_log_of(block->owner_uid, GM_LOG_INFO,
		  is_restored ? "restored" : "published",
		  "kind=layers name=%s layers=%u rows=%u version=%llu uid=%u",
		  block->name, image->n_layers, image->n_rows,
		  (unsigned long long)block->version, block->owner_uid);
	gm_events_map_published(d, block->name);
}

const struct gm_state_kind gm_map_kind = {
	.number = GM_KIND_LAYERS,
	.layout = 1,
	.what = "map",
	.suffix = ".layers",
	.visit_rows = visit_rows,
	.promise = promise,
	.after_show = after_show,
};

uint64_t *gm_map_kind_words(const struct gm_layers *layers)
{
	uint64_t *words = malloc(gm_layers_bytes(layers));

	if (words != NULL)
		gm_layers_build(layers, 0, words);
	return words;
}
