/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/map/publish.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/segment/segment.h"
#include "agent/daemon/state/state.h"
#include "shm/seq.h"

struct map_waiting {
	struct gm_state_waiting head;
	struct gm_state_map map; /* memory NULL: is_unread */
	bool is_resolved; /* its rows are rows, not places among the charges */
};

static struct map_waiting *owner_of(struct gm_state_waiting *head)
{
	return gm_owner(head, struct map_waiting, head);
}

static void forget(struct gm_daemon *d, struct map_waiting *waiting)
{
	TAILQ_REMOVE(&d->state->maps, &waiting->head, entry);
	gm_state_map_free(&waiting->map);
	free(waiting);
}

static void exit_maps(struct gm_daemon *d)
{
	while (!TAILQ_EMPTY(&d->state->maps))
		forget(d, owner_of(TAILQ_FIRST(&d->state->maps)));
}

/* ---- names of files that wait ------------------------------------------ */

int gm_map_state_may_replace(const struct gm_daemon *d, const char *name,
			     uint32_t uid, char ret_why[GM_WHY_BYTES],
			     bool *ret_is_waiting)
{
	return gm_state_waiting_may_replace(&d->state->maps, "map", name, uid,
					    ret_why, ret_is_waiting);
}

static bool names(const struct gm_daemon *d, const uint8_t uuid[16])
{
	struct gm_state_waiting *head;

	TAILQ_FOREACH(head, &d->state->maps, entry)
	{
		const struct gm_state_map *map = &owner_of(head)->map;

		for (uint32_t i = 0; map->memory && i < map->layers.n_rows; i++)
			if (memcmp(map->uuids[i], uuid, 16) == 0)
				return true;
	}
	return false;
}

void gm_map_state_replaced(struct gm_daemon *d, const char *name)
{
	struct gm_state_waiting *head =
		gm_state_waiting_find(&d->state->maps, name);

	if (head != NULL)
		forget(d, owner_of(head));
}

/* ---- one file at a time ------------------------------------------------ */

int gm_map_state_name_rows(const struct gm_daemon *d,
			   const struct gm_layers *layers, uint64_t version,
			   struct gm_state_map *ret_map)
{
	struct gm_state_map map = { .layers = *layers, .version = version };

	map.memory = calloc(layers->n_rows, sizeof(*map.uuids));
	if (map.memory == NULL)
		return -ENOMEM;
	map.uuids = map.memory;
	for (uint32_t i = 0; i < layers->n_rows; i++)
		memcpy(map.uuids[i],
		       d->devices->of[layers->charges[i].row]->facts.uuid,
		       sizeof(map.uuids[i]));
	*ret_map = map;
	return 0;
}

int gm_map_state_write(const struct gm_state_dir *dir,
		       const struct gm_state_map *map,
		       char ret_why[GM_WHY_BYTES])
{
	char file[GM_STATE_NAME_BYTES], *text;
	size_t bytes;
	int ret = gm_map_text_make(map, &text, &bytes);

	if (ret != 0)
		return gm_why(ret_why, ret, "out of memory");
	gm_map_text_name(map->layers.name, file);
	ret = gm_state_dir_write(dir, file, text, bytes, ret_why);
	free(text);
	return ret;
}

int gm_map_state_set_aside(const struct gm_state_dir *dir, const char *name,
			   char ret_why[GM_WHY_BYTES], bool *ret_is_there)
{
	char file[GM_STATE_NAME_BYTES];

	gm_map_text_name(name, file);
	return gm_state_dir_set_aside(dir, file, ret_why, ret_is_there);
}

int gm_map_state_drop_aside(const struct gm_state_dir *dir, const char *name,
			    char ret_why[GM_WHY_BYTES])
{
	char file[GM_STATE_NAME_BYTES];

	gm_map_text_name(name, file);
	return gm_state_dir_drop_aside(dir, file, ret_why);
}

