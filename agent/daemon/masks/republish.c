/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Masks that the agent publishes of itself: those that follow a map which has
 * other rows now, those whose replicas on a device are gone, and those of a
 * state file. */

#include "agent/daemon/masks/republish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/masks/device_replicas.h"
#include "agent/daemon/masks/masks.h"
#include "agent/daemon/masks/numa_segments.h"
#include "agent/daemon/masks/publish.h"
#include "agent/daemon/masks/state.h"
#include "agent/daemon/masks/transaction.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/state/state.h"
#include "gpumap.h"

/* ---- following a map ----------------------------------------------------- */

static bool has_these_rows(const struct gm_masks_block *block,
			   const struct gm_masks_rows *rows)
{
	if (block->image.n_replicas != rows->n)
		return false;
	for (uint32_t i = 0; i < rows->n; i++)
		if (block->replicas[i].row != rows->of[i])
			return false;
	return true;
}

/* Is each device's replica what the row's worker has made, or the next one will
 * not have to make anew? */
static bool has_its_devices(const struct gm_daemon *d,
			    const struct gm_masks_block *block)
{
	for (uint32_t i = 0; i < block->image.n_replicas; i++) {
		const struct gm_replica_image *replica = &block->replicas[i];

		if (replica->place == GM_REPLICA_DEVICE &&
		    !gm_mask_devices_good(d, replica->id))
			return false;
	}
	return true;
}

static void take_rows(struct gm_mask_change *p,
		      const struct gm_masks_block *block)
{
	p->rows.n = block->image.n_replicas;
	for (uint32_t i = 0; i < p->rows.n; i++)
		p->rows.of[i] = block->replicas[i].row;
}

static void begin_follow(struct gm_daemon *d, const struct gm_block *block,
			 const struct gm_mask_image *image);

/* The bytes that it has by now are of another publication: the present one is
 * to have a turn of its own. */
static bool is_overtaken(const struct gm_mask_change *p,
			 const struct gm_block *present,
			 const struct gm_mask_image *image)
{
	if (p->follows == 0 || p->follows == image->object.version)
		return false;
	begin_follow(p->change.d, present, image);
	return true;
}

static void take_source(struct gm_mask_change *p,
			const struct gm_masks_block *block)
{
	const struct gm_daemon *d = p->change.d;

	for (uint32_t i = 0; i < block->image.n_replicas && !p->source; i++) {
		p->source =
			gm_numa_segments_span(d->nodes, &block->replicas[i]);
		if (p->source != NULL)
			p->source->refs++;
	}
}

/* The mask may have been released since, or published anew, or follow another
 * map. */
static int check_follow(struct gm_change *change)
{
	struct gm_mask_change *p = gm_mask_change_of(change);
	struct gm_daemon *d = change->d;
	const struct gm_block *present =
		gm_directory_find(d, GM_KIND_MASK, p->image.object.name);
	struct gm_masks_block block;
	int ret;

	change->act = GM_CHANGE_NOTHING;
	if (present == NULL || !gm_masks_read(d, present->unit, &block) ||
	    is_overtaken(p, present, &block.image) ||
	    strcmp(block.image.map, p->image.map) != 0)
		return 0;
	p->follows = block.image.object.version;
	p->image = block.image;
	p->image.object.published = 0;
	take_rows(p, &block);
	ret = gm_mask_change_choose(p);
	if (ret == 0 && has_these_rows(&block, &p->rows) &&
	    has_its_devices(d, &block))
		return 0;
	if (ret == 0)
		ret = gm_mask_change_quota(p, present->owner_uid);
	if (ret != 0) {
		gm_log(GM_LOG_WARNING, "mask_stays", "name=%s map=%s why=%s",
		       p->image.object.name, p->image.map,
		       gm_quote(change->why).text);
		return ret;
	}
	take_source(p, &block);
	change->act = GM_CHANGE_OWN;
	return 0;
}

static int plan_nothing(struct gm_change *change)
{
	(void)change;
	return 0;
}

static int settle_follow(struct gm_change *change)
{
	return change->act == GM_CHANGE_OWN ? gm_mask_change_settle(change) : 0;
}

static const struct gm_change_kind follow_kind = {
	.check = check_follow,
	.plan = plan_nothing,
	.is_heavy = true,
	.settle = settle_follow,
	.proceed = gm_mask_change_proceed,
	.free = gm_mask_change_free,
};

static void begin_follow(struct gm_daemon *d, const struct gm_block *block,
			 const struct gm_mask_image *image)
{
	struct gm_mask_change *p = gm_mask_change_new(&follow_kind);

	if (p == NULL) {
		gm_log(GM_LOG_ERROR, "mask_stays",
		       "name=%s map=%s why=\"out of memory\"", block->name,
		       image->map);
		return;
	}
	p->image = *image;
	p->is_lenient = true;
	p->change.uid = block->owner_uid;
	gm_transactions_add_own(d, &p->change);
}

/* Masks whose turn to follow the map is to come: where it is then is where they
 * go.  A map that is published more often than they can follow makes no more
 * work, nor a longer queue.  @map may be NULL, for any. */
