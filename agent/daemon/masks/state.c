/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/masks/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/base/io_thread.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/masks/masks.h"
#include "agent/daemon/masks/validate.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/state/state.h"
#include "gpumap.h"

/* The head's is_unread: without a file. */
struct mask_waiting {
	struct gm_state_waiting head;
	struct gm_mask_file file; /* without data */
	bool is_asked;            /* a change for it is on its way */
	bool is_due;              /* to be looked at */
	bool is_logged;           /* that it waits */
};

static struct mask_waiting *owner_of(struct gm_state_waiting *head)
{
	return head == NULL ? NULL : gm_owner(head, struct mask_waiting, head);
}

static struct mask_waiting *find(const struct gm_daemon *d, const char *name)
{
	return owner_of(gm_state_waiting_find(&d->state->masks, name));
}

static void forget(struct gm_daemon *d, struct mask_waiting *waiting)
{
	TAILQ_REMOVE(&d->state->masks, &waiting->head, entry);
	gm_mask_file_free(&waiting->file);
	free(waiting);
}

void gm_mask_state_exit(struct gm_daemon *d)
{
	while (!TAILQ_EMPTY(&d->state->masks))
		forget(d, owner_of(TAILQ_FIRST(&d->state->masks)));
}

/* ---- names of files that wait ------------------------------------------ */

int gm_mask_state_may_replace(const struct gm_daemon *d, const char *name,
			      uint32_t uid, char ret_why[GM_WHY_BYTES],
			      bool *ret_is_waiting)
{
	return gm_state_waiting_may_replace(&d->state->masks, "mask", name, uid,
					    ret_why, ret_is_waiting);
}

bool gm_mask_state_names(const struct gm_daemon *d, const uint8_t uuid[16])
{
	struct gm_state_waiting *head;

	TAILQ_FOREACH(head, &d->state->masks, entry)
	{
		const struct gm_mask_file *file = &owner_of(head)->file;

		for (uint32_t i = 0; i < file->n_rows; i++)
			if (memcmp(file->uuids[i], uuid, 16) == 0)
				return true;
	}
	return false;
}

void gm_mask_state_replaced(struct gm_daemon *d, const char *name)
{
	struct mask_waiting *waiting = find(d, name);

	if (waiting != NULL)
		forget(d, waiting);
}

bool gm_mask_state_waits(const struct gm_daemon *d, const char *name,
			 uint64_t version)
{
	const struct mask_waiting *waiting = find(d, name);

	return waiting != NULL && waiting->file.version == version;
}

/* ---- one file at a time ------------------------------------------------ */

int gm_mask_state_write(const struct gm_state_dir *dir,
			const struct gm_mask_file *file,
			char ret_why[GM_WHY_BYTES])
{
	char name[GM_STATE_NAME_BYTES], *text;
	size_t bytes;
	int ret = gm_mask_text_make(file, &text, &bytes);

	if (ret != 0)
		return gm_why(ret_why, ret, "out of memory");
	gm_mask_text_name(file->image.object.name, name);
	ret = gm_state_dir_write(dir, name, text, bytes, ret_why);
	free(text);
	return ret;
}

static int read_one(const struct gm_state_dir *dir, const char *file,
		    struct gm_mask_file *ret_file, char *ret_why)
{
	size_t bytes;
	char *text;
	int ret = gm_state_dir_read(dir, file, ret_why, &text, &bytes);

	if (ret != 0)
		return ret;
	ret = gm_mask_text_read(file, text, bytes, ret_file, ret_why);
	free(text);
	return ret;
}

int gm_mask_state_read(const struct gm_state_dir *dir, const char *name,
		       struct gm_mask_file *ret_file,
		       char ret_why[GM_WHY_BYTES])
{
	char file[GM_STATE_NAME_BYTES];

	gm_mask_text_name(name, file);
	return read_one(dir, file, ret_file, ret_why);
}

int gm_mask_state_remove(const struct gm_state_dir *dir, const char *name,
			 char ret_why[GM_WHY_BYTES])
{
	char file[GM_STATE_NAME_BYTES];

	gm_mask_text_name(name, file);
	return gm_state_dir_remove(dir, file, ret_why);
}

