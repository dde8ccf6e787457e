/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/masks/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/common/name.h"
#include "agent/daemon/base/io_thread.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/masks/masks.h"
#include "agent/daemon/masks/validate.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/state/state.h"
#include "gpumap.h"
#include "shm/objects.h"

static struct gm_state_waiting *find(const struct gm_daemon *d,
				     const char *name)
{
	return gm_state_find(d, &gm_mask_kind, name);
}

bool gm_mask_state_waits(const struct gm_daemon *d, const char *name,
			 uint64_t version)
{
	const struct gm_state_waiting *waiting = find(d, name);

	return waiting != NULL && waiting->file != NULL &&
	       gm_mask_state_image(waiting->file)->object.version == version;
}

/* ---- one file at a time ------------------------------------------------ */

/* The bytes of such a mask's tensor that go into its file, as words. */
static uint64_t data_bytes(const struct gm_mask_image *image)
{
	return image->form == GPUMAP_MASK_LOADED &&
			       image->bytes <= GM_MASK_STATE_DATA
		       ? (image->bytes + 7) / 8 * 8
		       : 0;
}

/* As in a block: zeros behind the text. */
static void pad(char name[GM_NAME_BYTES])
{
	size_t n = gm_object_name(name);

	memset(name + n, 0, GM_NAME_BYTES - n);
}

int gm_mask_state_validate(const struct gm_state_file *file,
			   char ret_why[GM_WHY_BYTES])
{
	const struct gm_mask_image *image = gm_mask_state_image(file);
	uint64_t bytes = gm_state_file_word_bytes(file);
	struct gm_mask_image made;
	int ret;

	if (bytes < sizeof(*image) || image->object.bytes != bytes ||
	    image->object.image_bytes != sizeof(*image) ||
	    image->object.version == 0 ||
	    image->object.version >> (64 - GM_UNIT_BITS) != 0 ||
	    image->object.flags != 0 || image->n_replicas != 0 ||
	    image->map[GM_NAME_BYTES - 1] != '\0' ||
	    (image->map[0] == '\0') != (file->n_uuids != 0) ||
	    image->rank > GM_MASK_RANK_MAX)
		return gm_why(ret_why, -EPROTO, "its mask is damaged");
	ret = gm_object_name(image->object.name) == 0
		      ? gm_why(ret_why, -EINVAL, "its mask has no name")
		      : gm_name_check(image->object.name, ret_why);
	if (ret == 0 && image->map[0] != '\0')
		ret = gm_name_check(image->map, ret_why);
	made = *image;
	pad(made.object.name);
	pad(made.map);
	if (ret == 0)
		ret = gm_mask_check_image(&made, UINT64_MAX, ret_why);
	if (ret == 0 && (memcmp(&made, image, sizeof(made)) != 0 ||
			 bytes != sizeof(made) + data_bytes(image)))
		ret = gm_why(ret_why, -EINVAL,
			     "its bytes are not its shape's, or its names end "
			     "in more than zeros");
	return ret == 0 ? 0 : -EPROTO;
}

struct gm_state_file *gm_mask_state_make(const struct gm_mask_image *image,
					 uint32_t n_uuids,
					 const uint8_t (*uuids)[16],
					 const void *data)
{
	uint64_t bytes = sizeof(*image) + data_bytes(image);
	struct gm_state_file *file =
		gm_state_file_new(&gm_mask_kind, n_uuids, bytes);
	struct gm_mask_image *to;

	if (file == NULL)
		return NULL;
	if (n_uuids != 0)
		memcpy(file->uuids, uuids, n_uuids * sizeof(*uuids));
	to = (void *)gm_state_file_words(file);
	*to = *image;
	to->object.kind = GM_KIND_MASK;
	to->object.bytes = (uint32_t)bytes;
	to->object.image_bytes = sizeof(*to);
	to->n_replicas = 0;
	if (bytes != sizeof(*to))
		memcpy(to + 1, data, image->bytes);
	return file;
}

int gm_mask_state_read(const struct gm_state_dir *dir, const char *name,
		       char ret_why[GM_WHY_BYTES], const void **ret_data,
		       struct gm_state_file **ret_file)
{
	char file[GM_STATE_NAME_BYTES];
	int ret;

	gm_state_file_name(&gm_mask_kind, name, file);
	ret = gm_state_file_read(dir, &gm_mask_kind, file, ret_why, ret_file);
	if (ret == 0)
		*ret_data = data_bytes(gm_mask_state_image(*ret_file)) != 0
				    ? gm_mask_state_image(*ret_file) + 1
				    : NULL;
	return ret;
}

/* Once; and of one that the disk keeps from us it was said when it was not
 * read. */
static void say(const struct gm_daemon *d, struct gm_state_waiting *waiting,
		const char *why)
{
	char file[GM_STATE_NAME_BYTES];

	if (waiting->is_logged || waiting->file == NULL || why[0] == '\0')
		return;
	waiting->is_logged = true;
	gm_state_file_name(&gm_mask_kind, waiting->name, file);
	gm_log(GM_LOG_WARNING, "state_waits", "path=%s why=%s",
	       gm_state_path(d, file).text, gm_quote(why).text);
}

