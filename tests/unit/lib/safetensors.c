/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* safetensors: headers that are taken, headers that lie, and the words. */

#include <errno.h>
#include <stdlib.h>

#include "lib/model/checkpoint/checkpoint.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Tensors of the file "f", whose data begin at byte 0. */
static struct gm_reason why;
static struct gm_weights ws = { .why = &why };

/* Take one more file's header. */
static int take(const char *header, uint64_t data_bytes)
{
	size_t n = strlen(header), first = ws.n;
	uint32_t file = ws.n_files;
	char *text = malloc(n + 1);
	int ret = gm_weights_add_file(&ws, "f");

	if (!OK(text != NULL && ret == 0))
		exit(1);
	ws.files[file].header = memcpy(text, header, n);
	ret = gm_weights_header(&ws, file, text, n, 0, data_bytes);
	if (ret == 0)
		gm_weights_keep_names(&ws, file, first);
	return ret;
}

static void forget(void)
{
	gm_weights_free(&ws);
	ws.why = &why;
}

/* The sentence is @text and a remedy. */
static void says(const char *text)
{
	size_t n = strlen(text);

	if (!OK(strncmp(why.text, text, n) == 0 &&
		strncmp(why.text + n, "; ", 2) == 0))
		NOTE("it says: %s", why.text);
}

static void tensors_come_in_the_order_of_their_data(void)
{
	static const char header[] =
		" {\"__metadata__\":{\"format\":\"pt\"},"
		"\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],"
		"\"data_offsets\":[4,28]},"
		"\"empty\":{\"dtype\":\"I8\",\"shape\":[0,7],"
		"\"data_offsets\":[28,28]},"
		"\"a\":{\"dtype\":\"BF16\",\"shape\":[2],"
		"\"data_offsets\":[0,4],\"later\":true}}   ";

	EQ(take(header, 28), 0);
	if (!EQ(ws.n, 3))
		return;
	STR(ws.v[0].name, "a");
	EQ(ws.v[0].bytes, 4);
	EQ(ws.v[0].file, 0);
	STR(gm_weights_type(ws.v[0].type), "BF16");
	STR(ws.v[1].name, "b");
	EQ(ws.v[1].begin, 4);
	EQ(ws.v[1].bytes, 24);
	EQ(ws.v[1].n_dims, 2);
	OK(ws.dims[ws.v[1].shape] == 2 && ws.dims[ws.v[1].shape + 1] == 3);
	STR(ws.v[2].name, "empty");
	EQ(ws.v[2].bytes, 0);
	forget();
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

	for (size_t i = 0; i < COUNT(table); i++) {
		char header[256];

		snprintf(header, sizeof(header),
			 "{\"t\":{\"dtype\":\"%s\",\"shape\":[2,4],"
			 "\"data_offsets\":[0,%d]}}",
			 table[i].dtype, table[i].bytes_of_eight);
		EQ(take(header, (uint64_t)table[i].bytes_of_eight), 0);
		if (ws.n == 1)
			STR(gm_weights_type(ws.v[0].type), table[i].dtype);
		forget();
	}
}

#define T(name, dtype, shape, begin, end)                            \
	"\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape "," \
	"\"data_offsets\":[" #begin "," #end "]}"

#define FOUR       T("a", "U8", "[4]", 0, 4)
#define WITH(more) "{\"a\":{\"dtype\":\"U8\",\"shape\":[4]," more "}}"
#define PLACE      "\"data_offsets\":[0,4]"
#define NO_JSON    "f: its header is not the JSON that it should be"
#define TOO_LARGE  "f: tensor a: its shape comes to 2^64 bits or more"

/* A header that one reader of the format takes and another refuses is as the
 * format's own library has it. */
