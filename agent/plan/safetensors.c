/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN "fetch the file again"

/* The names of types in the format.  Some types are smaller than a byte. */
static const struct {
	const char *name;
	uint32_t bits;
} dtypes[] = {
	{ "BF16", 16 },       { "F16", 16 },    { "F32", 32 },
	{ "F64", 64 },        { "F8_E4M3", 8 }, { "F8_E5M2", 8 },
	{ "F8_E8M0", 8 },     { "F6_E2M3", 6 }, { "F6_E3M2", 6 },
	{ "F4", 4 },          { "BOOL", 8 },    { "U8", 8 },
	{ "I8", 8 },          { "U16", 16 },    { "I16", 16 },
	{ "U32", 32 },        { "I32", 32 },    { "U64", 64 },
	{ "I64", 64 },        { "C64", 64 },    { "F8_E4M3FNUZ", 8 },
	{ "F8_E5M2FNUZ", 8 },
};

#define N_DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

_Static_assert(N_DTYPES == GM_SAFETENSORS_DTYPES, "callers count by it");

/* A header that is being read into a list of tensors. */
struct reader {
	const char *path;
	uint64_t data_bytes;
	uint32_t shard;
	struct gm_tensors *tensors;
	struct gm_plan_error *err;
};

const char *gm_safetensors_dtype(uint32_t dtype)
{
	return dtype < N_DTYPES ? dtypes[dtype].name : NULL;
}

static int bad_tensor(const struct reader *rd, const char *name,
		      const char *what)
{
	return gm_error_set(rd->err, -EINVAL, AGAIN, "%s: tensor %.128s: %s",
			    rd->path, name, what);
}

static bool find_dtype(const char *name, uint32_t *ret)
{
	for (uint32_t i = 0; i < N_DTYPES; i++) {
		if (strcmp(dtypes[i].name, name) == 0) {
			*ret = i;
			return true;
		}
	}
	return false;
}

static bool get_size(const json_t *value, uint64_t *ret)
{
	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return false;
	*ret = (uint64_t)json_integer_value(value);
	return true;
}

static int read_dtype(const struct reader *rd, const char *name,
		      const json_t *value, uint32_t *ret)
{
	if (!json_is_string(value))
		return bad_tensor(rd, name, "its dtype is not a string");
	if (!find_dtype(json_string_value(value), ret))
		return gm_error_set(rd->err, -EINVAL,
				    "convert the model to a type of the "
				    "safetensors format",
				    "%s: tensor %.128s: unknown dtype %.32s",
				    rd->path, name, json_string_value(value));
	return 0;
}

/* Compute the bytes of dtype and shape. */
static int read_shape(const struct reader *rd, const char *name,
		      const json_t *shape, uint32_t dtype, uint64_t *ret_bytes)
{
	uint64_t bits = dtypes[dtype].bits;

	if (!json_is_array(shape))
		return bad_tensor(rd, name, "its shape is not a list");
	for (size_t i = 0; i < json_array_size(shape); i++) {
		uint64_t dim;

		if (!get_size(json_array_get(shape, i), &dim))
			return bad_tensor(rd, name,
					  "its shape is not all whole numbers");
		if (__builtin_mul_overflow(bits, dim, &bits))
			return gm_error_set(
				rd->err, -EOVERFLOW, AGAIN,
				"%s: tensor %.128s: its shape comes to 2^64 "
				"bits or more",
				rd->path, name);
	}
	if (bits % 8)
		return bad_tensor(rd, name, "it ends within a byte");
	*ret_bytes = bits / 8;
	return 0;
}

static int read_offsets(const struct reader *rd, const json_t *offsets,
			struct gm_tensor *t)
{
	uint64_t end;

	if (json_array_size(offsets) != 2 ||
	    !get_size(json_array_get(offsets, 0), &t->begin) ||
	    !get_size(json_array_get(offsets, 1), &end))
		return bad_tensor(rd, t->name,
				  "its data_offsets are not two whole numbers");
	if (end < t->begin)
		return bad_tensor(rd, t->name, "it ends before it begins");
	if (end - t->begin != t->bytes)
		return gm_error_set(
			rd->err, -EINVAL, AGAIN,
			"%s: tensor %.128s: dtype and shape come to %" PRIu64
			" bytes, its data_offsets to %" PRIu64,
			rd->path, t->name, t->bytes, end - t->begin);
	return 0;
}

