/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Layer maps by a strategy. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/plan/auto.h"
#include "agent/plan/checked.h"
#include "agent/plan/dtype.h"
#include "agent/plan/fill.h"
#include "agent/plan/placement.h"
#include "tests/answers/answers.h"

struct auto_request {
	enum gm_strategy strategy;
	uint64_t *layers;
	struct gm_fill_device *devices;
	uint64_t *speeds; /* one for each device, and the host's */
	struct gm_kv_paged paged;
	struct gm_fill_request q;
};

static void read_layers(struct gm_fields *f, struct auto_request *a)
{
	const json_t *list = gm_json_field_list(f, "layer_sizes");
	uint64_t n = gm_json_field_number(f, "num_layers"), at = 0;

	if (n > GM_PLACEMENT_LAYERS)
		gm_json_field_refuse(f, "num_layers", "is more than 65536");
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

		gm_json_field_tuple(f, "layer_sizes", list, i, run, 2);
		if (f->r == 0 && run[1] > n - at)
			gm_json_field_refuse(f, "layer_sizes",
					     "has more layers than num_layers");
		while (f->r == 0 && run[1]-- > 0)
			a->layers[at++] = run[0];
	}
	if (at < n)
		gm_json_field_refuse(f, "layer_sizes",
				     "has fewer layers than num_layers");
}

/* A score in units of 1/1024; 1 if not given; a row with 0 takes no layer. */
static uint64_t read_score(struct gm_fields *f, const char *key)
{
	double score = 1;

	if (gm_json_field_given(f, key))
		score = answers_real(f, key);
	if (!(score >= 0 && score <= 1e12))
		gm_json_field_refuse(f, key, "is not from 0 to 10^12");
	return f->r ? 0 : (uint64_t)(score * 1024);
}

static void read_devices(struct gm_fields *f, struct auto_request *a)
{
	const json_t *list = gm_json_field_list(f, "devices");
	size_t n = json_array_size(list);

	if (f->r)
		return;
	a->devices = calloc(n + 1, sizeof(*a->devices));
	a->speeds = calloc(n + 1, sizeof(*a->speeds));
	a->q.devices = a->devices;
	if (!a->devices || !a->speeds)
		f->r = gm_error_no_memory(f->err);
	for (size_t i = 0; f->r == 0 && i < n; i++) {
		struct gm_fields device = { json_array_get(list, i),
					    "devices: ", f->err, 0 };

		a->devices[i] = (struct gm_fill_device){
			.avail = gm_json_field_number(&device, "avail"),
			.is_integrated =
				answers_bool_or(&device, "integrated", false),
			.is_host = answers_bool_or(&device, "cpu", false),
		};
		a->speeds[i] = read_score(&device, "score");
		a->q.n_devices++;
		f->r = device.r;
	}
	if (f->r == 0)
		a->speeds[n] = read_score(f, "cpu_score");
}

static void read_budget(struct gm_fields *f, struct gm_kv_paged *paged)
{
	struct gm_fields mem = answers_object(f, "mem");

	if (gm_json_field_given(&mem, "mb")) {
		paged->budget = GM_KV_MB;
		paged->amount = gm_json_field_number(&mem, "mb");
	} else if (gm_json_field_given(&mem, "utilization")) {
		paged->budget = GM_KV_UTILIZATION;
		paged->share = (float)answers_real(&mem, "utilization");
	} else {
		paged->budget = GM_KV_TOKENS;
		paged->amount = gm_json_field_number(&mem, "context_tokens");
	}
	f->r = f->r ? f->r : mem.r;
}

static void read_paged(struct gm_fields *f, struct auto_request *a)
{
	struct gm_fields paged;
	const char *type = "auto";

	if (!gm_json_field_given(f, "paged"))
		return;
	paged = answers_object(f, "paged");
	a->q.paged = &a->paged;
	a->paged.block_size =
		answers_number_or(&paged, "block_size", GM_KV_BLOCK);
	read_budget(&paged, &a->paged);
	if (gm_json_field_given(&paged, "cache_type"))
		type = gm_json_field_text(&paged, "cache_type");
	if (type && strcmp(type, "f8e4m3") == 0)
		a->paged.cache_bytes = gm_dtype_bytes(GM_DTYPE_F8E4M3);
	else if (type && strcmp(type, "auto") != 0)
		gm_json_field_refuse(&paged, "cache_type",
				     "is not auto or f8e4m3");
	f->r = f->r ? f->r : paged.r;
}

static void read_kv(struct gm_fields *f, struct gm_kv_shape *kv)
{
	const json_t *mla;
	uint64_t n[2] = { 0, 0 };

	kv->n_heads = gm_json_field_number(f, "num_kv_heads");
	kv->k_dim = gm_json_field_number(f, "k_head_dim");
	kv->v_dim = gm_json_field_number(f, "v_head_dim");
	if (!gm_json_field_given(f, "mla"))
		return;
	mla = json_pack("[O]", json_object_get(f->object, "mla"));
	gm_json_field_tuple(f, "mla", mla, 0, n, 2);
	json_decref((json_t *)mla);
	kv->is_mla = true;
	kv->kv_lora_rank = n[0];
	kv->kpe_head_dim = n[1];
}

