/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* mask_tensor: masks in files of both formats, and files that hold none. */

#include <errno.h>
#include <unistd.h>

#include "agent/mask/mask_tensor.h"
#include "gpumap.h"
#include "lib/model/checkpoint/checkpoint.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- headers of safetensors files ---------------------------------------- */

#define T(name, dtype, shape, begin, end)                            \
	"\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape "," \
	"\"data_offsets\":[" #begin "," #end "]}"
#define TWO                                                                   \
	"{" T("a", "F32", "[2,3]", 0, 24) "," T("b", "BF16", "[1,1,4,5]", 24, \
						64) "}"

static int take(const char *header, uint64_t data_bytes, const char *name,
		struct gm_mask_tensor *ret, struct gm_plan_error *err)
{
	struct gm_reason why = { "" };
	struct gm_weights ws = { .why = &why };
	size_t n = strlen(header);
	int r = gm_weights_add_file(&ws, "f");

	if (!OK(r == 0))
		return r;
	ws.files[0].header = strdup(header);
	r = gm_weights_header(&ws, 0, ws.files[0].header, n, 0, data_bytes);
	r = r ? gm_error_of_sentence(err, r, why.text)
	      : gm_mask_tensor_in(&ws, name, ret, err);
	gm_weights_free(&ws);
	return r;
}

static void a_tensor_is_found_by_its_name(void)
{
	struct gm_mask_tensor t = { 0 };

	EQ(take(TWO, 64, "b", &t, NULL), 0);
	EQ(t.dtype, GPUMAP_DTYPE_BF16);
	EQ(t.rank, 4);
	OK(t.shape[0] == 1 && t.shape[1] == 1 && t.shape[2] == 4 &&
	   t.shape[3] == 5);
	OK(t.strides[0] == 40 && t.strides[1] == 40 && t.strides[2] == 10 &&
	   t.strides[3] == 2);
	EQ(t.offset, 24);
	EQ(t.bytes, 40);
	EQ(take(TWO, 64, "a", &t, NULL), 0);
	OK(t.dtype == GPUMAP_DTYPE_F32 && t.rank == 2 && t.offset == 0 &&
	   t.bytes == 24);
	/* The only one needs no name. */
	EQ(take("{\"__metadata__\":{\"x\":\"y\"}," T("m", "U8", "[2,3]", 0,
						     6) "}",
		6, NULL, &t, NULL),
	   0);
	OK(t.dtype == GPUMAP_DTYPE_U8 && t.bytes == 6);
}

static void each_dtype_is_known(void)
{
	static const struct {
		const char *header;
		uint32_t dtype;
		uint64_t bytes;
	} table[] = {
		{ "{" T("m", "BOOL", "[2,3]", 0, 6) "}", GPUMAP_DTYPE_U8, 6 },
		{ "{" T("m", "U8", "[2,3]", 0, 6) "}", GPUMAP_DTYPE_U8, 6 },
		{ "{" T("m", "F16", "[2,3]", 0, 12) "}", GPUMAP_DTYPE_F16, 12 },
		{ "{" T("m", "BF16", "[2,3]", 0, 12) "}", GPUMAP_DTYPE_BF16,
		  12 },
		{ "{" T("m", "F32", "[2,3]", 0, 24) "}", GPUMAP_DTYPE_F32, 24 },
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		struct gm_mask_tensor t = { 0 };

		EQ(take(table[i].header, table[i].bytes, NULL, &t, NULL), 0);
		EQ(t.dtype, table[i].dtype);
		EQ(t.bytes, table[i].bytes);
	}
}

