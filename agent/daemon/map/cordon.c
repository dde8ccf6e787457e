/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/cordon.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/server.h"
#include "agent/daemon/base/user.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/state/state.h"
#include "gpumap.h"

struct cordon {
	struct gm_change change;
	uint32_t row;
	bool undo;
	struct gm_cordons next;
};

static struct cordon *cordon_of(struct gm_change *change)
{
	return gm_owner(change, struct cordon, change);
}

/* ---- the rows ------------------------------------------------------------ */

/* The index of the uuid, or n. */
static uint32_t find(const struct gm_cordons *cordons, const uint8_t uuid[16])
{
	uint32_t i = 0;

	while (i < cordons->n && memcmp(cordons->uuids[i], uuid, 16) != 0)
		i++;
	return i;
}

/* Publish of each row whether it is cordoned. */
static void mark(struct gm_daemon *d, uint64_t now)
{
	for (uint32_t row = 0; row < d->devices->n; row++) {
		struct gm_device *device = d->devices->of[row];
		uint32_t *flags = &device->facts.flags;
		bool is = find(d->cordons, device->facts.uuid) < d->cordons->n;

		if (((*flags & GPUMAP_DEVICE_CORDONED) != 0) == is)
			continue;
		*flags ^= GPUMAP_DEVICE_CORDONED;
		device->cordoned_ns = now;
		gm_log(GM_LOG_INFO, is ? "row_cordoned" : "row_uncordoned",
		       "row=%u", row);
		gm_devices_describe(d, row);
	}
}

void gm_cordons_row_came(struct gm_daemon *d)
{
	mark(d, 0);
}

bool gm_cordons_admit(const struct gm_daemon *d, uint32_t row,
		      uint64_t since_ns)
{
	const struct gm_device *device = d->devices->of[row];

	return (device->facts.flags & GPUMAP_DEVICE_CORDONED) == 0 ||
	       since_ns < device->cordoned_ns;
}

/* ---- the file ------------------------------------------------------------ */

/* The file has UUIDs, and no words. */
static int validate(const struct gm_state_file *file,
		    char ret_why[GM_WHY_BYTES])
{
	if (file->n_uuids != 0 && gm_state_file_word_bytes(file) == 0)
		return 0;
	return gm_why(ret_why, -EPROTO, "it has no devices, or more than them");
}

const struct gm_state_kind gm_cordons_kind = {
	.number = GM_STATE_CORDONS,
	.layout = 1,
	.what = "cordon",
	.suffix = "cordons",
	.validate = validate,
};

void gm_cordons_start(struct gm_daemon *d)
{
	struct gm_cordons *cordons = d->cordons;
	struct gm_state_file *file =
		gm_state_load(d, &gm_cordons_kind,
			      "look at the disk and restart: no row is "
			      "cordoned",
			      &cordons->is_unread);

	cordons->n = file != NULL ? file->n_uuids : 0;
	if (file != NULL)
		memcpy(cordons->uuids, file->uuids,
		       cordons->n * sizeof(cordons->uuids[0]));
	free(file);
	mark(d, 0);
}

/* ---- the change ---------------------------------------------------------- */

static int make_file(struct gm_change *change, const struct gm_cordons *next)
{
	change->act = GM_CHANGE_PUT;
	change->object = &gm_cordons_kind;
	change->file = gm_state_file_new(&gm_cordons_kind, next->n, 0);
	if (change->file == NULL)
		return gm_why(change->why, -ENOMEM, "out of memory");
	memcpy(change->file->uuids, next->uuids,
	       next->n * sizeof(next->uuids[0]));
	return 0;
}

static int check(struct gm_change *change)
{
	struct cordon *cordon = cordon_of(change);
	const struct gm_daemon *d = change->d;
	struct gm_cordons *next = &cordon->next;
	const uint8_t *uuid;
	uint32_t at;

	if (cordon->row >= d->devices->n)
		return gm_why(change->why, -ENODEV, "there is no row %u",
			      cordon->row);
	if (d->cordons->is_unread)
		return gm_state_keep(d, &gm_cordons_kind, change->why);
	uuid = d->devices->of[cordon->row]->facts.uuid;
	*next = *d->cordons;
	at = find(next, uuid);
	if ((at < next->n) != cordon->undo) {
		change->act = GM_CHANGE_NOTHING; /* it is so already */
		return 0;
	}
	if (cordon->undo) {
		memmove(next->uuids[at], next->uuids[--next->n], 16);
		return make_file(change, next);
	}
	if (next->n == GM_ROWS)
		return gm_why(change->why, -ENOSPC,
			      "%u devices are cordoned: uncordon some",
			      GM_ROWS);
	memcpy(next->uuids[next->n++], uuid, 16);
	return make_file(change, next);
}

/* The file is on the disk. */
static void show(struct gm_change *change)
{
	*change->d->cordons = cordon_of(change)->next;
	mark(change->d, gm_loop_now());
}

static void free_cordon(struct gm_change *change)
{
	free(cordon_of(change));
}

static const struct gm_change_kind cordon_kind = {
	.check = check,
	.before_show = show,
	.free = free_cordon,
};

int gm_cordons_handle(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_cordon *ask = (const void *)r->body;
	struct cordon *cordon;

	if (!gm_user_is_privileged(c->uid))
		return gm_connection_bad(
			c, -EPERM,
			"uid %u may not cordon rows: only root and uid %u, "
			"which runs the agent, may",
			(unsigned)c->uid, (unsigned)geteuid());
	if (ask->undo > 1)
		return gm_connection_bad(c, -EINVAL, "undo is 0 or 1");
	cordon = calloc(1, sizeof(*cordon));
	if (cordon == NULL)
		return -ENOMEM;
	cordon->row = ask->row;
	cordon->undo = ask->undo == 1;
	cordon->change.kind = &cordon_kind;
	return gm_transactions_add(c, &r->header, &cordon->change);
}
