/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/state/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/segment/validate.h"
#include "agent/daemon/state/state.h"
#include "shm/objects.h"

#define MAGIC UINT64_C(0x65746174736d7067) /* "gpmstate" */

_Static_assert(sizeof(struct gm_state_file) == 40, "UUIDs and words follow");
/* A new major may change the words of some kinds, and of these kinds alone. */
_Static_assert(GM_LAYOUT_MAJOR == 4, "which kinds have another layout now?");

/* ---- names --------------------------------------------------------------- */

void gm_state_file_name(const struct gm_state_kind *kind, const char *name,
			char ret_file[GM_STATE_NAME_BYTES])
{
	gm_state_dir_escape(name != NULL ? name : "", ret_file);
	strcat(ret_file, kind->suffix);
}

/* A name has one escaped form only, so what is read is written to compare. */
bool gm_state_file_owner(const struct gm_state_kind *kind, const char *file,
			 char ret_name[GM_NAME_BYTES])
{
	size_t n = strlen(file), end = strlen(kind->suffix), used = 0;
	char name[GM_NAME_BYTES] = "", want[GM_STATE_NAME_BYTES];

	for (size_t i = 0; i + end < n; i++) {
		unsigned byte = (unsigned char)file[i];

		if (byte == '%') {
			if (sscanf(file + i + 1, "%2X", &byte) != 1)
				return false;
			i += 2;
		}
		if (used == sizeof(name) - 1 || byte == 0)
			return false;
		name[used++] = (char)byte;
	}
	if (used == 0)
		return false;
	gm_state_file_name(kind, name, want);
	if (strcmp(want, file) != 0)
		return false;
	memcpy(ret_name, name, sizeof(name));
	return true;
}

/* ---- making -------------------------------------------------------------- */

struct gm_state_file *gm_state_file_new(const struct gm_state_kind *kind,
					uint32_t n_uuids, uint64_t word_bytes)
{
	uint64_t bytes =
		sizeof(struct gm_state_file) + n_uuids * 16 + word_bytes;
	struct gm_state_file *file = calloc(1, bytes);

	if (file != NULL)
		*file = (struct gm_state_file){ .magic = MAGIC,
						.kind = kind->number,
						.layout = kind->layout,
						.bytes = bytes,
						.n_uuids = n_uuids };
	return file;
}

/* Rows get places in the order in which the words name them. */
struct places {
	uint32_t n;
	uint32_t rows[GM_ROWS];
	uint32_t of[GM_ROWS]; /* the place of a row, and 1; 0: none yet */
};

static void find_place(uint32_t *row, void *arg)
{
	struct places *places = arg;

	if (places->of[*row] != 0)
		return;
	places->rows[places->n++] = *row;
	places->of[*row] = places->n;
}

static void put_place(uint32_t *row, void *arg)
{
	*row = ((const struct places *)arg)->of[*row] - 1;
}

struct gm_state_file *gm_state_file_make(const struct gm_daemon *d,
					 const struct gm_state_kind *kind,
					 const uint64_t *words)
{
	uint64_t bytes = ((const struct gm_object_image *)words)->bytes;
	struct places places = { .n = 0 };
	struct gm_state_file *file;

	kind->visit_rows((uint64_t *)(uintptr_t)words, find_place, &places);
	file = gm_state_file_new(kind, places.n, bytes);
	if (file == NULL)
		return NULL;
	for (uint32_t i = 0; i < places.n; i++)
		memcpy(file->uuids[i],
		       d->devices->of[places.rows[i]]->facts.uuid,
		       sizeof(file->uuids[i]));
	memcpy(gm_state_file_words(file), words, bytes);
	kind->visit_rows(gm_state_file_words(file), put_place, &places);
	return file;
}

static void put_row(uint32_t *place, void *arg)
{
	*place = ((const uint32_t *)arg)[*place];
}

int gm_state_file_block(const struct gm_daemon *d,
			const struct gm_state_kind *kind,
			const struct gm_state_file *file, uint64_t **ret_words,
			bool *ret_is_lost)
{
	uint64_t bytes = gm_state_file_word_bytes(file), *words;
	uint32_t rows[GM_ROWS];

	*ret_is_lost = false;
	for (uint32_t i = 0; i < file->n_uuids; i++) {
		const struct gm_device *device =
			gm_devices_find(d, file->uuids[i]);

		if (device == NULL)
			return -ENODEV;
		rows[i] = device->facts.row;
		*ret_is_lost |= !device->present;
	}
	words = malloc(bytes);
	if (words == NULL)
		return -ENOMEM;
	memcpy(words, gm_state_file_words(file), bytes);
	kind->visit_rows(words, put_row, rows);
	*ret_words = words;
	return 0;
}

/* ---- validating ---------------------------------------------------------- */

