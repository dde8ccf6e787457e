/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/cordon.h"

#include <errno.h>
#include <stdio.h>
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

#define FILE_NAME "cordons"
#define UUID_LINE 39u /* bytes of a line: a uuid in quotes */

struct cordon {
	struct gm_change change;
	uint32_t row;
	bool undo;
	struct gm_cordons next; /* the I/O thread's */
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

/* A line for each uuid.  Returns 0, or -EPROTO with the reason. */
static int parse(const char *text, size_t bytes, void *ret_cordons,
		 char *ret_why)
{
	struct gm_cordons *ret = ret_cordons;
	const char *line;

	ret->n = 0;
	if (gm_state_text_unframe(text, bytes, &line, ret_why) != 0)
		return -EPROTO;
	for (; *line != '\0'; line += UUID_LINE) {
		char uuid[UUID_LINE];

		if (strnlen(line, UUID_LINE) < UUID_LINE || ret->n == GM_ROWS)
			return gm_why(ret_why, -EPROTO, "it is cut");
		/* Without its quotes and the end of the line. */
		memcpy(uuid, line + 1, UUID_LINE - 3);
		uuid[UUID_LINE - 3] = '\0';
		if (!gm_state_text_uuid(uuid, ret->uuids[ret->n++]))
			return gm_why(ret_why, -EPROTO,
				      "a line of it is no uuid");
	}
	return 0;
}

void gm_cordons_start(struct gm_daemon *d)
{
	struct gm_cordons *cordons = d->cordons;

	if (!gm_state_files_read(d, FILE_NAME, parse,
				 "look at the disk and restart: no row is "
				 "cordoned",
				 cordons, &cordons->is_unread))
		cordons->n = 0;
	mark(d, 0);
}

static void print(FILE *to, const void *all)
{
	const struct gm_cordons *cordons = all;

	for (uint32_t i = 0; i < cordons->n; i++) {
		gm_state_text_put_uuid(to, cordons->uuids[i]);
		fputc('\n', to);
	}
}

static int write_file(const struct gm_state_dir *dir,
		      const struct gm_cordons *cordons, char *ret_why)
{
	if (cordons->n == 0)
		return gm_state_dir_remove(dir, FILE_NAME, ret_why);
	return gm_state_files_write(dir, FILE_NAME, print, cordons, ret_why);
}

/* ---- the change ---------------------------------------------------------- */

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
		return gm_state_files_keep(d, FILE_NAME, change->why);
	uuid = d->devices->of[cordon->row]->facts.uuid;
	*next = *d->cordons;
	at = find(next, uuid);
	change->act = GM_CHANGE_OWN;
	if ((at < next->n) != cordon->undo) {
		change->act = GM_CHANGE_NOTHING; /* it is so already */
		return 0;
	}
	if (cordon->undo) {
		memmove(next->uuids[at], next->uuids[--next->n], 16);
		return 0;
	}
	if (next->n == GM_ROWS)
		return gm_why(change->why, -ENOSPC,
			      "%u devices are cordoned: uncordon some",
			      GM_ROWS);
	memcpy(next->uuids[next->n++], uuid, 16);
	return 0;
}

static void do_write(struct gm_io_job *job)
{
	struct gm_change *change = gm_owner(job, struct gm_change, job);

	change->status = write_file(&change->d->state->dir,
				    &cordon_of(change)->next, change->why);
}

static void written(struct gm_io_job *job)
{
	struct gm_change *change = gm_owner(job, struct gm_change, job);

	if (change->status == 0) {
		*change->d->cordons = cordon_of(change)->next;
		mark(change->d, gm_loop_now());
	}
	gm_transactions_end(change, change->status);
}

static void proceed(struct gm_change *change)
{
	gm_transactions_give(change, do_write, written);
}

static void free_cordon(struct gm_change *change)
{
	free(cordon_of(change));
}

static const struct gm_change_kind cordon_kind = {
	.check = check,
	.proceed = proceed,
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
