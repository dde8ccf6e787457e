/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gguf - read the tensors of a GGUF file from its header.
 *
 *	"GGUF", version 2 or 3, numbers of tensors and of metadata
 *	metadata	key, type, value; lists may be of millions
 *	tensors		name, dimensions, type, offset into the data
 *	padding, data
 *
 * All numbers are little-endian.  A file is read whole or refused: each
 * tensor's type and dimensions must fit its place, and the tensors must lie one
 * behind the other with no more than padding between them.  The data itself is
 * never read, nor metadata that planning does not need.
 *
 * A model may be split into files NAME-00001-of-00003.gguf and so on: the
 * first has the metadata, each its own tensors.
 */
#ifndef GM_GGUF_H
#define GM_GGUF_H

#include <stddef.h>
#include <stdint.h>

#include "agent/plan/error.h"
#include "agent/plan/file.h"
#include "agent/plan/model_config.h"
#include "agent/plan/safetensors.h"

#define GM_GGUF_HEADER  ((size_t)256 << 20) /* most bytes of one header */
#define GM_GGUF_TENSORS (UINT64_C(1) << 20) /* most of one file */

#define GM_GGUF_TYPES   40u

#define GM_GGUF_PARTS   4096u /* most files of a model */

/* A file's number among the files of its model. */
struct gm_gguf_split {
	uint32_t n_parts;   /* 0 or 1: there is only one */
	uint32_t part;      /* from 0 */
	uint64_t n_tensors; /* of all parts; 0: not given */
};

/* The type's name, such as "Q4_K"; NULL if there is no such type. */
const char *gm_gguf_type(uint32_t type);

/*
 * gm_gguf_header - validate a header and take its tensors
 *
 * header	the first bytes of the file
 * tensors	empty; gets the tensors in the order of their data, with
 *		@dtype for gm_gguf_type(); give it back with
 *		gm_safetensors_free(), also on failure
 * ret_split	NULL: a file that is one of several is refused
 *
 * Returns	0
 *		-EAGAIN		the header is longer than that: call again with
 *				more
 *		-EINVAL		malformed, or it disagrees with itself
 *		-ENODATA	the file ends before its header or tensors do
 *		-EOVERFLOW	dimensions of 2^64 or more
 *		-E2BIG, -ENOMEM
 * Threads	any, one per @tensors
 */
int gm_gguf_header(const struct gm_file_header *header,
		   struct gm_tensors *tensors,
		   struct gm_model_config *ret_config,
		   struct gm_gguf_split *ret_split,
		   struct gm_plan_error *ret_err);

/* The same for an open file.  Also returns -EFBIG and the errors of reading. */
int gm_gguf_read(const struct gm_file *file, struct gm_tensors *tensors,
		 struct gm_model_config *ret_config,
		 struct gm_gguf_split *ret_split,
		 struct gm_plan_error *ret_err);

/*
 * gm_gguf_part_path - the path of another part of the model at @path
 *
 * split	of the file at @path
 * ret_path	to free()
 *
 * Returns	0
 *		-EINVAL	the name of @path does not match its part
 *		-ENOMEM
 * Threads	any
 */
int gm_gguf_part_path(const char *path, const struct gm_gguf_split *split,
		      uint32_t part, char **ret_path,
		      struct gm_plan_error *ret_err);

#endif
