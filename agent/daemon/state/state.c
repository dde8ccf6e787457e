/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/state/state.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/user.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/segment/segment.h"
#include "agent/daemon/state/publish.h"
#include "shm/objects.h"
#include "shm/seq.h"

/* The daemon in a unit test may have no kinds. */
#define FOR_EACH_KIND(i, d) \
	for (unsigned i = 0; (d)->state_kinds && (d)->state_kinds[i]; i++)

int gm_state_start(struct gm_daemon *d, char ret_why[GM_WHY_BYTES])
{
	TAILQ_INIT(&d->state->waiting);
	return gm_state_dir_open(d->state_dir, d->instance, ret_why,
				 &d->state->dir);
}

static void forget(struct gm_daemon *d, struct gm_state_waiting *waiting)
{
	TAILQ_REMOVE(&d->state->waiting, waiting, entry);
	free(waiting->file);
	free(waiting);
}

void gm_state_exit(struct gm_daemon *d)
{
	while (!TAILQ_EMPTY(&d->state->waiting))
		forget(d, TAILQ_FIRST(&d->state->waiting));
	for (uint32_t i = 0; i < GM_STATE_END - GM_STATE_SINGLE; i++)
		free(d->state->singles[i].file);
	gm_state_dir_close(&d->state->dir);
}

const struct gm_state_kind *gm_state_kind(const struct gm_daemon *d,
					  uint32_t number)
{
	FOR_EACH_KIND(i, d)
	{
		if (d->state_kinds[i]->number == number)
			return d->state_kinds[i];
	}
	return NULL;
}

/* ---- names that wait ----------------------------------------------------- */

struct gm_state_waiting *gm_state_find(const struct gm_daemon *d,
				       const struct gm_state_kind *kind,
				       const char *name)
{
	struct gm_state_waiting *waiting;

	TAILQ_FOREACH(waiting, &d->state->waiting, entry)
	{
		if (waiting->kind == kind && strcmp(waiting->name, name) == 0)
			break;
	}
	return waiting;
}

int gm_state_may_replace(const struct gm_daemon *d,
			 const struct gm_state_kind *kind, const char *name,
			 uint32_t uid, char ret_why[GM_WHY_BYTES])
{
	const struct gm_state_waiting *waiting = gm_state_find(d, kind, name);

	if (waiting == NULL || gm_user_is_privileged(uid))
		return 0;
	if (waiting->file == NULL)
		return gm_why(ret_why, -EACCES,
			      "%s %s has a file that cannot be read: choose "
			      "another name, or have the administrator look "
			      "at it",
			      kind->what, name);
	return waiting->uid == uid
		       ? 0
		       : gm_why(ret_why, -EACCES,
				"%s %s belongs to uid %u, and waits for its "
				"devices: choose another name",
				kind->what, name, waiting->uid);
}

void gm_state_replaced(struct gm_daemon *d, const struct gm_state_kind *kind,
		       const char *name)
{
	struct gm_state_waiting *waiting = gm_state_find(d, kind, name);

	if (waiting != NULL)
		forget(d, waiting);
}

bool gm_state_row_used(const struct gm_daemon *d, uint32_t row)
{
	const uint8_t *uuid = d->devices->of[row]->facts.uuid;
	const struct gm_state_waiting *waiting;

	TAILQ_FOREACH(waiting, &d->state->waiting, entry)
	{
		const struct gm_state_file *file = waiting->file;

		for (uint32_t i = 0; file != NULL && i < file->n_uuids; i++)
			if (memcmp(file->uuids[i], uuid, 16) == 0)
				return true;
	}
	return false;
}

/* Takes @file. */
static int let_wait(struct gm_daemon *d, const struct gm_state_kind *kind,
		    const char *name, uint32_t uid, struct gm_state_file *file)
{
	struct gm_state_waiting *waiting = calloc(1, sizeof(*waiting));

	if (waiting == NULL) {
		free(file);
		return -ENOMEM;
	}
	waiting->kind = kind;
	waiting->file = file;
	waiting->uid = uid;
	memcpy(waiting->name, name, gm_object_name(name));
	TAILQ_INSERT_TAIL(&d->state->waiting, waiting, entry);
	return 0;
}

/* ---- one file ------------------------------------------------------------ */

struct gm_quoted gm_state_path(const struct gm_daemon *d, const char *file)
{
	char path[GM_STATE_PATH_BYTES + NAME_MAX + 2];

