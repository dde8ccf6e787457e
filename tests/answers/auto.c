/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Layer maps by a strategy. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/plan/auto.h"
#include "lib/model/plan/checked.h"
#include "lib/model/plan/place.h"
#include "shm/layout.h"
#include "tests/answers/answers.h"

#define MOST_OF_FILL 4096u /* devices */

struct auto_request {
	uint64_t *layers;
	/* By position, and the host if no device has its memory; then in the
	 * strategy's order. */
	struct gm_plan_device *devices, *rows;
	uint32_t n_devices;
	uint64_t host_avail;
	struct gm_kv_shape kv;
	struct gm_auto_request q;
};

static void read_layers(struct gm_fields *f, struct auto_request *a)
{
	const json_t *list = gm_json_field_list(f, "layer_sizes");
	uint64_t n = gm_json_field_number(f, "num_layers"), at = 0;

	if (n > GM_LAYERS_MAX)
		gm_json_field_refuse(f, "num_layers", "is more than 65536");
	if (f->r)
		return;
	a->q.n_layers = (uint32_t)n;
	a->q.cache.n_layers = (uint32_t)n;
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
	bool adds_host = true;

	if (f->r)
		return;
	a->devices = calloc(n + 1, sizeof(*a->devices));
	a->rows = calloc(n + 1, sizeof(*a->rows));
	a->q.rows = a->rows;
	if (!a->devices || !a->rows)
		f->r = gm_error_no_memory(f->err);
	for (uint32_t i = 0; f->r == 0 && i < n; i++) {
		struct gm_fields device = { json_array_get(list, i),
					    "devices: ", f->err, 0 };
		struct gm_plan_device *row = &a->devices[i];

		row->row = i;
		row->avail = gm_json_field_number(&device, "avail");
		row->is_integrated =
			answers_bool_or(&device, "integrated", false);
		row->is_host = answers_bool_or(&device, "cpu", false);
		row->speed = read_score(&device, "score");
		adds_host &= !row->is_host && !row->is_integrated;
		a->n_devices++;
		f->r = device.r;
	}
	if (f->r)
		return;
	a->devices[n] = (struct gm_plan_device){
		.row = (uint32_t)n,
		.is_host = true,
		.avail = a->host_avail,
		.speed = read_score(f, "cpu_score"),
	};
	a->q.n_rows = a->n_devices + adds_host;
}

