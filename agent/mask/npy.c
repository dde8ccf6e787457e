/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/mask/npy.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "gpumap.h"
#include "lib/model/plan/number.h"

#define AGAIN    "save the array again with numpy.save()"
#define COMPLETE "wait until the file is complete, or fetch it again"

/* A header that is being read. */
struct reader {
	const char *path;
	const char *at, *end;
	struct gm_plan_error *err;
	char descr[16]; /* truncated: no supported type is longer */
	bool is_fortran;
	size_t rank;
	uint64_t shape[GM_MASK_TENSOR_RANK]; /* the first dimensions */
};

enum key { DESCR, FORTRAN_ORDER, SHAPE, KEYS };

static const char *const keys[KEYS] = { "descr", "fortran_order", "shape" };

static const struct {
	const char *descr;
	uint32_t dtype; /* enum gpumap_dtype */
} dtypes[] = {
	{ "|b1", GPUMAP_DTYPE_U8 },   { "|u1", GPUMAP_DTYPE_U8 },
	{ "<f2", GPUMAP_DTYPE_F16 },  { "<f4", GPUMAP_DTYPE_F32 },
	{ "<V2", GPUMAP_DTYPE_BF16 }, { "|V2", GPUMAP_DTYPE_BF16 },
};

#define N_DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

/* ---- prolog -------------------------------------------------------------- */

static int not_npy(const char *path, const void *raw, size_t n,
		   struct gm_plan_error *err)
{
	if (n >= 4 && memcmp(raw, "PK\3\4", 4) == 0)
		return gm_error_set(err, -EINVAL,
				    "unpack it, and give one of the .npy files",
				    "%s is an archive such as numpy.savez() "
				    "makes, not a .npy file",
				    path);
	return gm_error_set(err, -EINVAL, "give a .npy file",
			    "%s is not a .npy file: it does not begin with "
			    "\\x93NUMPY",
			    path);
}

static int ends_early(const char *path, uint64_t file_bytes,
		      struct gm_plan_error *err)
{
	return gm_error_set(err, -ENODATA, COMPLETE,
			    "%s is truncated: it ends at byte %" PRIu64
			    ", inside its header",
			    path, file_bytes);
}

int gm_npy_prolog(const struct gm_file_header *header, uint32_t *ret_begin,
		  uint32_t *ret_bytes, struct gm_plan_error *ret_err)
{
	const size_t magic = sizeof(GM_NPY_MAGIC) - 1, n = header->n;
	const uint64_t file_bytes = n + header->rest;
	const unsigned char *byte = header->bytes;
	const char *path = header->path;
	uint32_t begin, bytes = 0;

	if (memcmp(byte, GM_NPY_MAGIC, n < magic ? n : magic) != 0 || n == 0)
		return not_npy(path, byte, n, ret_err);
	if (n < magic + 2)
		return ends_early(path, file_bytes, ret_err);
	if (byte[6] < 1 || byte[6] > 3 || byte[7] != 0)
		return gm_error_set(ret_err, -EINVAL, AGAIN,
				    "%s has format version %u.%u, not 1.0, 2.0 "
				    "or 3.0",
				    path, byte[6], byte[7]);
	begin = byte[6] == 1 ? 10 : GM_NPY_PROLOG;
	if (n < begin)
		return ends_early(path, file_bytes, ret_err);
	for (uint32_t i = begin; i-- > magic + 2;)
		bytes = bytes << 8 | byte[i];
	if (bytes > GM_NPY_HEADER)
		return gm_error_set(ret_err, -EFBIG, AGAIN,
				    "%s: a header of %" PRIu32
				    " bytes is longer than the %u allowed",
				    path, bytes, GM_NPY_HEADER);
	if (bytes > file_bytes - begin)
		return ends_early(path, file_bytes, ret_err);
	*ret_begin = begin;
	*ret_bytes = bytes;
	return 0;
}

/* ---- header -------------------------------------------------------------- */

static int malformed(struct reader *rd, const char *what)
{
	return gm_error_set(rd->err, -EINVAL, AGAIN, "%s: its header %s",
			    rd->path, what);
}

/* The next byte after blanks; NUL at the end. */
static char peek(struct reader *rd)
{
	while (rd->at < rd->end && isspace((unsigned char)*rd->at))
		rd->at++;
	return rd->at < rd->end ? *rd->at : '\0';
}

static bool skip(struct reader *rd, char c)
{
	if (peek(rd) != c || rd->at == rd->end)
		return false;
	rd->at++;
	return true;
}

static bool skip_word(struct reader *rd, const char *word)
{
	size_t n = strlen(word);

	peek(rd);
	if ((size_t)(rd->end - rd->at) < n || memcmp(rd->at, word, n) != 0)
		return false;
	rd->at += n;
	return true;
}

/* Take text in quotes of either kind, without escapes. */
static bool take_text(struct reader *rd, char *ret_text, size_t room)
{
	const char quote = peek(rd), *begin, *end;

	if (quote != '\'' && quote != '"')
		return false;
	begin = rd->at + 1;
	end = memchr(begin, quote, (size_t)(rd->end - begin));
	if (!end || memchr(begin, '\\', (size_t)(end - begin)) ||
	    memchr(begin, '\0', (size_t)(end - begin)))
		return false;
	snprintf(ret_text, room, "%.*s", (int)(end - begin), begin);
	rd->at = end + 1;
	return true;
}

