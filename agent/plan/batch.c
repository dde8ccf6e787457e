/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/batch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/plan/batch_choose.h"
#include "agent/plan/batch_mesh.h"
#include "agent/plan/batch_plan.h"
#include "agent/plan/pipeline.h"
#include "agent/plan/spec.h"
#include "agent/plan/wide_json.h"
#include "shm/score.h"
#include "shm/split.h"

/* ---- split --------------------------------------------------------------- */

struct split {
	uint64_t rows[GM_SPLIT_ROWS];
	double scores[GM_SPLIT_ROWS];
	uint64_t budgets[GM_SPLIT_ROWS];
	uint64_t counts[GM_SPLIT_ROWS];
	uint32_t n;
};

static int read_major(struct gm_fields *f)
{
	const json_t *cc = gm_json_field_list(f, "cc");
	const json_t *major = json_array_get(cc, 0);
	json_int_t n = json_integer_value(major);

	if (json_array_size(cc) != 2 || !json_is_integer(major) ||
	    !json_is_integer(json_array_get(cc, 1)) || n < INT32_MIN ||
	    n > INT32_MAX)
		gm_json_field_refuse(f, "cc",
				     "is not a list of major and minor");
	return (int)n;
}

static void read_split_device(struct gm_fields *f, struct split *s)
{
	uint64_t free_bytes = gm_json_field_number(f, "free_mem_bytes");
	uint64_t total_bytes = gm_json_field_number(f, "total_mem_bytes");
	int32_t sm_count = gm_json_field_signed(f, "sm_count");

	s->rows[s->n] = gm_json_field_number(f, "row");
	s->scores[s->n] = gm_score(sm_count, free_bytes, read_major(f));
	s->budgets[s->n] = gm_budget(free_bytes, total_bytes);
	s->n++;
}

static void read_split(struct gm_fields *f, struct split *s, uint64_t *ret_n)
{
	const json_t *devices = gm_json_field_list(f, "devices");

	*ret_n = gm_json_field_number(f, "n");
	if (json_array_size(devices) > GM_SPLIT_ROWS)
		gm_json_field_refuse(f, "devices", "has more than 256 entries");
	for (size_t i = 0; f->r == 0 && i < json_array_size(devices); i++) {
		struct gm_fields device = { json_array_get(devices, i),
					    "devices: ", f->err, 0 };

		read_split_device(&device, s);
		f->r = device.r;
	}
}

static int append_tiles(json_t *tiles, const struct split *s)
{
	uint64_t at = 0;
	int r = 0;

	for (uint32_t i = 0; i < s->n; at += s->counts[i++]) {
		json_t *tile;

		if (s->counts[i] == 0)
			continue;
		tile = json_pack("[o, o, o]", gm_wide_integer(s->rows[i]),
				 gm_wide_integer(at),
				 gm_wide_integer(at + s->counts[i]));
		r |= json_array_append_new(tiles, tile);
	}
	return r;
}

static json_t *split_units(struct gm_fields *f)
{
	struct split s = { .n = 0 };
	json_t *tiles, *scores, *budgets;
	uint64_t n;
	int r;

	read_split(f, &s, &n);
	if (f->r)
		return NULL;
	if (s.n > 0 && gm_split(n, s.scores, s.n, s.counts))
		return NULL;
	tiles = json_array();
	scores = json_array();
	budgets = json_array();
	r = append_tiles(tiles, &s);
	for (uint32_t i = 0; i < s.n; i++) {
		r |= json_array_append_new(scores, json_real(s.scores[i]));
		r |= json_array_append_new(budgets,
					   gm_wide_integer(s.budgets[i]));
	}
	if (r == 0)
		return json_pack("{s:o, s:o, s:o}", "tiles", tiles, "scores",
				 scores, "budgets", budgets);
	json_decref(tiles);
	json_decref(scores);
	json_decref(budgets);
	return NULL;
}

static json_t *show_ranges(const uint64_t *counts, uint64_t n)
{
	json_t *ranges = json_array();
	uint64_t at = 0;
	int r = 0;

	for (uint64_t i = 0; i < n && r == 0; at += counts[i++])
		r = json_array_append_new(
			ranges, json_pack("[o, o]", gm_wide_integer(at),
					  gm_wide_integer(at + counts[i])));
	if (r == 0)
		return json_pack("{s:o}", "ranges", ranges);
	json_decref(ranges);
	return NULL;
}

static json_t *split_layers(struct gm_fields *f)
{
	uint64_t n_layers = gm_json_field_number(f, "n_layers");
	uint64_t n = gm_json_field_number(f, "world_size");
	const char *list = gm_json_field_text_or(f, "list", NULL);
	const char *weights = gm_json_field_text_or(f, "weights", NULL);
	json_t *json = NULL;
	uint64_t *counts;

	if (n > GM_PIPELINE_RANKS)
		gm_json_field_refuse(f, "world_size", "is more than 1048576");
	if (f->r)
		return NULL;
	counts = calloc(n + 1, sizeof(*counts));
	if (!counts) {
		f->r = gm_error_no_memory(f->err);
		return NULL;
	}
	f->r = gm_pipeline_split(n_layers, (uint32_t)n, list, weights, counts,
				 f->err);
	if (f->r == 0)
		json = show_ranges(counts, n);
	free(counts);
	return json;
}

