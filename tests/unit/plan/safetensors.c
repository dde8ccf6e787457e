/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* safetensors: headers that are taken, headers that lie, and the words. */

#include <errno.h>

#include "agent/plan/safetensors.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int take(const char *header, uint64_t data_bytes,
		struct gm_tensors *tensors, struct gm_plan_error *err)
{
	return gm_safetensors_header(&(struct gm_file_header){ "f", header,
							       strlen(header),
							       data_bytes },
				     3, tensors, err);
}

static void tensors_come_in_the_order_of_their_data(void)
{
	static const char header[] =
		"{\"__metadata__\":{\"format\":\"pt\"},"
		"\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],"
		"\"data_offsets\":[4,28]},"
		"\"empty\":{\"dtype\":\"I8\",\"shape\":[0,7],"
		"\"data_offsets\":[28,28]},"
		"\"a\":{\"dtype\":\"BF16\",\"shape\":[2],"
		"\"data_offsets\":[0,4],\"later\":true}}   ";
	struct gm_tensors t = { 0 };

	EQ(take(header, 28, &t, NULL), 0);
	if (!EQ(t.n, 3))
		return;
	STR(t.v[0].name, "a");
	EQ(t.v[0].bytes, 4);
	EQ(t.v[0].shard, 3);
	STR(gm_safetensors_dtype(t.v[0].dtype), "BF16");
	STR(t.v[1].name, "b");
	EQ(t.v[1].begin, 4);
	EQ(t.v[1].bytes, 24);
	STR(t.v[2].name, "empty");
	EQ(t.v[2].bytes, 0);
	gm_safetensors_free(&t);
}

static void every_dtype_has_its_size(void)
{
	static const struct {
		const char *dtype;
		int bytes_of_eight;
	} table[] = {
		{ "F64", 64 },        { "F32", 32 },    { "F16", 16 },
		{ "BF16", 16 },       { "F8_E4M3", 8 }, { "F8_E5M2", 8 },
		{ "F8_E8M0", 8 },     { "F6_E2M3", 6 }, { "F6_E3M2", 6 },
		{ "F4", 4 },          { "BOOL", 8 },    { "U8", 8 },
		{ "I8", 8 },          { "U16", 16 },    { "I16", 16 },
		{ "U32", 32 },        { "I32", 32 },    { "U64", 64 },
		{ "I64", 64 },        { "C64", 64 },    { "F8_E4M3FNUZ", 8 },
		{ "F8_E5M2FNUZ", 8 },
	};

	EQ(COUNT(table), GM_SAFETENSORS_DTYPES);
	for (size_t i = 0; i < COUNT(table); i++) {
		struct gm_tensors t = { 0 };
		char header[256];

		snprintf(header, sizeof(header),
			 "{\"t\":{\"dtype\":\"%s\",\"shape\":[2,4],"
			 "\"data_offsets\":[0,%d]}}",
			 table[i].dtype, table[i].bytes_of_eight);
		EQ(take(header, (uint64_t)table[i].bytes_of_eight, &t, NULL),
		   0);
		if (t.n == 1)
			STR(gm_safetensors_dtype(t.v[0].dtype), table[i].dtype);
		gm_safetensors_free(&t);
	}
	OK(gm_safetensors_dtype(GM_SAFETENSORS_DTYPES) == NULL);
}

#define T(name, dtype, shape, begin, end)                            \
	"\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape "," \
	"\"data_offsets\":[" #begin "," #end "]}"

