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
};

static struct cordon *cordon_of(struct gm_change *change)
{
	return gm_owner(change, struct cordon, change);
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

/* The index of the uuid among those that are cordoned, or their number. */
static uint32_t find(const struct gm_daemon *d, const uint8_t uuid[16],
		     uint32_t *ret_n)
{
	const struct gm_state_file *file = gm_state_single(d, &gm_cordons_kind);
	uint32_t i = 0;

	*ret_n = file != NULL ? file->n_uuids : 0;
	while (i < *ret_n && memcmp(file->uuids[i], uuid, 16) != 0)
		i++;
	return i;
}

/* ---- the rows ------------------------------------------------------------ */

/* Publish of each row whether it is cordoned. */
static void mark(struct gm_daemon *d, uint64_t now)
{
	for (uint32_t row = 0; row < d->devices->n; row++) {
		struct gm_device *device = d->devices->of[row];
		uint32_t *flags = &device->facts.flags;
		uint32_t n;
		bool is = find(d, device->facts.uuid, &n) < n;

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

void gm_cordons_start(struct gm_daemon *d)
{
	gm_state_load(d, &gm_cordons_kind,
		      "look at the disk and restart: no row is cordoned");
	mark(d, 0);
}

/* ---- the change ---------------------------------------------------------- */

static int check(struct gm_change *change)
{
	const struct cordon *cordon = cordon_of(change);
	const struct gm_daemon *d = change->d;
	const struct gm_state_file *now = gm_state_single(d, &gm_cordons_kind);
	struct gm_state_file *next;
	const uint8_t *uuid;
	uint32_t at, n;
	int ret;

	if (cordon->row >= d->devices->n)
		return gm_why(change->why, -ENODEV, "there is no row %u",
			      cordon->row);
	ret = gm_state_may_write(d, &gm_cordons_kind, change->why);
	if (ret != 0)
		return ret;
	uuid = d->devices->of[cordon->row]->facts.uuid;
	at = find(d, uuid, &n);
	change->act = GM_CHANGE_NOTHING;
	if ((at < n) != cordon->undo)
		return 0; /* it is so already */
	if (!cordon->undo && n == GM_ROWS)
		return gm_why(change->why, -ENOSPC,
			      "%u devices are cordoned: uncordon some",
			      GM_ROWS);
	next = gm_state_file_new(&gm_cordons_kind, cordon->undo ? n - 1 : n + 1,
				 0);
	if (next == NULL)
		return gm_why(change->why, -ENOMEM, "out of memory");
	for (uint32_t i = 0, to = 0; i < n; i++) {
		if (i != at)
			memcpy(next->uuids[to++], now->uuids[i], 16);
	}
	if (!cordon->undo)
		memcpy(next->uuids[n], uuid, 16);
	change->act = GM_CHANGE_PUT;
	change->object = &gm_cordons_kind;
	change->file = next;
	return 0;
}

static void show(struct gm_change *change)
{
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
