/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/batch_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/plan/dtype.h"
#include "agent/plan/fill.h"
#include "agent/plan/mapper.h"
#include "agent/plan/placement.h"
#include "agent/plan/sizes.h"

/* ---- map ----------------------------------------------------------------- */

struct map_request {
	struct gm_spec spec;
	struct gm_topology topology;
	struct gm_location *devices;
	struct gm_mapper_request q;
};

static void read_spec(struct gm_fields *f, struct map_request *m)
{
	const json_t *list;

	if (!gm_field_given(f, "device_layers"))
		return;
	list = gm_field_list(f, "device_layers");
	if (f->r)
		return;
	m->spec.entries =
		calloc(json_array_size(list) + 1, sizeof(*m->spec.entries));
	if (!m->spec.entries) {
		f->r = gm_error_no_memory(f->err);
		return;
	}
	for (size_t i = 0; i < json_array_size(list); i++) {
		uint64_t pair[2] = { 0, 0 };

		gm_field_tuple(f, "device_layers", list, i, pair, 2);
		m->spec.entries[m->spec.n_entries++] =
			(struct gm_spec_entry){ pair[0], pair[1] };
	}
	m->q.map = &m->spec;
}

static void read_topology(struct gm_fields *f, struct map_request *m)
{
	const char *text;

	if (!gm_field_given(f, "topology"))
		return;
	text = gm_field_text(f, "topology");
	if (f->r == 0)
		f->r = gm_topology_parse(text, strlen(text), &m->topology,
					 f->err);
	if (f->r == 0)
		m->q.topology = &m->topology;
}

static void read_locations(struct gm_fields *f, struct map_request *m)
{
	const char *base = gm_field_text(f, "base");
	const json_t *list = gm_field_list(f, "devices");

	if (f->r == 0)
		f->r = gm_location_parse(base, &m->q.base, f->err);
	if (f->r)
		return;
	m->devices = calloc(json_array_size(list) + 1, sizeof(*m->devices));
	m->q.devices = m->devices;
	if (!m->devices)
		f->r = gm_error_no_memory(f->err);
	for (size_t i = 0; f->r == 0 && i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (text)
			f->r = gm_location_parse(
				text, &m->devices[m->q.n_devices++], f->err);
		else
			gm_field_refuse(f, "devices", "is not a list of names");
	}
}

static json_t *show_location(const struct gm_location *location)
{
	char text[GM_LOCATION_TEXT];

	return json_string(gm_location_print(location, text));
}

static json_t *show_mapper(const struct gm_mapper *m,
			   const struct gm_spec *spec)
{
	static const char *const kinds[] = { "layer", "dummy", "nccl" };
	json_t *layers = json_array(), *unique = json_array();
	int r = 0;

	for (size_t i = 0; i < m->n_runs; i++)
		r |= json_array_append_new(
			layers,
			json_pack("[o, o]", show_location(&m->runs[i].location),
				  gm_wide_integer(m->runs[i].n)));
	for (size_t i = 0; i < m->n_unique; i++)
		r |= json_array_append_new(unique,
					   show_location(&m->unique[i]));
	if (r == 0)
		return json_pack("{s:s, s:o, s:o, s:o}", "kind", kinds[m->kind],
				 "layers", layers, "unique", unique, "spec",
				 gm_batch_spec_text(spec));
	json_decref(layers);
	json_decref(unique);
	return NULL;
}

json_t *gm_batch_map(struct gm_fields *f)
{
	struct map_request m = { .q = { .host_layers = GM_LAYERS_REST } };
	struct gm_mapper mapper;
	json_t *json = NULL;

	m.q.n_layers = gm_field_number(f, "model_layers");
	m.q.is_nccl = gm_field_bool_or(f, "nccl", false);
	m.q.host_layers = gm_field_number_or(f, "host_layers", GM_LAYERS_REST);
	read_spec(f, &m);
	read_locations(f, &m);
	read_topology(f, &m);
	if (f->r == 0)
		f->r = gm_mapper_make(&m.q, &mapper, f->err);
	if (f->r == 0) {
		json = show_mapper(&mapper, &m.spec);
		gm_mapper_free(&mapper);
	}
	gm_spec_free(&m.spec);
	gm_topology_free(&m.topology);
	free(m.devices);
	return json;
}

/* ---- auto ---------------------------------------------------------------- */

struct auto_request {
	uint64_t *layers;
	struct gm_fill_device *devices;
	struct gm_kv_paged paged;
	struct gm_fill_request q;
};

