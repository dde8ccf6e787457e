/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Plans of any setting, with numbers of any size.
 *
 *	byte 0	setting
 *	byte 1	strategy, and what is known and asked for: see read_request()
 *	byte 2	likewise
 *	byte 3	layers of the model
 *	byte 4	base row, from 8 on the first
 *	then	numbers, two bytes each: one, and how far it is shifted
 *	then	what text there is
 */

#include "tests/fuzz/fuzz_plan.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/plan/plan.h"

#define HEAD 5
#define ROWS 8u

struct input {
	const uint8_t *at, *end;
	struct gm_plan_device devices[ROWS];
	uint64_t layers[256];
	struct gm_kv_paged paged;
	struct gm_plan_request q;
};

static uint64_t number(struct input *in)
{
	uint64_t value;

	if (in->end - in->at < 2)
		return 0;
	value = (uint64_t)in->at[0] << (in->at[1] & 63);
	in->at += 2;
	return value;
}

static void read_rows(struct input *in)
{
	in->q.devices = in->devices;
	in->q.n_devices = (uint32_t)number(in) % (ROWS + 1);
	for (uint32_t i = 0; i < in->q.n_devices; i++) {
		uint64_t kind = number(in);

		in->devices[i] = (struct gm_plan_device){
			.row = i,
			.is_host = (kind & 3) == 0,
			.is_cuda = (kind & 3) == 1,
			.is_integrated = (kind & 28) == 4,
			.cc_major = (uint32_t)(kind >> 5),
			.avail = number(in),
			.score = (double)number(in) - 1,
		};
	}
	gm_plan_number(in->devices, in->q.n_devices);
}

static void read_request(struct input *in, const uint8_t *head)
{
	struct gm_plan_model *model = &in->q.model;
	uint64_t bytes = number(in), step = number(in);

	in->q.setting = (enum gm_setting)(head[0] % 8);
	in->q.strategy = 1 + head[1] % 3;
	in->q.is_chosen = head[1] & 4;
	in->q.must_fit = head[1] & 8;
	in->q.has_dtype = head[1] & 16;
	in->q.dtype = (enum gm_dtype)(head[1] >> 6);
	in->q.base_row = head[4] < ROWS ? head[4] : GM_ROW_FIRST;
	in->q.max_seq_len = number(in);
	in->q.max_batch_size = number(in);
	model->n_layers = head[3];
	model->layer_bytes = head[2] & 1 ? in->layers : NULL;
	for (uint32_t i = 0; i < head[3]; i++)
		in->layers[i] = bytes + i % 4 * step;
	model->other_bytes = number(in);
	model->weight_bytes = head[2] & 2;
	model->n_heads = number(in);
	model->has_kv = head[2] & 4;
	model->kv = (struct gm_kv_shape){
		.n_heads = number(in),
		.k_dim = number(in),
		.v_dim = number(in),
		.is_mla = head[2] & 8,
		.kv_lora_rank = number(in),
		.kpe_head_dim = number(in),
	};
	in->paged = (struct gm_kv_paged){
		.budget = (enum gm_kv_budget)(head[2] >> 6 == 3 ? 0
								: head[2] >> 6),
		.amount = number(in),
		.share = (float)number(in) / 256,
		.block_size = number(in),
		.cache_bytes = (uint32_t)number(in) % 9,
	};
	in->q.paged = head[2] & 16 ? &in->paged : NULL;
}

static void check_charges(const struct input *in, const struct gm_plan *plan)
{
	const struct gm_plan_model *model = &in->q.model;
	bool is_nccl = in->q.setting == GM_SETTING_NCCL;
	uint64_t weights = 0, want = model->other_bytes, layers = 0;

	for (uint32_t i = 0; i < plan->n_charges; i++) {
		const struct gm_plan_charge *c = &plan->charges[i];

		MUST(c->row < in->q.n_devices);
		MUST(c->left_bytes == 0 || c->missing_bytes == 0);
		MUST(gm_plan_charge_bytes(c) + c->left_bytes ==
		     in->devices[c->row].avail + c->missing_bytes);
		MUST(!in->q.must_fit || c->missing_bytes == 0);
		MUST(c->kv_bytes == c->n_layers * plan->kv_bytes);
		weights += c->weight_bytes;
		layers += c->n_layers;
	}
	for (uint32_t i = 0; i < model->n_layers && model->layer_bytes; i++)
		want += in->layers[i];
	MUST(is_nccl || (weights == want && layers == plan->n_layers));
}

static void check_plan(const struct input *in, const struct gm_plan *plan)
{
	uint32_t n = in->q.n_devices;

	MUST(plan->n_layers > 0 && plan->base_row < n);
	MUST(in->q.model.n_layers == 0 ||
	     plan->n_layers == in->q.model.n_layers);
	for (uint32_t i = 0; i < plan->n_layers; i++)
		MUST(plan->rows[i] < n);
	MUST(plan->n_charges > 0 && plan->n_charges <= n);
	check_charges(in, plan);
}

/* The advised plan is valid. */
static void check_advice(struct input *in, const struct gm_plan_advice *a)
{
	struct gm_plan plan;
	uint64_t asked;

	if (a->missing_bytes > 0) {
		MUST(a->missing_row < in->q.n_devices);
		in->devices[a->missing_row].avail += a->missing_bytes;
		MUST(gm_plan_make(&in->q, &plan, NULL, NULL) == 0);
		gm_plan_free(&plan);
		in->devices[a->missing_row].avail -= a->missing_bytes;
	}
	if (a->max_seq_len > 0) {
		asked = in->q.max_seq_len;
		in->q.max_seq_len = a->max_seq_len;
		MUST(gm_plan_make(&in->q, &plan, NULL, NULL) == 0);
		gm_plan_free(&plan);
		in->q.max_seq_len = asked;
	}
	if (a->max_batch_size > 0) {
		in->q.max_batch_size = a->max_batch_size;
		MUST(gm_plan_make(&in->q, &plan, NULL, NULL) == 0);
		gm_plan_free(&plan);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { .at = data + HEAD, .end = data + size };
	struct gm_plan_advice advice;
	struct gm_plan_error err = { 0 };
	struct gm_plan plan;
	char *text;
	int r;

	if (size < HEAD)
		return 0;
	read_request(&in, data);
	read_rows(&in);
	text = strndup((const char *)in.at, (size_t)(in.end - in.at));
	MUST(text);
	in.q.text = *text ? text : NULL;
	r = gm_plan_make(&in.q, &plan, &advice, &err);
	if (r == 0) {
		check_plan(&in, &plan);
		gm_plan_free(&plan);
	} else {
		MUST(r == -EINVAL || r == -E2BIG || r == -ENODEV ||
		     r == -ENOSPC || r == -EOVERFLOW);
		check_error(r, &err);
		if (r == -ENOSPC)
			check_advice(&in, &advice);
	}
	free(text);
	return 0;
}
