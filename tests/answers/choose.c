/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Devices by a preference or by providers, and topologies that run. */

#include <stdlib.h>
#include <string.h>

#include "tests/answers/providers.h"
#include "tests/answers/topology_choice.h"
#include "shm/preference.h"
#include "tests/answers/answers.h"

static json_t *index_or_null(size_t index, size_t n)
{
	return index < n ? gm_wide_integer(index) : json_null();
}

/* The fields of one device of a list. */
static struct gm_fields device_at(const struct gm_fields *f,
				  const json_t *devices, size_t i)
{
	return (struct gm_fields){ json_array_get(devices, i),
				   "devices: ", f->err, f->r };
}

/* ---- preference ---------------------------------------------------------- */

static struct gm_preference_device read_preferred(struct gm_fields *f)
{
	return (struct gm_preference_device){
		.name = gm_json_field_text(f, "name"),
		.backend = gm_json_field_text(f, "backend"),
		.id = gm_json_field_number(f, "id"),
		.pci_bus_id = answers_text_or(f, "pci_bus_id", NULL),
		.partition_id = answers_text_or(f, "partition_id", NULL),
	};
}

static bool is_cpu(const struct gm_preference_device *device)
{
	return gm_chars_equal(gm_chars_trim(gm_chars_of(device->backend)),
			      gm_chars_of("cpu"));
}

static json_t *choose_preferred(struct gm_fields *f)
{
	const char *spec = gm_json_field_text(f, "spec");
	const json_t *devices = gm_json_field_list(f, "devices");
	size_t n = json_array_size(devices), selected = n;
	struct gm_preference preference;
	json_t *matches;
	int r = 0;

	if (f->r)
		return NULL;
	preference = gm_preference_parse(spec);
	matches = json_array();
	for (size_t i = 0; i < n && f->r == 0; i++) {
		struct gm_fields fields = device_at(f, devices, i);
		struct gm_preference_device d = read_preferred(&fields);
		bool is_match;

		f->r = fields.r;
		if (f->r)
			break;
		is_match = gm_preference_matches(&preference, &d);
		if (is_match && selected == n && !is_cpu(&d))
			selected = i;
		r |= json_array_append_new(matches, json_boolean(is_match));
	}
	if (r == 0 && f->r == 0)
		return json_pack("{s:o, s:o}", "matches", matches, "selected",
				 index_or_null(selected, n));
	json_decref(matches);
	return NULL;
}

/* ---- best ---------------------------------------------------------------- */

/* Room for the devices of a list, to free(). */
static struct gm_provider_device *make_room(struct gm_fields *f,
					    const json_t *devices)
{
	struct gm_provider_device *room;

	if (f->r)
		return NULL;
	room = calloc(json_array_size(devices) + 1, sizeof(*room));
	if (!room)
		f->r = gm_error_no_memory(f->err);
	return room;
}

static json_t *choose_best(struct gm_fields *f)
{
	const json_t *list = gm_json_field_list(f, "devices");
	struct gm_provider_device *devices = make_room(f, list);
	size_t n = json_array_size(list), index;
	json_t *json = NULL;

	for (size_t i = 0; i < n && f->r == 0; i++) {
		struct gm_fields fields = device_at(f, list, i);

		devices[i] = (struct gm_provider_device){
			.backend = gm_json_field_text(&fields, "backend"),
			.memory_mb = gm_json_field_number(&fields, "memory_mb"),
			.compute_capability = answers_text_or(
				&fields, "compute_capability", NULL),
		};
		f->r = fields.r;
	}
	if (f->r == 0) {
		const char *provider = gm_providers_best(devices, n, &index);

		json = json_pack("{s:o, s:s}", "index", index_or_null(index, n),
				 "provider", provider);
	}
	free(devices);
	return json;
}

/* ---- select -------------------------------------------------------------- */

struct select {
	struct gm_provider_request q;
	struct gm_provider_device *devices;
	size_t n;
};

static void read_policy(struct gm_fields *f, struct select *s)
{
	const char *text = answers_text_or(f, "policy", "fastest");
	struct gm_chars policy;

	if (f->r)
		return;
	policy = gm_chars_trim(gm_chars_of(text));
	s->q.is_fastest = gm_chars_equal(policy, gm_chars_of("fastest"));
	if (!s->q.is_fastest &&
	    !gm_chars_equal(policy, gm_chars_of("manifest")))
		gm_json_field_refuse(f, "policy", "is not fastest or manifest");
}

static void read_providers(struct gm_fields *f, struct select *s)
{
	const char *preferred = answers_text_or(f, "preferred_provider", NULL);
	const json_t *fallback =
		gm_json_field_given(f, "fallback_providers")
			? gm_json_field_list(f, "fallback_providers")
			: NULL;

	if (f->r)
		return;
	s->q.providers = calloc(json_array_size(fallback) + 1,
				sizeof(s->q.providers[0]));
	if (!s->q.providers) {
		f->r = gm_error_no_memory(f->err);
		return;
	}
	if (preferred)
		s->q.providers[s->q.n_providers++] = preferred;
	for (size_t i = 0; i < json_array_size(fallback) && f->r == 0; i++) {
		const char *name =
			json_string_value(json_array_get(fallback, i));

		if (name)
			s->q.providers[s->q.n_providers++] = name;
		else
			gm_json_field_refuse(f, "fallback_providers",
					     "has what is no text");
	}
}

