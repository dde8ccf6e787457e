/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/release.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/base/connection.h"
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

/* Does the process that asks hold the object in this slot?  The agent may see
 * no pid of it; and its connection may have outlived it, and the pid be another
 * one's. */
static bool is_holder(const struct gm_change *change, uint32_t slot)
{
	return change->pid > 0 && change->connection != NULL &&
	       gm_pins_holder(change->d, slot) == change->pid &&
	       gm_connection_lives(change->connection);
}

/* The process that holds an object may release it, for whichever user it is. */
static void act_for_user(struct gm_change *change)
{
	const struct gm_daemon *d = change->d;
	const struct release *release = release_of(change);
	const struct gm_block *block =
		gm_directory_find(d, release->kind, release->name);

	if (block != NULL &&
	    is_holder(change, (uint32_t)(block - d->directory->objects)))
		change->uid = block->owner_uid;
}

/* One that waits for its devices can be released like any other. */
static int check(struct gm_change *change)
{
	const struct release *release = release_of(change);
	int ret;

	change->act = GM_CHANGE_TAKE;
	change->object = gm_state_kind(change->d, release->kind);
	change->name = release->name;
	act_for_user(change);
	ret = gm_directory_may_remove(change->d, release->kind, release->name,
				      change->uid, change->why);
	if (ret != -ENOENT ||
	    gm_state_find(change->d, change->object, release->name) == NULL)
		return ret; /* the words are there */
	return gm_state_may_replace(change->d, change->object, release->name,
				    change->uid, change->why);
}

static void free_release(struct gm_change *change)
{
	free(release_of(change));
}

static const struct gm_change_kind release_kind = {
	.check = check,
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