/* Take a dimension; Python 2 wrote some with an L. */
static int take_dimension(struct reader *rd)
{
	size_t n = 0;
	uint64_t dim = 0;

	while (rd->at + n < rd->end && isdigit((unsigned char)rd->at[n]))
		n++;
	if (n == 0)
		return malformed(rd, "has a shape that is not all whole "
				     "numbers");
	if (gm_number_parse(rd->at, n, &dim))
		return gm_error_set(rd->err, -EOVERFLOW, AGAIN,
				    "%s: its shape comes to 2^64 bytes or more",
				    rd->path);
	rd->at += n;
	if (rd->at < rd->end && *rd->at == 'L')
		rd->at++;
	if (rd->rank < GM_MASK_TENSOR_RANK)
		rd->shape[rd->rank] = dim;
	rd->rank++;
	return 0;
}

/* Take a shape: (3, 4), (3,) or (). */
static int take_shape(struct reader *rd)
{
	bool more = true;

	if (!skip(rd, '('))
		return malformed(rd, "has a shape that is not a tuple");
	while (more && peek(rd) != ')') {
		int r = take_dimension(rd);

		if (r)
			return r;
		more = skip(rd, ',');
	}
	/* In Python (3) is a number. */
	if (!skip(rd, ')') || (!more && rd->rank == 1))
		return malformed(rd, "has a shape that is not a tuple");
	return 0;
}

static int take_value(struct reader *rd, enum key key)
{
	switch (key) {
	case DESCR:
		if (peek(rd) == '[')
			return gm_error_set(rd->err, -EINVAL,
					    "save the field that is the mask",
					    "%s holds records, not numbers",
					    rd->path);
		if (!take_text(rd, rd->descr, sizeof(rd->descr)))
			return malformed(rd, "has a descr that is not text");
		return 0;
	case FORTRAN_ORDER:
		rd->is_fortran = skip_word(rd, "True");
		if (!rd->is_fortran && !skip_word(rd, "False"))
			return malformed(rd, "has a fortran_order that is "
					     "neither True nor False");
		return 0;
	default:
		return take_shape(rd);
	}
}

static int take_entry(struct reader *rd, bool *seen)
{
	char key[24];
	int i = 0;

	if (!take_text(rd, key, sizeof(key)) || !skip(rd, ':'))
		return malformed(rd, "is not a dictionary");
	while (i < KEYS && strcmp(keys[i], key) != 0)
		i++;
	if (i == KEYS || seen[i])
		return gm_error_set(rd->err, -EINVAL, AGAIN,
				    "%s: its header has the key %s %s",
				    rd->path, key,
				    i == KEYS ? "that no array has" : "twice");
	seen[i] = true;
	return take_value(rd, (enum key)i);
}

static int take_dictionary(struct reader *rd)
{
	bool seen[KEYS] = { false }, more = true;

	if (!skip(rd, '{'))
		return malformed(rd, "is not a dictionary");
	while (more && peek(rd) != '}') {
		int r = take_entry(rd, seen);

		if (r)
			return r;
		more = skip(rd, ',');
	}
	if (!skip(rd, '}') || peek(rd) != '\0' || rd->at != rd->end)
		return malformed(rd, "is not a dictionary");
	for (int i = 0; i < KEYS; i++)
		if (!seen[i])
			return gm_error_set(rd->err, -EINVAL, AGAIN,
					    "%s: its header has no %s",
					    rd->path, keys[i]);
	return 0;
}

static int find_dtype(const struct reader *rd, uint32_t *ret_dtype)
{
	for (size_t i = 0; i < N_DTYPES; i++) {
		if (strcmp(dtypes[i].descr, rd->descr) == 0) {
			*ret_dtype = dtypes[i].dtype;
			return 0;
		}
	}
	if (rd->descr[0] == '>')
		return gm_error_set(rd->err, -EINVAL,
				    "save mask.astype('<f4') or the like",
				    "%s is big-endian: its dtype is %s",
				    rd->path, rd->descr);
	return gm_error_set(rd->err, -EINVAL,
			    "save mask.astype(numpy.float32) or the like",
			    "%s has dtype %s: a mask is of |b1, |u1, <f2, <f4, "
			    "or <V2 for bf16",
			    rd->path, rd->descr);
}

int gm_npy_header(const char *path, const char *header, size_t n,
		  uint64_t data_bytes, struct gm_mask_tensor *ret_tensor,
		  struct gm_plan_error *ret_err)
{
	struct reader rd = {
		.path = path, .at = header, .end = header + n, .err = ret_err
	};
	struct gm_mask_tensor t;
	uint32_t dtype = 0;
	int r = take_dictionary(&rd);

	if (r == 0)
		r = find_dtype(&rd, &dtype);
	if (r == 0 && rd.is_fortran)
		r = gm_error_set(ret_err, -EINVAL,
				 "save numpy.ascontiguousarray(mask)",
				 "%s is in Fortran order: a mask lies row by "
				 "row",
				 path);
	if (r == 0)
		r = gm_mask_tensor_shape(path, dtype, rd.shape, rd.rank, &t,
					 ret_err);
	if (r)
		return r;
	if (t.bytes > data_bytes)
		return gm_error_set(ret_err, -ENODATA, COMPLETE,
				    "%s is truncated: its data has %" PRIu64
				    " bytes, the file holds %" PRIu64
				    " of them",
				    path, t.bytes, data_bytes);
	if (t.bytes < data_bytes)
		return gm_error_set(ret_err, -EINVAL, AGAIN,
				    "%s: %" PRIu64 " bytes follow the %" PRIu64
				    " of its data",
				    path, data_bytes - t.bytes, t.bytes);
	*ret_tensor = t;
	return 0;
}