	snprintf(path, sizeof(path), "%s/%s", d->state->dir.path, file);
	return gm_quote(path);
}

bool gm_state_is_bad(int error)
{
	return error == -EPROTO || error == -EBADMSG;
}

void gm_state_refuse(const struct gm_daemon *d, const char *file,
		     const char *why)
{
	int ret = gm_state_dir_refuse(&d->state->dir, file);

	gm_log(GM_LOG_ERROR, "state_refused", "path=%s why=%s",
	       gm_state_path(d, file).text, gm_quote(why).text);
	if (ret != 0)
		gm_log(GM_LOG_ERROR, "state_stuck", "path=%s error=%s",
		       gm_state_path(d, file).text,
		       gm_quote(strerror(-ret)).text);
}

static void say_unread(const struct gm_daemon *d, const char *file,
		       const char *why, const char *remedy)
{
	gm_log(GM_LOG_ERROR, "state_unread", "path=%s why=%s remedy=%s",
	       gm_state_path(d, file).text, gm_quote(why).text,
	       gm_quote(remedy).text);
}

void gm_state_load(struct gm_daemon *d, const struct gm_state_kind *kind,
		   const char *without)
{
	uint32_t i = kind->number - GM_STATE_SINGLE;
	char why[GM_WHY_BYTES] = "";
	int ret = gm_state_file_read(&d->state->dir, kind, kind->suffix, why,
				     &d->state->singles[i].file);
	bool is_bad = gm_state_is_bad(ret);

	d->state->singles[i].is_unread = ret != 0 && ret != -ENOENT && !is_bad;
	if (is_bad)
		gm_state_refuse(d, kind->suffix, why);
	else if (ret != 0 && ret != -ENOENT)
		say_unread(d, kind->suffix, why, without);
}

const struct gm_state_file *gm_state_single(const struct gm_daemon *d,
					    const struct gm_state_kind *kind)
{
	return d->state->singles[kind->number - GM_STATE_SINGLE].file;
}

int gm_state_may_write(const struct gm_daemon *d,
		       const struct gm_state_kind *kind,
		       char ret_why[GM_WHY_BYTES])
{
	if (!d->state->singles[kind->number - GM_STATE_SINGLE].is_unread)
		return 0;
	return gm_why(ret_why, -EIO,
		      "%s/%s could not be read at the agent's start, and would "
		      "be lost: look at the disk and restart the agent",
		      d->state->dir.path, kind->suffix);
}

void gm_state_written(struct gm_daemon *d, const struct gm_state_kind *kind,
		      struct gm_state_file *file)
{
	uint32_t i = kind->number - GM_STATE_SINGLE;

	free(d->state->singles[i].file);
	d->state->singles[i].file = file;
}

/* ---- from files to objects ----------------------------------------------- */

/* Is what the slot names, word for word, what the file would become? */
static bool says_same(const struct gm_daemon *d,
		      const struct gm_state_kind *kind, const uint64_t *words)
{
	const struct gm_object_image *image = (const void *)words;
	const struct gm_block *block =
		gm_directory_find(d, kind->number, image->name);
	struct gm_object_image *shown;
	uint64_t *there;
	bool same;

	if (block == NULL || block->bytes != image->bytes ||
	    block->version < image->version)
		return false;
	there = malloc(block->bytes);
	if (there == NULL)
		return false; /* publishing it anew does no harm */
	gm_seq_read((const gm_a64 *)(void *)(d->segment->map.base +
					     (uint64_t)block->unit * GM_UNIT),
		    there, block->bytes / 8);
	shown = (void *)there;
	shown->version = image->version;
	if (kind->clear_moving != NULL)
		kind->clear_moving(there);
	same = memcmp(there, words, block->bytes) == 0;
	free(there);
	return same;
}

/* An object that the segment has still may be of a row whose device is gone: it
 * stays as it is.  One that it has not waits for its devices. */
static int bring_back(struct gm_daemon *d, const struct gm_state_kind *kind,
		      const struct gm_state_file *file, char *ret_why)
{
	uint64_t *words;
	bool is_lost;
	int ret = gm_state_file_block(d, kind, file, &words, &is_lost);

	if (ret == -ENODEV)
		return gm_why(ret_why, ret, "a device of it is not there");
	if (ret != 0)
		return gm_why(ret_why, ret, "out of memory");
	if (!says_same(d, kind, words))
		ret = is_lost ? gm_why(ret_why, -ENODEV,
				       "a device of it is not there")
			      : gm_publish_restore(d, kind, words, ret_why);
	free(words);
	return ret;
}

