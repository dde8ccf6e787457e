/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/meshes/epochs.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/segment/segment.h"
#include "agent/daemon/state/state.h"
#include "shm/meshes.h"
#include "shm/point.h"
#include "shm/seq.h"

#define FILE_NAME   "epochs"
#define SERIES_MAX  UINT32_C(0x7fffffff)
#define SERIES_TEXT 96 /* bytes of the file, and more */
#define TELL_NS     UINT64_C(5000000)

/* ---- a mesh's block ------------------------------------------------------ */

/* A mesh as we have published it, or are about to. */
struct mesh {
	struct gm_object object;
	struct gm_mesh_image image;
};

static void read_words(const struct gm_object *object, uint32_t at,
		       void *ret_bytes, size_t bytes)
{
	gm_seq_read(object->block + at / 8, ret_bytes, bytes / 8);
}

/* The block was validated when it was adopted, or this agent wrote it. */
static struct mesh open_mesh(const struct gm_daemon *d,
			     const struct gm_block *block)
{
	struct mesh mesh = { .object = { .slot = NULL } };

	mesh.object.block = (gm_a64 *)(void *)(d->segment->map.base +
					       (uint64_t)block->unit * GM_UNIT);
	mesh.object.image.bytes = block->bytes;
	read_words(&mesh.object, 0, &mesh.image, sizeof(mesh.image));
	return mesh;
}

static gm_a64 *epoch_of(const struct mesh *mesh, uint32_t i)
{
	uint64_t at = mesh->image.groups_at +
		      i * sizeof(struct gm_group_image) +
		      offsetof(struct gm_group_image, epoch);

	return mesh->object.block + at / 8;
}

/* Returns its n. */
static uint32_t rows_of(const struct mesh *mesh, uint32_t i,
			uint32_t ret_rows[GM_ROWS])
{
	struct gm_group_image group;

	if (gm_meshes_group(&mesh->object, &mesh->image, i, &group) != 0 ||
	    gm_meshes_table(&mesh->object, group.rows_at, ret_rows, group.n))
		return 0;
	return group.n;
}

static bool are_ready(const struct gm_daemon *d, const uint32_t *rows,
		      uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (rows[i] >= d->devices->n ||
		    d->devices->of[rows[i]]->moving.state !=
			    GPUMAP_DEVICE_READY)
			return false;
	}
	return true;
}

static bool has_row(const uint32_t *rows, uint32_t n, uint32_t row)
{
	for (uint32_t i = 0; i < n; i++) {
		if (rows[i] == row)
			return true;
	}
	return false;
}

static void move(struct gm_daemon *d, gm_a64 *epoch, bool is_whole)
{
	uint64_t next = d->epochs->last + 1;

	if (gm_meshes_is_whole(next) != is_whole)
		next++;
	d->epochs->last = next;
	gm_seq_fill(epoch, &next, 1);
}

void gm_epochs_give(struct gm_daemon *d, const struct gm_block *block)
{
	const struct mesh mesh = open_mesh(d, block);
	uint32_t rows[GM_ROWS];

	for (uint32_t i = 0; i < mesh.image.n_groups; i++) {
		uint32_t n = rows_of(&mesh, i, rows);

		move(d, epoch_of(&mesh, i), are_ready(d, rows, n));
	}
}

void gm_epochs_give_all(struct gm_daemon *d)
{
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		const struct gm_block *block = &d->directory->objects[i];

		if (block->unit != 0 && block->kind == GM_KIND_MESH)
			gm_epochs_give(d, block);
	}
}

int gm_epochs_find(const struct gm_daemon *d, const char *name,
		   const char *group, struct gm_epochs_group *ret_group)
{
	const struct gm_block *block = gm_directory_find(d, GM_KIND_MESH, name);
	struct mesh mesh;

	if (block == NULL || gm_object_name(group) == 0)
		return -ENOENT;
	mesh = open_mesh(d, block);
	for (uint32_t i = 0; i < mesh.image.n_groups; i++) {
		struct gm_group_image image;

		if (gm_meshes_group(&mesh.object, &mesh.image, i, &image) ||
		    strcmp(image.name, group) != 0)
			continue;
		*ret_group =
			(struct gm_epochs_group){ block, i, image.n,
						  image.epoch, block->version };
		return 0;
	}
	return -ENOENT;
}

bool gm_epochs_is_still(const struct gm_daemon *d,
			const struct gm_epochs_group *group)
{
	const struct gm_block *block = group->mesh;
	struct mesh mesh;

	/* A slot's versions only grow. */
	if (block->unit == 0 || block->version != group->version)
		return false;
	mesh = open_mesh(d, block);
	return gm_get(epoch_of(&mesh, group->index)) == group->epoch;
}

static void tell(struct gm_timer *timer)
{
	struct gm_daemon *d = gm_owner(timer, struct gm_epochs, tell)->d;

	/* Set or not: of what it was set for they are told now. */
	gm_timer_stop(d->loop, timer);
	d->epochs->told_ns = gm_loop_now();
	gm_segment_changed(d->segment);
}

/* A client may move the epochs of its meshes at any rate, and must not wake all
 * other clients as often. */
static void tell_soon(struct gm_daemon *d)
{
	struct gm_epochs *epochs = d->epochs;

	epochs->tell.fired = tell;
	if (gm_loop_now() - epochs->told_ns >= TELL_NS)
		tell(&epochs->tell);
	else if (epochs->tell.due_ns == 0)
		gm_timer_set(d->loop, &epochs->tell, epochs->told_ns + TELL_NS);
}

