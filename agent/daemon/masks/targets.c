/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The part of a mask's change that is about rows with a device: workers are
 * asked for replicas, and nothing is shown before all of them have answered. */

#include "agent/daemon/masks/transaction.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/masks/masks.h"

void gm_mask_change_leave_targets(struct gm_mask_change *p)
{
	for (uint32_t i = 0; i < GM_ROWS; i++) {
		struct gm_mask_target *target = &p->targets[i];

		gm_mask_device_leave(&target->wait);
		gm_mask_device_drop(target->device);
		target->device = NULL;
	}
}

static bool is_for_want_of_room(int status)
{
	return status == -ENOSPC || status == -EDQUOT || status == -ENOMEM;
}

/* A row has none: that is the end of a request, and the row's trouble alone
 * where nobody asked. */
static void lacks(struct gm_mask_change *p, uint32_t i, int status,
		  const char *why)
{
	struct gm_mask_target *target = &p->targets[i];

	gm_mask_device_drop(target->device);
	target->device = NULL;
	if (p->is_lenient) {
		if (is_for_want_of_room(status))
			gm_mask_devices_lack(p->change.d, p->replicas[i].row,
					     p->image.object.owner_uid,
					     p->image.bytes);
		gm_log(GM_LOG_WARNING, "mask_without", "name=%s row=%u why=%s",
		       p->image.object.name, p->replicas[i].row,
		       gm_quote(why).text);
	} else if (p->refusal == 0) {
		p->refusal = status;
		if (why != p->change.why)
			gm_why(p->change.why, status, "%s", why);
	}
}

/* Does the published one say the same already? */
static bool is_as_before(const struct gm_mask_change *p)
{
	const struct gm_daemon *d = p->change.d;
	const struct gm_block *present =
		gm_publish_find(d, GM_KIND_MASK, p->image.object.name);
	struct gm_masks_block block;

	return p->is_lenient && present != NULL &&
	       gm_masks_read(d, present->unit, &block) &&
	       block.image.n_replicas == p->image.n_replicas &&
	       memcmp(block.replicas, p->replicas,
		      p->image.n_replicas * sizeof(p->replicas[0])) == 0;
}

static void go_on(struct gm_mask_change *p)
{
	for (uint32_t i = 0; i < p->image.n_replicas; i++) {
		if (p->targets[i].device != NULL) {
			p->n_copies += p->targets[i].is_new;
			p->replicas[i].id =
				gm_mask_device_id(p->targets[i].device);
		}
	}
	if (p->refusal != 0)
		gm_changes_end(&p->change, p->refusal);
	else if (is_as_before(p))
		gm_changes_end(&p->change, 0);
	else
		gm_mask_change_prepare(p);
}

static void all_told(struct gm_clerk_job *job)
{
	go_on(gm_mask_change_of(gm_owner(job, struct gm_change, job)));
}

static void told(struct gm_mask_wait *wait, int status, const char *why)
{
	struct gm_mask_target *target =
		gm_owner(wait, struct gm_mask_target, wait);
	struct gm_mask_change *p = target->of;

	if (status != 0)
		lacks(p, (uint32_t)(target - p->targets), status, why);
	if (--p->n_awaited == 0)
		gm_changes_return(&p->change);
}

static void aim(struct gm_mask_change *p, uint32_t i)
{
	const struct gm_replica_image *replica = &p->replicas[i];
	const struct gm_mask_part *part = gm_mask_change_part(p, replica->node);
	struct gm_mask_target *target = &p->targets[i];
	char *why = p->change.why;
	int ret;

	target->of = p;
	target->n_looks = p->change.d->mask_devices.n_looks[replica->row];
	target->wait.done = told;
	ret = gm_mask_devices_take(p->change.d, replica->row,
				   p->image.object.owner_uid, part->segment,
				   part->span, why, &target->device);
	if (ret != 0) {
		lacks(p, i, ret, why);
		return;
	}
	if (gm_mask_device_is_ready(target->device))
		return;
	target->is_new = true;
	p->n_awaited++;
	gm_mask_device_wait(target->device, &target->wait);
}

void gm_mask_change_reach(struct gm_mask_change *p)
{
	for (uint32_t i = 0; i < p->image.n_replicas; i++) {
		if (p->replicas[i].place == GM_REPLICA_DEVICE &&
		    p->refusal == 0)
			aim(p, i);
	}
	if (p->n_awaited == 0)
		go_on(p);
	else
		gm_changes_go(&p->change, all_told);
}
