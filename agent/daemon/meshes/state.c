/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/meshes/state.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/meshes/epochs.h"
#include "agent/daemon/meshes/state_text.h"
#include "agent/daemon/meshes/store.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/segment/segment.h"
#include "agent/daemon/state/state.h"
#include "shm/seq.h"

struct mesh_waiting {
	struct gm_state_waiting head;
	struct gm_mesh_file file; /* memory NULL: is_unread */
};

static struct mesh_waiting *owner_of(struct gm_state_waiting *head)
{
	return gm_owner(head, struct mesh_waiting, head);
}

static void forget(struct gm_daemon *d, struct mesh_waiting *waiting)
{
	TAILQ_REMOVE(&d->state->meshes, &waiting->head, entry);
	gm_mesh_text_free(&waiting->file);
	free(waiting);
}

static void exit_all(struct gm_daemon *d)
{
	while (!TAILQ_EMPTY(&d->state->meshes))
		forget(d, owner_of(TAILQ_FIRST(&d->state->meshes)));
}

/* ---- names of files that wait ------------------------------------------ */

int gm_mesh_state_may_replace(const struct gm_daemon *d, const char *name,
			      uint32_t uid, char ret_why[GM_WHY_BYTES],
			      bool *ret_is_waiting)
{
	return gm_state_waiting_may_replace(&d->state->meshes, "mesh", name,
					    uid, ret_why, ret_is_waiting);
}

static bool names_device(const struct gm_daemon *d, const uint8_t uuid[16])
{
	struct gm_state_waiting *head;

	TAILQ_FOREACH(head, &d->state->meshes, entry)
	{
		const struct gm_mesh_file *file = &owner_of(head)->file;

		for (uint32_t i = 0; file->memory && i < file->ask.n_rows; i++)
			if (memcmp(file->uuids[i], uuid, 16) == 0)
				return true;
	}
	return false;
}

void gm_mesh_state_replaced(struct gm_daemon *d, const char *name)
{
	struct gm_state_waiting *head =
		gm_state_waiting_find(&d->state->meshes, name);

	if (head != NULL)
		forget(d, owner_of(head));
}

/* ---- one file at a time ------------------------------------------------ */

int gm_mesh_state_write(const struct gm_state_dir *dir, const char *name,
			const char *text, size_t bytes,
			char ret_why[GM_WHY_BYTES])
{
	char file[GM_STATE_NAME_BYTES];

	gm_mesh_text_name(name, file);
	return gm_state_dir_write(dir, file, text, bytes, ret_why);
}

int gm_mesh_state_remove(const struct gm_state_dir *dir, const char *name,
			 char ret_why[GM_WHY_BYTES])
{
	char file[GM_STATE_NAME_BYTES];

	gm_mesh_text_name(name, file);
	return gm_state_dir_remove(dir, file, ret_why);
}

/* ---- publishing -------------------------------------------------------- */

/* Uuids become rows.  Returns false where one is not there. */
static bool resolve(const struct gm_daemon *d, struct gm_mesh_file *file)
{
	uint32_t *rows = (void *)(uintptr_t)file->ask.rows;

	for (uint32_t i = 0; i < file->ask.n_rows; i++) {
		const struct gm_device *device =
			gm_devices_find(d, file->uuids[i]);

		if (device == NULL)
			return false;
		rows[i] = device->facts.row;
	}
	return true;
}

static bool are_there(const struct gm_daemon *d,
		      const struct gm_mesh_file *file)
{
	for (uint32_t i = 0; i < file->ask.n_rows; i++) {
		if (!d->devices->of[file->ask.rows[i]]->present)
			return false;
	}
	return true;
}

/* The epochs are not the file's. */
static void take_epochs(const struct gm_meshes *mesh, const gm_a64 *at,
			uint64_t *words)
{
	for (uint32_t i = 0; i < mesh->n_groups; i++) {
		uint64_t epoch = (sizeof(struct gm_mesh_image) +
				  i * sizeof(struct gm_group_image) +
				  offsetof(struct gm_group_image, epoch)) /
				 8;

		words[epoch] = gm_get(&at[epoch]);
	}
}

