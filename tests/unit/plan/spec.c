/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* spec: every accepted form, every refused one, and its words. */

#include <errno.h>
#include <stdlib.h>

#include "lib/model/plan/spec.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void accepted_forms_print_in_the_long_form(void)
{
	static const struct {
		const char *text, *printed;
	} table[] = {
		{ "0:16;1:16", "0:16;1:16" },
		{ "1:16;0:16", "1:16;0:16" },
		{ "3:7", "3:7" },
		{ "12", "0:12" },
		{ "+12", "0:12" },
		{ "0", "0:0" },
		{ "007", "0:7" },
		{ "+0:+16;01:0016", "0:16;1:16" },
		{ "0:0;1:32", "0:0;1:32" },
		{ "18446744073709551615", "0:18446744073709551615" },
		{ "18446744073709551615:18446744073709551615",
		  "18446744073709551615:18446744073709551615" },
		{ "000000000000000000000000000018446744073709551615:1",
		  "18446744073709551615:1" },
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		struct gm_plan_error err = { 0 };
		struct gm_spec spec = { 0 };
		char *printed = NULL;

		EQ(gm_spec_parse(table[i].text, &spec, &err), 0);
		OK(!spec.is_auto);
		EQ(gm_spec_print(&spec, &printed), 0);
		STR(printed, table[i].printed);
		STR(err.text, "");
		free(printed);
		gm_spec_free(&spec);
	}
}

static void refused_forms_say_what_was_met(void)
{
	static const struct {
		const char *text, *error;
	} table[] = {
		{ "", "Expected layer to be of format ORD:NUM, got " },
		{ "x", "Expected layer to be of format ORD:NUM, got x" },
		{ " 5", "Expected layer to be of format ORD:NUM, got  5" },
		{ "5 ", "Expected layer to be of format ORD:NUM, got 5 " },
		{ "-5", "Expected layer to be of format ORD:NUM, got -5" },
		{ "+", "Expected layer to be of format ORD:NUM, got +" },
		{ "0x10", "Expected layer to be of format ORD:NUM, got 0x10" },
		{ "5;6", "Expected layer to be of format ORD:NUM, got 5" },
		{ "5;", "Expected layer to be of format ORD:NUM, got 5" },
		{ ";", "Expected layer to be of format ORD:NUM, got " },
		{ "0:16;", "Expected layer to be of format ORD:NUM, got " },
		{ ";0:16", "Expected layer to be of format ORD:NUM, got " },
		{ "0:16;;1:16",
		  "Expected layer to be of format ORD:NUM, got " },
		{ "0:16,1:16", "Failed to parse 16,1:16 as integer." },
		{ "18446744073709551616", "Expected layer to be of format "
					  "ORD:NUM, got 18446744073709551616" },
		{ "99999999999999999999:1",
		  "Failed to parse 99999999999999999999 as integer." },
		{ "0:18446744073709551616",
		  "Failed to parse 18446744073709551616 as integer." },
		{ ":16", "Failed to parse  as integer." },
		{ "0:", "Failed to parse  as integer." },
		{ ":", "Failed to parse  as integer." },
		{ "0:3:4", "Failed to parse 3:4 as integer." },
		{ "-1:4", "Failed to parse -1 as integer." },
		{ "0:-4", "Failed to parse -4 as integer." },
		{ "++1:4", "Failed to parse ++1 as integer." },
		{ "0: 4", "Failed to parse  4 as integer." },
		{ "0 :4", "Failed to parse 0  as integer." },
		{ "cpu:4", "Failed to parse cpu as integer." },
		{ "0:4.0", "Failed to parse 4.0 as integer." },
		{ "0:1e3", "Failed to parse 1e3 as integer." },
		{ "x:y", "Failed to parse x as integer." },
		{ "0:\n4", "Failed to parse ?4 as integer." },
		{ "0:4;0:4", "Duplicate ordinal 0" },
		{ "1:4;+01:4", "Duplicate ordinal 1" },
		/* The number is looked at before the duplicate. */
		{ "0:4;0:y", "Failed to parse y as integer." },
		/* The first bad entry is the one that is told. */
		{ "0:4;0:4;bad", "Duplicate ordinal 0" },
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		struct gm_plan_error err = { 0 };
		struct gm_spec spec = { .n_entries = 77 };

		EQ(gm_spec_parse(table[i].text, &spec, &err), -EINVAL);
		EQ(err.code, -EINVAL);
		STR(err.text, table[i].error);
		OK(err.remedy[0] != '\0');
		EQ(spec.n_entries, 77);
	}
}

static char *spec_of(uint32_t entries)
{
	char *text = malloc(entries * 16), *end = text;

	for (uint32_t i = 0; text && i < entries; i++)
		end += sprintf(end, "%s%u:1", i ? ";" : "", i);
	return text;
}

static void more_entries_than_the_limit_are_refused(void)
{
	char *most = spec_of(GM_SPEC_ENTRIES);
	char *more = spec_of(GM_SPEC_ENTRIES + 1);
	struct gm_plan_error err = { 0 };
	struct gm_spec spec = { 0 };

	if (!OK(most && more))
		return;
	EQ(gm_spec_parse(most, &spec, &err), 0);
	EQ(spec.n_entries, GM_SPEC_ENTRIES);
	gm_spec_free(&spec);
	EQ(gm_spec_parse(more, &spec, &err), -E2BIG);
	STR(err.text, "The spec has 4097 entries, at most 4096 are allowed");
	free(most);
	free(more);
}

static void a_long_entry_is_cut_in_the_message(void)
{
	struct gm_plan_error err = { 0 };
	struct gm_spec spec = { 0 };
	char text[4096];

	memset(text, 'z', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	EQ(gm_spec_parse(text, &spec, &err), -EINVAL);
	EQ(strlen(err.text),
	   strlen("Expected layer to be of format ORD:NUM, got ") + 200);
}

TAP_CASE()
{
	accepted_forms_print_in_the_long_form();
	refused_forms_say_what_was_met();
	more_entries_than_the_limit_are_refused();
	a_long_entry_is_cut_in_the_message();
	return tap_done();
}