/* Once; and of one that the disk keeps from us it was said when it was not
 * read. */
static void say(const struct gm_daemon *d, struct mask_waiting *waiting,
		const char *why)
{
	char file[GM_STATE_NAME_BYTES];

	if (waiting->is_logged || waiting->head.is_unread || why[0] == '\0')
		return;
	waiting->is_logged = true;
	gm_mask_text_name(waiting->head.name, file);
	gm_log(GM_LOG_WARNING, "state_waits", "path=%s why=%s",
	       gm_state_files_path(d, file).text, gm_quote(why).text);
}

void gm_mask_state_stays(struct gm_daemon *d, const char *name, int status,
			 const char *why)
{
	struct mask_waiting *waiting = find(d, name);
	char file[GM_STATE_NAME_BYTES];

	if (waiting == NULL)
		return;
	waiting->is_asked = false;
	gm_mask_text_name(name, file);
	if (gm_state_files_is_bad(status)) {
		gm_state_files_refuse(d, file, why);
		forget(d, waiting);
		return;
	}
	say(d, waiting, why);
}

/* ---- making them again -------------------------------------------------- */

/* Uuids become rows.  Returns false where one is not there. */
static bool resolve(const struct gm_daemon *d, const struct gm_mask_file *file,
		    struct gm_masks_rows *rows)
{
	rows->n = file->n_rows;
	for (uint32_t i = 0; i < file->n_rows; i++) {
		const struct gm_device *device =
			gm_devices_find(d, file->uuids[i]);

		if (device == NULL || !device->present)
			return false;
		rows->of[i] = device->facts.row;
	}
	return true;
}

static bool is_possible(const struct gm_daemon *d,
			const struct gm_mask_file *file,
			struct gm_masks_rows *rows)
{
	if (file->version == 0)
		return false;
	if (file->n_rows == 0)
		return gm_directory_find(d, GM_KIND_LAYERS, file->image.map) !=
		       NULL;
	return resolve(d, file, rows);
}

static struct mask_waiting *next_due(const struct gm_daemon *d)
{
	struct gm_state_waiting *head;

	TAILQ_FOREACH(head, &d->state->masks, entry)
	{
		if (owner_of(head)->is_due)
			break;
	}
	return owner_of(head);
}

/* A change may be over, and its mask off the list, at once. */
void gm_mask_state_recheck(struct gm_daemon *d,
			   int (*restore)(struct gm_daemon *d,
					  const struct gm_mask_file *file,
					  const struct gm_masks_rows *rows))
{
	struct gm_state_waiting *head;
	struct mask_waiting *waiting;
	struct gm_masks_rows rows;

	if (!d->io_thread->running)
		return;
	TAILQ_FOREACH(head, &d->state->masks, entry)
	owner_of(head)->is_due = !owner_of(head)->is_asked;
	while ((waiting = next_due(d)) != NULL) {
		waiting->is_due = false;
		rows.n = 0;
		if (!is_possible(d, &waiting->file, &rows)) {
			say(d, waiting, "a row or the map of it is not there");
			continue;
		}
		waiting->is_asked = true;
		if (restore(d, &waiting->file, &rows) != 0)
			gm_mask_state_stays(d, waiting->head.name, -ENOMEM,
					    "out of memory");
	}
}

bool gm_mask_state_are_made(const struct gm_daemon *d)
{
	struct gm_state_waiting *head;

	TAILQ_FOREACH(head, &d->state->masks, entry)
	{
		if (owner_of(head)->is_asked)
			return true;
	}
	return false;
}

/* ---- the start --------------------------------------------------------- */

static int let_wait(struct gm_daemon *d, const char *name, uint32_t uid,
		    struct gm_mask_file *file)
{
	struct mask_waiting *waiting = calloc(1, sizeof(*waiting));

	if (waiting == NULL)
		return -ENOMEM;
	gm_state_waiting_add(&d->state->masks, &waiting->head, name, uid);
	waiting->head.is_unread = file == NULL;
	if (file != NULL) {
		waiting->file = *file;
		memset(file, 0, sizeof(*file));
	}
	return 0;
}

