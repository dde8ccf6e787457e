/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/state_text.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/state/field.h"

/* ---- text -------------------------------------------------------------- */

void gm_map_text_name(const char *name, char ret_name[GM_STATE_NAME_BYTES])
{
	gm_state_text_escape(name, ret_name);
	strcat(ret_name, GM_STATE_SUFFIX);
}

bool gm_map_text_owner(const char *file, char ret_name[GM_NAME_BYTES])
{
	return gm_state_text_owner_of(file, GM_STATE_SUFFIX, ret_name);
}

/* ---- writing ----------------------------------------------------------- */

static void put_number(FILE *to, const char *key, uint64_t number)
{
	fprintf(to, "\"%s\":%" PRIu64 ",\n", key, number);
}

static void put_rows(FILE *to, const struct gm_state_map *map)
{
	for (uint32_t i = 0; i < map->layers.n_rows; i++) {
		const struct gm_charge_image *charge = &map->layers.charges[i];

		fprintf(to, "%s\n{\"uuid\":", i == 0 ? "\"rows\":[" : ",");
		gm_state_text_put_uuid(to, map->uuids[i]);
		fprintf(to,
			",\"n_layers\":%u,\"weight_bytes\":%" PRIu64
			",\"kv_bytes\":%" PRIu64
			",\"activation_bytes\":%" PRIu64
			",\"reserve_bytes\":%" PRIu64 "}",
			charge->n_layers, charge->weight_bytes,
			charge->kv_bytes, charge->activation_bytes,
			charge->reserve_bytes);
	}
	fputs("],\n", to);
}

/* How many in a row are as the one at @i? */
static uint32_t run_of_rows(const struct gm_layers *layers, uint32_t i)
{
	uint32_t n = 1;

	while (i + n < layers->n_layers &&
	       layers->rows[i + n] == layers->rows[i])
		n++;
	return n;
}

static uint32_t run_of_bytes(const struct gm_layers *layers, uint32_t i)
{
	uint32_t n = 1;

	while (i + n < layers->n_layers &&
	       layers->bytes[i + n] == layers->bytes[i])
		n++;
	return n;
}

static uint32_t place_of(const struct gm_layers *layers, uint32_t row)
{
	uint32_t i = 0;

	while (i < layers->n_rows && layers->charges[i].row != row)
		i++;
	assert(i < layers->n_rows);
	return i;
}

static void put_layers(FILE *to, const struct gm_layers *layers)
{
	uint32_t n;

	fputs("\"layers\":[", to);
	for (uint32_t i = 0; i < layers->n_layers; i += n) {
		n = run_of_rows(layers, i);
		fprintf(to, "%s[%u,%u]", i == 0 ? "" : ",",
			place_of(layers, layers->rows[i]), n);
	}
	fputs("],\n\"layer_bytes\":", to);
	if (layers->bytes == NULL) {
		fputs("null\n", to);
		return;
	}
	for (uint32_t i = 0; i < layers->n_layers; i += n) {
		n = run_of_bytes(layers, i);
		fprintf(to, "%s[%" PRIu64 ",%u]", i == 0 ? "[" : ",",
			layers->bytes[i], n);
	}
	fputs("]\n", to);
}

static void put_map(FILE *to, const struct gm_state_map *map)
{
	const struct gm_layers *layers = &map->layers;

	fputs("{\n", to);
	gm_state_text_put(to, "name", layers->name);
	gm_state_text_put(to, "spec", layers->spec);
	put_number(to, "owner_uid", layers->owner_uid);
	put_number(to, "flags", layers->flags);
	put_number(to, "version", map->version);
	put_number(to, "published", layers->published);
	put_number(to, "setting", layers->setting);
	put_number(to, "strategy", layers->strategy);
	put_number(to, "dtype", layers->dtype);
	put_number(to, "compute_dtype", layers->compute_dtype);
	put_number(to, "max_seq_len", layers->max_seq_len);
	put_number(to, "max_batch_size", layers->max_batch_size);
	put_number(to, "other_bytes", layers->other_bytes);
	put_number(to, "base", place_of(layers, layers->base));
	put_rows(to, map);
	put_layers(to, layers);
	fputs("}\n", to);
}

