/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * safetensors - read the tensors of a model file from its header.
 *
 *	8 bytes		length of the header, little-endian
 *	header		JSON: name -> { dtype, shape, data_offsets }
 *	data		the tensors, at those offsets from here
 *
 * A file is read whole or refused: every tensor's type and shape agree with its
 * offsets, and the tensors cover the data from its first byte to its last
 * without overlap or gap.  So sizes summed from headers are bytes on disk.  The
 * data itself is never read.
 */
#ifndef GM_SAFETENSORS_H
#define GM_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/plan/error.h"
#include "agent/plan/file.h"

#define GM_SAFETENSORS_LENGTH 8u
/* most bytes of one header */
#define GM_SAFETENSORS_HEADER (UINT64_C(100) << 20)

struct gm_tensor {
	char *name;
	uint64_t begin; /* from the start of the data, bytes */
	uint64_t bytes;
	uint32_t dtype; /* for gm_safetensors_dtype() */
	uint32_t shard; /* the file, as the caller counts them */
};

struct gm_tensors {
	struct gm_tensor *v;
	size_t n;
	size_t room;
};

/* Append a copy of @tensor, name included.  Returns 0, -ENOMEM. */
int gm_safetensors_add(struct gm_tensors *list, const struct gm_tensor *tensor);

#define GM_SAFETENSORS_DTYPES 22u

/* The dtype's name, such as "BF16"; NULL from GM_SAFETENSORS_DTYPES on. */
const char *gm_safetensors_dtype(uint32_t dtype);

/*
 * gm_safetensors_length - validate the first bytes of a file
 *
 * path		for messages
 * raw		GM_SAFETENSORS_LENGTH bytes
 * file_bytes	size of the whole file, at least that many
 * ret_bytes	receives the length of the header
 *
 * Returns	0
 *		-EINVAL	this is no safetensors file
 *		-EFBIG	a header longer than GM_SAFETENSORS_HEADER
 *		-ENODATA	the file ends inside its header
 * Threads	any
 */
int gm_safetensors_length(const char *path, const void *raw,
			  uint64_t file_bytes, uint64_t *ret_bytes,
			  struct gm_plan_error *ret_err);

/*
 * gm_safetensors_header - validate a header and take its tensors
 *
 * header	its JSON
 * shard	the number that the tensors get
 * tensors	gets this file's tensors added, in the order of their data;
 *		unchanged on failure
 *
 * Returns	0
 *		-EINVAL	malformed, or it disagrees with itself
 *		-ENODATA	the data ends before the tensors do
 *		-EOVERFLOW	a shape of 2^64 bits or more
 *		-ENOMEM
 * Threads	any, one per @tensors
 */
int gm_safetensors_header(const struct gm_file_header *header, uint32_t shard,
			  struct gm_tensors *tensors,
			  struct gm_plan_error *ret_err);

/*
 * gm_safetensors_read - both of the above for an open file
 *
 * budget	bytes that headers may still take; lowered by this one
 *
 * Returns	as they do; -EFBIG also when @budget does not suffice
 * Threads	any, one per @tensors
 */
int gm_safetensors_read(const struct gm_file *file, uint32_t shard,
			uint64_t *budget, struct gm_tensors *tensors,
			struct gm_plan_error *ret_err);

void gm_safetensors_free(struct gm_tensors *tensors);

#endif