int gm_map_state_remove(const struct gm_state_dir *dir, const char *name,
			char ret_why[GM_WHY_BYTES])
{
	char file[GM_STATE_NAME_BYTES];

	gm_map_text_name(name, file);
	return gm_state_dir_remove(dir, file, ret_why);
}

/* ---- all of them, at a start ------------------------------------------- */

/* The results of a start, for the log. */
struct found {
	int n;
	char **files;
	struct gm_state_map *maps; /* of each; memory NULL: not of use */
	bool keep[GM_OBJECTS];     /* objects of the segment */
};

static void free_found(struct found *found)
{
	for (int i = 0; i < found->n; i++) {
		free(found->files[i]);
		if (found->maps != NULL)
			gm_state_map_free(&found->maps[i]);
	}
	free(found->files);
	free(found->maps);
	free(found);
}

/* Takes what @map has. */
static int let_wait(struct gm_daemon *d, const char *file,
		    struct gm_state_map *map, bool is_resolved, const char *why)
{
	const struct gm_layers *layers = &map->layers;
	struct map_waiting *waiting = calloc(1, sizeof(*waiting));

	if (waiting == NULL)
		return -ENOMEM;
	gm_state_waiting_add(&d->state->maps, &waiting->head, layers->name,
			     layers->owner_uid);
	waiting->is_resolved = is_resolved;
	waiting->map = *map;
	memset(map, 0, sizeof(*map));
	gm_log(GM_LOG_WARNING, "state_waits", "path=%s why=%s",
	       gm_state_files_path(d, file).text, gm_quote(why).text);
	return 0;
}

/* The object that the segment has under this name was acknowledged.  If the
 * segment has none, the name is taken, and only the file knows by which
 * user. */
static int leave_unread(struct gm_daemon *d, struct found *found,
			const char *file)
{
	char name[GM_NAME_BYTES];
	bool is_named = gm_map_text_owner(file, name);
	const struct gm_block *block =
		is_named ? gm_directory_find(d, GM_KIND_LAYERS, name) : NULL;
	struct map_waiting *waiting;

	gm_log(GM_LOG_ERROR, "state_unread", "path=%s why=%s remedy=%s",
	       gm_state_files_path(d, file).text, gm_quote(strerror(EIO)).text,
	       gm_quote(block != NULL
				? "look at the disk, then publish the map "
				  "again: until then only the segment has it"
				: "look at the disk and restart, or release "
				  "the map")
		       .text);
	if (block != NULL)
		found->keep[block - d->directory->objects] = true;
	if (block != NULL || !is_named)
		return 0;
	waiting = calloc(1, sizeof(*waiting));
	if (waiting == NULL)
		return -ENOMEM;
	waiting->head.is_unread = true;
	gm_state_waiting_add(&d->state->maps, &waiting->head, name, geteuid());
	return 0;
}

static int read_one(const struct gm_daemon *d, const char *file,
		    struct gm_state_map *map, char *ret_why)
{
	size_t bytes;
	char *text;
	int ret;

	ret = gm_state_dir_read(&d->state->dir, file, ret_why, &text, &bytes);
	if (ret != 0)
		return ret;
	ret = gm_map_text_read(file, text, bytes, map, ret_why);
	free(text);
	return ret;
}

static int read_files(struct gm_daemon *d, struct found *found, char *ret_why)
{
	int n = gm_state_dir_list(&d->state->dir, &found->files);

	if (n < 0)
		return gm_why(ret_why, n, "%s: %s", d->state->dir.path,
			      strerror(-n));
	found->n = n;
	found->maps = calloc((size_t)n + 1, sizeof(*found->maps));
	if (found->maps == NULL)
		return gm_why(ret_why, -ENOMEM, "out of memory");
	for (int i = 0; i < n; i++) {
		const char *file = found->files[i];
		char why[GM_WHY_BYTES];
		int ret = read_one(d, file, &found->maps[i], why);

		if (gm_state_files_is_bad(ret)) {
			gm_state_files_refuse(d, file, why);
			continue;
		}
		if (ret == -EIO)
			ret = leave_unread(d, found, file);
		if (ret != 0)
			return gm_why(ret_why, ret, "%.100s/%.100s: %s",
				      d->state->dir.path, file, strerror(-ret));
	}
	return 0;
}