int gm_map_text_make(const struct gm_state_map *map, char **ret_text,
		     size_t *ret_bytes)
{
	char *body = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&body, &bytes);

	if (to == NULL)
		return -ENOMEM;
	put_map(to, map);
	return gm_state_text_frame(to, &body, &bytes, ret_text, ret_bytes);
}

/* ---- reading ----------------------------------------------------------- */

static uint32_t number32(struct gm_fields *f, const char *key, uint32_t most)
{
	uint64_t number = gm_json_field_number(f, key);

	if (number > most)
		gm_json_field_refuse(f, key, "is too large");
	return f->r != 0 ? 0 : (uint32_t)number;
}

static void read_uuid(struct gm_fields *f, uint8_t ret_uuid[16])
{
	const char *at = gm_json_field_text(f, "uuid");

	if (at == NULL || !gm_state_text_uuid(at, ret_uuid))
		gm_json_field_refuse(f, "uuid", "is no uuid");
}

/* All that a map points to. */
struct room {
	char name[GM_NAME_BYTES];
	uint8_t uuids[GM_ROWS][16];
	struct gm_charge_image charges[GM_ROWS];
	uint64_t *bytes;
	uint32_t *rows;
	char *spec;
	uint64_t tail[]; /* n_layers bytes, n_layers rows, the spec */
};

/* The layers that a list of [what, count] is about. */
static uint32_t count_runs(struct gm_fields *f, const char *key)
{
	const json_t *list = gm_json_field_list(f, key);
	uint64_t n = 0, run[2] = { 0 };

	for (size_t i = 0; i < json_array_size(list) && f->r == 0; i++) {
		gm_json_field_tuple(f, key, list, i, run, 2);
		if (f->r == 0 && (run[1] == 0 || run[1] > GM_LAYERS_MAX - n))
			gm_json_field_refuse(f, key, "has too many layers");
		n += run[1];
	}
	if (n == 0)
		gm_json_field_refuse(f, key, "has no layers");
	return f->r != 0 ? 0 : (uint32_t)n;
}

static void read_rows(struct gm_fields *f, struct gm_state_map *map,
		      struct room *room)
{
	const json_t *list = gm_json_field_list(f, "rows");
	size_t n = json_array_size(list);

	if (n == 0 || n > GM_ROWS)
		gm_json_field_refuse(f, "rows", "has none or too many");
	for (size_t i = 0; i < n && f->r == 0; i++) {
		struct gm_charge_image *charge = &room->charges[i];
		struct gm_fields row = { json_array_get(list, i), "rows.",
					 f->err, 0 };

		read_uuid(&row, room->uuids[i]);
		charge->row = (uint32_t)i;
		charge->n_layers = number32(&row, "n_layers", GM_LAYERS_MAX);
		charge->weight_bytes =
			gm_json_field_number(&row, "weight_bytes");
		charge->kv_bytes = gm_json_field_number(&row, "kv_bytes");
		charge->activation_bytes =
			gm_json_field_number(&row, "activation_bytes");
		charge->reserve_bytes =
			gm_json_field_number(&row, "reserve_bytes");
		f->r = row.r;
		for (size_t j = 0; j < i; j++) {
			if (memcmp(room->uuids[i], room->uuids[j], 16) == 0)
				gm_json_field_refuse(f, "rows",
						     "has one twice");
		}
	}
	map->layers.n_rows = (uint32_t)n;
	map->layers.charges = room->charges;
	map->uuids = room->uuids;
}

static void read_layers(struct gm_fields *f, struct gm_state_map *map,
			struct room *room)
{
	const json_t *list = gm_json_field_list(f, "layers");
	uint64_t run[2];
	uint32_t at = 0;

	for (size_t i = 0; i < json_array_size(list) && f->r == 0; i++) {
		gm_json_field_tuple(f, "layers", list, i, run, 2);
		if (run[0] >= map->layers.n_rows) {
			gm_json_field_refuse(f, "layers",
					     "has a row of no place");
			return;
		}
		for (; run[1] > 0; run[1]--)
			room->rows[at++] = (uint32_t)run[0];
	}
	map->layers.rows = room->rows;
	if (!gm_json_field_given(f, "layer_bytes"))
		return;
	if (count_runs(f, "layer_bytes") != map->layers.n_layers) {
		gm_json_field_refuse(f, "layer_bytes", "is of other layers");
		return;
	}
	list = gm_json_field_list(f, "layer_bytes");
	at = 0;
	for (size_t i = 0; i < json_array_size(list) && f->r == 0; i++) {
		gm_json_field_tuple(f, "layer_bytes", list, i, run, 2);
		for (; run[1] > 0; run[1]--)
			room->bytes[at++] = run[0];
	}
	map->layers.bytes = room->bytes;
}