static void mark_waiting(const struct gm_daemon *d, const char *map,
			 bool ret_waits[GM_OBJECTS])
{
	struct gm_change *change;

	memset(ret_waits, 0, GM_OBJECTS * sizeof(ret_waits[0]));
	TAILQ_FOREACH(change, &d->changes->waiting, entry)
	{
		const struct gm_mask_change *p = gm_mask_change_of(change);
		const struct gm_block *block = NULL;

		if (change->kind == &follow_kind &&
		    (map == NULL || strcmp(p->image.map, map) == 0))
			block = gm_directory_find(d, GM_KIND_MASK,
						  p->image.object.name);
		if (block != NULL)
			ret_waits[block - d->directory->objects] = true;
	}
}

void gm_mask_changes_renew(struct gm_daemon *d, uint32_t row)
{
	bool waits[GM_OBJECTS];

	mark_waiting(d, NULL, waits);
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		const struct gm_block *block = &d->directory->objects[i];
		struct gm_masks_block mask;
		bool is_due = false;

		if (block->unit == 0 || block->kind != GM_KIND_MASK ||
		    waits[i] || !gm_masks_read(d, block->unit, &mask))
			continue;
		for (uint32_t j = 0; j < mask.image.n_replicas; j++)
			is_due |= mask.replicas[j].row == row &&
				  mask.replicas[j].place == GM_REPLICA_DEVICE &&
				  !gm_mask_devices_good(d, mask.replicas[j].id);
		if (is_due)
			begin_follow(d, block, &mask.image);
	}
}

void gm_mask_changes_follow(struct gm_daemon *d, const char *map)
{
	bool waits[GM_OBJECTS];
	char name[GM_NAME_BYTES];

	memcpy(name, map, sizeof(name));
	mark_waiting(d, name, waits);
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		const struct gm_block *block = &d->directory->objects[i];
		struct gm_masks_block mask;

		if (block->unit == 0 || block->kind != GM_KIND_MASK ||
		    waits[i] || !gm_masks_read(d, block->unit, &mask) ||
		    strcmp(mask.image.map, name) != 0)
			continue;
		begin_follow(d, block, &mask.image);
	}
	gm_mask_changes_recheck(d);
}

/* ---- from a state file --------------------------------------------------- */

static int check_restore(struct gm_change *change)
{
	struct gm_mask_change *p = gm_mask_change_of(change);
	const char *name = p->image.object.name;
	int ret;

	change->act = GM_CHANGE_NOTHING;
	/* The mask was released since, or is another one. */
	if (!gm_mask_state_waits(change->d, name, p->least_version - 1))
		return 0;
	ret = gm_mask_change_choose(p);
	if (ret == 0)
		change->act = GM_CHANGE_OWN;
	return ret;
}

/* The file is read again: there may be many of them that wait, and each is as
 * large as its tensor.  Another one that is there meanwhile is as good: it is
 * left for the publication that has written it, or the next start. */
static int read_tensor(struct gm_mask_change *p)
{
	struct gm_change *change = &p->change;
	struct gm_mask_image image;
	struct gm_state_file *file;
	uint64_t hash = p->image.hash;
	const void *data;
	int ret =
		gm_mask_state_read(&change->d->state->dir, p->image.object.name,
				   change->why, &data, &file);

	p->is_damaged = gm_state_is_bad(ret);
	if (ret != 0)
		return ret;
	image = *gm_mask_state_image(file);
	image.n_replicas = p->image.n_replicas;
	if (memcmp(&image, &p->image, sizeof(image)) != 0)
		ret = gm_why(change->why, -EAGAIN, "it is another one now");
	if (ret == 0)
		ret = gm_mask_change_stage(p);
	if (ret == 0) {
		memcpy(p->staging, data, p->image.bytes);
		gm_mask_change_sum(p);
		p->is_damaged = p->image.hash != hash;
		if (p->is_damaged)
			ret = gm_why(change->why, -EPROTO,
				     "the tensor is not what it was");
	}
	free(file);
	return ret;
}

static int make_again(struct gm_change *change)
{
	struct gm_mask_change *p = gm_mask_change_of(change);

	if (change->act != GM_CHANGE_OWN || p->image.bytes == 0)
		return 0;
	return p->image.form == GPUMAP_MASK_LOADED ? read_tensor(p)
						   : gm_mask_change_generate(p);
}

static void free_restore(struct gm_change *change)
{
	struct gm_mask_change *p = gm_mask_change_of(change);

	if (change->version == 0)
		gm_mask_state_stays(change->d, p->image.object.name,
				    p->is_damaged, change->why);
	gm_mask_change_free(change);
}

static const struct gm_change_kind restore_kind = {
	.check = check_restore,
	.plan = make_again,
	.is_heavy = true,
	.settle = settle_follow,
	.proceed = gm_mask_change_proceed,
	.free = free_restore,
};

static int restore(struct gm_daemon *d, const struct gm_mask_image *image,
		   const struct gm_masks_rows *rows)
{
	struct gm_mask_change *p = gm_mask_change_new(&restore_kind);

	if (p == NULL)
		return -ENOMEM;
	p->image = *image;
	p->rows = *rows;
	p->is_lenient = true;
	p->least_version = image->object.version + 1;
	p->change.uid = image->object.owner_uid;
	gm_transactions_add_own(d, &p->change);
	return 0;
}

void gm_mask_changes_recheck(struct gm_daemon *d)
{
	gm_mask_state_recheck(d, restore);
}

const struct gm_state_kind gm_mask_kind = {
	.number = GM_KIND_MASK,
	.layout = 1,
	.what = "mask",
	.suffix = ".mask",
	.validate = gm_mask_state_validate,
	.is_done = gm_mask_state_is_done,
	.recheck = gm_mask_changes_recheck,
};