static const struct {
	const char *header;
	uint64_t data_bytes;
	const char *name;
	int code;
	const char *error;
} refused[] = {
	{ TWO, 64, NULL, -ENOENT, "f has 2 tensors: a, b" },
	{ TWO, 64, "c", -ENOENT, "f has no tensor c: it has a, b" },
	{ TWO, 64, "", -ENOENT, "f has no tensor : it has a, b" },
	{ "{}", 0, NULL, -ENOENT, "f has 0 tensors: none" },
	{ "{}", 0, "a", -ENOENT, "f has no tensor a: it has none" },
	{ "{\"__metadata__\":{}}", 0, "__metadata__", -ENOENT,
	  "f has no tensor __metadata__: it has none" },
	{ TWO, 63, "a", -ENODATA,
	  "f is truncated: its tensors have 64 bytes, the file holds 63 of "
	  "them" },
	{ "{" T("m", "F64", "[2,3]", 0, 48) "}", 48, NULL, -EINVAL,
	  "f: tensor m has dtype F64: a mask is of BOOL, U8, F16, BF16 or "
	  "F32" },
	{ "{" T("m", "U8", "[]", 0, 1) "}", 1, NULL, -EINVAL,
	  "f: tensor m has rank 0: a mask has rank 2, or up to 4 with leading "
	  "dimensions of 1" },
	{ "{" T("m", "U8", "[6]", 0, 6) "}", 6, NULL, -EINVAL,
	  "f: tensor m has rank 1: a mask has rank 2, or up to 4 with leading "
	  "dimensions of 1" },
	{ "{" T("m", "U8", "[1,1,1,2,3]", 0, 6) "}", 6, NULL, -EINVAL,
	  "f: tensor m has rank 5: a mask has rank 2, or up to 4 with leading "
	  "dimensions of 1" },
	{ "{" T("m", "U8", "[2,2,3]", 0, 12) "}", 12, NULL, -EINVAL,
	  "f: tensor m: dimension 0 is 2: those before the last two are 1" },
	{ "{" T("m", "U8", "[2,0]", 0, 0) "}", 0, NULL, -EINVAL,
	  "f: tensor m is empty: dimension 1 is 0" },
	{ "[]", 0, NULL, -EINVAL,
	  "f: its header is not the JSON that it should be" },
};

static void what_is_no_mask_is_refused(void)
{
	for (size_t i = 0; i < COUNT(refused); i++) {
		struct gm_mask_tensor t = { .rank = 77 };
		struct gm_plan_error err = { 0 };

		EQ(take(refused[i].header, refused[i].data_bytes,
			refused[i].name, &t, &err),
		   refused[i].code);
		STR(err.text, refused[i].error);
		OK(err.remedy[0] != '\0' && t.rank == 77);
	}
}

/* As many as fit in a line, whole. */
static void many_names_are_cut(void)
{
	struct gm_plan_error err = { 0 };
	struct gm_mask_tensor t;
	char header[16384] = "{";
	size_t n = 1;

	for (int i = 0; i < 200; i++)
		n += (size_t)snprintf(header + n, sizeof(header) - n,
				      "%s" T("tensor%03d", "U8", "[1]", % d,
					     % d),
				      i ? "," : "", i, i, i + 1);
	snprintf(header + n, sizeof(header) - n, "}");
	EQ(take(header, 200, NULL, &t, &err), -ENOENT);
	OK(strncmp(err.text, "f has 200 tensors: tensor000, tensor001, ", 40) ==
	   0);
	OK(strlen(err.text) < 1100);
	STR(err.text + strlen(err.text) - 4, ", ..");
}

/* ---- files --------------------------------------------------------------- */

static char path[] = "mask_tensor.XXXXXX";