void gm_mask_state_stays(struct gm_daemon *d, const char *name, bool is_damaged,
			 const char *why)
{
	struct gm_state_waiting *waiting = find(d, name);
	char file[GM_STATE_NAME_BYTES];

	if (waiting == NULL)
		return;
	waiting->is_asked = false;
	gm_state_file_name(&gm_mask_kind, name, file);
	if (is_damaged) {
		gm_state_refuse(d, file, why);
		gm_state_replaced(d, &gm_mask_kind, name);
		return;
	}
	say(d, waiting, why);
}

/* ---- making them again -------------------------------------------------- */

/* Uuids become rows.  Returns false where one is not there. */
static bool resolve(const struct gm_daemon *d, const struct gm_state_file *file,
		    struct gm_masks_rows *rows)
{
	rows->n = file->n_uuids;
	for (uint32_t i = 0; i < file->n_uuids; i++) {
		const struct gm_device *device =
			gm_devices_find(d, file->uuids[i]);

		if (device == NULL || !device->present)
			return false;
		rows->of[i] = device->facts.row;
	}
	return true;
}

static bool is_possible(const struct gm_daemon *d,
			const struct gm_state_file *file,
			struct gm_masks_rows *rows)
{
	if (file == NULL)
		return false;
	if (file->n_uuids == 0)
		return gm_directory_find(d, GM_KIND_LAYERS,
					 gm_mask_state_image(file)->map) !=
		       NULL;
	return resolve(d, file, rows);
}

/* A change may be over, and its mask off the list, at once. */
void gm_mask_state_recheck(struct gm_daemon *d,
			   int (*restore)(struct gm_daemon *d,
					  const struct gm_mask_image *image,
					  const struct gm_masks_rows *rows))
{
	struct gm_state_waiting *waiting;
	struct gm_masks_rows rows;

	if (!d->io_thread->running)
		return;
	TAILQ_FOREACH(waiting, &d->state->waiting, entry)
	waiting->is_due = waiting->kind == &gm_mask_kind && !waiting->is_asked;
	waiting = TAILQ_FIRST(&d->state->waiting);
	while (waiting != NULL) {
		if (!waiting->is_due) {
			waiting = TAILQ_NEXT(waiting, entry);
			continue;
		}
		waiting->is_due = false;
		rows.n = 0;
		if (!is_possible(d, waiting->file, &rows)) {
			say(d, waiting, "a row or the map of it is not there");
			continue;
		}
		waiting->is_asked = true;
		if (restore(d, gm_mask_state_image(waiting->file), &rows) != 0)
			gm_mask_state_stays(d, waiting->name, false,
					    "out of memory");
		waiting = TAILQ_FIRST(&d->state->waiting);
	}
}

bool gm_mask_state_are_made(const struct gm_daemon *d)
{
	const struct gm_state_waiting *waiting;

	TAILQ_FOREACH(waiting, &d->state->waiting, entry)
	{
		if (waiting->is_asked)
			return true;
	}
	return false;
}

/* ---- the start --------------------------------------------------------- */

/* Is it what the slot has, or has it been published anew since for its map? */
static bool has_it(const struct gm_daemon *d, const struct gm_block *block,
		   const struct gm_mask_image *image)
{
	struct gm_masks_block mask;

	return block->version >= image->object.version &&
	       gm_masks_read(d, block->unit, &mask) &&
	       mask.image.hash == image->hash &&
	       mask.image.bytes == image->bytes &&
	       strcmp(mask.image.map, image->map) == 0;
}

/* A tensor that is in no file and no memory cannot be made again. */
static bool is_lost(const struct gm_mask_image *image)
{
	return image->form == GPUMAP_MASK_LOADED && image->bytes != 0 &&
	       data_bytes(image) == 0;
}

static void lose(struct gm_daemon *d, const struct gm_mask_image *image)
{
	char name[GM_STATE_NAME_BYTES], why[GM_WHY_BYTES];

	gm_state_file_name(&gm_mask_kind, image->object.name, name);
	gm_log(GM_LOG_ERROR, "mask_not_kept", "name=%s version=%llu why=%s",
	       image->object.name, (unsigned long long)image->object.version,
	       gm_quote("its tensor was too large for a file: load it again")
		       .text);
	if (gm_state_dir_remove(&d->state->dir, name, why) != 0)
		gm_log(GM_LOG_ERROR, "state_stays", "name=%s why=%s",
		       gm_quote(name).text, gm_quote(why).text);
}

/* An agent that died before it could show the mask had told no client, and the
 * mask that was there before is valid.  One that waits is read again when it is
 * made, because its bytes may be many. */
bool gm_mask_state_is_done(struct gm_daemon *d, struct gm_state_file **file)
{
	const struct gm_mask_image *image = gm_mask_state_image(*file);
	const struct gm_block *block =
		gm_directory_find(d, GM_KIND_MASK, image->object.name);
	struct gm_state_file *less;

	if (block != NULL && (has_it(d, block, image) || is_lost(image)))
		return true;
	if (is_lost(image)) {
		lose(d, image);
		return true;
	}
	(*file)->bytes -= data_bytes(image);
	less = realloc(*file, (*file)->bytes);
	*file = less != NULL ? less : *file;
	return false;
}
