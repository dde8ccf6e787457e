/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * sizes - compute the bytes of a model from the numbers in its config.
 *
 * Formulas, order of operations and integer divisions are those of mistral.rs,
 * so that both arrive at the same maps.  An overflow of 64 bits is an error
 * here.
 *
 * A weight is a whole number of elements divided by the pack factor of its
 * quantisation, 1 if there is none.  Norms are never packed.  An explicit
 * head_dim counts for the KV cache only.
 */
#ifndef GM_SIZES_H
#define GM_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/plan/error.h"

#define GM_SIZES_CHUNK 1024u /* most queries whose scores exist at once */

/* A decoder of attention and gated MLP, such as Llama and most later models. */
struct gm_sizes_request {
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

struct gm_sizes {
	uint64_t layer_bytes;
	uint64_t non_mapped_bytes;
	uint64_t mapped_act_elems; /* largest activation, elements */
	uint64_t non_mapped_act_elems;
	uint64_t kv_bytes; /* of one layer, unpaged */
};

/*
 * gm_sizes_make - the sizes of a model
 *
 * Returns	0
 *		-EINVAL	a number that is divided by is 0, or no layers
 *		-EOVERFLOW
 * Threads	any
 */
int gm_sizes_make(const struct gm_sizes_request *request,
		  struct gm_sizes *ret_sizes, struct gm_plan_error *ret_err);

/*
 * gm_sizes_capacity - the bytes that a plan may use of @avail free ones
 *
 * On a GPU a fiftieth is kept free, at least 512 MiB; on the host nothing.
 *
 * Threads	any
 */
uint64_t gm_sizes_capacity(uint64_t avail, bool is_host);

#endif