/* As of a mesh. */
static int leave_unread(struct gm_daemon *d, const char *file, bool *keep)
{
	char name[GM_NAME_BYTES];
	const struct gm_block *block;

	gm_log(GM_LOG_ERROR, "state_unread", "path=%s why=%s remedy=%s",
	       gm_state_files_path(d, file).text, gm_quote(strerror(EIO)).text,
	       gm_quote("look at the disk, then publish the mask again or "
			"restart")
		       .text);
	if (!gm_state_text_owner_of(file, GM_STATE_MASK_SUFFIX, name))
		return 0;
	block = gm_directory_find(d, GM_KIND_MASK, name);
	if (block == NULL)
		return let_wait(d, name, geteuid(), NULL);
	keep[block - d->directory->objects] = true;
	return 0;
}

/* Is it what the slot has, or has it been published anew since for its map? */
static bool has_it(const struct gm_daemon *d, const struct gm_block *block,
		   const struct gm_mask_file *file)
{
	struct gm_masks_block mask;

	return block->version >= file->version &&
	       gm_masks_read(d, block->unit, &mask) &&
	       mask.image.hash == file->image.hash &&
	       mask.image.bytes == file->image.bytes &&
	       strcmp(mask.image.map, file->image.map) == 0;
}

/* A tensor that is in no file and no memory cannot be made again. */
static bool is_lost(const struct gm_mask_file *file)
{
	return file->image.bytes != 0 &&
	       file->image.form == GPUMAP_MASK_LOADED && file->data == NULL;
}

static int lose(struct gm_daemon *d, const char *name,
		const struct gm_mask_file *file)
{
	char why[GM_WHY_BYTES];

	gm_log(GM_LOG_ERROR, "mask_not_kept", "name=%s version=%llu why=%s",
	       file->image.object.name, (unsigned long long)file->version,
	       gm_quote("its tensor was too large for a file: load it again")
		       .text);
	if (gm_state_dir_remove(&d->state->dir, name, why) != 0)
		gm_log(GM_LOG_ERROR, "state_stays", "name=%s why=%s",
		       gm_quote(name).text, gm_quote(why).text);
	return 0;
}

/* One file. */
static int take(struct gm_daemon *d, const char *name, bool *keep,
		char *ret_why)
{
	struct gm_mask_file file = { .version = 0 };
	const struct gm_block *block;
	char why[GM_WHY_BYTES];
	int ret = read_one(&d->state->dir, name, &file, why);

	if (gm_state_files_is_bad(ret)) {
		gm_state_files_refuse(d, name, why);
		return 0;
	}
	if (ret != 0) {
		if (ret == -EIO)
			ret = leave_unread(d, name, keep);
		return ret == 0 ? 0
				: gm_why(ret_why, ret, "%.100s/%.100s: %s",
					 d->state->dir.path, name,
					 strerror(-ret));
	}
	block = gm_directory_find(d, GM_KIND_MASK, file.image.object.name);
	/* An agent that died before it could show the mask had told no client,
	 * and the mask that was there before is valid. */
	if (block != NULL && (has_it(d, block, &file) || is_lost(&file))) {
		keep[block - d->directory->objects] = true;
	} else if (is_lost(&file)) {
		ret = lose(d, name, &file);
	} else {
		if (block != NULL)
			keep[block - d->directory->objects] = true;
		free(file.data);
		file.data = NULL;
		ret = let_wait(d, file.image.object.name,
			       file.image.object.owner_uid, &file);
	}
	gm_mask_file_free(&file);
	return ret == 0 ? 0 : gm_why(ret_why, ret, "out of memory");
}

int gm_mask_state_restore(struct gm_daemon *d, char ret_why[GM_WHY_BYTES])
{
	bool keep[GM_OBJECTS] = { false };
	char **names;
	int n = gm_state_dir_list_masks(&d->state->dir, &names), ret = 0;

	if (n < 0)
		return gm_why(ret_why, n, "%s: %s", d->state->dir.path,
			      strerror(-n));
	for (int i = 0; i < n; i++) {
		if (ret == 0)
			ret = take(d, names[i], keep, ret_why);
		free(names[i]);
	}
	free(names);
	if (ret == 0)
		gm_state_files_drop_unknown(d, GM_KIND_MASK, keep);
	return ret;
}