static uint32_t read_dtype(struct gm_fields *f)
{
	const char *name = gm_field_text(f, "dtype");
	enum gm_dtype dtype = GM_DTYPE_F32;

	if (f->r == 0)
		f->r = gm_dtype_parse(name, &dtype, f->err);
	return gm_dtype_bytes(dtype);
}

static void read_layers(struct gm_fields *f, struct auto_request *a)
{
	const json_t *list = gm_field_list(f, "layer_sizes");
	uint64_t n = gm_field_number(f, "num_layers"), at = 0;

	if (n > GM_PLACEMENT_LAYERS)
		gm_field_refuse(f, "num_layers", "is more than 65536");
	if (f->r)
		return;
	a->q.n_layers = (uint32_t)n;
	a->q.kv.n_layers = n;
	a->layers = calloc(n + 1, sizeof(*a->layers));
	a->q.layer_bytes = a->layers;
	if (!a->layers)
		f->r = gm_error_no_memory(f->err);
	for (size_t i = 0; f->r == 0 && i < json_array_size(list); i++) {
		uint64_t run[2];

		gm_field_tuple(f, "layer_sizes", list, i, run, 2);
		if (f->r == 0 && run[1] > n - at)
			gm_field_refuse(f, "layer_sizes",
					"has more layers than num_layers");
		while (f->r == 0 && run[1]-- > 0)
			a->layers[at++] = run[0];
	}
	if (at < n)
		gm_field_refuse(f, "layer_sizes",
				"has fewer layers than num_layers");
}

static void read_devices(struct gm_fields *f, struct auto_request *a)
{
	const json_t *list = gm_field_list(f, "devices");

	if (f->r)
		return;
	a->devices = calloc(json_array_size(list) + 1, sizeof(*a->devices));
	a->q.devices = a->devices;
	if (!a->devices)
		f->r = gm_error_no_memory(f->err);
	for (size_t i = 0; f->r == 0 && i < json_array_size(list); i++) {
		struct gm_fields device = { json_array_get(list, i),
					    "devices: ", f->err, 0 };

		a->devices[a->q.n_devices++] = (struct gm_fill_device){
			.avail = gm_field_number(&device, "avail"),
			.is_integrated =
				gm_field_bool_or(&device, "integrated", false),
			.is_host = gm_field_bool_or(&device, "cpu", false),
		};
		f->r = device.r;
	}
}

static void read_budget(struct gm_fields *f, struct gm_kv_paged *paged)
{
	struct gm_fields mem = gm_field_object(f, "mem");

	if (gm_field_given(&mem, "mb")) {
		paged->budget = GM_KV_MB;
		paged->amount = gm_field_number(&mem, "mb");
	} else if (gm_field_given(&mem, "utilization")) {
		paged->budget = GM_KV_UTILIZATION;
		paged->share = (float)gm_field_real(&mem, "utilization");
	} else {
		paged->budget = GM_KV_TOKENS;
		paged->amount = gm_field_number(&mem, "context_tokens");
	}
	f->r = f->r ? f->r : mem.r;
}

static void read_paged(struct gm_fields *f, struct auto_request *a)
{
	struct gm_fields paged;
	const char *type = "auto";

	if (!gm_field_given(f, "paged"))
		return;
	paged = gm_field_object(f, "paged");
	a->q.paged = &a->paged;
	a->paged.block_size =
		gm_field_number_or(&paged, "block_size", GM_KV_BLOCK);
	read_budget(&paged, &a->paged);
	if (gm_field_given(&paged, "cache_type"))
		type = gm_field_text(&paged, "cache_type");
	if (type && strcmp(type, "f8e4m3") == 0)
		a->paged.cache_bytes = gm_dtype_bytes(GM_DTYPE_F8E4M3);
	else if (type && strcmp(type, "auto") != 0)
		gm_field_refuse(&paged, "cache_type", "is not auto or f8e4m3");
	f->r = f->r ? f->r : paged.r;
}

static void read_kv(struct gm_fields *f, struct gm_kv_shape *kv)
{
	const json_t *mla;
	uint64_t n[2] = { 0, 0 };

	kv->n_heads = gm_field_number(f, "num_kv_heads");
	kv->k_dim = gm_field_number(f, "k_head_dim");
	kv->v_dim = gm_field_number(f, "v_head_dim");
	if (!gm_field_given(f, "mla"))
		return;
	mla = json_pack("[O]", json_object_get(f->object, "mla"));
	gm_field_tuple(f, "mla", mla, 0, n, 2);
	json_decref((json_t *)mla);
	kv->is_mla = true;
	kv->kv_lora_rank = n[0];
	kv->kpe_head_dim = n[1];
}

