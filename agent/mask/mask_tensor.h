/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mask_tensor - find a mask in a .npy file, or as a tensor of a safetensors
 * file.
 *
 * A mask has rank 2, queries by keys, or up to 4 with leading dimensions of 1;
 * its rows lie one after another.  Only the header is read here, and compared
 * with the bytes that the file has; the caller reads the elements, at @offset.
 */
#ifndef GM_MASK_TENSOR_H
#define GM_MASK_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "agent/files/file.h"
#include "lib/model/plan/error.h"

struct gm_weights;

#define GM_MASK_TENSOR_RANK 4u

struct gm_mask_tensor {
	uint32_t dtype; /* enum gpumap_dtype: U8 (also of bool), F16, BF16, F32
			 */
	uint32_t rank;  /* 2 to GM_MASK_TENSOR_RANK */
	uint64_t shape[GM_MASK_TENSOR_RANK];   /* elements, 0 past the rank */
	uint64_t strides[GM_MASK_TENSOR_RANK]; /* bytes, 0 past the rank */
	uint64_t offset;                       /* of the data in the file */
	uint64_t bytes;                        /* of the data, never 0 */
};

/*
 * gm_mask_tensor_shape - validate and take a shape, in C order
 *
 * what		the name of its source, for messages: "x.npy"
 * dtype	of the elements
 * rank		dimensions of @shape; only the first GM_MASK_TENSOR_RANK are
 *		read
 * ret_tensor	receives all but @offset
 *
 * Returns	0
 *		-EINVAL	not the shape of a mask, or without elements
 *		-EOVERFLOW	it comes to 2^64 bytes or more
 * Threads	any
 */
int gm_mask_tensor_shape(const char *what, uint32_t dtype,
			 const uint64_t *shape, size_t rank,
			 struct gm_mask_tensor *ret_tensor,
			 struct gm_plan_error *ret_err);

/*
 * gm_mask_tensor_in - find a mask among the tensors of a safetensors file
 *
 * tensors	of one file, by lib/model/checkpoint
 * name		of the tensor, or NULL if there is only one
 *
 * Returns	0
 *		-ENOENT	no tensor has this name, or @name is NULL and there is
 *			not exactly one tensor
 *		-EINVAL	not a mask
 * Threads	any
 */
int gm_mask_tensor_in(const struct gm_weights *tensors, const char *name,
		      struct gm_mask_tensor *ret_tensor,
		      struct gm_plan_error *ret_err);

/*
 * gm_mask_tensor_read - find the mask in an open file of either format
 *
 * name		as for gm_mask_tensor_in(); NULL for a .npy file, which holds
 *		one array without a name
 *
 * Returns	0
 *		-EINVAL	neither format, malformed, or not a mask
 *		-ENOENT	no such tensor
 *		-ENODATA	the file is truncated
 *		-EOVERFLOW	a shape of 2^64 bytes or more
 *		-ENOMEM, and the errors of gm_file_read()
 * Cost		the header's bytes
 * Threads	any
 */
int gm_mask_tensor_read(const struct gm_file *file, const char *name,
			struct gm_mask_tensor *ret_tensor,
			struct gm_plan_error *ret_err);

#endif
