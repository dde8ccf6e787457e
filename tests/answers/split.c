/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Units over devices by score; layers over the ranks of a pipeline. */

#include <stdlib.h>
#include <string.h>

#include "lib/model/plan/pipeline.h"
#include "shm/score.h"
#include "shm/split.h"
#include "tests/answers/answers.h"

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
	int32_t sm_count = answers_signed(f, "sm_count");

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
	const char *list = answers_text_or(f, "list", NULL);
	const char *weights = answers_text_or(f, "weights", NULL);
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

json_t *answers_split(struct gm_fields *f)
{
	const char *op = answers_text_or(f, "op", NULL);

	if (f->r == 0 && !op)
		return split_units(f);
	if (f->r == 0 && strcmp(op, "pipeline") == 0)
		return split_layers(f);
	gm_json_field_refuse(f, "op", "is not pipeline");
	return NULL;
}