/* Is what the slot names, word for word, what the file would become? */
static bool says_same(const struct gm_daemon *d, const struct gm_meshes *mesh,
		      uint64_t version)
{
	const struct gm_block *block =
		gm_directory_find(d, GM_KIND_MESH, mesh->name);
	uint64_t bytes = gm_meshes_bytes(mesh), *words;
	const gm_a64 *at;
	bool same = true;

	if (block == NULL || block->bytes != bytes || block->version < version)
		return false;
	words = malloc(bytes);
	if (words == NULL)
		return false; /* publishing it anew does no harm */
	at = (const gm_a64 *)(void *)(d->segment->map.base +
				      (uint64_t)block->unit * GM_UNIT);
	gm_meshes_build(mesh, block->version, words);
	take_epochs(mesh, at, words);
	for (uint64_t i = 0; i < bytes / 8 && same; i++)
		same = gm_get(&at[i]) == words[i];
	free(words);
	return same;
}

/* A mesh that the segment has still may be of a row whose device is gone: it
 * stays as it is, like a map.  One that it has not waits for its devices. */
static int publish(struct gm_daemon *d, struct gm_mesh_file *file,
		   char ret_why[GM_WHY_BYTES])
{
	struct gm_arranged arranged;
	int ret;

	if (!resolve(d, file))
		return gm_why(ret_why, -ENODEV, "a device of it is not there");
	ret = gm_arrange(&file->ask, ret_why, &arranged);
	if (ret != 0)
		return ret;
	if (!says_same(d, &arranged.mesh, file->version)) {
		if (are_there(d, file))
			ret = gm_mesh_store_restore(d, &arranged.mesh,
						    file->version, ret_why);
		else
			ret = gm_why(ret_why, -ENODEV,
				     "a device of it is not there");
	}
	gm_arranged_free(&arranged);
	return ret;
}

void gm_mesh_state_recheck(struct gm_daemon *d)
{
	struct gm_state_waiting *head, *next;
	char why[GM_WHY_BYTES];

	for (head = TAILQ_FIRST(&d->state->meshes); head != NULL; head = next) {
		struct mesh_waiting *waiting = owner_of(head);

		next = TAILQ_NEXT(head, entry);
		if (!head->is_unread && publish(d, &waiting->file, why) == 0)
			forget(d, waiting);
	}
}

/* ---- the start --------------------------------------------------------- */

/* Takes what @file has. */
static int let_wait(struct gm_daemon *d, const char *name, uint32_t uid,
		    struct gm_mesh_file *file)
{
	struct mesh_waiting *waiting = calloc(1, sizeof(*waiting));

	if (waiting == NULL)
		return -ENOMEM;
	gm_state_waiting_add(&d->state->meshes, &waiting->head, name, uid);
	waiting->head.is_unread = file->memory == NULL;
	waiting->file = *file;
	memset(file, 0, sizeof(*file));
	return 0;
}

/* The object that the segment has under this name was acknowledged.  If the
 * segment has none, the name is taken, and only the file knows by which
 * user. */
static int leave_unread(struct gm_daemon *d, const char *file, bool *keep)
{
	struct gm_mesh_file none = { .memory = NULL };
	char name[GM_NAME_BYTES];
	const struct gm_block *block;

	gm_log(GM_LOG_ERROR, "state_unread", "path=%s why=%s remedy=%s",
	       gm_state_files_path(d, file).text, gm_quote(strerror(EIO)).text,
	       gm_quote("look at the disk, then publish the mesh again or "
			"restart")
		       .text);
	if (!gm_state_text_owner_of(file, GM_STATE_MESH_SUFFIX, name))
		return 0;
	block = gm_directory_find(d, GM_KIND_MESH, name);
	if (block == NULL)
		return let_wait(d, name, geteuid(), &none);
	keep[block - d->directory->objects] = true;
	return 0;
}

