/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Layer maps by a map, a topology or a strategy, and sizes of models. */

#include <stdlib.h>
#include <string.h>

#include "agent/files/topology_file.h"
#include "lib/model/plan/checked.h"
#include "lib/model/plan/dtype.h"
#include "lib/model/plan/kv.h"
#include "lib/model/plan/place.h"
#include "shm/ops.h"
#include "tests/answers/answers.h"
#include "tests/support/topology_entries.h"

/* ---- map ----------------------------------------------------------------- */

struct map_request {
	struct gm_spec spec;
	struct gm_topology topology;
	/* The base is the first, and the last is the host, which is there
	 * always. */
	struct gm_plan_device *devices;
	struct gm_place_request q;
};

static void read_spec(struct gm_fields *f, struct map_request *m)
{
	const json_t *list;

	if (!gm_json_field_given(f, "device_layers"))
		return;
	list = gm_json_field_list(f, "device_layers");
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

		gm_json_field_tuple(f, "device_layers", list, i, pair, 2);
		m->spec.entries[m->spec.n_entries++] =
			(struct gm_spec_entry){ pair[0], pair[1] };
	}
	m->q.map = &m->spec;
}

static void read_topology(struct gm_fields *f, struct map_request *m)
{
	const char *text;

	if (!gm_json_field_given(f, "topology"))
		return;
	text = gm_json_field_text(f, "topology");
	if (f->r == 0)
		f->r = gm_topology_file_parse(text, strlen(text), &m->topology,
					      f->err);
	if (f->r == 0)
		m->q.topology = &m->topology;
}

static void read_device(struct gm_fields *f, struct map_request *m,
			const char *text)
{
	struct gm_plan_device *device = &m->devices[m->q.n_devices];

	device->row = m->q.n_devices++;
	f->r = gm_topology_device_parse(text, &device->at, f->err);
	device->is_host = device->at.kind == GM_LOCATION_CPU;
}

static void read_devices(struct gm_fields *f, struct map_request *m)
{
	const char *base = gm_json_field_text(f, "base");
	const json_t *list = gm_json_field_list(f, "devices");

	if (f->r)
		return;
	m->devices = calloc(json_array_size(list) + 2, sizeof(*m->devices));
	m->q.devices = m->devices;
	if (!m->devices)
		f->r = gm_error_no_memory(f->err);
	else
		read_device(f, m, base);
	for (size_t i = 0; f->r == 0 && i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (text)
			read_device(f, m, text);
		else
			gm_json_field_refuse(f, "devices",
					     "is not a list of names");
	}
	if (f->r == 0)
		read_device(f, m, "cpu");
}

static json_t *show_device(const struct gm_place_run *run)
{
	char text[LOCATION_TEXT];

	return json_string(topology_location(&run->device->at, text));
}

static const char *kind_of(const struct gm_place_request *q)
{
	if (q->is_nccl)
		return "nccl";
	return q->map || (q->topology && gm_topology_places(q->topology))
		       ? "layer"
		       : "dummy";
}

static json_t *show_place(const struct gm_place *p, const struct map_request *m)
{
	json_t *layers = json_array(), *unique = json_array();
	bool *is_shown = calloc(m->q.n_devices, sizeof(*is_shown));
	int r = is_shown ? 0 : -1;

	for (size_t i = 0; i < p->n_runs && r == 0; i++) {
		const struct gm_place_run *run = &p->runs[i];

		r |= json_array_append_new(layers,
					   json_pack("[o, o]", show_device(run),
						     gm_wide_integer(run->n)));
		if (!is_shown[run->device->row])
			r |= json_array_append_new(unique, show_device(run));
		is_shown[run->device->row] = true;
	}
	free(is_shown);
	if (r == 0)
		return json_pack("{s:s, s:o, s:o, s:o}", "kind", kind_of(&m->q),
				 "layers", layers, "unique", unique, "spec",
				 answers_spec_text(&m->spec));
	json_decref(layers);
	json_decref(unique);
	return NULL;
}

