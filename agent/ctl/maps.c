/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* List, show, publish and release layer maps. */

#include "agent/ctl/ctl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ctl/plan.h"
#include "agent/reader/list.h"

/* A whole layer map in private memory. */
struct layer_map {
	struct gpumap_layers head;
	uint32_t *rows;
	uint64_t *bytes;
	struct gpumap_charge *charges;
};

static void forget(struct layer_map *map)
{
	free(map->rows);
	free(map->bytes);
	free(map->charges);
	*map = (struct layer_map){ 0 };
}

/* Read the whole map; it may grow between the call for its size and the
 * read. */
static int read_map(const struct gm_ctl *ctl, const char *name,
		    struct layer_map *ret_map)
{
	struct layer_map map = { .head.size = sizeof(map.head) };
	int ret;

	do {
		forget(&map);
		map.head.size = sizeof(map.head);
		ret = gpumap_layers_read(ctl->map, name, &map.head, NULL, NULL,
					 0, NULL, 0);
		if (ret != 0 && ret != -ENOBUFS)
			return ret;
		map.rows = calloc(map.head.n_layers, sizeof(*map.rows));
		map.bytes = calloc(map.head.n_layers, sizeof(*map.bytes));
		map.charges = calloc(map.head.n_rows + 1, sizeof(*map.charges));
		if (map.rows == NULL || map.bytes == NULL ||
		    map.charges == NULL) {
			ret = -ENOMEM;
			break;
		}
		ret = gpumap_layers_read(ctl->map, name, &map.head, map.rows,
					 map.bytes, map.head.n_layers,
					 map.charges, map.head.n_rows);
	} while (ret == -ENOBUFS);
	if (ret != 0)
		forget(&map);
	else
		*ret_map = map;
	return ret;
}

/* The facts that a plan has set; null if it has not. */
static json_t *made_json(const struct gpumap_layers *head)
{
	return json_pack(
		"{s:s, s:o, s:o, s:I, s:I}", "setting",
		gm_ctl_setting(head->setting), "strategy",
		head->strategy != 0
			? json_string(gm_ctl_strategy(head->strategy))
			: json_null(),
		"compute_dtype",
		head->compute_dtype != 0
			? json_string(gm_ctl_dtype(head->compute_dtype))
			: json_null(),
		"max_seq_len", (json_int_t)head->max_seq_len, "max_batch_size",
		(json_int_t)head->max_batch_size);
}

static json_t *head_json(const struct gpumap_layers *head)
{
	json_t *object = json_pack(
		"{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:s, s:b, "
		"s:b}",
		"name", head->name, "version", (json_int_t)head->version,
		"published_ns", (json_int_t)head->published_ns, "owner_uid",
		(json_int_t)head->owner_uid, "n_layers",
		(json_int_t)head->n_layers, "n_rows", (json_int_t)head->n_rows,
		"base_row", (json_int_t)head->base_row, "dtype",
		gm_ctl_dtype(head->dtype), "layer_bytes",
		(json_int_t)head->layer_bytes, "other_bytes",
		(json_int_t)head->other_bytes, "spec", head->spec, "committed",
		(head->flags & GPUMAP_LAYERS_COMMITTED) != 0, "held",
		(head->flags & GPUMAP_LAYERS_HELD) != 0);
	json_t *made = made_json(head);

	if (object != NULL && made != NULL)
		json_object_update(object, made);
	json_decref(made);
	return object;
}

static const char *reserves(const struct gpumap_layers *head)
{
	if ((head->flags & GPUMAP_LAYERS_HELD) != 0)
		return "held";
	return (head->flags & GPUMAP_LAYERS_COMMITTED) != 0 ? "committed" : "-";
}

