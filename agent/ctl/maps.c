/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* List, show, publish and release layer maps. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/ctl/fields.h"
#include "agent/ctl/plan.h"
#include "agent/reader/list.h"
#include "shm/layout.h"

/* A whole layer map in private memory. */
struct layer_map {
	struct gpumap_layers head;
	uint32_t *rows;
	uint64_t *bytes;
	struct gpumap_charge *charges;
};

/* ---- what is printed of one ---------------------------------------------- */

static const char *reserves(uint32_t flags)
{
	return (flags & GPUMAP_LAYERS_HELD) != 0        ? "held"
	       : (flags & GPUMAP_LAYERS_COMMITTED) != 0 ? "committed"
							: "-";
}

static void all_bytes(const struct gm_ctl *ctl, const void *layers,
		      char ret_text[GM_CTL_CELL])
{
	const struct gpumap_layers *head = layers;

	gm_size_text(head->layer_bytes + head->other_bytes, ret_text);
}

#define LAYERS(name, member, ...) \
	GM_FIELD(gpumap_layers, name, member, __VA_ARGS__)

static const struct gm_ctl_field map_fields[] = {
	LAYERS("name", name, GM_COLUMN("name", -24)),
	LAYERS("version", version, GM_COLUMN("version", 8)),
	GM_MEMBERS(gpumap_layers, published_ns, owner_uid),
	LAYERS("n_layers", n_layers, GM_COLUMN("layers", 6)),
	LAYERS("n_rows", n_rows, GM_COLUMN("rows", 5)),
	LAYERS(NULL, layer_bytes, GM_COLUMN("bytes", 10), .text = all_bytes),
	LAYERS(NULL, owner_uid, GM_COLUMN("uid", 6)),
	LAYERS("base_row", base_row),
	LAYERS("dtype", dtype, .word = gm_ctl_dtype),
	GM_MEMBERS(gpumap_layers, layer_bytes, other_bytes),
	LAYERS(NULL, flags, GM_COLUMN("reserves", -9), .word = reserves),
	LAYERS("spec", spec, GM_COLUMN(" spec", 0)),
	LAYERS("committed", flags, GM_SET(GPUMAP_LAYERS_COMMITTED)),
	LAYERS("held", flags, GM_SET(GPUMAP_LAYERS_HELD)),
	/* A plan has set these. */
	LAYERS("setting", setting, .word = gm_ctl_setting),
	LAYERS("strategy", strategy, .as = GM_AS_OR_NULL,
	       .word = gm_auto_strategy_name),
	LAYERS("compute_dtype", compute_dtype, .as = GM_AS_OR_NULL,
	       .word = gm_ctl_dtype),
	GM_MEMBERS(gpumap_layers, max_seq_len, max_batch_size),
	{ 0 },
};

static const struct gm_ctl_field charge_fields[] = {
	GM_MEMBERS(gpumap_charge, row, n_layers, weight_bytes, kv_bytes,
		   activation_bytes, reserve_bytes),
	{ 0 },
};

static int read_head(const struct gm_ctl *ctl, const char *name, void *ret_head)
{
	struct gpumap_layers head = { .size = sizeof(head) };
	int ret = gpumap_layers_read(ctl->map, name, &head, NULL, NULL, 0, NULL,
				     0);

	*(struct gpumap_layers *)ret_head = head;
	return ret == -ENOBUFS ? 0 : ret;
}

void gm_ctl_maps(struct gm_ctl *ctl)
{
	static const struct gm_ctl_named maps = { "map", "maps", map_fields,
						  gpumap_layers_next,
						  read_head };
	struct gpumap_layers head;

	gm_ctl_list_named(ctl, &maps, &head);
}

/* ---- one map ------------------------------------------------------------- */

/* The row of each layer, and its bytes. */
static json_t *layers(const struct gm_ctl *ctl, const void *layer_map)
{
	const struct layer_map *map = layer_map;
	json_t *list = json_array();

	for (uint32_t i = 0; i < map->head.n_layers; i++)
		json_array_append_new(
			list,
			json_pack("{s:I, s:I}", "row", (json_int_t)map->rows[i],
				  "bytes", (json_int_t)map->bytes[i]));
	return list;
}

