/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* json_scan: names of tensors with escapes of every kind. */

#include "lib/checkpoint/json_scan.h"
#include "tests/support/tap.h"

/* The string of @json, or NULL. */
static const char *string_of(const char *json)
{
	static char text[128];
	struct gm_scan scan;
	char *string = NULL;
	size_t n = strlen(json);

	memcpy(text, json, n);
	scan = gm_scan_begin(text, n);
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

TAP_CASE()
{
	escapes_are_decoded();
	bytes_stay_as_they_are();
	strings_that_are_none_are_refused();
	return tap_done();
}
