/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* npy: headers that are taken, headers that lie, and the words. */

#include <errno.h>

#include "agent/mask/npy.h"
#include "gpumap.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- prolog -------------------------------------------------------------- */

static const struct {
	const char *raw;
	size_t n;
	uint64_t file_bytes;
	int code;
	uint32_t begin, bytes;
	const char *error;
} prologs[] = {
	{ "\x93NUMPY\1\0\x76\0{'", 12, 256, 0, 10, 118, NULL },
	{ "\x93NUMPY\1\0\x34\x12{'", 12, 65546, 0, 10, 0x1234, NULL },
	{ "\x93NUMPY\2\0\x74\0\0\0", 12, 256, 0, 12, 116, NULL },
	{ "\x93NUMPY\3\0\0\0\1\0", 12, 65548, 0, 12, 65536, NULL },
	/* Nothing but a header, and of no bytes. */
	{ "\x93NUMPY\1\0\0\0", 10, 10, 0, 10, 0, NULL },
	{ "\x93NUMPY\2\0\4\0\0\0", 12, 16, 0, 12, 4, NULL },
	{ "", 0, 0, -EINVAL, 0, 0,
	  "f is not a .npy file: it does not begin with \\x93NUMPY" },
	{ "\x93numpy\1\0\x76\0{'", 12, 256, -EINVAL, 0, 0,
	  "f is not a .npy file: it does not begin with \\x93NUMPY" },
	{ "PK\3\4............", 12, 256, -EINVAL, 0, 0,
	  "f is an archive such as numpy.savez() makes, not a .npy file" },
	{ "\x93NUM", 4, 4, -ENODATA, 0, 0,
	  "f is truncated: it ends at byte 4, inside its header" },
	{ "\x93NUMPY\1", 7, 7, -ENODATA, 0, 0,
	  "f is truncated: it ends at byte 7, inside its header" },
	{ "\x93NUMPY\1\0\x76", 9, 9, -ENODATA, 0, 0,
	  "f is truncated: it ends at byte 9, inside its header" },
	{ "\x93NUMPY\2\0\x76\0\0", 11, 11, -ENODATA, 0, 0,
	  "f is truncated: it ends at byte 11, inside its header" },
	{ "\x93NUMPY\1\0\x76\0{'", 12, 127, -ENODATA, 0, 0,
	  "f is truncated: it ends at byte 127, inside its header" },
	{ "\x93NUMPY\4\0\x76\0\0\0", 12, 256, -EINVAL, 0, 0,
	  "f has format version 4.0, not 1.0, 2.0 or 3.0" },
	{ "\x93NUMPY\0\0\x76\0\0\0", 12, 256, -EINVAL, 0, 0,
	  "f has format version 0.0, not 1.0, 2.0 or 3.0" },
	{ "\x93NUMPY\1\1\x76\0\0\0", 12, 256, -EINVAL, 0, 0,
	  "f has format version 1.1, not 1.0, 2.0 or 3.0" },
	{ "\x93NUMPY\2\0\1\0\1\0", 12, 1 << 20, -EFBIG, 0, 0,
	  "f: a header of 65537 bytes is longer than the 65536 allowed" },
	{ "\x93NUMPY\3\0\xff\xff\xff\xff", 12, UINT64_MAX, -EFBIG, 0, 0,
	  "f: a header of 4294967295 bytes is longer than the 65536 "
	  "allowed" },
};

static void prologs_are_checked(void)
{
	for (size_t i = 0; i < COUNT(prologs); i++) {
		struct gm_plan_error err = { 0 };
		uint32_t begin = 0, bytes = 0;

		const struct gm_file_header head = { "f", prologs[i].raw,
						     prologs[i].n,
						     prologs[i].file_bytes -
							     prologs[i].n };

		EQ(gm_npy_prolog(&head, &begin, &bytes, &err), prologs[i].code);
		EQ(begin, prologs[i].begin);
		EQ(bytes, prologs[i].bytes);
		if (prologs[i].error) {
			STR(err.text, prologs[i].error);
			OK(err.remedy[0] != '\0');
		}
	}
}

/* ---- header -------------------------------------------------------------- */

static int take(const char *header, uint64_t data_bytes,
		struct gm_mask_tensor *ret, struct gm_plan_error *err)
{
	return gm_npy_header("f", header, strlen(header), data_bytes, ret, err);
}

/* As numpy.save() writes them. */
#define NPY(descr, fortran, shape)                                             \
	"{'descr': '" descr "', 'fortran_order': " fortran ", 'shape': " shape \
	", }                           \n"