static const struct {
	const char *header;
	uint64_t data_bytes;
	int code;
	const char *error;
} table[] = {
	{ "{}", 0, 0, "" },
	{ "{" FOUR "} \t\r\n", 4, 0, "" },
	/* The last of two entries counts, and of two values of a key that is
	 * not known. */
	{ "{" T("a", "U8", "[1]", 0, 1) "," FOUR "}", 4, 0, "" },
	{ WITH("\"x\":1,\"x\":[{}]," PLACE), 4, 0, "" },
	{ WITH("\"x\":\"\\u0000\"," PLACE), 4, 0, "" },
	{ "{\"__metadata__\":null," FOUR "}", 4, 0, "" },
	{ "{\"__metadata__\":{\"a\":1,\"a\":\"\\u0000\"}," FOUR "}", 4, 0, "" },
	{ "{" FOUR "," T("b", "U8", "[0]", 0, 0) "}", 4, 0, "" },
	{ "{" T("", "U8", "[]", 0, 1) "}", 1, 0, "" },
	{ "{" T("a", "U8", "[2305843009213693951,0]", 0, 0) "}", 0, 0, "" },
	{ "{" T("a", "F64", "[18446744073709551615,0]", 0, 0) "}", 0, 0, "" },
	{ "{" T("a", "F64", "[0,18446744073709551615]", 0, 0) "}", 0, 0, "" },
	{ "", 0, -EINVAL, NO_JSON },
	{ "[]", 0, -EINVAL, NO_JSON },
	{ "{", 0, -EINVAL, NO_JSON },
	{ "{}x", 0, -EINVAL, NO_JSON },
	{ "\xef\xbb\xbf{}", 0, -EINVAL, NO_JSON },
	{ "{\"\xff\":1}", 0, -EINVAL, NO_JSON },
	{ "{" T("\\u0000", "U8", "[]", 0, 1) "}", 1, -EINVAL, NO_JSON },
	{ "{" T("\\ud800", "U8", "[]", 0, 1) "}", 1, -EINVAL, NO_JSON },
	{ WITH("\"x\":NaN," PLACE), 4, -EINVAL, NO_JSON },
	{ WITH("\"x\":\"\\ud800\"," PLACE), 4, -EINVAL, NO_JSON },
	{ "{\"__metadata__\":[]}", 0, -EINVAL, NO_JSON },
	{ "{\"__metadata__\":3}", 0, -EINVAL, NO_JSON },
	{ "{\"__metadata__\":\"null\"}", 0, -EINVAL, NO_JSON },
	{ "{\"__metadata__\":{},\"__metadata__\":{}}", 0, -EINVAL, NO_JSON },
	{ "{\"a\":1}", 0, -EINVAL, "f: tensor a: its entry is not an object" },
	{ "{\"a\":{}}", 0, -EINVAL,
	  "f: tensor a: its dtype, its shape or its data_offsets are missing" },
	{ "{\"a\":{\"shape\":[]," PLACE "}}", 4, -EINVAL,
	  "f: tensor a: its dtype, its shape or its data_offsets are missing" },
	{ "{\"a\":{\"dtype\":\"U8\"," PLACE "}}", 4, -EINVAL,
	  "f: tensor a: its dtype, its shape or its data_offsets are missing" },
	{ WITH("\"x\":1"), 4, -EINVAL,
	  "f: tensor a: its dtype, its shape or its data_offsets are missing" },
	{ WITH("\"dtype\":\"U8\"," PLACE), 4, -EINVAL,
	  "f: tensor a: it says something twice" },
	{ "{\"a\":{\"dtype\":8,\"shape\":[4]," PLACE "}}", 4, -EINVAL,
	  "f: tensor a: its dtype is not a string" },
	{ "{" T("a", "U9", "[4]", 0, 4) "}", 4, -EINVAL,
	  "f: tensor a has the dtype U9, which is none of the format's" },
	{ "{" T("a", "Q4_0", "[1]", 0, 1) "}", 1, -EINVAL,
	  "f: tensor a has the dtype Q4_0, which is none of the format's" },
	{ "{" T("a", "U8", "4", 0, 4) "}", 4, -EINVAL,
	  "f: tensor a: its shape is not a list" },
	{ "{" T("a", "U8", "[-1]", 0, 1) "}", 1, -EINVAL,
	  "f: tensor a: its shape is not all whole numbers" },
	{ "{" T("a", "U8", "[1.0]", 0, 1) "}", 1, -EINVAL,
	  "f: tensor a: its shape is not all whole numbers" },
	{ "{" T("a", "U8", "[0,18446744073709551616]", 0, 0) "}", 0, -EINVAL,
	  "f: tensor a: its shape is not all whole numbers" },
	{ "{" T("a", "F4", "[3]", 0, 2) "}", 2, -EINVAL,
	  "f: tensor a: it ends within a byte" },
	{ "{" T("a", "F64", "[4294967296,4294967296]", 0, 8) "}", 8, -EINVAL,
	  TOO_LARGE },
	/* A zero later does not undo an overflow. */
	{ "{" T("a", "U8", "[4294967296,4294967296,0]", 0, 0) "}", 0, -EINVAL,
	  TOO_LARGE },
	{ "{" T("a", "U8", "[9223372036854775807]", 0, 9223372036854775807) "}",
	  8, -EINVAL, TOO_LARGE },
	{ WITH("\"data_offsets\":[0,1,2]"), 1, -EINVAL,
	  "f: tensor a: its data_offsets are not two whole numbers" },
	{ "{" T("a", "U8", "[1]", -1, 0) "}", 1, -EINVAL,
	  "f: tensor a: its data_offsets are not two whole numbers" },
	{ "{" T("a", "U8", "[4]", 4, 0) "}", 4, -EINVAL,
	  "f: tensor a: it ends before it begins" },
	{ "{" T("a", "F16", "[3]", 0, 4) "}", 4, -EINVAL,
	  "f: tensor a: dtype and shape come to another size than its "
	  "data_offsets" },
	{ "{" FOUR "," T("b", "U8", "[4]", 2, 6) "}", 6, -EINVAL,
	  "f: tensor b: it overlaps another" },
	{ "{" FOUR "," T("b", "U8", "[4]", 0, 4) "}", 4, -EINVAL, NULL },
	{ "{" FOUR "," T("b", "U8", "[0]", 2, 2) "}", 4, -EINVAL,
	  "f: tensor b: it overlaps another" },
	{ "{" T("a", "U8", "[4]", 4, 8) "}", 8, -EINVAL,
	  "f: tensor a: there is a gap before it" },
	{ "{" T("a", "U8", "[4]", 100, 104) "}", 8, -EINVAL,
	  "f: tensor a: there is a gap before it" },
	{ "{" T("a", "U8", "[1]", 0, 1) "," T("a", "U8", "[1]", 1, 2) "}", 2,
	  -EINVAL, "f: tensor a: there is a gap before it" },
	{ "{" FOUR "," T("b", "U8", "[2]", 6, 8) "}", 8, -EINVAL,
	  "f: tensor b: there is a gap before it" },
	{ "{" FOUR "}", 8, -EINVAL,
	  "f: 4 bytes behind its last tensor belong to none" },
	{ "{}", 8, -EINVAL,
	  "f: 8 bytes behind its last tensor belong to none" },
	{ "{" FOUR "," T("b", "U8", "[4]", 4, 8) "}", 7, -ENODATA,
	  "f is truncated: its tensors have 8 bytes, the file holds 7 of "
	  "them" },
	{ "{\"a\\n\\u001b[2J\":0}", 0, -EINVAL,
	  "f: tensor a??[2J: its entry is not an object" },
};