static void read_auto(struct gm_fields *f, struct auto_request *a)
{
	const char *strategy = gm_field_text(f, "strategy");

	if (strategy && strcmp(strategy, "fill") != 0)
		gm_field_refuse(f, "strategy", "is not fill");
	a->q.non_mapped_bytes = gm_field_number(f, "non_mapped_size");
	a->q.total_bytes = gm_field_number(f, "total_model_size");
	a->q.mapped_act_elems = gm_field_number(f, "mapped_act_elems");
	a->q.non_mapped_act_elems = gm_field_number(f, "non_mapped_act_elems");
	a->q.dtype_bytes = read_dtype(f);
	a->q.max_seq_len = gm_field_number(f, "max_seq_len");
	a->q.max_batch_size = gm_field_number(f, "max_batch_size");
	a->q.host_avail = gm_field_number(f, "cpu_avail");
	read_kv(f, &a->q.kv);
	read_layers(f, a);
	read_devices(f, a);
	read_paged(f, a);
}

static json_t *show_charge(const struct gm_fill_charge *c)
{
	return json_pack("{s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o}", "position",
			 c->is_host ? json_null() : gm_wide_integer(c->device),
			 "n_layers", gm_wide_integer(c->n_layers), "non_mapped",
			 c->has_non_mapped, "weight_bytes",
			 gm_wide_integer(c->weight_bytes), "kv_bytes",
			 gm_wide_integer(c->kv_bytes), "activation_bytes",
			 gm_wide_integer(c->act_bytes), "reserve_bytes",
			 gm_wide_integer(c->reserve_bytes), "left_bytes",
			 gm_wide_integer(c->left_bytes));
}

static json_t *show_fill(const struct gm_fill *fill)
{
	json_t *charges = json_array(), *warnings = json_array();
	int r = 0;

	for (size_t i = 0; i < fill->n_charges; i++)
		r |= json_array_append_new(charges,
					   show_charge(&fill->charges[i]));
	for (size_t i = 0; i < fill->n_warnings; i++)
		r |= json_array_append_new(warnings,
					   gm_wide_text(fill->warnings[i]));
	if (r == 0)
		return json_pack(
			"{s:o, s:o, s:o, s:o}", "device_layers",
			gm_batch_entries(fill->entries, fill->n_entries),
			"host_layers", gm_wide_integer(fill->host_layers),
			"charges", charges, "warnings", warnings);
	json_decref(charges);
	json_decref(warnings);
	return NULL;
}

json_t *gm_batch_auto(struct gm_fields *f)
{
	struct auto_request a = { .layers = NULL };
	struct gm_fill fill;
	json_t *json = NULL;

	read_auto(f, &a);
	if (f->r == 0)
		f->r = gm_fill_make(&a.q, &fill, f->err);
	if (f->r == 0) {
		json = show_fill(&fill);
		gm_fill_free(&fill);
	}
	free(a.layers);
	free(a.devices);
	return json;
}

/* ---- sizes --------------------------------------------------------------- */

json_t *gm_batch_sizes(struct gm_fields *f)
{
	struct gm_sizes_request q = {
		.vocab_size = gm_field_number(f, "vocab_size"),
		.hidden_size = gm_field_number(f, "hidden_size"),
		.intermediate_size = gm_field_number(f, "intermediate_size"),
		.n_layers = gm_field_number(f, "num_hidden_layers"),
		.n_heads = gm_field_number(f, "num_attention_heads"),
		.n_kv_heads = gm_field_number(f, "num_key_value_heads"),
		.has_head_dim = gm_field_given(f, "head_dim"),
		.head_dim = gm_field_number_or(f, "head_dim", 0),
		.is_tied = gm_field_bool_or(f, "tie_word_embeddings", false),
		.dtype_bytes = read_dtype(f),
		.pack_factor = gm_field_number(f, "weight_pack_factor"),
		.max_seq_len = gm_field_number(f, "max_seq_len"),
		.max_batch_size = gm_field_number(f, "max_batch_size"),
	};
	struct gm_sizes s;

	if (f->r == 0)
		f->r = gm_sizes_make(&q, &s, f->err);
	if (f->r)
		return NULL;
	return json_pack(
		"{s:o, s:o, s:o, s:o, s:o}", "layer_size_bytes",
		gm_wide_integer(s.layer_bytes), "non_mapped_size_bytes",
		gm_wide_integer(s.non_mapped_bytes), "mapped_max_act_elems",
		gm_wide_integer(s.mapped_act_elems), "non_mapped_max_act_elems",
		gm_wide_integer(s.non_mapped_act_elems),
		"kv_bytes_per_layer_unpaged", gm_wide_integer(s.kv_bytes));
}
