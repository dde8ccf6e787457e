/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * rule - charge the caches of layers by the rule of the engine that keeps them.
 *
 * Engines keep more than the layers need: whole blocks, windows with the tokens
 * that are in flight or not evicted at all, several states of a sequence, and
 * pages that are equal throughout a model.  rule.c has one row for each engine,
 * with the release and the lines that it was read from.  The first row, of no
 * engine, keeps what the layers need.
 */
#ifndef GM_RULE_H
#define GM_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/model/plan/cache.h"

struct gm_rule {
	uint32_t engine;     /* enum gpumap_engine; 0: none */
	const char *release; /* that it was read from */
	bool has_pool;       /* it has a paged cache */
	/* Bytes of an element; 0: of the activations' type. */
	uint32_t key_bytes; /* of keys and values */
	uint32_t conv_bytes;
	uint32_t state_bytes; /* of a recurrence */
	bool takes_type;      /* that type is the model's own, if it says one */
	/* Tokens. */
	uint32_t block; /* that are kept together */
	/* likewise where there are latents beside states; 0: as many */
	uint32_t latent_block;
	bool evicts;          /* it drops what is out of a window */
	uint32_t in_flight;   /* beyond a window, until they are dropped */
	bool has_steps;       /* these are two of its steps, which depend on the
			 * card, and one token less */
	uint32_t edge_blocks; /* of each sequence, since a window begins within
				* a block */
	/* States. */
	bool keeps_newest;    /* inputs of a convolution with the newest one */
	uint32_t states;      /* of each sequence */
	uint32_t lone_states; /* likewise where no layer has keys; 0: as many
			       */
	uint32_t spare; /* blocks of each layer, or states, that no sequence
			 * gets */
	/* Blocks of all layers, and states, have as many bytes, and of each
	 * kind of layers there are as many. */
	bool has_equal_pages;
};

/* The rule of an engine, that of none where it has no row. */
const struct gm_rule *gm_rule_of(uint32_t engine);

#define GM_RULE_KINDS 16u /* layers of more kinds are each by itself */

/* Keys or states that are alike in @n layers. */
struct gm_rule_kind {
	int part; /* of a layer: rule.c */
	uint32_t window;
	uint64_t bytes; /* of a rank's token, or of its state */
	uint32_t n;
	uint64_t block;  /* tokens */
	uint64_t copies; /* as many layers as @n count for */
	uint32_t spare;  /* as of the rule */
};

/* The kinds of a model's layers. */
struct gm_rule_kinds {
	const struct gm_rule *rule;
	const struct gm_cache_request *q;
	bool ignores_windows; /* no layer keeps all tokens, and there is a pool,
			       * which nothing else would fill */
	uint64_t pool;        /* tokens; 0: each sequence has all of its own */
	uint32_t key_bytes;   /* of an element */
	uint32_t states;      /* of each sequence */
	uint32_t in_flight;   /* as of the rule */
	uint64_t page;        /* bytes of every block; 0: each has its own */
	uint32_t n;
	bool is_full; /* there are more, and no common page */
	struct gm_rule_kind kinds[GM_RULE_KINDS];
};

/* Find the kinds of the request's layers.  Sets @over on overflow. */
void gm_rule_find(bool *over, const struct gm_cache_request *request,
		  bool is_pool, struct gm_rule_kinds *ret_kinds);

/* Sum up the layers of a rank: @ret_sums has n_layers + 1, the first of them 0;
 * or is NULL.  Sets @over on overflow.  Returns the bytes of all layers. */
uint64_t gm_rule_sum(bool *over, const struct gm_rule_kinds *kinds,
		     uint64_t *ret_sums);

#endif