static const struct {
	const char *header;
	uint64_t data_bytes;
	int code;
	const char *error;
} lies[] = {
	{ "", 0, -EINVAL,
	  "f is not a safetensors file: its header does not begin "
	  "with '{'" },
	{ " {}", 0, -EINVAL,
	  "f is not a safetensors file: its header does not begin "
	  "with '{'" },
	{ "[]", 0, -EINVAL,
	  "f is not a safetensors file: its header does not begin "
	  "with '{'" },
	{ "{", 0, -EINVAL, NULL },
	{ "{}x", 0, -EINVAL, NULL },
	{ "{\"a\":1}", 0, -EINVAL, "f: tensor a: its entry is not an object" },
	{ "{\"__metadata__\":[]}", 0, -EINVAL,
	  "f: tensor __metadata__: it is not an object" },
	{ "{" T("a", "U8", "[1]", 0, 1) "," T("a", "U8", "[1]", 1, 2) "}", 2,
	  -EINVAL, NULL },
	{ "{\"a\":{\"dtype\":8,\"shape\":[],\"data_offsets\":[0,1]}}", 1,
	  -EINVAL, "f: tensor a: its dtype is not a string" },
	{ "{\"a\":{\"shape\":[],\"data_offsets\":[0,1]}}", 1, -EINVAL,
	  "f: tensor a: its dtype is not a string" },
	{ "{" T("a", "Q4_0", "[1]", 0, 1) "}", 1, -EINVAL,
	  "f: tensor a: unknown dtype Q4_0" },
	{ "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, -EINVAL,
	  "f: tensor a: its shape is not a list" },
	{ "{" T("a", "U8", "[-1]", 0, 1) "}", 1, -EINVAL,
	  "f: tensor a: its shape is not all whole numbers" },
	{ "{" T("a", "U8", "[1.0]", 0, 1) "}", 1, -EINVAL,
	  "f: tensor a: its shape is not all whole numbers" },
	{ "{" T("a", "U8", "[9223372036854775808]", 0, 1) "}", 1, -EINVAL,
	  NULL },
	{ "{" T("a", "F4", "[3]", 0, 2) "}", 2, -EINVAL,
	  "f: tensor a: it ends within a byte" },
	{ "{" T("a", "F64", "[4294967296,4294967296]", 0, 8) "}", 8, -EOVERFLOW,
	  "f: tensor a: its shape comes to 2^64 bits or more" },
	/* A zero later does not undo an overflow. */
	{ "{" T("a", "U8", "[4294967296,4294967296,0]", 0, 0) "}", 0,
	  -EOVERFLOW, "f: tensor a: its shape comes to 2^64 bits or more" },
	{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, -EINVAL,
	  "f: tensor a: its data_offsets are not two whole numbers" },
	{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],"
	  "\"data_offsets\":[0,1,2]}}",
	  1, -EINVAL,
	  "f: tensor a: its data_offsets are not two whole numbers" },
	{ "{" T("a", "U8", "[1]", -1, 0) "}", 1, -EINVAL,
	  "f: tensor a: its data_offsets are not two whole numbers" },
	{ "{" T("a", "U8", "[1]", 2, 1) "}", 2, -EINVAL,
	  "f: tensor a: it ends before it begins" },
	{ "{" T("a", "F16", "[3]", 0, 4) "}", 4, -EINVAL,
	  "f: tensor a: dtype and shape come to 6 bytes, its "
	  "data_offsets to 4" },
	{ "{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[4]", 2, 6) "}", 6,
	  -EINVAL,
	  "f: tensor b overlaps another: it begins at data byte 2, the "
	  "one before ends at 4" },
	{ "{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[4]", 0, 4) "}", 4,
	  -EINVAL, NULL },
	{ "{" T("a", "U8", "[4]", 4, 8) "}", 8, -EINVAL,
	  "f: gap before tensor a: data bytes 0 to 4 belong to no "
	  "tensor" },
	{ "{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[2]", 6, 8) "}", 8,
	  -EINVAL,
	  "f: gap before tensor b: data bytes 4 to 6 belong to no "
	  "tensor" },
	{ "{" T("a", "U8", "[4]", 0, 4) "}", 8, -EINVAL,
	  "f: gap after the last tensor: data bytes 4 to 8 belong to "
	  "no tensor" },
	{ "{}", 8, -EINVAL,
	  "f: gap after the last tensor: data bytes 0 to 8 belong to "
	  "no tensor" },
	{ "{" T("a", "U8", "[4]", 100, 104) "}", 8, -EINVAL,
	  "f: tensor a leaves the file: it ends at data byte 104 of "
	  "8" },
	{ "{" T("a", "U8", "[9223372036854775807]", 0, 9223372036854775807) "}",
	  8, -EOVERFLOW, "f: tensor a: its shape comes to 2^64 bits or more" },
	{ "{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[4]", 4, 8) "}", 7,
	  -ENODATA,
	  "f is truncated: its tensors have 8 bytes, the file holds 7 "
	  "of them" },
};