/* FNV-1a: the sum detects errors of a disk, not forgeries. */
static uint64_t add_up(uint64_t sum, const void *at, size_t bytes)
{
	const unsigned char *byte = at;

	for (size_t i = 0; i < bytes; i++)
		sum = (sum ^ byte[i]) * UINT64_C(0x00000100000001b3);
	return sum;
}

static uint64_t sum_of(const struct gm_state_file *file)
{
	const size_t end = offsetof(struct gm_state_file, n_uuids);
	uint64_t sum = add_up(UINT64_C(0xcbf29ce484222325), file,
			      offsetof(struct gm_state_file, sum));

	return add_up(sum, (const char *)file + end, file->bytes - end);
}

void gm_state_file_seal(struct gm_state_file *file)
{
	file->sum = sum_of(file);
}

static int check_uuids(const struct gm_state_file *file, char *ret_why)
{
	if (file->unused != 0 || file->n_uuids > GM_ROWS ||
	    file->bytes < sizeof(*file) + file->n_uuids * 16 ||
	    gm_state_file_word_bytes(file) % 8 != 0)
		return gm_why(ret_why, -EPROTO,
			      "it has more devices than can be, or no words");
	for (uint32_t i = 0; i < file->n_uuids; i++) {
		for (uint32_t j = 0; j < i; j++)
			if (memcmp(file->uuids[i], file->uuids[j], 16) == 0)
				return gm_why(ret_why, -EPROTO,
					      "it has a device twice");
	}
	return 0;
}

/* An object has the name that its file has. */
static int check_name(const struct gm_state_kind *kind, const char *name,
		      const struct gm_state_file *file, char *ret_why)
{
	const struct gm_object_image *image = gm_state_file_object(file);
	char want[GM_STATE_NAME_BYTES];

	if (image->kind != kind->number || (image->flags & GM_OBJECT_HELD) != 0)
		return gm_why(ret_why, -EPROTO,
			      "its object is one that has no such file");
	gm_state_file_name(kind, image->name, want);
	if (strcmp(want, name) != 0)
		return gm_why(ret_why, -EPROTO, "name is not its file's");
	return 0;
}

int gm_state_file_check(const struct gm_state_kind *kind, const char *name,
			const struct gm_state_file *file, size_t bytes,
			char ret_why[GM_WHY_BYTES])
{
	int ret;

	if (bytes < sizeof(*file) || file->magic != MAGIC)
		return gm_why(ret_why, -EPROTO, "it is no state file");
	if (file->kind != kind->number)
		return gm_why(ret_why, -EPROTO, "it is no file of a %s",
			      kind->what);
	if (file->layout != kind->layout)
		return gm_why(ret_why, -EPROTO,
			      "it has layout %u of a %s, and this agent reads "
			      "%u",
			      file->layout, kind->what, kind->layout);
	if (file->bytes != bytes || file->sum != sum_of(file))
		return gm_why(ret_why, -EBADMSG,
			      "its length or its sum is wrong: it was cut, or "
			      "changed");
	ret = check_uuids(file, ret_why);
	if (ret == 0)
		ret = kind->validate != NULL
			      ? kind->validate(file, ret_why)
			      : gm_segment_check_words(
					gm_state_file_words(file),
					gm_state_file_word_bytes(file),
					file->n_uuids, ret_why);
	if (ret == 0 && kind->number < GM_STATE_SINGLE)
		ret = check_name(kind, name, file, ret_why);
	return ret;
}

/* ---- the disk ------------------------------------------------------------ */

int gm_state_file_read(const struct gm_state_dir *dir,
		       const struct gm_state_kind *kind, const char *name,
		       char ret_why[GM_WHY_BYTES],
		       struct gm_state_file **ret_file)
{
	size_t bytes;
	char *text;
	int ret = gm_state_dir_read(dir, name, ret_why, &text, &bytes);

	if (ret != 0)
		return ret;
	ret = gm_state_file_check(kind, name, (const void *)text, bytes,
				  ret_why);
	if (ret == 0)
		*ret_file = (void *)text;
	else
		free(text);
	return ret;
}

int gm_state_file_write(const struct gm_state_dir *dir,
			const struct gm_state_kind *kind,
			struct gm_state_file *file, char ret_why[GM_WHY_BYTES])
{
	bool is_single = kind->number >= GM_STATE_SINGLE;
	char name[GM_STATE_NAME_BYTES];

	gm_state_file_name(kind,
			   is_single ? NULL : gm_state_file_object(file)->name,
			   name);
	if (is_single && file->bytes == sizeof(*file))
		return gm_state_dir_remove(dir, name, ret_why);
	gm_state_file_seal(file);
	return gm_state_dir_write(dir, name, (const char *)file, file->bytes,
				  ret_why);
}