static void what_numpy_writes_is_taken(void)
{
	struct gm_mask_tensor t = { 0 };

	EQ(take(NPY("<f4", "False", "(3, 5)"), 60, &t, NULL), 0);
	EQ(t.dtype, GPUMAP_DTYPE_F32);
	EQ(t.rank, 2);
	OK(t.shape[0] == 3 && t.shape[1] == 5 && t.shape[2] == 0);
	OK(t.strides[0] == 20 && t.strides[1] == 4 && t.strides[2] == 0);
	EQ(t.bytes, 60);
	EQ(t.offset, 0);
	EQ(take(NPY("<f2", "False", "(1, 3, 5)"), 30, &t, NULL), 0);
	EQ(t.rank, 3);
	OK(t.shape[0] == 1 && t.shape[1] == 3 && t.shape[2] == 5);
	OK(t.strides[0] == 30 && t.strides[1] == 10 && t.strides[2] == 2);
	EQ(take(NPY("|b1", "False", "(1, 1, 7, 9)"), 63, &t, NULL), 0);
	EQ(t.rank, 4);
	OK(t.shape[3] == 9 && t.strides[0] == 63 && t.strides[1] == 63 &&
	   t.strides[2] == 9 && t.strides[3] == 1);
}

static void each_dtype_is_known(void)
{
	static const struct {
		const char *header;
		uint32_t dtype;
		uint64_t bytes;
	} table[] = {
		{ NPY("|b1", "False", "(2, 3)"), GPUMAP_DTYPE_U8, 6 },
		{ NPY("|u1", "False", "(2, 3)"), GPUMAP_DTYPE_U8, 6 },
		{ NPY("<f2", "False", "(2, 3)"), GPUMAP_DTYPE_F16, 12 },
		{ NPY("<V2", "False", "(2, 3)"), GPUMAP_DTYPE_BF16, 12 },
		{ NPY("|V2", "False", "(2, 3)"), GPUMAP_DTYPE_BF16, 12 },
		{ NPY("<f4", "False", "(2, 3)"), GPUMAP_DTYPE_F32, 24 },
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		struct gm_mask_tensor t = { 0 };

		EQ(take(table[i].header, table[i].bytes, &t, NULL), 0);
		EQ(t.dtype, table[i].dtype);
		EQ(t.bytes, table[i].bytes);
	}
}

static void other_writers_are_taken_too(void)
{
	static const char *const headers[] = {
		"{'shape':(2,3),'fortran_order':False,'descr':'|u1'}",
		"{\"descr\": \"|u1\", \"fortran_order\": False, \"shape\": "
		"(2, 3)}",
		"  {'descr': '|u1',\n'fortran_order': False, 'shape': (2, 3,)"
		"}\n\n",
		/* Python 2. */
		"{'descr': '|u1', 'fortran_order': False, 'shape': (2L, 3L), "
		"}\n",
	};

	for (size_t i = 0; i < COUNT(headers); i++) {
		struct gm_mask_tensor t = { 0 };

		EQ(take(headers[i], 6, &t, NULL), 0);
		OK(t.rank == 2 && t.shape[0] == 2 && t.shape[1] == 3);
	}
}

#define U1(shape) NPY("|u1", "False", shape)
#define NO_MASK(d)                                                \
	"f has dtype " d ": a mask is of |b1, |u1, <f2, <f4, or " \
	"<V2 for bf16"
#define NO_DICT    "f: its header is not a dictionary"
#define NO_TUPLE   "f: its header has a shape that is not a tuple"
#define NO_NUMBERS "f: its header has a shape that is not all whole numbers"
#define NO_RANK(n)                                              \
	"f has rank " n ": a mask has rank 2, or up to 4 with " \
	"leading dimensions of 1"

