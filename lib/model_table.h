/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * model_table - what a share says of itself that is a model: its tensors.
 *
 *	struct gm_model_table
 *	struct gm_model_tensor[n_tensors], by name
 *	uint64_t[n_dims], of all shapes
 *	names, each with its NUL
 *
 * In the byte order of the machine that it is on.  Who shares it is another
 * process, which may write anything: it is judged as it is copied, and nothing
 * of what was shared is looked at later.
 */
#ifndef GM_MODEL_TABLE_H
#define GM_MODEL_TABLE_H

#include "lib/model.h"

#define GM_MODEL_TABLE_MAGIC   UINT64_C(0x314c444f4d50474d) /* "MGPMODL1" */
#define GM_MODEL_TABLE_VERSION 1u
#define GM_MODEL_TYPE_BYTES    16u

struct gm_model_table {
	uint64_t magic;
	uint32_t version;
	uint32_t n_buffers; /* of the share */
	uint64_t n_tensors;
	uint64_t n_dims;
	uint64_t name_bytes;
};

struct gm_model_tensor {
	uint64_t name;  /* where it begins, in the names */
	uint64_t shape; /* its first, in the dimensions */
	uint64_t at;    /* in its buffer */
	uint64_t bytes;
	uint32_t buffer; /* UINT32_MAX: not in this share, or empty */
	uint32_t row;
	int32_t layer; /* -1: of none */
	uint32_t n_dims;
	char type[GM_MODEL_TYPE_BYTES]; /* "BF16", NUL-terminated */
};

_Static_assert(sizeof(struct gm_model_table) == 40, "shared");
_Static_assert(sizeof(struct gm_model_tensor) == 64, "shared");

/* Of a model that has been placed.  Returns 0 with what is for free(), or
 * -ENOMEM, or -E2BIG with model->why. */
int gm_model_table_make(struct gpumap_model *model, void **ret_table,
			uint64_t *ret_bytes);

/* The model's tensors, and their places in its buffers, which are known.
 * Returns 0, -ENOMEM, -EINVAL: it is no model, or -EPROTO, with model->why. */
int gm_model_table_read(struct gpumap_model *model, const void *table,
			uint64_t bytes);

#endif