static json_t *place(struct gm_fields *f)
{
	struct map_request m = { .q = { .by_ordinal = true } };
	struct gm_place made;
	json_t *json = NULL;

	m.q.n_layers = gm_json_field_number(f, "model_layers");
	m.q.is_nccl = answers_bool_or(f, "nccl", false);
	m.q.host_layers = answers_number_or(f, "host_layers", GM_LAYERS_REST);
	read_spec(f, &m);
	read_devices(f, &m);
	read_topology(f, &m);
	if (f->r == 0)
		f->r = gm_place_make(&m.q, &made, f->err);
	if (f->r == 0) {
		json = show_place(&made, &m);
		gm_place_free(&made);
	}
	gm_spec_free(&m.spec);
	gm_topology_free(&m.topology);
	free(m.devices);
	return json;
}

/* ---- sizes --------------------------------------------------------------- */

uint32_t answers_dtype(struct gm_fields *f)
{
	const char *name = gm_json_field_text(f, "dtype");
	uint32_t dtype = GPUMAP_DTYPE_F32;

	if (f->r == 0)
		f->r = gm_dtype_parse(name, &dtype, f->err);
	if (dtype == GPUMAP_DTYPE_F8_E4M3)
		return 1;
	return dtype == GPUMAP_DTYPE_I16 ? 2 : gm_ops_dtype_bytes(dtype);
}

/* A decoder of attention and gated MLP, such as Llama and most later models. */
struct sizes_request {
	uint64_t vocab_size;
	uint64_t hidden_size;
	uint64_t intermediate_size;
	uint64_t n_layers;
	uint64_t n_heads;
	uint64_t n_kv_heads;
	bool has_head_dim;
	uint64_t head_dim; /* else hidden_size / n_heads */
	bool is_tied;      /* the head is the embedding */
	uint32_t dtype_bytes;
	uint64_t pack_factor;
	uint64_t max_seq_len;
	uint64_t max_batch_size;
};

struct sizes {
	uint64_t layer_bytes;
	uint64_t non_mapped_bytes;
	uint64_t mapped_act_elems; /* largest activation, elements */
	uint64_t non_mapped_act_elems;
	uint64_t kv_bytes; /* of one layer, unpaged */
};

static int check_sizes(const struct sizes_request *q, struct gm_plan_error *err)
{
	const char *zero = q->n_heads == 0       ? "num_attention_heads"
			   : q->pack_factor == 0 ? "weight_pack_factor"
			   : q->n_layers == 0    ? "num_hidden_layers"
						 : NULL;

	if (!zero)
		return 0;
	return gm_error_set(err, -EINVAL, "correct the request",
			    "%s must be at least 1", zero);
}

/* Elements of a matrix after packing. */
static uint64_t packed(bool *over, const struct sizes_request *q, uint64_t rows,
		       uint64_t columns)
{
	return gm_checked_mul(over, rows, columns) / q->pack_factor;
}

static uint64_t layer_elems(bool *over, const struct sizes_request *q)
{
	uint64_t h = q->hidden_size;
	uint64_t head = h / q->n_heads;
	uint64_t q_size = gm_checked_mul(over, head, q->n_heads);
	uint64_t kv_size = gm_checked_mul(over, head, q->n_kv_heads);
	uint64_t elems = gm_checked_mul(over, 2, h); /* two norms */

	elems = gm_checked_add(over, elems, packed(over, q, h, q_size));
	elems = gm_checked_add(over, elems,
			       gm_checked_mul(over, 2,
					      packed(over, q, h, kv_size)));
	elems = gm_checked_add(over, elems, packed(over, q, q_size, h));
	return gm_checked_add(
		over, elems,
		gm_checked_mul(over, 3,
			       packed(over, q, h, q->intermediate_size)));
}