static void headers_are_taken_or_refused(void)
{
	for (size_t i = 0; i < COUNT(table); i++) {
		if (!EQ(take(table[i].header, table[i].data_bytes),
			table[i].code))
			NOTE("%s: %s", table[i].header, why.text);
		if (table[i].code == 0)
			STR(why.text, "");
		else if (table[i].error != NULL)
			says(table[i].error);
		OK(table[i].code == 0 || ws.n == 0);
		forget();
	}
}

/* Containers in a value that is skipped: as many as Python reads. */
static void depth_is_bounded(void)
{
	static char header[4096];

	for (int depth = 1000; depth <= 1001; depth++) {
		char *at = header + sprintf(header, "{\"a\":{\"x\":");

		memset(at, '[', (size_t)depth);
		memset(at + depth, ']', (size_t)depth);
		strcpy(at + 2 * depth,
		       ",\"dtype\":\"U8\",\"shape\":[4]," PLACE "}}");
		EQ(take(header, 4), depth == 1000 ? 0 : -EINVAL);
		forget();
	}
}

static void a_refused_header_leaves_the_list_as_it_was(void)
{
	EQ(take("{" T("first", "U8", "[1]", 0, 1) "}", 1), 0);
	EQ(take("{" T("x", "U8", "[1]", 0, 1) "," T("y", "U8", "[1]", 5, 6) "}",
		6),
	   -EINVAL);
	if (EQ(ws.n, 1))
		STR(ws.v[0].name, "first");
	EQ(ws.n_dims, 1);
	forget();
}

static void the_length_word_is_checked_first(void)
{
	static const struct {
		const char *raw;
		uint64_t file_bytes;
		int code;
		uint64_t bytes;
		const char *error;
	} lengths[] = {
		{ "\2\0\0\0\0\0\0", 10, 0, 2, "" },
		{ "\1\2\0\0\0\0\0", 1000, 0, 0x201, "" },
		{ "\0\0\100\6\0\0\0", UINT64_MAX, 0, GM_WEIGHTS_HEADER, "" },
		{ "\1\0\100\6\0\0\0", UINT64_MAX, -EINVAL, 0,
		  "f is not a safetensors file: its header would have "
		  "104857601 bytes" },
		{ "\377\377\377\377\377\377\377\377", 9, -EINVAL, 0,
		  "f is not a safetensors file: its header would have "
		  "18446744073709551615 bytes" },
		{ "\3\0\0\0\0\0\0", 10, -ENODATA, 0,
		  "f is truncated: its header has 3 bytes, the file holds 2 of "
		  "them" },
		{ "\1\0\0\0\0\0\0", 8, -ENODATA, 0,
		  "f is truncated: its header has 1 bytes, the file holds 0 of "
		  "them" },
		{ "version https://", 130, -EINVAL, 0,
		  "f is a Git LFS pointer, not the file that it stands for" },
		{ "GGUF....", 130, -EINVAL, 0,
		  "f is a GGUF file and not named so" },
	};

	for (size_t i = 0; i < COUNT(lengths); i++) {
		uint64_t bytes = 0;

		EQ(gm_weights_length(&ws, "f", lengths[i].raw,
				     lengths[i].file_bytes, &bytes),
		   lengths[i].code);
		OK(bytes == lengths[i].bytes);
		if (lengths[i].code != 0)
			says(lengths[i].error);
	}
}

TAP_CASE()
{
	tensors_come_in_the_order_of_their_data();
	every_dtype_has_its_size();
	headers_are_taken_or_refused();
	depth_is_bounded();
	a_refused_header_leaves_the_list_as_it_was();
	the_length_word_is_checked_first();
	return tap_done();
}
