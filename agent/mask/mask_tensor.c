/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/mask/mask_tensor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/mask/mask.h"
#include "agent/mask/npy.h"
#include "gpumap.h"
#include "lib/model/checkpoint/checkpoint.h"
#include "lib/model/plan/checked.h"

#define RESHAPE "save it as queries by keys"

/* ---- shapes -------------------------------------------------------------- */

static int check_dimensions(const char *what, const uint64_t *shape,
			    size_t rank, struct gm_plan_error *err)
{
	if (rank < 2 || rank > GM_MASK_TENSOR_RANK)
		return gm_error_set(err, -EINVAL, RESHAPE,
				    "%s has rank %zu: a mask has rank 2, or up "
				    "to %u with leading dimensions of 1",
				    what, rank, GM_MASK_TENSOR_RANK);
	for (size_t i = 0; i < rank; i++) {
		if (shape[i] == 0)
			return gm_error_set(err, -EINVAL,
					    "give a mask of one element or "
					    "more",
					    "%s is empty: dimension %zu is 0",
					    what, i);
		if (i + 2 < rank && shape[i] != 1)
			return gm_error_set(
				err, -EINVAL,
				"save one mask for all sequences and heads",
				"%s: dimension %zu is %" PRIu64
				": those before the last two are 1",
				what, i, shape[i]);
	}
	return 0;
}

int gm_mask_tensor_shape(const char *what, uint32_t dtype,
			 const uint64_t *shape, size_t rank,
			 struct gm_mask_tensor *ret_tensor,
			 struct gm_plan_error *ret_err)
{
	struct gm_mask_tensor t = { .dtype = dtype, .rank = (uint32_t)rank };
	uint64_t bytes = gm_mask_dtype_bytes(dtype);
	bool over = false;
	int r = check_dimensions(what, shape, rank, ret_err);

	if (r)
		return r;
	for (size_t i = rank; i-- > 0;) {
		t.shape[i] = shape[i];
		t.strides[i] = bytes;
		bytes = gm_checked_mul(&over, bytes, shape[i]);
	}
	if (over)
		return gm_error_set(ret_err, -EOVERFLOW, RESHAPE,
				    "%s: its shape comes to 2^64 bytes or more",
				    what);
	t.bytes = bytes;
	*ret_tensor = t;
	return 0;
}

/* ---- safetensors --------------------------------------------------------- */

static const struct {
	const char *name;
	uint32_t dtype; /* enum gpumap_dtype */
} dtypes[] = {
	{ "BOOL", GPUMAP_DTYPE_U8 }, { "U8", GPUMAP_DTYPE_U8 },
	{ "F16", GPUMAP_DTYPE_F16 }, { "BF16", GPUMAP_DTYPE_BF16 },
	{ "F32", GPUMAP_DTYPE_F32 },
};

#define N_DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

static int find_dtype(const char *what, const char *name, uint32_t *ret_dtype,
		      struct gm_plan_error *err)
{
	for (size_t i = 0; i < N_DTYPES; i++) {
		if (strcmp(dtypes[i].name, name) == 0) {
			*ret_dtype = dtypes[i].dtype;
			return 0;
		}
	}
	return gm_error_set(err, -EINVAL, "convert it to one of those",
			    "%s has dtype %s: a mask is of BOOL, U8, F16, BF16 "
			    "or F32",
			    what, name);
}

/* List the existing names, as many as fit, for the message that a name is
 * missing. */
static void list_names(const struct gm_weights *tensors, char *ret_text,
		       size_t room)
{
	static const char cut[] = ", ..";
	size_t at = 0;

	ret_text[0] = '\0';
	for (size_t i = 0; i < tensors->n; i++) {
		const char *comma = i ? ", " : "", *name = tensors->v[i].name;

		if (at + strlen(comma) + strlen(name) + sizeof(cut) > room) {
			strcpy(ret_text + at, i ? cut : "..");
			return;
		}
		at += (size_t)sprintf(ret_text + at, "%s%s", comma, name);
	}
}

static int find_tensor(const struct gm_weights *tensors, const char *name,
		       const struct gm_weight **ret_tensor,
		       struct gm_plan_error *err)
{
	const char *path = tensors->files[0].name;
	char names[1024];