static uint64_t non_mapped_elems(bool *over, const struct sizes_request *q)
{
	uint64_t embedding = packed(over, q, q->hidden_size, q->vocab_size);
	uint64_t elems = embedding;

	/* Packed, head and embedding are separate even if they were tied. */
	if (!q->is_tied || q->pack_factor != 1)
		elems = gm_checked_add(over, elems, embedding);
	return gm_checked_add(over, elems, q->hidden_size);
}

/* The formulas, order of operations and divisions are those of mistral.rs; an
 * overflow of 64 bits is an error.  A weight is a whole number of elements
 * divided by the pack factor of its quantisation; norms are never packed, and
 * an explicit head_dim counts for the KV cache only. */
static int make_sizes(const struct sizes_request *q, struct sizes *ret_sizes,
		      struct gm_plan_error *ret_err)
{
	struct sizes sizes = { 0 };
	struct gm_kv_shape kv;
	bool over = false;
	uint64_t chunk;
	int r;

	r = check_sizes(q, ret_err);
	if (r)
		return r;
	kv = (struct gm_kv_shape){
		.n_layers = q->n_layers,
		.n_heads = q->n_kv_heads,
		.k_dim = q->has_head_dim ? q->head_dim
					 : q->hidden_size / q->n_heads,
	};
	kv.v_dim = kv.k_dim;
	chunk = gm_min(q->max_seq_len, GM_KV_CHUNK);
	sizes.layer_bytes =
		gm_checked_mul(&over, layer_elems(&over, q), q->dtype_bytes);
	sizes.non_mapped_bytes = gm_checked_mul(
		&over, non_mapped_elems(&over, q), q->dtype_bytes);
	sizes.mapped_act_elems = GM_CHECKED_PRODUCT(&over, q->max_batch_size,
						    q->n_heads, chunk * chunk);
	if (over)
		return gm_error_set(ret_err, -EOVERFLOW, "correct the request",
				    "The model's sizes come to 2^64 or more");
	r = gm_kv_unpaged(&kv, q->max_seq_len, q->max_batch_size,
			  q->dtype_bytes, &sizes.kv_bytes, ret_err);
	if (r == 0)
		*ret_sizes = sizes;
	return r;
}

static json_t *show_sizes(struct gm_fields *f)
{
	struct sizes_request q = {
		.vocab_size = gm_json_field_number(f, "vocab_size"),
		.hidden_size = gm_json_field_number(f, "hidden_size"),
		.intermediate_size =
			gm_json_field_number(f, "intermediate_size"),
		.n_layers = gm_json_field_number(f, "num_hidden_layers"),
		.n_heads = gm_json_field_number(f, "num_attention_heads"),
		.n_kv_heads = gm_json_field_number(f, "num_key_value_heads"),
		.has_head_dim = gm_json_field_given(f, "head_dim"),
		.head_dim = answers_number_or(f, "head_dim", 0),
		.is_tied = answers_bool_or(f, "tie_word_embeddings", false),
		.dtype_bytes = answers_dtype(f),
		.pack_factor = gm_json_field_number(f, "weight_pack_factor"),
		.max_seq_len = gm_json_field_number(f, "max_seq_len"),
		.max_batch_size = gm_json_field_number(f, "max_batch_size"),
	};
	struct sizes s = { 0 };

	if (f->r == 0)
		f->r = make_sizes(&q, &s, f->err);
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

/* ---- any ----------------------------------------------------------------- */

json_t *answers_plan(struct gm_fields *f)
{
	const char *op = gm_json_field_text(f, "op");

	if (!op)
		return NULL;
	if (strcmp(op, "map") == 0)
		return place(f);
	if (strcmp(op, "auto") == 0)
		return answers_auto(f);
	if (strcmp(op, "sizes") == 0)
		return show_sizes(f);
	gm_json_field_refuse(f, "op", "is not map, auto or sizes");
	return NULL;
}
