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

#include "lib/model/plan/plan.h"

#define HEAD 5
#define ROWS 8u

static const uint32_t dtypes[] = { GPUMAP_DTYPE_BF16, GPUMAP_DTYPE_F16,
				   GPUMAP_DTYPE_F32, GPUMAP_DTYPE_F64 };

struct input {
	const uint8_t *at, *end;
	struct gm_plan_device devices[ROWS];
	uint64_t layers[256];
	struct gpumap_layer_cache caches[256];
	struct gm_kv_shape like;
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
			.speed = number(in) | 1,
		};
	}
	gm_plan_number(in->devices, in->q.n_devices);
}

/* Every other layer is as the next numbers say; the others have a window. */
static void read_caches(struct input *in, uint32_t n)
{
	struct gpumap_layer_cache one = { .n_heads = (uint32_t)number(in),
					  .token_elements = number(in),
					  .conv_elements = number(in),
					  .state_elements = number(in) };

	in->like = (struct gm_kv_shape){ .n_heads = one.n_heads,
					 .k_dim = one.token_elements,
					 .v_dim = one.conv_elements,
					 .is_mla = one.state_elements & 1,
					 .kv_lora_rank = one.state_elements,
					 .kpe_head_dim = one.conv_elements };
	for (uint32_t i = 0; i < n; i++) {
		in->caches[i] = one;
		in->caches[i].n_layers = 1;
		in->caches[i].window = i % 2 ? one.n_heads : 0;
	}
}

static void read_request(struct input *in, const uint8_t *head)
{
	struct gpumap_plan_request *ask = &in->q.ask;
	uint64_t bytes = number(in), step = number(in);

	ask->setting = head[0] % 8;
	ask->strategy = 1 + head[1] % 3;
	ask->n_rows = head[1] >> 2 & 1; /* the rows are @devices */
	in->q.must_fit = head[1] & 8;
	if (head[1] & 16)
		ask->compute_dtype = dtypes[head[1] >> 6];
	if (head[4] < ROWS) {
		ask->flags |= GPUMAP_PLAN_BASE;
		ask->base_row = head[4];
	}
	ask->max_seq_len = number(in);
	ask->max_batch_size = (uint32_t)number(in);
	ask->n_layers = head[3];
	ask->layer_bytes = head[2] & 1 ? in->layers : NULL;
	for (uint32_t i = 0; i < head[3]; i++)
		in->layers[i] = bytes + i % 4 * step;
	ask->other_bytes = number(in);
	ask->tied_bytes = head[1] & 32 ? ask->other_bytes : 0;
	in->q.weight_bytes = head[2] & 2;
	ask->n_heads = (uint32_t)number(in);
	read_caches(in, head[3]);
	if (head[2] & 4) {
		ask->caches = in->caches;
		ask->n_caches = head[3];
	}
	in->q.like = head[2] & 8 ? &in->like : NULL;
	ask->paged = head[2] & 16 ? 1 + (head[2] >> 6) % 3 : 0;
	ask->paged_amount = number(in);
	ask->paged_share = (float)number(in) / 256;
	ask->paged_block = (uint32_t)number(in);
	ask->paged_element_bytes = (uint32_t)number(in) % 9;
	ask->engine = (uint32_t)number(in) % 9;
	ask->conv_taps = (uint32_t)number(in);
	ask->state_bytes = (uint32_t)number(in);
}

static void check_charges(const struct input *in, const struct gm_plan *plan)
{
	const struct gpumap_plan_request *ask = &in->q.ask;
	uint64_t weights = 0, want = ask->other_bytes, layers = 0, most = 0;
	uint64_t kv = 0, mean = plan->kv_bytes;

	for (uint32_t i = 0; i < plan->n_charges; i++) {
		const struct gpumap_charge *c = &plan->charges[i];
		uint64_t missing;

		MUST(c->row < in->q.n_devices);
		missing = gm_plan_charge_bytes(c) + c->left_bytes -
			  in->devices[c->row].avail;
		MUST(c->left_bytes == 0 || missing == 0);
		most = missing > most ? missing : most;
		kv += c->kv_bytes;
		weights += c->weight_bytes;
		layers += c->n_layers;
	}
	/* With nccl each rank has all layers. */
	MUST(ask->setting == GPUMAP_SETTING_NCCL ||
	     (kv <= mean * plan->n_layers &&
	      mean * plan->n_layers - kv < plan->n_layers));
	MUST(most == plan->missing_bytes && (!in->q.must_fit || most == 0));
	for (uint32_t i = 0; i < ask->n_layers && ask->layer_bytes; i++)
		want += in->layers[i];
	if (plan->rows[plan->n_layers - 1] != plan->base_row)
		want += ask->tied_bytes;
	MUST(ask->setting == GPUMAP_SETTING_NCCL ||
	     (weights == want && layers == plan->n_layers));
}

static void check_plan(const struct input *in, const struct gm_plan *plan)
{
	uint32_t n = in->q.n_devices;

	MUST(plan->n_layers > 0 && plan->base_row < n);
	MUST(in->q.ask.n_layers == 0 || plan->n_layers == in->q.ask.n_layers);
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
		asked = in->q.ask.max_seq_len;
		in->q.ask.max_seq_len = a->max_seq_len;
		MUST(gm_plan_make(&in->q, &plan, NULL, NULL) == 0);
		gm_plan_free(&plan);
		in->q.ask.max_seq_len = asked;
	}
	if (a->max_batch_size > 0) {
		in->q.ask.max_batch_size = (uint32_t)a->max_batch_size;
		MUST(gm_plan_make(&in->q, &plan, NULL, NULL) == 0);
		gm_plan_free(&plan);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { .at = data + HEAD, .end = data + size };
	struct gm_plan_advice advice;
	struct gm_topology topology = { 0 };
	struct gm_plan_error err = { 0 };
	struct gm_plan plan;
	char *text;
	int r = 0;

	if (size < HEAD)
		return 0;
	read_request(&in, data);
	read_rows(&in);
	text = strndup((const char *)in.at, (size_t)(in.end - in.at));
	MUST(text);
	in.q.ask.text = *text ? text : NULL;
	if (in.q.ask.setting == GPUMAP_SETTING_TOPOLOGY && in.q.ask.text) {
		r = gm_topology_parse(text, &topology, &err);
		in.q.topology = &topology;
	}
	if (r == 0)
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
	gm_topology_free(&topology);
	free(text);
	return 0;
}