void gm_state_recheck(struct gm_daemon *d)
{
	struct gm_state_waiting *waiting, *next;
	char why[GM_WHY_BYTES];

	/* One that has no room was logged at the start. */
	for (waiting = TAILQ_FIRST(&d->state->waiting); waiting != NULL;
	     waiting = next) {
		next = TAILQ_NEXT(waiting, entry);
		if (waiting->file != NULL && waiting->kind->recheck == NULL &&
		    bring_back(d, waiting->kind, waiting->file, why) == 0)
			forget(d, waiting);
	}
	FOR_EACH_KIND(i, d)
	{
		if (d->state_kinds[i]->recheck != NULL)
			d->state_kinds[i]->recheck(d);
	}
}

/* ---- all of a kind, at a start ------------------------------------------- */

/* The results of a start. */
struct found {
	int n;
	char **names;
	struct gm_state_file **files; /* of each; NULL: not of use */
	bool keep[GM_OBJECTS];        /* objects of the segment */
};

static void free_found(struct found *found)
{
	for (int i = 0; i < found->n; i++) {
		free(found->names[i]);
		if (found->files != NULL)
			free(found->files[i]);
	}
	free(found->names);
	free(found->files);
	free(found);
}

/* The object that the segment has under this name was acknowledged.  If the
 * segment has none, the name is taken, and only the file knows by which
 * user. */
static int leave_unread(struct gm_daemon *d, const struct gm_state_kind *kind,
			const char *file, const char *why, struct found *found)
{
	char name[GM_NAME_BYTES];
	bool is_named = gm_state_file_owner(kind, file, name);
	const struct gm_block *block =
		is_named ? gm_directory_find(d, kind->number, name) : NULL;

	say_unread(d, file, why,
		   block != NULL ? "look at it, then publish it again: until "
				   "then only the segment has it"
				 : "look at it and restart, or release it");
	if (block != NULL)
		found->keep[block - d->directory->objects] = true;
	if (block != NULL || !is_named)
		return 0;
	return let_wait(d, kind, name, geteuid(), NULL);
}

static int read_files(struct gm_daemon *d, const struct gm_state_kind *kind,
		      struct found *found, char *ret_why)
{
	int n = gm_state_dir_list(&d->state->dir, kind->suffix, &found->names);

	if (n < 0)
		return gm_why(ret_why, n, "%s: %s", d->state->dir.path,
			      strerror(-n));
	found->n = n;
	found->files = calloc((size_t)n + 1, sizeof(struct gm_state_file *));
	if (found->files == NULL)
		return gm_why(ret_why, -ENOMEM, "out of memory");
	for (int i = 0; i < n; i++) {
		const char *name = found->names[i];
		char why[GM_WHY_BYTES];
		int ret = gm_state_file_read(&d->state->dir, kind, name, why,
					     &found->files[i]);

		if (gm_state_is_bad(ret)) {
			gm_state_refuse(d, name, why);
			continue;
		}
		if (ret == -EIO)
			ret = leave_unread(d, kind, name, why, found);
		if (ret != 0)
			return gm_why(ret_why, ret, "%.100s/%.100s: %s",
				      d->state->dir.path, name, strerror(-ret));
	}
	return 0;
}

static void drop_aside(const struct gm_daemon *d, const char *file)
{
	char why[GM_WHY_BYTES];

	/* A file that was set aside does not count, so it may stay. */
	if (gm_state_dir_drop_aside(&d->state->dir, file, why) != 0)
		gm_log(GM_LOG_WARNING, "state_stays", "name=%s why=%s",
		       gm_quote(file).text, gm_quote(why).text);
}

/* Has this segment had no object yet? */
static bool is_new(const struct gm_daemon *d)
{
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		if (d->directory->objects[i].version != 0)
			return false;
	}
	return true;
}

/* An agent before us died, or its disk failed, between setting a file aside and
 * removing it: had its object given way already?  Not where the slot has it
 * still; nor where the machine went down in between, for then no client was
 * told. */