int gm_ctl_maps(struct gm_ctl *ctl)
{
	json_t *list = ctl->json ? json_array() : NULL;
	char name[GPUMAP_NAME_MAX + 1], size[32];
	uint32_t cursor = 0;

	if (!ctl->json)
		printf("%-24s %8s %6s %5s %10s %6s %-9s  spec\n", "name",
		       "version", "layers", "rows", "bytes", "uid", "reserves");
	while (gpumap_layers_next(ctl->map, &cursor, name) == 1) {
		struct gpumap_layers head = { .size = sizeof(head) };
		int ret = gpumap_layers_read(ctl->map, name, &head, NULL, NULL,
					     0, NULL, 0);

		if (ret == -ENOENT)
			continue; /* released meanwhile */
		if (ret != 0 && ret != -ENOBUFS) {
			json_decref(list);
			return gm_ctl_fail(ctl, ret, "map \"%s\"", name);
		}
		if (ctl->json)
			json_array_append_new(list, head_json(&head));
		else
			printf("%-24s %8llu %6u %5u %10s %6u %-9s  %s\n",
			       head.name, (unsigned long long)head.version,
			       head.n_layers, head.n_rows,
			       gm_size_text(head.layer_bytes + head.other_bytes,
					    size),
			       head.owner_uid, reserves(&head), head.spec);
	}
	if (!ctl->json)
		return GM_EXIT_OK;
	return gm_ctl_print(json_pack("{s:o}", "maps", list));
}

static int layers_json(const struct layer_map *map)
{
	json_t *object = head_json(&map->head), *layers = json_array(),
	       *charges = json_array();

	for (uint32_t i = 0; i < map->head.n_layers; i++)
		json_array_append_new(
			layers,
			json_pack("{s:I, s:I}", "row", (json_int_t)map->rows[i],
				  "bytes", (json_int_t)map->bytes[i]));
	for (uint32_t i = 0; i < map->head.n_rows; i++) {
		const struct gpumap_charge *c = &map->charges[i];

		json_array_append_new(
			charges,
			json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "row",
				  (json_int_t)c->row, "n_layers",
				  (json_int_t)c->n_layers, "weight_bytes",
				  (json_int_t)c->weight_bytes, "kv_bytes",
				  (json_int_t)c->kv_bytes, "activation_bytes",
				  (json_int_t)c->activation_bytes,
				  "reserve_bytes",
				  (json_int_t)c->reserve_bytes));
	}
	json_object_set_new(object, "layers", layers);
	json_object_set_new(object, "charges", charges);
	return gm_ctl_print(object);
}

static void layers_table(const struct layer_map *map)
{
	const struct gpumap_layers *head = &map->head;
	char size[32];
	uint32_t first = 0;

	printf("%s  version %llu, %u layer%s over %u row%s, %s\n", head->name,
	       (unsigned long long)head->version, head->n_layers,
	       gm_ctl_s(head->n_layers), head->n_rows, gm_ctl_s(head->n_rows),
	       head->spec);
	while (first < head->n_layers) {
		uint32_t last = first;
		uint64_t bytes = map->bytes[first];

		while (last + 1 < head->n_layers &&
		       map->rows[last + 1] == map->rows[first])
			bytes += map->bytes[++last];
		printf("  layers %5u - %-5u  row %3u  %s\n", first, last,
		       map->rows[first],
		       bytes != 0 ? gm_size_text(bytes, size) : "");
		first = last + 1;
	}
	printf("  the rest               row %3u  %s\n", head->base_row,
	       head->other_bytes != 0 ? gm_size_text(head->other_bytes, size)
				      : "");
}

int gm_ctl_layers(struct gm_ctl *ctl)
{
	struct layer_map map;
	int ret;

	ret = read_map(ctl, ctl->args[0], &map);
	if (ret == -ENOENT)
		return gm_ctl_unknown("layer map", ctl->args[0], "maps");
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "map \"%s\"", ctl->args[0]);
	ret = GM_EXIT_OK;
	if (ctl->json)
		ret = layers_json(&map);
	else
		layers_table(&map);
	forget(&map);
	return ret;
}

