/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cluster_fit - fit layers into the stages of a pipeline.
 *
 * Rooms are the usable bytes of one device of each stage, in the stages' order.
 * Each stage has one layer at least.
 */
#ifndef GM_CLUSTER_FIT_H
#define GM_CLUSTER_FIT_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/model/plan/cluster.h"

/* The bytes that one of @tp ranks takes. */
struct gm_cluster_fit {
	uint32_t n_layers;
	uint64_t *sums;    /* [i]: weights of the layers before i */
	bool *can_begin;   /* to compute in; NULL: the layers are equal */
	uint64_t *kv_sums; /* likewise what they keep */
	uint64_t act_bytes;
	uint64_t other_bytes; /* of the first stage */
	uint64_t tied_bytes;  /* of the last, if it is another */
};

/* Measure the model.  Returns 0, -EOVERFLOW or -ENOMEM. */
int gm_cluster_fit_measure(const struct gm_cluster_plan_request *request,
			   uint32_t tp, struct gm_cluster_fit *ret_fit,
			   struct gm_plan_error *ret_err);

void gm_cluster_fit_free(struct gm_cluster_fit *fit);

/* The bytes of a stage of @n that are no layer's. */
uint64_t gm_cluster_fit_beside(const struct gm_cluster_fit *fit, uint32_t stage,
			       uint32_t n);

/* The bytes of the weights of @n layers; of what layers before @end keep; and
 * of both. */
uint64_t gm_cluster_fit_weights(const struct gm_cluster_fit *fit,
				uint32_t first, uint32_t n);
uint64_t gm_cluster_fit_kv(const struct gm_cluster_fit *fit, uint32_t first,
			   uint32_t end);
uint64_t gm_cluster_fit_bytes(const struct gm_cluster_fit *fit, uint32_t first,
			      uint32_t end);

/* How many layers fit into @n stages: all, if that can be. */
uint32_t gm_cluster_fit_layers(const struct gm_cluster_fit *fit,
			       const uint64_t *rooms, uint32_t n);

/* The bytes that the last stage lacks for what the others leave over. */
uint64_t gm_cluster_fit_lacks(const struct gm_cluster_fit *fit,
			      const uint64_t *rooms, uint32_t n);

/* Divide layers that fit, by the stages' rooms. */
void gm_cluster_fit_divide(const struct gm_cluster_fit *fit,
			   const uint64_t *rooms, uint32_t n,
			   uint32_t *ret_lengths);

#endif