static json_t *split(struct gm_fields *f)
{
	const char *op = gm_json_field_text_or(f, "op", NULL);

	if (f->r == 0 && !op)
		return split_units(f);
	if (f->r == 0 && strcmp(op, "pipeline") == 0)
		return split_layers(f);
	gm_json_field_refuse(f, "op", "is not pipeline");
	return NULL;
}

/* ---- spec ---------------------------------------------------------------- */

json_t *gm_batch_entries(const struct gm_spec_entry *entries, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *entry =
			json_pack("[o, o]", gm_wide_integer(entries[i].row),
				  gm_wide_integer(entries[i].layers));

		if (json_array_append_new(list, entry)) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

json_t *gm_batch_spec_text(const struct gm_spec *spec)
{
	char *text;
	json_t *json;

	if (gm_spec_print(spec, &text))
		return NULL;
	json = text ? json_string(text) : json_null();
	free(text);
	return json;
}

static int read_list(struct gm_fields *f, struct gm_spec *ret_spec)
{
	const json_t *list = gm_json_field_list(f, "list");
	size_t n = json_array_size(list);
	const char **items;

	if (f->r)
		return f->r;
	items = calloc(n + 1, sizeof(items[0]));
	if (!items)
		return gm_error_no_memory(f->err);
	for (size_t i = 0; f->r == 0 && i < n; i++) {
		items[i] = json_string_value(json_array_get(list, i));
		if (!items[i])
			gm_json_field_refuse(f, "list", "has what is no text");
	}
	if (f->r == 0)
		f->r = gm_spec_parse_list(items, n, ret_spec, f->err);
	free(items);
	return f->r;
}

static int read_spec(struct gm_fields *f, struct gm_spec *ret_spec)
{
	const char *text = NULL;

	if (gm_json_field_given(f, "list")) {
		if (gm_json_field_given(f, "text"))
			return gm_json_field_refuse(f, "list",
						    "is beside a text");
		return read_list(f, ret_spec);
	}
	if (!json_is_null(json_object_get(f->object, "text")))
		text = gm_json_field_text(f, "text");
	return f->r ? f->r : gm_spec_parse(text, ret_spec, f->err);
}

static json_t *spec(struct gm_fields *f)
{
	struct gm_spec spec;
	json_t *json;

	f->r = read_spec(f, &spec);
	if (f->r)
		return NULL;
	json = json_pack("{s:s, s:o, s:o}", "setting",
			 spec.is_auto ? "auto" : "map", "device_layers",
			 spec.is_auto ? json_null()
				      : gm_batch_entries(spec.entries,
							 spec.n_entries),
			 "spec", gm_batch_spec_text(&spec));
	gm_spec_free(&spec);
	return json;
}

/* ---- any ----------------------------------------------------------------- */

static json_t *plan(struct gm_fields *f)
{
	const char *op = gm_json_field_text(f, "op");

	if (!op)
		return NULL;
	if (strcmp(op, "map") == 0)
		return gm_batch_map(f);
	if (strcmp(op, "auto") == 0)
		return gm_batch_auto(f);
	if (strcmp(op, "sizes") == 0)
		return gm_batch_sizes(f);
	gm_json_field_refuse(f, "op", "is not map, auto or sizes");
	return NULL;
}

static json_t *answer(enum gm_batch_kind what, struct gm_fields *f)
{
	switch (what) {
	case GM_BATCH_SPLIT:
		return split(f);
	case GM_BATCH_SPEC:
		return spec(f);
	case GM_BATCH_PLAN:
		return plan(f);
	case GM_BATCH_CHOOSE:
		return gm_batch_choose(f);
	case GM_BATCH_MESH:
		break; /* answers are text */
	}
	return NULL;
}

/* Takes ownership of @text, which may be NULL. */
static char *frame(char *text)
{
	char *line = NULL;

	if (text && asprintf(&line, "{\"ok\":%s}", text) < 0)
		line = NULL;
	free(text);
	return line;
}

/* {key: value}, the value given up. */
static char *dump(const char *key, json_t *value)
{
	json_t *json = json_pack("{s:o}", key, value);
	char *text = json ? gm_wide_dump(json) : NULL;

	json_decref(json);
	return text;
}

char *gm_batch_refusal(const struct gm_plan_error *err)
{
	if (err->code == -ENOMEM)
		return NULL;
	return dump("error", gm_wide_text(err->text));
}

char *gm_batch_answer(enum gm_batch_kind what, const char *line, size_t n)
{
	struct gm_plan_error err = { .code = 0 };
	json_t *request = gm_wide_load(line, n, &err);
	struct gm_fields f = { request, "", &err, request ? 0 : err.code };
	json_t *json = NULL;
	char *text = NULL;

	if (request && what == GM_BATCH_MESH)
		text = frame(gm_batch_mesh(&f));
	else if (request)
		json = answer(what, &f);
	if (json)
		text = dump("ok", json);
	else if (f.r && f.r != -ENOMEM)
		text = gm_batch_refusal(&err);
	json_decref(request);
	return text;
}