int gm_safetensors_add(struct gm_tensors *list, const struct gm_tensor *tensor)
{
	struct gm_tensor copy = *tensor;

	if (list->n == list->room) {
		size_t room = list->room ? 2 * list->room : 256;
		void *v = reallocarray(list->v, room, sizeof(*list->v));

		if (!v)
			return -ENOMEM;
		list->v = v;
		list->room = room;
	}
	copy.name = strdup(tensor->name);
	if (!copy.name)
		return -ENOMEM;
	list->v[list->n++] = copy;
	return 0;
}

static int read_tensor(const struct reader *rd, const char *name,
		       const json_t *info)
{
	struct gm_tensor t = { .name = (char *)name, .shard = rd->shard };
	int r;

	if (!json_is_object(info))
		return bad_tensor(rd, name, "its entry is not an object");
	r = read_dtype(rd, name, json_object_get(info, "dtype"), &t.dtype);
	if (r == 0)
		r = read_shape(rd, name, json_object_get(info, "shape"),
			       t.dtype, &t.bytes);
	if (r == 0)
		r = read_offsets(rd, json_object_get(info, "data_offsets"), &t);
	if (r)
		return r;
	if (gm_safetensors_add(rd->tensors, &t))
		return gm_error_no_memory(rd->err);
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct gm_tensor *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* @t is the next tensor in the order of the data; the last ended at @at. */
static int check_place(const struct reader *rd, const struct gm_tensor *t,
		       uint64_t at)
{
	if (t->begin < at)
		return gm_error_set(rd->err, -EINVAL, AGAIN,
				    "%s: tensor %.128s overlaps another: it "
				    "begins at data byte %" PRIu64
				    ", the one before ends at %" PRIu64,
				    rd->path, t->name, t->begin, at);
	if (t->begin > at && t->begin + t->bytes > rd->data_bytes)
		return gm_error_set(rd->err, -EINVAL, AGAIN,
				    "%s: tensor %.128s leaves the file: it "
				    "ends at data byte %" PRIu64 " of %" PRIu64,
				    rd->path, t->name, t->begin + t->bytes,
				    rd->data_bytes);
	if (t->begin > at)
		return gm_error_set(
			rd->err, -EINVAL, AGAIN,
			"%s: gap before tensor %.128s: data bytes %" PRIu64
			" to %" PRIu64 " belong to no tensor",
			rd->path, t->name, at, t->begin);
	return 0;
}

/* The tensors from @first on must cover all of the data, each byte once. */
static int check_cover(const struct reader *rd, size_t first)
{
	struct gm_tensors *list = rd->tensors;
	uint64_t at = 0;

	if (list->n > first)
		qsort(list->v + first, list->n - first, sizeof(list->v[0]),
		      by_place);
	for (size_t i = first; i < list->n; i++) {
		int r = check_place(rd, &list->v[i], at);

		if (r)
			return r;
		at = list->v[i].begin + list->v[i].bytes;
	}
	if (at > rd->data_bytes)
		return gm_error_set(
			rd->err, -ENODATA,
			"wait until the file is complete, or fetch it again",
			"%s is truncated: its tensors have %" PRIu64
			" bytes, the file holds %" PRIu64 " of them",
			rd->path, at, rd->data_bytes);
	if (at < rd->data_bytes)
		return gm_error_set(rd->err, -EINVAL, AGAIN,
				    "%s: gap after the last tensor: data bytes "
				    "%" PRIu64 " to %" PRIu64
				    " belong to no tensor",
				    rd->path, at, rd->data_bytes);
	return 0;
}

/* Drop the tensors from @n on. */
static void forget(struct gm_tensors *list, size_t n)
{
	while (list->n > n)
		free(list->v[--list->n].name);
}

static int read_tensors(const struct reader *rd, json_t *object)
{
	size_t first = rd->tensors->n;
	const char *name;
	json_t *info;
	int r = 0;

	json_object_foreach(object, name, info)
	{
		if (strcmp(name, "__metadata__"))
			r = read_tensor(rd, name, info);
		else if (!json_is_object(info))
			r = bad_tensor(rd, name, "it is not an object");
		if (r)
			break;
	}
	if (r == 0)
		r = check_cover(rd, first);
	if (r)
		forget(rd->tensors, first);
	return r;
}

int gm_safetensors_header(const struct gm_file_header *header, uint32_t shard,
			  struct gm_tensors *tensors,
			  struct gm_plan_error *ret_err)
{
	const struct reader rd = { header->path, header->rest, shard, tensors,
				   ret_err };
	const char *text = header->bytes;
	json_t *object;
	int r;

	/* Other readers of the format require this, too. */
	if (header->n == 0 || text[0] != '{')
		return gm_error_set(ret_err, -EINVAL, "give a safetensors file",
				    "%s is not a safetensors file: its header "
				    "does not begin with '{'",
				    header->path);
	r = gm_file_json_object(text, header->n, header->path, &object,
				ret_err);
	if (r)
		return r;
	r = read_tensors(&rd, object);
	json_decref(object);
	return r;
}

int gm_safetensors_length(const char *path, const void *raw,
			  uint64_t file_bytes, uint64_t *ret_bytes,
			  struct gm_plan_error *ret_err)
{
	const unsigned char *byte = raw;
	uint64_t n = 0;

	if (memcmp(raw, "version ", GM_SAFETENSORS_LENGTH) == 0)
		return gm_error_set(ret_err, -EINVAL,
				    "fetch the model itself: git lfs pull",
				    "%s is a Git LFS pointer, not the file it "
				    "stands for",
				    path);
	for (unsigned int i = GM_SAFETENSORS_LENGTH; i-- > 0;)
		n = n << 8 | byte[i];
	if (n > GM_SAFETENSORS_HEADER)
		return gm_error_set(ret_err, -EFBIG, "give a safetensors file",
				    "%s: a header of %" PRIu64
				    " bytes is longer than the %" PRIu64
				    " allowed",
				    path, n, GM_SAFETENSORS_HEADER);
	if (n > file_bytes - GM_SAFETENSORS_LENGTH)
		return gm_error_set(
			ret_err, -ENODATA,
			"wait until the file is complete, or fetch it again",
			"%s is truncated: its header has %" PRIu64
			" bytes, the file holds %" PRIu64 " of them",
			path, n, file_bytes - GM_SAFETENSORS_LENGTH);
	*ret_bytes = n;
	return 0;
}

int gm_safetensors_read(const struct gm_file *file, uint32_t shard,
			uint64_t *budget, struct gm_tensors *tensors,
			struct gm_plan_error *ret_err)
{
	unsigned char raw[GM_SAFETENSORS_LENGTH];
	uint64_t n = 0;
	char *header;
	int r;

	if (file->size < sizeof(raw))
		return gm_error_set(
			ret_err, -ENODATA,
			"wait until the file is complete, or fetch it again",
			"%s is truncated: it has %" PRIu64
			" bytes, a safetensors file at least %zu",
			file->path, file->size, sizeof(raw));
	r = gm_file_read(file, 0, raw, sizeof(raw), ret_err);
	if (r == 0)
		r = gm_safetensors_length(file->path, raw, file->size, &n,
					  ret_err);
	if (r)
		return r;
	if (n > *budget)
		return gm_error_set(ret_err, -EFBIG,
				    "is this the right directory?",
				    "%s: with its header the model's headers "
				    "are longer than allowed",
				    file->path);
	header = malloc(n + 1); /* never 0 */
	if (!header)
		return gm_error_no_memory(ret_err);
	r = gm_file_read(file, sizeof(raw), header, n, ret_err);
	if (r == 0)
		r = gm_safetensors_header(
			&(struct gm_file_header){ file->path, header, n,
						  file->size - sizeof(raw) -
							  n },
			shard, tensors, ret_err);
	if (r == 0)
		*budget -= n;
	free(header);
	return r;
}

void gm_safetensors_free(struct gm_tensors *tensors)
{
	forget(tensors, 0);
	free(tensors->v);
	*tensors = (struct gm_tensors){ 0 };
}