static int read_one(const struct gm_daemon *d, const char *file,
		    struct gm_mesh_file *ret_file, char *ret_why)
{
	size_t bytes;
	char *text;
	int ret;

	ret = gm_state_dir_read(&d->state->dir, file, ret_why, &text, &bytes);
	if (ret != 0)
		return ret;
	ret = gm_mesh_text_read(file, text, bytes, ret_file, ret_why);
	free(text);
	return ret;
}

/* @ret_file's memory stays NULL where there is nothing to publish. */
static int take(struct gm_daemon *d, const char *name, bool *keep,
		struct gm_mesh_file *ret_file, char *ret_why)
{
	const struct gm_block *block;
	char why[GM_WHY_BYTES];
	int ret = read_one(d, name, ret_file, why);

	if (gm_state_files_is_bad(ret)) {
		gm_state_files_refuse(d, name, why);
		return 0;
	}
	if (ret == -EIO)
		ret = leave_unread(d, name, keep);
	if (ret != 0)
		return gm_why(ret_why, ret, "%.100s/%.100s: %s",
			      d->state->dir.path, name, strerror(-ret));
	if (ret_file->memory == NULL)
		return 0;
	block = gm_directory_find(d, GM_KIND_MESH, ret_file->ask.name);
	if (block != NULL)
		keep[block - d->directory->objects] = true;
	return 0;
}

static int bring_back(struct gm_daemon *d, const char *name,
		      struct gm_mesh_file *file)
{
	char why[GM_WHY_BYTES];

	if (publish(d, file, why) == 0)
		return 0;
	gm_log(GM_LOG_WARNING, "state_waits", "path=%s why=%s",
	       gm_state_files_path(d, name).text, gm_quote(why).text);
	return let_wait(d, file->ask.name, file->ask.uid, file);
}

/* All files of a start; frees them. */
static int restore(struct gm_daemon *d, char **names, int n,
		   struct gm_mesh_file *files, char *ret_why)
{
	bool keep[GM_OBJECTS] = { false };
	int ret = 0;

	for (int i = 0; i < n && ret == 0; i++)
		ret = take(d, names[i], keep, &files[i], ret_why);
	if (ret == 0)
		gm_state_files_drop_unknown(d, GM_KIND_MESH, keep);
	for (int i = 0; i < n && ret == 0; i++) {
		if (files[i].memory == NULL)
			continue;
		ret = bring_back(d, names[i], &files[i]);
		if (ret != 0)
			gm_why(ret_why, ret, "out of memory");
	}
	for (int i = 0; i < n; i++) {
		gm_mesh_text_free(&files[i]);
		free(names[i]);
	}
	return ret;
}

static int restore_all(struct gm_daemon *d, char ret_why[GM_WHY_BYTES])
{
	struct gm_mesh_file *files;
	char **names;
	int n = gm_state_dir_list_meshes(&d->state->dir, &names), ret;

	if (n < 0)
		return gm_why(ret_why, n, "%s: %s", d->state->dir.path,
			      strerror(-n));
	if (n > 0)
		gm_epochs_expect(d);
	files = calloc((size_t)n + 1, sizeof(*files));
	if (files != NULL) {
		ret = restore(d, names, n, files, ret_why);
	} else {
		ret = gm_why(ret_why, -ENOMEM, "out of memory");
		for (int i = 0; i < n; i++)
			free(names[i]);
	}
	free(files);
	free(names);
	gm_epochs_give_all(d);
	return ret;
}

const struct gm_state_kind gm_mesh_state_kind = {
	.kind = GM_KIND_MESH,
	.restore = restore_all,
	.recheck = gm_mesh_state_recheck,
	.names = names_device,
	.may_replace = gm_mesh_state_may_replace,
	.remove_file = gm_mesh_state_remove,
	.replaced = gm_mesh_state_replaced,
	.exit = exit_all,
};