static const struct {
	const char *header;
	uint64_t data_bytes;
	int code;
	const char *error;
} lies[] = {
	{ "", 0, -EINVAL, NO_DICT },
	{ "[]", 0, -EINVAL, NO_DICT },
	{ "{", 0, -EINVAL, NO_DICT },
	{ "{'descr'", 0, -EINVAL, NO_DICT },
	{ "{'descr", 0, -EINVAL, NO_DICT },
	{ "{'des\\x63r': '|u1'}", 0, -EINVAL, NO_DICT },
	{ "{'descr' '|u1'}", 0, -EINVAL, NO_DICT },
	{ U1("(2, 3)") "x", 6, -EINVAL, NO_DICT },
	{ U1("(2, 3)") "{}", 6, -EINVAL, NO_DICT },
	{ "{'descr': '|u1' 'fortran_order': False}", 0, -EINVAL, NO_DICT },
	{ "{'descr': '|u1',, 'fortran_order': False}", 0, -EINVAL, NO_DICT },
	{ "{}", 0, -EINVAL, "f: its header has no descr" },
	{ "{'descr': '|u1'}", 0, -EINVAL,
	  "f: its header has no fortran_order" },
	{ "{'descr': '|u1', 'fortran_order': False}", 0, -EINVAL,
	  "f: its header has no shape" },
	{ "{'descr': '|u1', 'descr': '|u1'}", 0, -EINVAL,
	  "f: its header has the key descr twice" },
	{ "{'order': 'C'}", 0, -EINVAL,
	  "f: its header has the key order that no array has" },
	{ "{'descr': None}", 0, -EINVAL,
	  "f: its header has a descr that is not text" },
	{ "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, "
	  "3), }",
	  24, -EINVAL, "f holds records, not numbers" },
	{ NPY("|u1", "0", "(2, 3)"), 6, -EINVAL,
	  "f: its header has a fortran_order that is neither True nor "
	  "False" },
	{ NPY("|u1", "True", "(2, 3)"), 6, -EINVAL,
	  "f is in Fortran order: a mask lies row by row" },
	{ NPY("<f8", "False", "(2, 3)"), 48, -EINVAL, NO_MASK("<f8") },
	{ NPY("<i8", "False", "(2, 3)"), 48, -EINVAL, NO_MASK("<i8") },
	{ NPY("|i1", "False", "(2, 3)"), 6, -EINVAL, NO_MASK("|i1") },
	{ NPY("|O", "False", "(2, 3)"), 6, -EINVAL, NO_MASK("|O") },
	{ NPY("<f44", "False", "(2, 3)"), 6, -EINVAL, NO_MASK("<f44") },
	{ NPY("", "False", "(2, 3)"), 6, -EINVAL, NO_MASK("") },
	{ NPY(">f4", "False", "(2, 3)"), 24, -EINVAL,
	  "f is big-endian: its dtype is >f4" },
	{ U1("()"), 1, -EINVAL, NO_RANK("0") },
	{ U1("(6,)"), 6, -EINVAL, NO_RANK("1") },
	{ U1("(1, 1, 1, 2, 3)"), 6, -EINVAL, NO_RANK("5") },
	{ U1("(2, 1, 3)"), 6, -EINVAL,
	  "f: dimension 0 is 2: those before the last two are 1" },
	{ U1("(1, 8, 2, 3)"), 48, -EINVAL,
	  "f: dimension 1 is 8: those before the last two are 1" },
	{ U1("(0, 3)"), 0, -EINVAL, "f is empty: dimension 0 is 0" },
	{ U1("(1, 3, 0)"), 0, -EINVAL, "f is empty: dimension 2 is 0" },
	{ U1("6"), 6, -EINVAL, NO_TUPLE },
	{ U1("(6)"), 6, -EINVAL, NO_TUPLE },
	{ U1("[2, 3]"), 6, -EINVAL, NO_TUPLE },
	{ U1("(2 3)"), 6, -EINVAL, NO_TUPLE },
	{ U1("(2, 3"), 6, -EINVAL, NO_NUMBERS },
	{ "{'shape': (2, 3", 6, -EINVAL, NO_TUPLE },
	{ U1("(,)"), 6, -EINVAL, NO_NUMBERS },
	{ U1("(2, -3)"), 6, -EINVAL, NO_NUMBERS },
	{ U1("(2, x)"), 6, -EINVAL, NO_NUMBERS },
	{ U1("(2.0, 3)"), 6, -EINVAL, NO_TUPLE },
	{ U1("(18446744073709551616, 3)"), 6, -EOVERFLOW,
	  "f: its shape comes to 2^64 bytes or more" },
	{ U1("(4294967296, 4294967296)"), 6, -EOVERFLOW,
	  "f: its shape comes to 2^64 bytes or more" },
	{ NPY("<f4", "False", "(4294967296, 1073741824)"), 6, -EOVERFLOW,
	  "f: its shape comes to 2^64 bytes or more" },
	{ U1("(2, 3)"), 5, -ENODATA,
	  "f is truncated: its data has 6 bytes, the file holds 5 of them" },
	{ U1("(2, 3)"), 7, -EINVAL, "f: 1 bytes follow the 6 of its data" },
};

static void lies_are_refused(void)
{
	for (size_t i = 0; i < COUNT(lies); i++) {
		struct gm_mask_tensor t = { .rank = 77 };
		struct gm_plan_error err = { 0 };

		if (!EQ(take(lies[i].header, lies[i].data_bytes, &t, &err),
			lies[i].code) ||
		    !STR(err.text, lies[i].error))
			NOTE("of %s", lies[i].header);
		OK(err.remedy[0] != '\0' && t.rank == 77);
	}
}

/* Each of them is malformed, whatever is cut; nothing past it is read. */
static void any_part_of_a_header_is_refused(void)
{
	static const char whole[] = "{'descr': '|u1', 'fortran_order': False, "
				    "'shape': (2, 3), }";
	struct gm_mask_tensor t;
	int taken = 0;

	for (size_t n = 0; n < strlen(whole); n++) {
		char *part = malloc(n + (n == 0));

		if (!OK(part))
			return;
		memcpy(part, whole, n);
		taken += gm_npy_header("f", part, n, 6, &t, NULL) == 0;
		free(part);
	}
	EQ(taken, 0);
	EQ(take(whole, 6, &t, NULL), 0);
}

TAP_CASE()
{
	prologs_are_checked();
	what_numpy_writes_is_taken();
	each_dtype_is_known();
	other_writers_are_taken_too();
	lies_are_refused();
	any_part_of_a_header_is_refused();
	return tap_done();
}