static bool is_configured(const struct gm_daemon *d, const char *name)
{
	for (uint32_t i = 0; i < d->config->n_maps; i++) {
		if (strcmp(d->config->maps[i].name, name) == 0)
			return true;
	}
	return false;
}

static void drop_aside(const struct gm_daemon *d, const char *file)
{
	char why[GM_WHY_BYTES];

	/* A file that was set aside does not count, so it may stay. */
	if (gm_state_dir_drop_aside(&d->state->dir, file, why) != 0)
		gm_log(GM_LOG_WARNING, "state_stays", "name=%s why=%s",
		       gm_quote(file).text, gm_quote(why).text);
}

/* An agent before us died, or its disk failed, between setting a file aside and
 * removing it: had its map given way already? */
static int check_aside(const struct gm_daemon *d, char *ret_why)
{
	char **files;
	int n = gm_state_dir_list_aside(&d->state->dir, &files), ret = 0;

	if (n < 0)
		return gm_why(ret_why, n, "%s: %s", d->state->dir.path,
			      strerror(-n));
	for (int i = 0; i < n; i++) {
		const struct gm_block *block = NULL;
		char name[GM_NAME_BYTES];

		if (gm_map_text_owner(files[i], name))
			block = gm_directory_find(d, GM_KIND_LAYERS, name);
		if (ret == 0 && block != NULL &&
		    (block->flags & GM_OBJECT_HELD) == 0 &&
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

/* A file is older than the HELD map in its slot when an agent died that removed
 * it only after that had replaced the file's map. */
static int match_slots(const struct gm_daemon *d, struct found *found,
		       char *ret_why)
{
	for (int i = 0; i < found->n; i++) {
		struct gm_state_map *map = &found->maps[i];
		const struct gm_block *block;
		int ret;

		if (map->memory == NULL)
			continue;
		block = gm_directory_find(d, GM_KIND_LAYERS, map->layers.name);
		if (block == NULL)
			continue;
		found->keep[block - d->directory->objects] = true;
		if ((block->flags & GM_OBJECT_HELD) == 0 ||
		    block->version < map->version)
			continue;
		ret = gm_map_state_remove(&d->state->dir, map->layers.name,
					  ret_why);
		if (ret != 0)
			return ret;
		gm_state_map_free(map);
	}
	return 0;
}

/* No file is to know of a held map, nor of one of the configuration. */
static void drop_unknown(struct gm_daemon *d, struct found *found)
{
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		const struct gm_block *block = &d->directory->objects[i];

		if (block->unit != 0 && ((block->flags & GM_OBJECT_HELD) != 0 ||
					 is_configured(d, block->name)))
			found->keep[i] = true;
	}
	gm_state_files_drop_unknown(d, GM_KIND_LAYERS, found->keep);
}

/* Places among the charges become rows.  Returns false where one is not in the
 * table; ret_lost: one is, and its device is not there. */
static bool resolve(const struct gm_daemon *d, struct gm_state_map *map,
		    bool *ret_lost)
{
	struct gm_layers *layers = &map->layers;
	struct gm_charge_image *charges = (void *)(uintptr_t)layers->charges;
	uint32_t *rows = (void *)(uintptr_t)layers->rows;
	bool lost = false;

	for (uint32_t i = 0; i < layers->n_rows; i++) {
		const struct gm_device *device =
			gm_devices_find(d, map->uuids[i]);

		if (device == NULL)
			return false;
		charges[i].row = device->facts.row;
		lost = lost || !device->present;
	}
	for (uint32_t i = 0; i < layers->n_layers; i++)
		rows[i] = charges[rows[i]].row;
	layers->base = charges[layers->base].row;
	*ret_lost = lost;
	return true;
}

/* Is what the slot names, word for word, what the file would become? */
static bool says_same(const struct gm_daemon *d, const struct gm_block *block,
		      const struct gm_state_map *map)
{
	const struct gm_layers *layers = &map->layers;
	uint64_t bytes = gm_layers_bytes(layers), *words;
	const gm_a64 *at =
		(const gm_a64 *)(void *)(d->segment->map.base +
					 (uint64_t)block->unit * GM_UNIT);
	bool same = true;

	if (block->bytes != bytes || block->version < map->version)
		return false;
	words = malloc(bytes);
	if (words == NULL)
		return false; /* publishing it anew does no harm */
	gm_layers_build(layers, block->version, words);
	for (uint64_t i = 0; i < bytes / 8 && same; i++)
		same = gm_get(&at[i]) == words[i];
	free(words);
	return same;
}

static int bring_back(struct gm_daemon *d, const char *file,
		      struct gm_state_map *map)
{
	const struct gm_layers *layers = &map->layers;
	const struct gm_block *block =
		gm_directory_find(d, GM_KIND_LAYERS, layers->name);
	char why[GM_WHY_BYTES];
	bool is_lost = false;

	if (is_configured(d, layers->name))
		return let_wait(d, file, map, false,
				"the configuration has a map of this name");
	if (!resolve(d, map, &is_lost))
		return let_wait(d, file, map, false,
				"a device of it is not there");
	if (block != NULL && says_same(d, block, map))
		return 0;
	if (is_lost)
		return let_wait(d, file, map, true,
				"a device of it is not there");
	if (gm_publish_restore(d, layers, map->version, why) != 0)
		return let_wait(d, file, map, true, why);
	return 0;
}

/* ---- later ------------------------------------------------------------- */

static bool are_there(const struct gm_daemon *d, const struct gm_layers *layers)
{
	for (uint32_t i = 0; i < layers->n_rows; i++) {
		if (!d->devices->of[layers->charges[i].row]->present)
			return false;
	}
	return true;
}

static bool may_be_published(const struct gm_daemon *d,
			     struct map_waiting *waiting)
{
	bool is_lost;

	if (is_configured(d, waiting->head.name) || waiting->head.is_unread)
		return false;
	if (!waiting->is_resolved)
		waiting->is_resolved = resolve(d, &waiting->map, &is_lost);
	return waiting->is_resolved && are_there(d, &waiting->map.layers);
}

static void recheck(struct gm_daemon *d)
{
	struct gm_state_waiting *head, *next;
	char why[GM_WHY_BYTES];

	for (head = TAILQ_FIRST(&d->state->maps); head != NULL; head = next) {
		struct map_waiting *waiting = owner_of(head);

		next = TAILQ_NEXT(head, entry);
		if (!may_be_published(d, waiting))
			continue;
		/* A map that has no room was logged at the start. */
		if (gm_publish_restore(d, &waiting->map.layers,
				       waiting->map.version, why) == 0)
			forget(d, waiting);
	}
}

/* ---- the start --------------------------------------------------------- */

static int restore(struct gm_daemon *d, char ret_why[GM_WHY_BYTES])
{
	struct found *found = calloc(1, sizeof(*found));
	int ret;

	if (found == NULL)
		return gm_why(ret_why, -ENOMEM, "out of memory");
	ret = check_aside(d, ret_why);
	if (ret == 0)
		ret = read_files(d, found, ret_why);
	if (ret == 0)
		ret = match_slots(d, found, ret_why);
	if (ret == 0)
		drop_unknown(d, found);
	for (int i = 0; i < found->n && ret == 0; i++) {
		if (found->maps[i].memory == NULL)
			continue;
		ret = bring_back(d, found->files[i], &found->maps[i]);
		if (ret != 0)
			gm_why(ret_why, ret, "out of memory");
	}
	free_found(found);
	return ret;
}

const struct gm_state_kind gm_map_state_kind = {
	.kind = GM_KIND_LAYERS,
	.restore = restore,
	.recheck = recheck,
	.names = names,
	.may_replace = gm_map_state_may_replace,
	.replaced = gm_map_state_replaced,
	.exit = exit_maps,
};
