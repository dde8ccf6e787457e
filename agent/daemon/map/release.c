/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/release.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/base/connection.h"
#include "agent/daemon/base/io_thread.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/map/pins.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/state/state.h"

struct release {
	struct gm_change change;
	uint32_t kind;
	char name[GM_NAME_BYTES];
};

static struct release *release_of(struct gm_change *change)
{
	return gm_owner(change, struct release, change);
}

/* Does the process that asks hold the map in this slot?  The agent may see no
 * pid of it; and its connection may have outlived it, and the pid be another
 * one's. */
static bool is_holder(const struct gm_change *change, uint32_t slot)
{
	return change->pid > 0 && change->connection != NULL &&
	       gm_pins_holder(change->d, slot) == change->pid &&
	       gm_connection_lives(change->connection);
}

/* The process that holds a map may release it, for whichever user it is. */
static void act_for_user(struct gm_change *change)
{
	const struct gm_daemon *d = change->d;
	const struct release *release = release_of(change);
	const struct gm_block *block =
		release->kind == GM_KIND_LAYERS
			? gm_directory_find(d, GM_KIND_LAYERS, release->name)
			: NULL;

	if (block != NULL &&
	    is_holder(change, (uint32_t)(block - d->directory->objects)))
		change->uid = block->owner_uid;
}

/* One that waits for its devices can be released like any other. */
static int check(struct gm_change *change)
{
	const struct release *release = release_of(change);
	const struct gm_state_kind *kind =
		gm_state_kind(change->d, release->kind);
	bool is_waiting = false;
	int ret;

	change->act =
		kind->remove_file == NULL ? GM_CHANGE_TAKE : GM_CHANGE_OWN;
	change->name = release->name;
	act_for_user(change);
	ret = gm_directory_may_remove(change->d, release->kind, release->name,
				      change->uid, change->why);
	if (ret != -ENOENT)
		return ret;
	ret = kind->may_replace(change->d, release->name, change->uid,
				change->why, &is_waiting);
	if (ret == 0 && !is_waiting)
		ret = -ENOENT; /* the words are there */
	return ret;
}

static void do_remove(struct gm_io_job *job)
{
	struct gm_change *change = gm_owner(job, struct gm_change, job);
	const struct release *release = release_of(change);

	change->status = gm_state_kind(change->d, release->kind)
				 ->remove_file(&change->d->state->dir,
					       release->name, change->why);
}

/* Where it waited for its devices, it was never in. */
static void removed(struct gm_io_job *job)
{
	struct gm_change *change = gm_owner(job, struct gm_change, job);
	const struct release *release = release_of(change);
	int ret = change->status;

	if (ret == 0) {
		gm_state_kind(change->d, release->kind)
			->replaced(change->d, release->name);
		ret = gm_directory_remove(change->d, release->kind,
					  release->name, change->uid,
					  change->why);
	}
	gm_transactions_end(change, ret == -ENOENT ? 0 : ret);
}

static void proceed(struct gm_change *change)
{
	gm_transactions_give(change, do_remove, removed);
}

static void free_release(struct gm_change *change)
{
	free(release_of(change));
}

static const struct gm_change_kind release_kind = {
	.check = check,
	.proceed = proceed,
	.free = free_release,
};

/* Not counted among what waits: it is small, and gives back. */
int gm_release_change(struct gm_connection *c, const struct gm_control *header,
		      uint32_t kind, const char *name)
{
	struct release *release = calloc(1, sizeof(*release));

	if (release == NULL)
		return -ENOMEM;
	release->kind = kind;
	strncpy(release->name, name, sizeof(release->name) - 1);
	release->change.kind = &release_kind;
	return gm_transactions_add(c, header, &release->change);
}
