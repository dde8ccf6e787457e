/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * model_table - describe the tensors of a model that is shared, in the share.
 *
 *	struct gm_model_table
 *	struct gm_model_tensor[n_tensors], by name
 *	uint64_t[n_dims], of all shapes
 *	names, each with its NUL
 *	the checkpoint's metadata, from the next multiple of 8 on
 *
 * The table has the machine's byte order.  Another process writes it and may
 * write anything: the reader validates the table while copying it, and never
 * reads the shared bytes again.
 */
#ifndef GM_MODEL_TABLE_H
#define GM_MODEL_TABLE_H

#include "lib/model/model.h"

#define GM_MODEL_TABLE_MAGIC   UINT64_C(0x314c444f4d50474d) /* "MGPMODL1" */
#define GM_MODEL_TABLE_VERSION 4u
#define GM_MODEL_TYPE_BYTES    16u
#define GM_MODEL_PATH_BYTES    96u

struct gm_model_table {
	uint64_t magic;
	uint32_t version;
	uint32_t n_buffers; /* of the share */
	uint64_t n_tensors;
	uint64_t n_dims;
	uint64_t name_bytes;
	uint64_t meta_bytes;
	uint32_t meta_format; /* enum gpumap_model_meta_format */
	uint32_t reserved;
	uint64_t fingerprint; /* of the checkpoint that was loaded */
	uint64_t files;       /* of its files alone; 0: they do not tell it */
	char path[GM_MODEL_PATH_BYTES]; /* its end, NUL-terminated: to show */
};

struct gm_model_tensor {
	uint64_t name;  /* offset in the names */
	uint64_t shape; /* index of its first dimension */
	uint64_t at;    /* offset in its buffer */
	uint64_t bytes;
	uint32_t buffer; /* UINT32_MAX: not in this share, or empty */
	uint32_t row;
	int32_t layer; /* -1: of none */
	uint32_t n_dims;
	char type[GM_MODEL_TYPE_BYTES]; /* "BF16", NUL-terminated */
};

_Static_assert(sizeof(struct gm_model_table) == 168, "shared");
_Static_assert(sizeof(struct gm_model_tensor) == 64, "shared");
_Static_assert(sizeof(((struct gpumap_model *)0)->path) == GM_MODEL_PATH_BYTES,
	       "is copied");

/* Make the table of a model that has been placed.  Returns 0 with a table to
 * free(), or -ENOMEM, or -E2BIG with model->why. */
int gm_model_table_make(struct gpumap_model *model, void **ret_table,
			uint64_t *ret_bytes);

/* Can the placed model be shared?  Returns 0, -ENOMEM, or -E2BIG with
 * model->why. */
int gm_model_table_check(struct gpumap_model *model);

/* Read a table into the model's tensors and their places in its buffers, which
 * are known.  The metadata stays in @table, which its maker has sealed.
 * Returns 0, -ENOMEM, -EINVAL: the share is not a model, or -EPROTO, with
 * model->why. */
int gm_model_table_read(struct gpumap_model *model, const void *table,
			uint64_t bytes);

#endif