static void read_auto(struct gm_fields *f, struct auto_request *a)
{
	const char *strategy = gm_json_field_text(f, "strategy");

	if (f->r == 0 && gm_auto_strategy_parse(strategy, &a->strategy, NULL))
		gm_json_field_refuse(f, "strategy",
				     "is not fill, balance or fewest");
	a->q.non_mapped_bytes = gm_json_field_number(f, "non_mapped_size");
	a->q.total_bytes = gm_json_field_number(f, "total_model_size");
	a->q.mapped_act_elems = gm_json_field_number(f, "mapped_act_elems");
	a->q.non_mapped_act_elems =
		gm_json_field_number(f, "non_mapped_act_elems");
	a->q.dtype_bytes = answers_dtype(f);
	a->q.max_seq_len = gm_json_field_number(f, "max_seq_len");
	a->q.max_batch_size = gm_json_field_number(f, "max_batch_size");
	a->q.host_avail = gm_json_field_number(f, "cpu_avail");
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
					   answers_string(fill->warnings[i]));
	if (r == 0)
		return json_pack(
			"{s:o, s:o, s:o, s:o}", "device_layers",
			answers_entries(fill->entries, fill->n_entries),
			"host_layers", gm_wide_integer(fill->host_layers),
			"charges", charges, "warnings", warnings);
	json_decref(charges);
	json_decref(warnings);
	return NULL;
}

/* ---- by score ------------------------------------------------------------ */

static size_t list_rows(const struct auto_request *a, struct gm_auto_row *rows)
{
	size_t n = a->q.n_devices;
	bool adds_host = true;

	for (size_t i = 0; i < n; i++) {
		const struct gm_fill_device *device = &a->devices[i];

		adds_host &= !device->is_host && !device->is_integrated;
		rows[i] = (struct gm_auto_row){ (uint32_t)i, device->is_host,
						device->is_integrated,
						device->avail, a->speeds[i] };
	}
	if (!adds_host)
		return n;
	rows[n] = (struct gm_auto_row){ (uint32_t)n, true, false,
					a->q.host_avail, a->speeds[n] };
	return n + 1;
}

/* Convert another strategy's plan into fill's form. */
static int take_plan(const struct gm_auto *plan, const struct gm_auto_row *rows,
		     struct gm_fill *fill)
{
	fill->entries = calloc(plan->n_charges + 1, sizeof(*fill->entries));
	fill->charges = calloc(plan->n_charges + 1, sizeof(*fill->charges));
	if (!fill->entries || !fill->charges)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->n_charges; i++) {
		const struct gm_auto_charge *c = &plan->charges[i];
		bool is_host = rows[c->row].is_host;

		fill->charges[fill->n_charges++] = (struct gm_fill_charge){
			c->row,       is_host,          c->has_non_mapped,
			c->n_layers,  c->weight_bytes,  c->kv_bytes,
			c->act_bytes, c->reserve_bytes, c->left_bytes
		};
		if (is_host)
			fill->host_layers += c->n_layers;
		else
			fill->entries[fill->n_entries++] =
				(struct gm_spec_entry){ c->row, c->n_layers };
	}
	return 0;
}

static int make_by_score(const struct auto_request *a, struct gm_fill *ret,
			 struct gm_plan_error *err)
{
	struct gm_auto_row *rows = calloc(a->q.n_devices + 1, sizeof(*rows));
	struct gm_auto_request q = {
		.strategy = a->strategy,
		.rows = rows,
		.layer_bytes = a->q.layer_bytes,
		.n_layers = a->q.n_layers,
		.non_mapped_bytes = a->q.non_mapped_bytes,
		.mapped_act_elems = a->q.mapped_act_elems,
		.non_mapped_act_elems = a->q.non_mapped_act_elems,
		.dtype_bytes = a->q.dtype_bytes,
		.max_seq_len = a->q.max_seq_len,
		.max_batch_size = a->q.max_batch_size,
		.kv = a->q.kv,
		.paged = a->q.paged,
	};
	struct gm_fill fill = { 0 };
	struct gm_auto plan;
	int r;

	if (!rows)
		return gm_error_no_memory(err);
	q.n_rows = (uint32_t)gm_min(list_rows(a, rows), UINT32_MAX);
	r = gm_auto_make(&q, &plan, err);
	if (r == 0) {
		if (take_plan(&plan, rows, &fill))
			r = gm_error_no_memory(err);
		gm_auto_free(&plan);
	}
	free(rows);
	if (r)
		gm_fill_free(&fill);
	else
		*ret = fill;
	return r;
}

json_t *answers_auto(struct gm_fields *f)
{
	struct auto_request a = { .layers = NULL };
	struct gm_fill fill;
	json_t *json = NULL;

	read_auto(f, &a);
	if (f->r == 0)
		f->r = a.strategy == GM_STRATEGY_FILL
			       ? gm_fill_make(&a.q, &fill, f->err)
			       : make_by_score(&a, &fill, f->err);
	if (f->r == 0) {
		json = show_fill(&fill);
		gm_fill_free(&fill);
	}
	free(a.layers);
	free(a.devices);
	free(a.speeds);
	return json;
}