static int published(const struct gm_ctl *ctl, const char *name,
		     const struct gm_weights_sizes *model)
{
	struct gpumap_layers head = { .size = sizeof(head) };
	char size[32];
	int ret;

	ret = gpumap_layers_read(ctl->map, name, &head, NULL, NULL, 0, NULL, 0);
	if (ret != 0 && ret != -ENOBUFS)
		return gm_ctl_fail(ctl, ret, "map \"%s\"", name);
	if (ctl->json) {
		json_t *object = head_json(&head);

		json_object_set_new(object, "n_tensors",
				    json_integer((json_int_t)model->n_tensors));
		return gm_ctl_print(object);
	}
	printf("%s: version %llu, %u layer%s over %u row%s", name,
	       (unsigned long long)head.version, head.n_layers,
	       gm_ctl_s(head.n_layers), head.n_rows, gm_ctl_s(head.n_rows));
	if (model->n_tensors != 0)
		printf(", %llu tensors, %s",
		       (unsigned long long)model->n_tensors,
		       gm_size_text(model->total_bytes, size));
	putchar('\n');
	return GM_EXIT_OK;
}

int gm_ctl_publish(struct gm_ctl *ctl)
{
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = ctl->args[0],
						 .spec = ctl->spec };
	struct gm_weights_sizes model = { .n_layers = 0 };
	int ret;

	if (ctl->spec == NULL ||
	    (ctl->model != NULL && (ctl->given & GM_OPT(LAYERS)) != 0)) {
		fputs("gpumapctl: publish needs --spec, and --model or "
		      "--layers or neither of them\n",
		      stderr);
		return GM_EXIT_USAGE;
	}
	if (ctl->layers > UINT32_MAX) {
		fputs("gpumapctl: --layers: a layer map has at most 65536\n",
		      stderr);
		return GM_EXIT_USAGE;
	}
	request.n_layers = (uint32_t)ctl->layers;
	if (ctl->model != NULL) {
		ret = gm_ctl_measure(ctl, &model);
		if (ret != GM_EXIT_OK)
			return ret;
		request.n_layers = model.n_layers;
		request.layer_bytes = model.layer_bytes;
		request.other_bytes = model.other_bytes;
		request.dtype = gm_ctl_dtype_named(gm_weights_type(model.type));
	}
	ret = gpumap_layers_publish(ctl->map, &request);
	if (ret != 0)
		ret = gm_ctl_fail(ctl, ret, "publish \"%s\"", ctl->args[0]);
	else
		ret = published(ctl, ctl->args[0], &model);
	gm_weights_sizes_free(&model);
	return ret;
}

/* The bytes of the share of this name, which releasing the map leaves; 0:
 * there is none, or the agent does not say. */
static uint64_t still_held(const struct gm_ctl *ctl, const char *name,
			   uint32_t *ret_holders)
{
	struct gpumap_share_info *all = NULL;
	int n = gm_list_share(ctl->map, &all);
	uint64_t bytes = 0;

	for (int i = 0; i < n; i++)
		if (strcmp(all[i].name, name) == 0) {
			bytes = all[i].bytes;
			*ret_holders = all[i].n_holders;
		}
	free(all);
	return bytes;
}

int gm_ctl_release(struct gm_ctl *ctl)
{
	int ret = gpumap_layers_release(ctl->map, ctl->args[0]);
	uint32_t holders = 0;
	uint64_t held;
	char size[32];

	if (ret == -ENOENT)
		return gm_ctl_unknown("layer map", ctl->args[0], "maps");
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "release \"%s\"", ctl->args[0]);
	held = still_held(ctl, ctl->args[0], &holders);
	if (ctl->json)
		return gm_ctl_print(json_pack("{s:s, s:I}", "released",
					      ctl->args[0], "held_bytes",
					      (json_int_t)held));
	printf("%s: released\n", ctl->args[0]);
	if (held > 0)
		printf("  the share \"%s\" stays, with %s for %u session%s: "
		       "gpumapctl shares release %s ends it\n",
		       ctl->args[0], gm_size_text(held, size), holders,
		       holders == 1 ? "" : "s", ctl->args[0]);
	return GM_EXIT_OK;
}