static void read_needs(struct gm_fields *f, struct select *s)
{
	s->q.min_cuda_version = answers_text_or(f, "min_cuda_version", NULL);
	s->q.min_vram_mb = answers_number_or(f, "min_vram_mb", 0);
	s->q.strategy = answers_text_or(f, "strategy", NULL);
	s->q.has_id = gm_json_field_given(f, "device_id");
	/* A negative one is none of a device, as in kapsl. */
	if (s->q.has_id)
		s->q.id = (uint64_t)(int64_t)answers_signed(f, "device_id");
}

static void read_devices(struct gm_fields *f, struct select *s)
{
	const json_t *list = gm_json_field_list(f, "devices");

	s->devices = make_room(f, list);
	s->n = json_array_size(list);
	for (size_t i = 0; i < s->n && f->r == 0; i++) {
		const json_t *tuple = json_array_get(list, i);
		const json_t *version = json_array_get(tuple, 3);
		const char *backend =
			json_string_value(json_array_get(tuple, 1));

		if (json_array_size(tuple) != 4 || !backend ||
		    !gm_wide_number(json_array_get(tuple, 0),
				    &s->devices[i].id) ||
		    !gm_wide_number(json_array_get(tuple, 2),
				    &s->devices[i].memory_mb) ||
		    (!json_is_string(version) && !json_is_null(version)))
			gm_json_field_refuse(f, "devices",
					     "is not a list of lists of id, "
					     "backend, memory_mb and "
					     "cuda_version");
		s->devices[i].backend = backend;
		s->devices[i].cuda_version = json_string_value(version);
	}
}

/* A name as kapsl gives it: in small letters. */
static json_t *name_of(struct gm_chars provider)
{
	char *name = strndup(provider.at, provider.n);
	json_t *json;

	for (char *c = name; c && *c; c++)
		*c = gm_chars_lower(*c);
	json = name ? json_string(name) : NULL;
	free(name);
	return json;
}

static json_t *show_choice(const struct gm_provider_choice *choice)
{
	json_t *devices = json_array();
	int r = 0;

	for (size_t i = 0; i < choice->n_devices; i++)
		r |= json_array_append_new(devices,
					   gm_wide_integer(choice->devices[i]));
	if (r == 0)
		return json_pack("{s:o, s:o}", "provider",
				 name_of(choice->provider), "devices", devices);
	json_decref(devices);
	return NULL;
}

static json_t *choose_select(struct gm_fields *f)
{
	struct select s = { .n = 0 };
	struct gm_provider_choice choice;
	json_t *json = NULL;

	read_policy(f, &s);
	read_providers(f, &s);
	read_needs(f, &s);
	read_devices(f, &s);
	if (f->r == 0)
		f->r = gm_providers_select(&s.q, s.devices, s.n, &choice,
					   f->err);
	if (f->r == 0) {
		json = show_choice(&choice);
		free(choice.devices);
	}
	free(s.devices);
	free(s.q.providers);
	return json;
}

/* ---- topology ------------------------------------------------------------ */

static json_t *choose_topology(struct gm_fields *f)
{
	const char *requested = gm_json_field_text(f, "topology");
	uint64_t degree = answers_number_or(f, "tp_degree", 1);
	bool generates = answers_bool_or(f, "onnx_generate", false);
	uint64_t stages = answers_number_or(f, "stages", 0);
	struct gm_topology_choice choice;
	json_t *mesh, *warnings;

	if (f->r)
		return NULL;
	choice = gm_topology_choice(requested, degree, generates, stages);
	if (choice.is_pipeline)
		mesh = json_pack("{s:s, s:o}", "kind", "pipeline", "stages",
				 gm_wide_integer(choice.stages));
	else
		mesh = json_pack("{s:s}", "kind", "data");
	warnings = choice.warning[0] != '\0' ? json_pack("[s]", choice.warning)
					     : json_array();
	return json_pack("{s:o, s:s, s:o, s:o}", "mesh", mesh,
			 "worker_topology", choice.worker, "worker_tp_degree",
			 gm_wide_integer(choice.tp_degree), "warnings",
			 warnings);
}

json_t *answers_choose(struct gm_fields *f)
{
	static const struct {
		const char *op;
		json_t *(*choose)(struct gm_fields *f);
	} ops[] = {
		{ "preference", choose_preferred },
		{ "best", choose_best },
		{ "select", choose_select },
		{ "topology", choose_topology },
	};
	const char *op = gm_json_field_text(f, "op");

	for (size_t i = 0; op && i < sizeof(ops) / sizeof(ops[0]); i++)
		if (strcmp(op, ops[i].op) == 0)
			return ops[i].choose(f);
	gm_json_field_refuse(f, "op",
			     "is not preference, best, select or topology");
	return NULL;
}
