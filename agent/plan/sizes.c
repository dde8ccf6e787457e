/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/sizes.h"

#include <errno.h>

#include "agent/plan/checked.h"
#include "agent/plan/kv.h"

#define RESERVE_FRACTION 0.02
#define RESERVE_LEAST    (UINT64_C(512) << 20)

static int check(const struct gm_sizes_request *q, struct gm_plan_error *err)
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
static uint64_t packed(bool *over, const struct gm_sizes_request *q,
		       uint64_t rows, uint64_t columns)
{
	return gm_checked_mul(over, rows, columns) / q->pack_factor;
}

static uint64_t layer_elems(bool *over, const struct gm_sizes_request *q)
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

static uint64_t non_mapped_elems(bool *over, const struct gm_sizes_request *q)
{
	uint64_t embedding = packed(over, q, q->hidden_size, q->vocab_size);
	uint64_t elems = embedding;

	/* Packed, head and embedding are separate even if they were tied. */
	if (!q->is_tied || q->pack_factor != 1)
		elems = gm_checked_add(over, elems, embedding);
	return gm_checked_add(over, elems, q->hidden_size);
}

int gm_sizes_make(const struct gm_sizes_request *q, struct gm_sizes *ret_sizes,
		  struct gm_plan_error *ret_err)
{
	struct gm_sizes sizes = { 0 };
	struct gm_kv_shape kv;
	bool over = false;
	uint64_t chunk;
	int r;

	r = check(q, ret_err);
	if (r)
		return r;
	kv = (struct gm_kv_shape){
		.n_layers = q->n_layers,
		.n_heads = q->n_kv_heads,
		.k_dim = q->has_head_dim ? q->head_dim
					 : q->hidden_size / q->n_heads,
	};
	kv.v_dim = kv.k_dim;
	chunk = gm_min(q->max_seq_len, GM_SIZES_CHUNK);
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

uint64_t gm_sizes_capacity(uint64_t avail, bool is_host)
{
	uint64_t reserve;

	if (is_host)
		return avail;
	/* A product of a double below 2^59: the conversion is defined. */
	reserve = gm_max((uint64_t)((double)avail * RESERVE_FRACTION),
			 RESERVE_LEAST);
	return gm_minus(avail, reserve);
}
