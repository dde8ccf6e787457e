/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cache - compute the bytes that a model's layers keep of its sequences.
 *
 * A layer keeps for each sequence the keys and values of its last tokens, at
 * most as many as its window has, and states whose size does not depend on the
 * sequence (struct gpumap_layer_cache).
 *
 * A paged cache is a pool of blocks of tokens, sized by an amount of memory, by
 * a share of the first device or by a number of tokens; the pool is what all
 * layers keep of so many tokens, and as large as it was asked for, less than a
 * block.  A layer with a window keeps no more of the pool's tokens than its
 * window of every sequence of the batch, unless all layers have windows, which
 * would never fill it.
 *
 * rule.h has what engines keep beyond that; kv.h the rule of mistral.rs, which
 * charges every layer the same.
 */
#ifndef GM_CACHE_H
#define GM_CACHE_H

#include <stdint.h>

#include "gpumap/layers.h"
#include "lib/model/plan/error.h"
#include "lib/model/plan/kv.h"

#define GM_PLAN_SEQ_LEN    4096u /* unless given */
#define GM_PLAN_BATCH_SIZE 1u

struct gm_cache_request {
	const struct gpumap_layer_cache *caches; /* of all layers */
	uint32_t n_caches;                       /* 0: they keep nothing */
	const struct gm_kv_shape *like; /* as mistral.rs would charge for this
					 * shape; else NULL */
	uint32_t n_layers;
	uint32_t n_ranks; /* among which heads are divided; 0: one */
	uint32_t dtype_bytes;
	uint32_t engine;      /* that keeps them, by its rule; 0: none */
	uint32_t conv_taps;   /* inputs that convolutions have; 0: not known */
	uint32_t state_bytes; /* of an element of a recurrence; 0: not said */
	uint64_t card_bytes;  /* of the largest card; 0: not known */
	uint64_t max_seq_len;
	uint64_t max_batch_size;
	struct gm_kv_paged paged;
};

/* The cache of a plan, but for its layers, ranks, type and card. */
struct gm_cache_request gm_cache_of(const struct gpumap_plan_request *ask);

/*
 * gm_cache_sums - sum up the bytes that a rank keeps
 *
 * room		of the first device; NULL: the cache is not paged, whatever the
 *		request says
 * ret_sums	n_layers + 1 of them: [i] receives the bytes of the layers
 *		before i
 *
 * Returns	0
 *		-EINVAL	the block size is not permitted, or a divisor is 0
 *		-ENOSPC	not even one block
 *		-EOVERFLOW
 * Cost		a step for each layer, and of a pool 64 for each of the caches
 * Threads	any
 */
int gm_cache_sums(const struct gm_cache_request *request,
		  const struct gm_kv_room *room, uint64_t *ret_sums,
		  struct gm_plan_error *ret_err);

#endif