static const struct gm_ctl_field layer_map_fields[] = {
	{ .name = "layers", .json = layers },
	GM_FIELD_ITEMS(layer_map, "charges", charges, head.n_rows,
		       charge_fields),
	{ 0 },
};

static void layers_table(const struct layer_map *map)
{
	const struct gpumap_layers *head = &map->head;
	char size[32];

	printf("%s  version %llu, %u layer%s over %u row%s, %s\n", head->name,
	       (unsigned long long)head->version, head->n_layers,
	       gm_ctl_s(head->n_layers), head->n_rows, gm_ctl_s(head->n_rows),
	       head->spec);
	for (uint32_t first = 0, end = 0; first < head->n_layers; first = end) {
		uint64_t bytes = 0;

		while (end < head->n_layers &&
		       map->rows[end] == map->rows[first])
			bytes += map->bytes[end++];
		printf("  layers %5u - %-5u  row %3u  %s\n", first, end - 1,
		       map->rows[first],
		       bytes != 0 ? gm_size_text(bytes, size) : "");
	}
	printf("  the rest               row %3u  %s\n", head->base_row,
	       head->other_bytes != 0 ? gm_size_text(head->other_bytes, size)
				      : "");
}

void gm_ctl_layers(struct gm_ctl *ctl)
{
	const char *name = ctl->args[0];
	struct layer_map map = { .rows = NULL };
	struct gpumap_layers *head = &map.head;
	int ret;

	/* The map may grow between the call for its size and the read. */
	do {
		head->size = sizeof(*head);
		ret = gpumap_layers_read(ctl->map, name, head, NULL, NULL, 0,
					 NULL, 0);
		if (ret != 0 && ret != -ENOBUFS)
			break;
		free(map.rows);
		free(map.bytes);
		free(map.charges);
		map.rows = gm_ctl_alloc(head->n_layers, sizeof(*map.rows));
		map.bytes = gm_ctl_alloc(head->n_layers, sizeof(*map.bytes));
		map.charges = gm_ctl_alloc(head->n_rows, sizeof(*map.charges));
		ret = gpumap_layers_read(ctl->map, name, head, map.rows,
					 map.bytes, head->n_layers, map.charges,
					 head->n_rows);
	} while (ret == -ENOBUFS);
	if (ret == -ENOENT)
		gm_ctl_unknown("layer map", name, "maps");
	if (ret != 0)
		gm_ctl_fail(ctl, ret, "map \"%s\"", name);
	if (ctl->json)
		gm_ctl_print(gm_ctl_fields_json(
			ctl, layer_map_fields, &map,
			gm_ctl_fields_json(ctl, map_fields, head, NULL)));
	else
		layers_table(&map);
	free(map.rows);
	free(map.bytes);
	free(map.charges);
}

/* Is there a map that says the same?  Another user's does not. */
static bool is_there(const struct gm_ctl *ctl,
		     const struct gpumap_layers_request *request)
{
	const struct gpumap_plan_request ask = {
		.size = sizeof(ask),
		.setting = GPUMAP_SETTING_MANUAL,
		.text = request->spec,
		.n_layers = request->n_layers,
	};
	struct gpumap_plan plan = { .size = sizeof(plan) };
	struct gpumap_layers head = { .size = sizeof(head) };
	uint32_t *rows = gm_ctl_alloc(2 * (size_t)GM_LAYERS_MAX, sizeof(*rows));
	uint32_t *theirs = rows + GM_LAYERS_MAX;
	bool is_same =
		gpumap_layers_read(ctl->map, request->name, &head, theirs, NULL,
				   GM_LAYERS_MAX, NULL, 0) == 0 &&
		gpumap_plan_make(ctl->map, &ask, &plan, rows, GM_LAYERS_MAX,
				 NULL, 0) == 0 &&
		head.owner_uid == geteuid() && head.flags == 0 &&
		head.setting == GPUMAP_SETTING_MANUAL &&
		head.layer_bytes == 0 && head.other_bytes == 0 &&
		head.n_layers == plan.n_layers &&
		head.base_row == plan.base_row &&
		memcmp(rows, theirs, head.n_layers * sizeof(*rows)) == 0;

	free(rows);
	return is_same;
}

