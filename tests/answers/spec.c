/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Specs of layer maps. */

#include <stdlib.h>

#include "tests/answers/answers.h"

json_t *answers_entries(const struct gm_spec_entry *entries, size_t n)
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

json_t *answers_spec_text(const struct gm_spec *spec)
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

json_t *answers_spec(struct gm_fields *f)
{
	struct gm_spec spec;
	json_t *json;

	f->r = read_spec(f, &spec);
	if (f->r)
		return NULL;
	json = json_pack("{s:s, s:o, s:o}", "setting",
			 spec.is_auto ? "auto" : "map", "device_layers",
			 spec.is_auto ? json_null()
				      : answers_entries(spec.entries,
							spec.n_entries),
			 "spec", answers_spec_text(&spec));
	gm_spec_free(&spec);
	return json;
}