static int check_aside(const struct gm_daemon *d,
		       const struct gm_state_kind *kind, char *ret_why)
{
	char **files;
	int n = gm_state_dir_list_aside(&d->state->dir, kind->suffix, &files);
	int ret = 0;

	if (n < 0)
		return gm_why(ret_why, n, "%s: %s", d->state->dir.path,
			      strerror(-n));
	for (int i = 0; i < n; i++) {
		const struct gm_block *block = NULL;
		char name[GM_NAME_BYTES];

		if (gm_state_file_owner(kind, files[i], name))
			block = gm_directory_find(d, kind->number, name);
		if (ret == 0 &&
		    (block != NULL ? (block->flags & GM_OBJECT_HELD) == 0
				   : is_new(d)) &&
		    !gm_state_dir_has(&d->state->dir, files[i]))
			ret = gm_state_dir_put_back(&d->state->dir, files[i],
						    ret_why);
		else
			drop_aside(d, files[i]);
		free(files[i]);
	}
	free(files);
	return ret;
}

/* A file is older than the HELD object in its slot when an agent died that
 * removed it only after that had replaced the file's object. */
static int match_slots(const struct gm_daemon *d,
		       const struct gm_state_kind *kind, struct found *found,
		       char *ret_why)
{
	for (int i = 0; i < found->n; i++) {
		const struct gm_object_image *image;
		const struct gm_block *block;
		int ret;

		if (found->files[i] == NULL)
			continue;
		image = gm_state_file_object(found->files[i]);
		block = gm_directory_find(d, kind->number, image->name);
		if (block == NULL)
			continue;
		found->keep[block - d->directory->objects] = true;
		if ((block->flags & GM_OBJECT_HELD) == 0 ||
		    block->version < image->version)
			continue;
		ret = gm_state_dir_remove(&d->state->dir, found->names[i],
					  ret_why);
		if (ret != 0)
			return ret;
		free(found->files[i]);
		found->files[i] = NULL;
	}
	return 0;
}

/* Objects without a file: an agent died before it had told a client of them, or
 * after it had forgotten them.  No file is to know of a held object, nor of one
 * of the configuration. */
static void drop_unknown(struct gm_daemon *d, const struct gm_state_kind *kind,
			 const struct found *found)
{
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		const struct gm_block *block = &d->directory->objects[i];
		char name[GM_NAME_BYTES], why[GM_WHY_BYTES];

		if (block->unit == 0 || block->kind != kind->number ||
		    found->keep[i] || (block->flags & GM_OBJECT_HELD) != 0)
			continue;
		memcpy(name, block->name, sizeof(name));
		gm_log(GM_LOG_WARNING, "state_unknown", "name=%s version=%llu",
		       name, (unsigned long long)block->version);
		gm_directory_remove(d, kind->number, name, geteuid(), why);
	}
}

static int restore_file(struct gm_daemon *d, const struct gm_state_kind *kind,
			const char *name, struct gm_state_file **file)
{
	const struct gm_object_image *image;
	struct gm_state_file *waits;
	char why[GM_WHY_BYTES];

	if (kind->is_done != NULL && kind->is_done(d, file))
		return 0;
	if (kind->is_done == NULL) {
		if (bring_back(d, kind, *file, why) == 0)
			return 0;
		gm_log(GM_LOG_WARNING, "state_waits", "path=%s why=%s",
		       gm_state_path(d, name).text, gm_quote(why).text);
	}
	waits = *file;
	*file = NULL;
	image = gm_state_file_object(waits);
	return let_wait(d, kind, image->name, image->owner_uid, waits);
}

static int restore_kind(struct gm_daemon *d, const struct gm_state_kind *kind,
			char *ret_why)
{
	struct found *found = calloc(1, sizeof(*found));
	int ret;

	if (found == NULL)
		return gm_why(ret_why, -ENOMEM, "out of memory");
	ret = check_aside(d, kind, ret_why);
	if (ret == 0)
		ret = read_files(d, kind, found, ret_why);
	if (ret == 0)
		ret = match_slots(d, kind, found, ret_why);
	if (ret == 0)
		drop_unknown(d, kind, found);
	if (ret == 0 && found->n != 0 && kind->expect != NULL)
		kind->expect(d);
	for (int i = 0; i < found->n && ret == 0; i++) {
		if (found->files[i] == NULL)
			continue;
		ret = restore_file(d, kind, found->names[i], &found->files[i]);
		if (ret != 0)
			gm_why(ret_why, ret, "out of memory");
	}
	free_found(found);
	return ret;
}

int gm_state_restore(struct gm_daemon *d, char ret_why[GM_WHY_BYTES])
{
	int ret = 0;

	FOR_EACH_KIND(i, d)
	{
		ret = restore_kind(d, d->state_kinds[i], ret_why);
		if (ret != 0)
			break;
	}
	return ret;
}