void gm_ctl_publish(struct gm_ctl *ctl)
{
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = ctl->args[0],
						 .spec = GM_TEXT(ctl, SPEC) };
	struct gm_weights_sizes model = { .n_layers = 0 };
	struct gpumap_layers head;
	char size[32];
	int ret;

	if (GM_TEXT(ctl, SPEC) == NULL ||
	    (GM_TEXT(ctl, MODEL) != NULL &&
	     (GM_GIVEN(ctl, LAYERS) || GM_GIVEN(ctl, KEEP))))
		gm_ctl_wrong("publish needs --spec, and --model or --layers or "
			     "neither of them; --keep is for a map without a "
			     "model");
	if (GM_NUMBER(ctl, LAYERS) > UINT32_MAX)
		gm_ctl_wrong("--layers: a layer map has at most 65536");
	request.n_layers = (uint32_t)GM_NUMBER(ctl, LAYERS);
	if (GM_TEXT(ctl, MODEL) != NULL) {
		gm_ctl_measure(ctl, &model);
		request.n_layers = model.n_layers;
		request.layer_bytes = model.layer_bytes;
		request.other_bytes = model.other_bytes;
		request.dtype = gm_weights_dtype(model.type);
	}
	ret = GM_GIVEN(ctl, KEEP) && is_there(ctl, &request)
		      ? 0
		      : gpumap_layers_publish(ctl->map, &request);
	if (ret != 0)
		gm_ctl_fail(ctl, ret, "publish \"%s\"", request.name);
	ret = read_head(ctl, request.name, &head);
	if (ret != 0)
		gm_ctl_fail(ctl, ret, "map \"%s\"", request.name);
	if (ctl->json) {
		json_t *object =
			gm_ctl_fields_json(ctl, map_fields, &head, NULL);

		json_object_set_new(object, "n_tensors",
				    json_integer((json_int_t)model.n_tensors));
		gm_ctl_print(object);
	} else {
		printf("%s: version %llu, %u layer%s over %u row%s",
		       request.name, (unsigned long long)head.version,
		       head.n_layers, gm_ctl_s(head.n_layers), head.n_rows,
		       gm_ctl_s(head.n_rows));
		if (model.n_tensors != 0)
			printf(", %llu tensors, %s",
			       (unsigned long long)model.n_tensors,
			       gm_size_text(model.total_bytes, size));
		putchar('\n');
	}
	gm_weights_sizes_free(&model);
}

/* Say also of the share of this name that it stays. */
void gm_ctl_release(struct gm_ctl *ctl)
{
	const char *name = ctl->args[0];
	int ret = gpumap_layers_release(ctl->map, name);
	struct gpumap_share_info *all = NULL;
	const struct gpumap_share_info *share = NULL;
	int n = ret == 0 ? gm_list_share(ctl->map, &all) : 0;
	char size[32];

	for (int i = 0; i < n; i++)
		if (strcmp(all[i].name, name) == 0)
			share = &all[i];
	if (ret == 0 && ctl->json)
		gm_ctl_print(json_pack(
			"{s:s, s:I}", "released", name, "held_bytes",
			share != NULL ? (json_int_t)share->bytes : 0));
	else
		gm_ctl_released(ctl, ret, "layer map", "maps");
	if (share != NULL && share->bytes > 0 && !ctl->json)
		printf("  the share \"%s\" stays, with %s for %u session%s: "
		       "gpumapctl shares release %s ends it\n",
		       name, gm_size_text(share->bytes, size), share->n_holders,
		       gm_ctl_s(share->n_holders), name);
	free(all);
}