/* The file has @n bytes of @bytes from now on. */
static bool put(const void *bytes, size_t n)
{
	FILE *f = fopen(path, "we");

	return OK(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

static int read_file(const char *name, struct gm_mask_tensor *ret,
		     struct gm_plan_error *err)
{
	struct gm_file file;
	int r = gm_file_open(path, NULL, &file, err);

	if (r)
		return r;
	r = gm_mask_tensor_read(&file, name, ret, err);
	gm_file_close(&file);
	return r;
}

/* The words after the file's name. */
static void fails(const char *name, int code, const char *error)
{
	struct gm_mask_tensor t = { .rank = 77 };
	struct gm_plan_error err = { 0 };

	EQ(read_file(name, &t, &err), code);
	OK(strncmp(err.text, path, strlen(path)) == 0);
	STR(err.text + strlen(path), error);
	OK(err.remedy[0] != '\0' && t.rank == 77);
}

#define NPY_HEADER \
	"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }\n"

static void npy_files_are_read(void)
{
	static const char v1[] = "\x93NUMPY\1\0\x3c\0" NPY_HEADER "abcdef";
	static const char v2[] = "\x93NUMPY\2\0\x3c\0\0\0" NPY_HEADER "abcdef";
	static const char v3[] = "\x93NUMPY\3\0\x3c\0\0\0" NPY_HEADER "abcdef";
	static const struct {
		const char *bytes;
		size_t n;
	} files[] = { { v1, sizeof(v1) - 1 },
		      { v2, sizeof(v2) - 1 },
		      { v3, sizeof(v3) - 1 } };

	EQ(strlen(NPY_HEADER), 0x3c);
	for (size_t i = 0; i < COUNT(files); i++) {
		struct gm_mask_tensor t = { 0 };

		if (!put(files[i].bytes, files[i].n))
			return;
		EQ(read_file(NULL, &t, NULL), 0);
		OK(t.rank == 2 && t.shape[0] == 2 && t.shape[1] == 3);
		EQ(t.bytes, 6);
		EQ(t.offset, files[i].n - 6);
		fails("mask", -EINVAL,
		      " is a .npy file: its array has no "
		      "name");
		if (!put(files[i].bytes, files[i].n - 1))
			return;
		fails(NULL, -ENODATA,
		      " is truncated: its data has 6 bytes, the file holds 5 "
		      "of them");
	}
	if (put(v1, 20))
		fails(NULL, -ENODATA,
		      " is truncated: it ends at byte 20, inside its header");
	if (put(v1, 7))
		fails(NULL, -ENODATA,
		      " is truncated: it ends at byte 7, inside its header");
	if (put("PK\3\4", 4))
		fails(NULL, -EINVAL,
		      " is an archive such as numpy.savez() "
		      "makes, not a .npy file");
}

/* The ninth byte of this one is what a safetensors file has there. */
static void npy_files_may_look_otherwise(void)
{
	static const char odd[] =
		"\x93NUMPY\1\0{\0" NPY_HEADER
		"                                                              "
		"\nabcdef";
	struct gm_mask_tensor t = { 0 };

	EQ(sizeof(odd) - 1, 10 + '{' + 6);
	if (put(odd, sizeof(odd) - 1))
		EQ(read_file(NULL, &t, NULL), 0);
	EQ(t.offset, 10 + '{');
}

#define ONE "{" T("m", "U8", "[2,3]", 0, 6) "}"

static void safetensors_files_are_read(void)
{
	char bytes[8 + sizeof(ONE) - 1 + 6] = { (char)(sizeof(ONE) - 1) };
	struct gm_mask_tensor t = { 0 };

	memcpy(bytes + 8, ONE "abcdef", sizeof(bytes) - 8);
	if (!put(bytes, sizeof(bytes)))
		return;
	EQ(read_file(NULL, &t, NULL), 0);
	EQ(t.offset, sizeof(bytes) - 6);
	EQ(t.bytes, 6);
	EQ(read_file("m", &t, NULL), 0);
	fails("x", -ENOENT, " has no tensor x: it has m");
	if (put(bytes, sizeof(bytes) - 1))
		fails(NULL, -ENODATA,
		      " is truncated: its tensors have 6 bytes, the file "
		      "holds 5 of them");
	if (put(bytes, 20))
		fails(NULL, -ENODATA,
		      " is truncated: its header has 55 bytes, the file holds "
		      "12 of them");
	bytes[7] = 1;
	if (put(bytes, sizeof(bytes)))
		fails(NULL, -EINVAL,
		      " is not a safetensors file: its header would have "
		      "72057594037927991 bytes");
	if (put("version https://git-lfs.github.com/spec/v1\n", 43))
		fails(NULL, -EINVAL,
		      " is a Git LFS pointer, not the file that it stands for");
}

static void other_files_are_refused(void)
{
	if (put("", 0))
		fails(NULL, -EINVAL,
		      " is neither a .npy nor a safetensors file");
	if (put("0 0 1\n0 0 0\n", 12))
		fails(NULL, -EINVAL,
		      " is neither a .npy nor a safetensors file");
}

TAP_CASE()
{
	int fd = mkstemp(path);

	a_tensor_is_found_by_its_name();
	each_dtype_is_known();
	what_is_no_mask_is_refused();
	many_names_are_cut();
	if (OK(fd >= 0)) {
		close(fd);
		npy_files_are_read();
		npy_files_may_look_otherwise();
		safetensors_files_are_read();
		other_files_are_refused();
		unlink(path);
	}
	return tap_done();
}
