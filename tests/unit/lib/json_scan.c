/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * json_scan: names of tensors with escapes of every kind, numbers, and what
 * Python takes for JSON besides.
 */

#include "lib/model/checkpoint/json_scan.h"
#include "tests/support/tap.h"

static bool python;

static struct gm_scan scan_of(const char *json)
{
	static char text[128];
	size_t n = strlen(json);
	struct gm_scan scan = gm_scan_begin(text, n);

	memcpy(text, json, n);
	scan.python = python;
	return scan;
}

/* The string of @json, or NULL. */
static const char *string_of(const char *json)
{
	struct gm_scan scan = scan_of(json);
	char *string = NULL;

	if (!gm_json_scan_string(&scan, &string) || !gm_json_scan_at_end(&scan))
		return NULL;
	return string;
}

static void escapes_are_decoded(void)
{
	STR(string_of("\"a\\n\\\"\\/\\\\\""), "a\n\"/\\");
	STR(string_of("\"\\u0041\\u007f\""), "A\x7f");
	/* two, three and four bytes of UTF-8, each from its first to its last
	 * code */
	STR(string_of("\"\\u0080\\u07ff\""), "\xc2\x80\xdf\xbf");
	STR(string_of("\"\\u0800\\uFFFF\""), "\xe0\xa0\x80\xef\xbf\xbf");
	STR(string_of("\"\\ud800\\udc00\""), "\xf0\x90\x80\x80");
	STR(string_of("\"\\ud83d\\ude00\""), "\xf0\x9f\x98\x80");
	STR(string_of("\"\\uDBFF\\uDFFF\""), "\xf4\x8f\xbf\xbf");
}

static void bytes_stay_as_they_are(void)
{
	STR(string_of("\"\xc2\x80\xe2\x82\xac\xf0\x9f\x98\x80\""),
	    "\xc2\x80\xe2\x82\xac\xf0\x9f\x98\x80");
}

static void strings_that_are_none_are_refused(void)
{
	static const char *const wrong[] = {
		"\"\\u0000\"",        /* a NUL would end the name */
		"\"\\ud83d\"",        /* half a pair */
		"\"\\ud83d\\u0041\"", /* another half */
		"\"\\ude00\\ud83d\"", /* the wrong way round */
		"\"\\u12g4\"",          "\"\\u123", "\"\\x\"", "\"\n\"", "\"a",
		"\"\xc0\x80\"",         /* not the shortest */
		"\"\xe0\x9f\xbf\"",     /* likewise */
		"\"\xf0\x8f\xbf\xbf\"", /* likewise */
		"\"\xed\xa0\x80\"",     /* a surrogate */
		"\"\xf4\x90\x80\x80\"", /* beyond the last code */
		"\"\xe2\x82\"",
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (!OK(string_of(wrong[i]) == NULL))
			NOTE("%s", wrong[i]);
}

static void numbers_are_whole(void)
{
	static const struct {
		const char *json;
		bool is_number;
		uint64_t number;
	} table[] = {
		{ "0", true, 0 },
		{ "-0", true, 0 },
		{ "18446744073709551615", true, UINT64_MAX },
		{ "18446744073709551616", false, 0 },
		{ "-1", false, 0 },
		{ "1.0", false, 0 },
		{ "1e0", false, 0 },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct gm_scan scan = scan_of(table[i].json);
		uint64_t number = 0;

		EQ(gm_json_scan_number(&scan, &number), table[i].is_number);
		OK(number == table[i].number);
	}
}

/* Is it a value that can be skipped, with and without what Python adds? */
static void values_are_skipped(void)
{
	static const struct {
		const char *json;
		bool strict, python;
	} table[] = {
		{ "[1,-2.5e+3,true,false,null,{\"a\":[]}]", true, true },
		{ "\"\\u0000\"", true, true },
		{ "{\"\\u0000\":\"\\u0000\"}", true, true },
		{ "\"\\ud83d\\ude00\"", true, true },
		{ "\"\\ud83d\"", false, true },
		{ "{\"\\ud83d\\u0041\":\"\\ude00\"}", false, true },
		{ "\"\\ud83d\\u00\"", false, false },
		{ "[NaN,Infinity,-Infinity]", false, true },
		{ "nan", false, false },
		{ "-NaN", false, false },
		{ "+1", false, false },
		{ "01", false, false },
		{ "[1,]", false, false },
		{ "{\"a\"}", false, false },
		{ "\"\xed\xa0\x80\"", false, false },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct gm_scan scan;

		python = false;
		scan = scan_of(table[i].json);
		EQ(gm_json_scan_skip(&scan) && gm_json_scan_at_end(&scan),
		   table[i].strict);
		python = true;
		scan = scan_of(table[i].json);
		if (!EQ(gm_json_scan_skip(&scan) && gm_json_scan_at_end(&scan),
			table[i].python))
			NOTE("%s", table[i].json);
	}
	/* Neither a NUL nor half a pair makes two names the same. */
	STR(string_of("\"a\\u0000b\""), "a\xc0\x80"
					"b");
	STR(string_of("\"\\ud83d\\u0041\""), "\xed\xa0\xbd"
					     "A");
	python = false;
}

TAP_CASE()
{
	numbers_are_whole();
	values_are_skipped();
	escapes_are_decoded();
	bytes_stay_as_they_are();
	strings_that_are_none_are_refused();
	return tap_done();
}