uint64_t gm_epochs_move(struct gm_daemon *d, const struct gm_block *block,
			uint32_t index)
{
	const struct mesh mesh = open_mesh(d, block);
	uint32_t rows[GM_ROWS];
	uint32_t n = rows_of(&mesh, index, rows);

	move(d, epoch_of(&mesh, index), are_ready(d, rows, n));
	GM_POINT("epoch_group_visible");
	tell_soon(d);
	return d->epochs->last;
}

static void move_row(struct gm_daemon *d, const struct gm_block *block,
		     uint32_t row)
{
	const struct mesh mesh = open_mesh(d, block);
	uint32_t rows[GM_ROWS];
	uint32_t n_moved = 0, n_whole = 0;

	for (uint32_t i = 0; i < mesh.image.n_groups; i++) {
		uint32_t n = rows_of(&mesh, i, rows);
		bool is_whole = are_ready(d, rows, n);

		if (!has_row(rows, n, row))
			continue;
		move(d, epoch_of(&mesh, i), is_whole);
		n_moved++;
		n_whole += is_whole;
	}
	GM_POINT("epoch_row_visible");
	if (n_moved != 0)
		gm_log(GM_LOG_INFO, "mesh_moved",
		       "name=%s row=%u groups=%u whole=%u", block->name, row,
		       n_moved, n_whole);
}

void gm_epochs_row(struct gm_daemon *d, uint32_t row)
{
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		const struct gm_block *block = &d->directory->objects[i];

		if (block->unit != 0 && block->kind == GM_KIND_MESH)
			move_row(d, block, row);
	}
}

/* ---- the series ---------------------------------------------------------- */

/* The whole of the file: "gpumap-state 1 BYTES SUM", and a line with the
 * series, of which these are the bytes and the 64-bit FNV-1a in hex. */
static int print_series(uint32_t series, char ret_text[SERIES_TEXT])
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);
	char line[16];
	int n = snprintf(line, sizeof(line), "%" PRIu32 "\n", series);

	for (int i = 0; i < n; i++)
		sum = (sum ^ (unsigned char)line[i]) *
		      UINT64_C(0x00000100000001b3);
	return snprintf(ret_text, SERIES_TEXT,
			"gpumap-state 1 %d %016" PRIx64 "\n%s", n, sum, line);
}

/* The series in a file of our format; else 0.  There is one form only. */
static uint32_t parse(const char *text, size_t bytes, char *ret_why)
{
	const char *line = strchr(text, '\n');
	char want[SERIES_TEXT];
	unsigned long series = line != NULL ? strtoul(line, NULL, 10) : 0;

	if (series == 0 || series >= SERIES_MAX) {
		gm_why(ret_why, 0, "it has no number that could be a series");
		return 0;
	}
	print_series((uint32_t)series, want);
	if (strlen(want) == bytes && memcmp(text, want, bytes) == 0)
		return (uint32_t)series;
	gm_why(ret_why, 0,
	       "its length or its sum is wrong: it was cut, or changed");
	return 0;
}

/* Without a file that can be read the segment has the last series, if there is
 * one. */
static int read_series(const struct gm_daemon *d, uint32_t *ret_series)
{
	char why[GM_WHY_BYTES] = "";
	size_t bytes;
	char *text;
	int ret = gm_state_dir_read(&d->state->dir, FILE_NAME, why, &text,
				    &bytes);

	*ret_series = 0;
	if (ret != 0 && ret != -EIO && !gm_state_is_bad(ret))
		return ret == -ENOENT ? 0 : ret;
	if (ret == 0) {
		*ret_series = parse(text, bytes, why);
		free(text);
	}
	if (*ret_series == 0)
		gm_state_refuse(d, FILE_NAME, why);
	return 0;
}

/* The highest epoch that readers of this segment may have seen. */
static uint64_t highest(const struct gm_daemon *d)
{
	uint64_t epoch = 0;

	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		const struct gm_block *block = &d->directory->objects[i];
		struct mesh mesh;

		if (block->unit == 0 || block->kind != GM_KIND_MESH)
			continue;
		mesh = open_mesh(d, block);
		for (uint32_t k = 0; k < mesh.image.n_groups; k++) {
			uint64_t of = gm_get(epoch_of(&mesh, k));

			epoch = of > epoch ? of : epoch;
		}
	}
	return epoch;
}

int gm_epochs_claim(struct gm_epochs *epochs, const struct gm_state_dir *dir,
		    char ret_why[GM_WHY_BYTES])
{
	char text[SERIES_TEXT];
	int n, ret;

	if (epochs->is_claimed)
		return 0;
	n = print_series(epochs->series, text);
	ret = gm_state_dir_write(dir, FILE_NAME, text, (size_t)n, ret_why);
	epochs->is_claimed = ret == 0;
	return ret;
}

void gm_epochs_expect(struct gm_daemon *d)
{
	char why[GM_WHY_BYTES];

	if (gm_epochs_claim(d->epochs, &d->state->dir, why) != 0)
		gm_log(GM_LOG_ERROR, "epochs_not_kept", "why=%s remedy=%s",
		       gm_quote(why).text,
		       gm_quote("look at the disk, then restart").text);
}

int gm_epochs_start(struct gm_daemon *d, char ret_why[GM_WHY_BYTES])
{
	uint64_t seen = highest(d) >> 32;
	uint32_t series;
	int ret = read_series(d, &series);

	if (ret != 0)
		return gm_why(ret_why, ret, FILE_NAME ": %s", strerror(-ret));
	if (seen > series && seen < SERIES_MAX)
		series = (uint32_t)seen;
	*d->epochs = (struct gm_epochs){ .d = d, .series = series + 1 };
	d->epochs->last = (uint64_t)d->epochs->series << 32;
	if (seen != 0) {
		gm_epochs_expect(d);
		gm_epochs_give_all(d);
	}
	return 0;
}