	for (size_t i = 0; i < tensors->n; i++) {
		const struct gm_weight *t = &tensors->v[i];

		if (name ? strcmp(t->name, name) == 0 : tensors->n == 1) {
			*ret_tensor = t;
			return 0;
		}
	}
	list_names(tensors, names, sizeof(names));
	if (name)
		return gm_error_set(err, -ENOENT, "name one of its tensors",
				    "%s has no tensor %.128s: it has %s", path,
				    name, tensors->n ? names : "none");
	return gm_error_set(err, -ENOENT, "say which tensor is the mask",
			    "%s has %zu tensors: %s", path, tensors->n,
			    tensors->n ? names : "none");
}

int gm_mask_tensor_in(const struct gm_weights *tensors, const char *name,
		      struct gm_mask_tensor *ret_tensor,
		      struct gm_plan_error *ret_err)
{
	const struct gm_weight *tensor = NULL;
	uint32_t dtype = 0;
	char what[512];
	int r = find_tensor(tensors, name, &tensor, ret_err);

	if (r)
		return r;
	snprintf(what, sizeof(what), "%.320s: tensor %.128s",
		 tensors->files[0].name, tensor->name);
	r = find_dtype(what, gm_weights_type(tensor->type), &dtype, ret_err);
	if (r == 0)
		r = gm_mask_tensor_shape(what, dtype,
					 tensor->n_dims > 0
						 ? tensors->dims + tensor->shape
						 : NULL,
					 tensor->n_dims, ret_tensor, ret_err);
	if (r == 0)
		ret_tensor->offset = tensor->begin;
	return r;
}

/* ---- files --------------------------------------------------------------- */

static int read_npy(const struct gm_file *file, const char *name,
		    struct gm_mask_tensor *ret_tensor,
		    struct gm_plan_error *err)
{
	unsigned char raw[GM_NPY_PROLOG] = { 0 };
	size_t n = gm_min(file->size, sizeof(raw));
	uint32_t begin, bytes;
	char *header;
	int r;

	if (name)
		return gm_error_set(err, -EINVAL, "name no tensor",
				    "%s is a .npy file: its array has no name",
				    file->path);
	r = gm_file_read(file, 0, raw, n, err);
	if (r == 0)
		r = gm_npy_prolog(&(struct gm_file_header){ file->path, raw, n,
							    file->size - n },
				  &begin, &bytes, err);
	if (r)
		return r;
	header = malloc(bytes + 1); /* never 0 */
	if (!header)
		return gm_error_no_memory(err);
	r = gm_file_read(file, begin, header, bytes, err);
	if (r == 0)
		r = gm_npy_header(file->path, header, bytes,
				  file->size - begin - bytes, ret_tensor, err);
	if (r == 0)
		ret_tensor->offset = (uint64_t)begin + bytes;
	free(header);
	return r;
}

static int read_safetensors(const struct gm_file *file, const char *name,
			    struct gm_mask_tensor *ret_tensor,
			    struct gm_plan_error *err)
{
	struct gm_reason why = { "" };
	struct gm_weights tensors = { .why = &why, .folder = strdup("") };
	int r = gm_weights_add_file(&tensors, file->path);

	if (r == 0 && tensors.folder == NULL)
		r = -ENOMEM;
	if (r == 0) {
		tensors.files[0].stat.st_size = (off_t)file->size;
		r = gm_weights_read_header(&tensors, 0, file->fd);
	}
	r = r ? gm_error_of_sentence(err, r, why.text)
	      : gm_mask_tensor_in(&tensors, name, ret_tensor, err);
	gm_weights_free(&tensors);
	return r;
}

int gm_mask_tensor_read(const struct gm_file *file, const char *name,
			struct gm_mask_tensor *ret_tensor,
			struct gm_plan_error *ret_err)
{
	char raw[GM_WEIGHTS_LENGTH + 1] = { 0 };
	int r = gm_file_read(file, 0, raw, gm_min(file->size, sizeof(raw)),
			     ret_err);

	if (r)
		return r;
	if (memcmp(raw, GM_NPY_MAGIC, sizeof(GM_NPY_MAGIC) - 1) == 0 ||
	    memcmp(raw, "PK\3\4", 4) == 0)
		return read_npy(file, name, ret_tensor, ret_err);
	/* The ninth byte is the first of the header, for any length. */
	if (raw[GM_WEIGHTS_LENGTH] == '{' ||
	    memcmp(raw, "version ", GM_WEIGHTS_LENGTH) == 0)
		return read_safetensors(file, name, ret_tensor, ret_err);
	return gm_error_set(ret_err, -EINVAL,
			    "give a .npy or a safetensors file",
			    "%s is neither a .npy nor a safetensors file",
			    file->path);
}