/* The name that the file has, and no other. */
static void read_name(struct gm_fields *f, const char *file,
		      struct gm_state_map *map, struct room *room)
{
	char want[GM_STATE_NAME_BYTES];

	gm_state_field_name(f, "name", room->name);
	if (f->r == 0)
		gm_map_text_name(room->name, want);
	if (f->r == 0 && strcmp(want, file) != 0)
		gm_json_field_refuse(f, "name", "is not its file's");
	for (const char *c = room->name; *c != '\0'; c++) {
		if ((unsigned char)*c <= ' ' || *c == 0x7f)
			gm_json_field_refuse(f, "name", "has a blank");
	}
	map->layers.name = room->name;
}

static struct room *make_room(struct gm_fields *f, struct gm_state_map *map)
{
	const char *spec = gm_json_field_text(f, "spec");
	uint32_t n = count_runs(f, "layers");
	struct room *room;

	if (f->r != 0)
		return NULL;
	room = calloc(1, sizeof(*room) + (size_t)n * 12 + strlen(spec) + 1);
	if (room == NULL) {
		f->r = gm_error_no_memory(f->err);
		return NULL;
	}
	room->bytes = room->tail;
	room->rows = (uint32_t *)(room->tail + n);
	room->spec = (char *)(room->rows + n);
	if (gm_state_text_unescape(spec, room->spec) < 0)
		gm_json_field_refuse(f, "spec", "has a % that means nothing");
	map->memory = room;
	map->layers.n_layers = n;
	map->layers.spec = room->spec;
	return room;
}

static void read_map(struct gm_fields *f, const char *file,
		     struct gm_state_map *map)
{
	struct gm_layers *layers = &map->layers;
	struct room *room = make_room(f, map);

	if (room == NULL)
		return;
	read_name(f, file, map, room);
	layers->owner_uid = number32(f, "owner_uid", UINT32_MAX);
	layers->flags = number32(f, "flags", UINT32_MAX);
	if ((layers->flags & ~GM_OBJECT_COMMITTED) != 0)
		gm_json_field_refuse(f, "flags",
				     "has some that no file can have");
	map->version = gm_json_field_number(f, "version");
	if (map->version == 0 || map->version >> (64 - GM_UNIT_BITS) != 0)
		gm_json_field_refuse(f, "version", "can be no map's");
	layers->published = gm_json_field_number(f, "published");
	layers->setting = number32(f, "setting", UINT32_MAX);
	layers->strategy = (uint16_t)number32(f, "strategy", UINT16_MAX);
	layers->dtype = number32(f, "dtype", UINT32_MAX);
	layers->compute_dtype =
		(uint16_t)number32(f, "compute_dtype", UINT16_MAX);
	layers->max_seq_len = gm_json_field_number(f, "max_seq_len");
	layers->max_batch_size = number32(f, "max_batch_size", UINT32_MAX);
	layers->other_bytes = gm_json_field_number(f, "other_bytes");
	read_rows(f, map, room);
	if (f->r == 0)
		read_layers(f, map, room);
	layers->base = number32(f, "base", layers->n_rows - 1);
}

int gm_map_text_read(const char *file, const char *text, size_t bytes,
		     struct gm_state_map *ret_map, char ret_why[GM_WHY_BYTES])
{
	struct gm_state_reading reading;
	struct gm_state_map map = { .version = 0 };
	int ret = gm_state_reading_begin(&reading, text, bytes, ret_why);

	if (ret != 0)
		return ret;
	read_map(&reading.fields, file, &map);
	ret = gm_state_reading_end(&reading, ret_why);
	if (ret == 0)
		*ret_map = map;
	else
		gm_state_map_free(&map);
	return ret;
}

void gm_state_map_free(struct gm_state_map *map)
{
	free(map->memory);
	map->memory = NULL;
}