static void headers_that_lie_are_refused(void)
{
	for (size_t i = 0; i < COUNT(lies); i++) {
		struct gm_plan_error err = { 0 };
		struct gm_tensors t = { 0 };

		EQ(take(lies[i].header, lies[i].data_bytes, &t, &err),
		   lies[i].code);
		EQ(err.code, lies[i].code);
		if (lies[i].error)
			STR(err.text, lies[i].error);
		else
			OK(strncmp(err.text, "f", 1) == 0);
		OK(err.remedy[0] != '\0');
		EQ(t.n, 0);
		gm_safetensors_free(&t);
	}
}

static void a_refused_header_leaves_the_list_as_it_was(void)
{
	struct gm_tensors t = { 0 };

	EQ(take("{" T("first", "U8", "[1]", 0, 1) "}", 1, &t, NULL), 0);
	EQ(take("{" T("x", "U8", "[1]", 0, 1) "," T("y", "U8", "[1]", 5, 6) "}",
		6, &t, NULL),
	   -EINVAL);
	if (EQ(t.n, 1))
		STR(t.v[0].name, "first");
	gm_safetensors_free(&t);
}

static void names_in_messages_are_printable(void)
{
	struct gm_plan_error err = { 0 };
	struct gm_tensors t = { 0 };

	EQ(take("{\"a\\n\\u001b[2J\":0}", 0, &t, &err), -EINVAL);
	STR(err.text, "f: tensor a??[2J: its entry is not an object");
}

static void the_length_word_is_checked_first(void)
{
	static const struct {
		const char *raw;
		uint64_t file_bytes;
		int code;
		uint64_t bytes;
		const char *error;
	} table[] = {
		{ "\2\0\0\0\0\0\0", 10, 0, 2, "" },
		{ "\1\2\0\0\0\0\0", 1000, 0, 0x201, "" },
		{ "\0\0\100\6\0\0\0", UINT64_MAX, 0, GM_SAFETENSORS_HEADER,
		  "" },
		{ "\1\0\100\6\0\0\0", UINT64_MAX, -EFBIG, 0,
		  "f: a header of 104857601 bytes is longer than the 104857600 "
		  "allowed" },
		{ "\377\377\377\377\377\377\377\377", 9, -EFBIG, 0,
		  "f: a header of 18446744073709551615 bytes is longer than "
		  "the 104857600 allowed" },
		{ "\3\0\0\0\0\0\0", 10, -ENODATA, 0,
		  "f is truncated: its header has 3 bytes, the file holds 2 of "
		  "them" },
		{ "\1\0\0\0\0\0\0", 8, -ENODATA, 0,
		  "f is truncated: its header has 1 bytes, the file holds 0 of "
		  "them" },
		{ "version https://", 130, -EINVAL, 0,
		  "f is a Git LFS pointer, not the file it stands for" },
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		struct gm_plan_error err = { 0 };
		uint64_t bytes = 0;

		EQ(gm_safetensors_length("f", table[i].raw, table[i].file_bytes,
					 &bytes, &err),
		   table[i].code);
		OK(bytes == table[i].bytes);
		STR(err.text, table[i].error);
	}
}

TAP_CASE()
{
	tensors_come_in_the_order_of_their_data();
	every_dtype_has_its_size();
	headers_that_lie_are_refused();
	a_refused_header_leaves_the_list_as_it_was();
	names_in_messages_are_printable();
	the_length_word_is_checked_first();
	return tap_done();
}