static void read_budget(struct gm_fields *f, struct gm_kv_paged *paged)
{
	struct gm_fields mem = answers_object(f, "mem");

	if (gm_json_field_given(&mem, "mb")) {
		paged->budget = GPUMAP_PAGED_MIB;
		paged->amount = gm_json_field_number(&mem, "mb");
	} else if (gm_json_field_given(&mem, "utilization")) {
		paged->budget = GPUMAP_PAGED_SHARE;
		paged->share = (float)answers_real(&mem, "utilization");
	} else {
		paged->budget = GPUMAP_PAGED_TOKENS;
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
	a->q.cache.paged.block_size =
		answers_number_or(&paged, "block_size", GM_KV_BLOCK);
	read_budget(&paged, &a->q.cache.paged);
	if (gm_json_field_given(&paged, "cache_type"))
		type = gm_json_field_text(&paged, "cache_type");
	if (type && strcmp(type, "f8e4m3") == 0)
		a->q.cache.paged.cache_bytes = 1;
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

	if (f->r == 0 && gm_auto_strategy_parse(strategy, &a->q.strategy, NULL))
		gm_json_field_refuse(f, "strategy",
				     "is not fill, balance or fewest");
	a->q.non_mapped_bytes = gm_json_field_number(f, "non_mapped_size");
	a->q.total_bytes = gm_json_field_number(f, "total_model_size");
	a->q.mapped_act_elems = gm_json_field_number(f, "mapped_act_elems");
	a->q.non_mapped_act_elems =
		gm_json_field_number(f, "non_mapped_act_elems");
	a->q.cache.dtype_bytes = answers_dtype(f);
	a->q.cache.max_seq_len = gm_json_field_number(f, "max_seq_len");
	a->q.cache.max_batch_size = gm_json_field_number(f, "max_batch_size");
	a->host_avail = gm_json_field_number(f, "cpu_avail");
	read_kv(f, &a->kv);
	a->q.cache.like = &a->kv;
	read_layers(f, a);
	read_devices(f, a);
	read_paged(f, a);
}

static json_t *show_charge(const struct gpumap_charge *c, bool is_host,
			   bool is_first)
{
	return json_pack("{s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o}", "position",
			 is_host ? json_null() : gm_wide_integer(c->row),
			 "n_layers", gm_wide_integer(c->n_layers), "non_mapped",
			 is_first, "weight_bytes",
			 gm_wide_integer(c->weight_bytes), "kv_bytes",
			 gm_wide_integer(c->kv_bytes), "activation_bytes",
			 gm_wide_integer(c->activation_bytes), "reserve_bytes",
			 gm_wide_integer(c->reserve_bytes), "left_bytes",
			 gm_wide_integer(c->left_bytes));
}

/* "cuda[2]" or "cpu" */
static const char *name_of(const struct auto_request *a, uint32_t i,
			   char text[32])
{
	if (a->rows[i].is_host)
		return "cpu";
	snprintf(text, 32, "cuda[%" PRIu32 "]", i);
	return text;
}

static json_t *warn_of_empty(const struct auto_request *a, uint32_t i)
{
	char text[512], name[32];

	snprintf(text, sizeof(text),
		 "Device %s can fit 0 layers. Consider reducing auto map "
		 "params from current: text[max_seq_len: %" PRIu64
		 ", max_batch_size: %" PRIu64
		 "] (ex. reducing max seq len or max num images)",
		 name_of(a, i, name), a->q.cache.max_seq_len,
		 a->q.cache.max_batch_size);
	return answers_string(text);
}

/* Layers that are left over are the host's. */
static json_t *show(const struct auto_request *a, const struct gm_auto *plan)
{
	json_t *devices = json_array(), *charges = json_array();
	json_t *warnings = json_array();
	uint64_t host_layers = plan->n_left;
	int r = 0;

	for (uint32_t i = 0; i < plan->n_charges; i++) {
		const struct gpumap_charge *c = &plan->charges[i];
		bool is_host = a->devices[c->row].is_host;

		r |= json_array_append_new(charges,
					   show_charge(c, is_host, i == 0));
		if (is_host)
			host_layers += c->n_layers;
		else
			r |= json_array_append_new(
				devices,
				json_pack("[o, o]", gm_wide_integer(c->row),
					  gm_wide_integer(c->n_layers)));
	}
	for (uint32_t i = 0; i < plan->n_empty; i++)
		r |= json_array_append_new(warnings,
					   warn_of_empty(a, plan->empty[i]));
	if (r == 0)
		return json_pack("{s:o, s:o, s:o, s:o}", "device_layers",
				 devices, "host_layers",
				 gm_wide_integer(host_layers), "charges",
				 charges, "warnings", warnings);
	json_decref(devices);
	json_decref(charges);
	json_decref(warnings);
	return NULL;
}

/* How many rows could have layers: hosts cannot where one has their memory. */
static uint32_t count_rows(const struct auto_request *a)
{
	uint32_t n_devices = 0, n = a->q.n_rows;

	while (n_devices < n && !a->rows[n_devices].is_host)
		n_devices++;
	for (uint32_t i = 0; i < a->q.n_rows; i++)
		if (a->rows[i].is_integrated &&
		    a->q.strategy != GPUMAP_STRATEGY_FILL)
			n = n_devices;
	return n;
}

/* Would a row have the first layer, or all, but for the weights of no layer? */
static bool is_shut_out(const struct auto_request *a, const uint64_t *kv_sums)
{
	const struct gm_auto_request *q = &a->q;
	bool fills = q->strategy == GPUMAP_STRATEGY_FILL;
	uint64_t need = q->layer_bytes[0] + kv_sums[1];

	if (fills)
		need = gm_min(need, q->total_bytes + kv_sums[q->n_layers]);
	need += q->mapped_act_elems * q->cache.dtype_bytes;
	for (uint32_t i = 0; i < count_rows(a); i++)
		if ((fills || a->rows[i].speed > 0) &&
		    gm_place_capacity(&a->rows[i]) >= need)
			return true;
	return false;
}

/* "cuda[0] (avail: 1MB)", "cpu (avail: 2MB)" for the caller to free() */
static char *list_rows(const struct auto_request *a)
{
	char *text = NULL, name[32];
	size_t n;
	FILE *to = open_memstream(&text, &n);

	for (uint32_t i = 0; to && i < a->q.n_rows; i++)
		fprintf(to, "%s\"%s (avail: %" PRIu64 "MB)\"", i ? ", " : "",
			name_of(a, i, name), a->rows[i].avail >> 20);
	if (to)
		fclose(to);
	return text;
}

/* Say why there is no map, of which @plan has what fits. */
static int cannot_place(const struct auto_request *a,
			const struct gm_auto *plan, struct gm_plan_error *err)
{
	static const char remedy[] =
		"lower max_seq_len or the batch, or quantise";
	const struct gm_auto_request *q = &a->q;
	uint64_t left = q->total_bytes, bytes = 0;
	uint32_t first = q->n_layers - plan->n_left;
	char more[128] = "", *rows;

	for (uint32_t i = 0; i < plan->n_charges; i++)
		left -= plan->charges[i].weight_bytes;
	for (uint32_t i = first; i < q->n_layers; i++)
		bytes += q->layer_bytes[i];
	if (plan->n_charges == 0 && first == 0 && is_shut_out(a, plan->kv_sums))
		snprintf(more, sizeof(more),
			 ". The %" PRIu64 " bytes of its non-mapped weights "
			 "fit on none of them beside a layer",
			 q->non_mapped_bytes);
	if (q->strategy != GPUMAP_STRATEGY_FILL)
		return gm_error_set(
			err, -ENOSPC, remedy,
			"This model does not fit on the %" PRIu32
			" rows: layers %" PRIu32 " to %" PRIu32 ", %" PRIu64
			" bytes with their KV cache, find no room%s",
			count_rows(a), first, q->n_layers - 1,
			bytes + plan->kv_sums[q->n_layers] -
				plan->kv_sums[first],
			more);
	rows = list_rows(a);
	if (!rows)
		return gm_error_no_memory(err);
	gm_error_set(err, -ENOSPC, remedy,
		     "This model does not fit on the devices [%s], and exceeds "
		     "total capacity by %" PRIu64
		     "MB. Auto device mapping params: text[max_seq_len: "
		     "%" PRIu64 ", max_batch_size: %" PRIu64 "]%s",
		     rows, left >> 20, q->cache.max_seq_len,
		     q->cache.max_batch_size, more);
	free(rows);
	return -ENOSPC;
}

/* With fill a host has its place in the list, with the others it is last. */
static void order_rows(struct auto_request *a)
{
	uint32_t n = 0;

	for (int hosts = 0; hosts < 2; hosts++)
		for (uint32_t i = 0; i < a->q.n_rows; i++)
			if (a->q.strategy == GPUMAP_STRATEGY_FILL
				    ? !hosts
				    : a->devices[i].is_host == hosts)
				a->rows[n++] = a->devices[i];
}

json_t *answers_auto(struct gm_fields *f)
{
	struct auto_request a = { .layers = NULL };
	struct gm_auto plan = { .n_charges = 0 };
	json_t *json = NULL;

	read_auto(f, &a);
	if (f->r == 0 && a.q.strategy == GPUMAP_STRATEGY_FILL &&
	    a.n_devices > MOST_OF_FILL)
		f->r = gm_error_set(f->err, -E2BIG, "leave some out",
				    "%u devices, at most %u are allowed",
				    a.n_devices, MOST_OF_FILL);
	if (f->r == 0) {
		order_rows(&a);
		f->r = gm_auto_make(&a.q, &plan, f->err);
	}
	if (f->r == -ENOSPC && f->err->text[0] == '\0')
		f->r = cannot_place(&a, &plan, f->err);
	if (f->r == 0)
		json = show(&a, &plan);
	gm_auto_free(&plan);
	free(a.layers);
	free(a.devices);
	free(a.rows);
	return json;
}
