/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* topology: what is accepted, what wins, what is refused and how. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/files/topology_file.h"
#include "tests/support/dice.h"
#include "tests/support/tap.h"
#include "tests/support/topology_entries.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int parse(const char *text, struct gm_topology *t,
		 struct gm_plan_error *err)
{
	return gm_topology_file_parse(text, strlen(text), t, err);
}

/* "Q4K cuda[1]" of @entry, "-" for what is unset, "none" for no entry. */
static const char *show(const struct gm_topology_entry *entry)
{
	static char text[64];
	char location[LOCATION_TEXT];

	if (!entry)
		return "none";
	snprintf(text, sizeof(text), "%s %s",
		 entry->has_isq ? gm_isq_name(entry->isq) : "-",
		 entry->has_device ? topology_location(&entry->device, location)
				   : "-");
	return text;
}

static void all_forms_are_read(void)
{
	static const char text[] = "# a comment\n"
				   "0-8:\n"
				   "  isq: Q3K\n"
				   "  device: cuda[00]\n"
				   "  note: [ignored, { too: yes }]\n"
				   "8: { isq: 4, device: 'metal[1]' }\n"
				   "'9-12':\n"
				   "  device: cpu\n"
				   "  isq: ~\n"
				   "+12-014: { device: }\n"
				   "/ffn.*weight/: { isq: q6k }\n"
				   "//: { device: 'cuda[1]' }\n"
				   "/^lm_head\\./:\n"
				   "  isq: \"8\"\n";
	struct gm_topology t = { 0 };

	if (!EQ(parse(text, &t, NULL), 0))
		return;
	EQ(t.n_ranges, 4);
	STR(show(topology_layer(&t, 0)), "Q3K cuda[0]");
	STR(show(topology_layer(&t, 7)), "Q3K cuda[0]");
	STR(show(topology_layer(&t, 8)), "Q4K metal[1]");
	STR(show(topology_layer(&t, 9)), "- cpu");
	STR(show(topology_layer(&t, 13)), "- -");
	STR(show(topology_layer(&t, 14)), "none");
	EQ(gm_topology_end(&t), 14);
	OK(gm_topology_places(&t));
	OK(t.pattern_has_isq);
	gm_topology_free(&t);
}

static void nothing_is_a_topology_too(void)
{
	static const char *const texts[] = { "", "# nothing\n", "{}", "---\n" };

	for (size_t i = 0; i < COUNT(texts); i++) {
		struct gm_topology t = { 0 };

		EQ(parse(texts[i], &t, NULL), 0);
		EQ(t.n_ranges, 0);
		OK(!t.pattern_has_isq);
		EQ(gm_topology_end(&t), 0);
		OK(!gm_topology_places(&t));
		STR(show(topology_layer(&t, 0)), "none");
		gm_topology_free(&t);
	}
}

static void the_higher_end_wins_then_the_later(void)
{
	struct gm_topology t = { 0 };

	EQ(parse("2-6: {isq: Q6K}\n0-4: {isq: Q4K, device: cpu}\n", &t, NULL),
	   0);
	STR(show(topology_layer(&t, 1)), "Q4K cpu");
	STR(show(topology_layer(&t, 2)), "Q6K -");
	STR(show(topology_layer(&t, 5)), "Q6K -");
	gm_topology_free(&t);
	EQ(parse("2-4: {isq: Q3K}\n0-4: {isq: Q4K}\n3: {isq: Q2K}\n", &t, NULL),
	   0);
	STR(show(topology_layer(&t, 2)), "Q4K -");
	STR(show(topology_layer(&t, 3)), "Q2K -");
	gm_topology_free(&t);
}

/* Written out layer by layer, as the rule is told. */
static bool chance_agrees(void)
{
	struct {
		unsigned int start, end, isq;
	} r[6], swap;
	char text[512] = "", *at = text;
	const char *want[12] = { 0 };
	static const char *const names[] = { "Q2K", "Q3K", "Q4K",
					     "Q5K", "Q6K", "Q8_0" };
	struct gm_topology t = { 0 };
	bool same = true;

	for (unsigned int i = 0; i < 6; i++) {
		r[i].start = (unsigned int)dice(10);
		r[i].end = r[i].start + 1 + (unsigned int)dice(3);
		r[i].isq = i;
		/* Zeros keep equal selectors apart. */
		at += sprintf(at, "%0*u-%u: {isq: %s}\n", (int)i + 1,
			      r[i].start, r[i].end, names[i]);
	}
	for (unsigned int i = 0; i < 6; i++)
		for (unsigned int j = 5; j > i; j--)
			if (r[j].end < r[j - 1].end) {
				swap = r[j];
				r[j] = r[j - 1];
				r[j - 1] = swap;
			}
	for (unsigned int i = 0; i < 6; i++)
		for (unsigned int l = r[i].start; l < r[i].end && l < 12; l++)
			want[l] = names[r[i].isq];
	if (parse(text, &t, NULL))
		return false;
	for (unsigned int l = 0; l < 12; l++) {
		const struct gm_topology_entry *e = topology_layer(&t, l);

		same = same &&
		       (e ? want[l] && strcmp(gm_isq_name(e->isq), want[l]) == 0
			  : !want[l]);
	}
	gm_topology_free(&t);
	return same;
}

static void chance_agrees_with_the_rule(void)
{
	int wrong = 0;

	for (int i = 0; i < 2000; i++)
		wrong += !chance_agrees();
	EQ(wrong, 0);
}

static void refused_entries_say_why(void)
{
	static const struct {
		const char *text, *error;
	} table[] = {
		{ "x: {}", "invalid digit found in string" },
		{ "-5: {}", "cannot parse integer from empty string" },
		{ "5-: {}", "cannot parse integer from empty string" },
		{ "+: {}", "invalid digit found in string" },
		{ "1-2-3: {}", "invalid digit found in string" },
		{ "1 -2: {}", "invalid digit found in string" },
		{ "\"\": {}", "cannot parse integer from empty string" },
		{ "/: {}", "invalid digit found in string" },
		{ "0-18446744073709551616: {}",
		  "number too large to fit in target type" },
		{ "18446744073709551615: {}",
		  "number too large to fit in target type" },
		{ "99999999999999999999x: {}",
		  "number too large to fit in target type" },
		{ "4-4: {}", "Topology range end must be > start, got 4 <= 4" },
		{ "9-4: {}", "Topology range end must be > start, got 4 <= 9" },
		{ "0: {device: 'cuda[]'}", "Device specifier must match" },
		{ "x: {device: gpu}",
		  "Device specifier must match regex "
		  "^(cpu|cuda\\[(\\d+)\\]|metal\\[(\\d+)\\])$. Examples: "
		  "`cpu`, `cuda[ORD]`, `metal[ORD]`" },
		{ "0: {device: 'cuda[99999999999999999999]'}",
		  "number too large to fit in target type" },
		{ "0: {device: 'cuda[1]x', isq: Q9}", "ISQ type Q9 unknown" },
		/* also where another range covers it, or in a pattern */
		{ "0: {device: 'cuda[1]', isq: Q8_1}\n0-4: {}",
		  "ISQ type on CUDA must be one of `Q4_0`, " },
		{ "/x/: {device: 'cuda[1]', isq: q8k}",
		  "ISQ type on CUDA must be one of `Q4_0`, " },
		{ "/(/: {}", "Invalid topology regex `(`: unmatched (" },
		{ "/a)/: {}", "Invalid topology regex `a)`: unmatched )" },
		{ "/(?:a/: {}", "Invalid topology regex `(?:a`: unmatched (" },
		{ "'/[a/': {}", "Invalid topology regex `[a`: unmatched [" },
		{ "/[z-a]/: {}", "Invalid topology regex `[z-a]`: a range" },
		{ "'/[\\d-z]/': {}",
		  "Invalid topology regex `[\\d-z]`: a range" },
		{ "/+a/: {}",
		  "Invalid topology regex `+a`: a quantifier of n" },
		{ "/a|*/: {}",
		  "Invalid topology regex `a|*`: a quantifier of n" },
		{ "'/({2})/': {}",
		  "Invalid topology regex `({2})`: a quantifi" },
		{ "'/a{2,1}/': {}",
		  "Invalid topology regex `a{2,1}`: a repeti" },
		{ "'/a{,2}/': {}", "Invalid topology regex `a{,2}`: a repeti" },
		{ "'/a{2/': {}", "Invalid topology regex `a{2`: a repetition" },
		{ "'/a{18446744073709551617}/': {}",
		  "Invalid topology regex `a{18446744073709551617}`: too" },
		{ "/a(?i)b/: {}", "Invalid topology regex `a(?i)b`: flags" },
		{ "/a\\1/: {}", "Invalid topology regex `a\\1`: an escape" },
		{ "/a{1001}/: {}", "Invalid topology regex `a{1001}`: too" },
		{ "/a**/: {}", "Invalid topology regex `a**`: a quantifier" },
		{ "/[[:alpha:]]/: {}", "Invalid topology regex `[[:alpha:]]`" },
		{ "/a\\/: {}", "Invalid topology regex `a\\`: trailing" },
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		struct gm_plan_error err = { 0 };
		struct gm_topology t = { .n_ranges = 7 };

		EQ(parse(table[i].text, &t, &err), -EINVAL);
		err.text[strlen(table[i].error)] = '\0';
		STR(err.text, table[i].error);
		EQ(t.n_ranges, 7);
	}
}

static void devices_are_spelt_exactly(void)
{
	static const char *const refused[] = {
		"",        "CPU",      "cpu ",      "cpu[0]",
		"cuda",    "cuda[",    "cuda[]",    "cuda[-1]",
		"cuda[1",  "cuda[1]]", "cuda[+1]",  "cuda [1]",
		"rocm[0]", "metal",    "cuda[1]\n", "cudametal[1]",
	};
	struct gm_location l = { 0 };

	for (size_t i = 0; i < COUNT(refused); i++)
		EQ(gm_topology_device_parse(refused[i], &l, NULL), -EINVAL);
	/* Nothing behind its end is read. */
	EQ(gm_topology_device_parse("cuda\0007]", &l, NULL), -EINVAL);
	EQ(gm_topology_device_parse("cuda[18446744073709551615]", &l, NULL), 0);
	OK(l.ordinal == UINT64_MAX);
}

static void yaml_beyond_need_is_refused(void)
{
	static const struct {
		const char *text, *error;
	} table[] = {
		{ "- 0-4", "Topology, line 1: it is not a mapping" },
		{ "0-4", "Topology, line 1: it is not a mapping" },
		{ "0: &a {isq: 4}\n1: *a", "Topology, line 2: aliases are" },
		{ "0: {isq: 4}\n---\n1: {}",
		  "Topology, line 2: more than one" },
		{ "0: cpu",
		  "Topology, line 1: an entry that is not a mapping" },
		{ "0:", "Topology, line 1: an entry that is not a mapping" },
		{ "0: {isq: [4]}",
		  "Topology, line 1: isq and device are words" },
		{ "0: {isq: 4, isq: 5}", "Topology, line 1: a key twice" },
		{ "0: {}\n1: {}\n0: {}",
		  "Topology: selector 0 is there twice" },
		{ "? [0]\n: {}", "Topology, line 1: a selector that is not" },
		{ "0: {x: [[[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]]}",
		  "Topology, line 1: nested too deep" },
		{ "0: {", "Topology, line" },
		{ "\xff: {}", "Topology, line" },
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		struct gm_plan_error err = { 0 };
		struct gm_topology t;

		EQ(parse(table[i].text, &t, &err), -EINVAL);
		err.text[strlen(table[i].error)] = '\0';
		STR(err.text, table[i].error);
	}
}

#define LOOPS "((^)*)*((^)*)*((^)*)*((^)*)*"

/* The last four keep a compiler busy for hours or take a gigabyte: only their
 * syntax is checked. */
static void patterns_are_not_compiled(void)
{
	static const char *const patterns[] = {
		"ffn",
		"layers\\.\\d+\\.mlp",
		"layers\\.[^\\d.]+$",
		"(?:q|k|v)_proj",
		"\\.(1[0-9]|2{1,2})\\.",
		"a+?b??c{2,}?",
		"\\bup\\b",
		"[]x-z-]",
		"^()$",
		"(|)[^a]|\\B|([a-z]|\\b(|b|c)*){30}|",
		"(a|b|c|d|e|f|g|h){999}",
		"((a?b?c?d?e?){20}){4,}",
		LOOPS LOOPS LOOPS LOOPS LOOPS,
	};

	for (size_t i = 0; i < COUNT(patterns); i++) {
		struct gm_plan_error err = { 0 };
		struct gm_topology t = { 0 };
		char text[256];

		snprintf(text, sizeof(text), "'/%s/': {isq: 4}", patterns[i]);
		if (!EQ(parse(text, &t, &err), 0)) {
			NOTE("%s: %s", patterns[i], err.text);
			continue;
		}
		OK(t.pattern_has_isq);
		gm_topology_free(&t);
	}
}

static void directives_are_refused(void)
{
	static const char *const breaks[] = {
		"",         "\xef\xbb\xbf", "\n",           "\r",
		"\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9", "# c\n"
	};
	struct gm_topology t = { 0 };

	for (size_t i = 0; i < COUNT(breaks); i++) {
		struct gm_plan_error err = { 0 };
		char text[128];

		snprintf(text, sizeof(text),
			 "%s%%TAG !a! tag:a,2000:\n---\n0: {isq: 4}\n",
			 breaks[i]);
		EQ(parse(text, &t, &err), -EINVAL);
		if (!OK(strstr(err.text, ": directives are not allowed")))
			NOTE("%zu: %s", i, err.text);
	}
	/* They would be hidden in another encoding. */
	EQ(gm_topology_file_parse("\xff\xfe%\0T\0", 6, &t, NULL), -EINVAL);
	EQ(parse("\xef\xbb\xbf"
		 "0: {isq: 4}\n1: {isq: 4}\n",
		 &t, NULL),
	   0);
	EQ(t.n_ranges, 2);
	gm_topology_free(&t);
	EQ(parse("0: {isq: 4, note: 100%}\n", &t, NULL), 0);
	gm_topology_free(&t);
}

/* As requests have it, and as a file is written for one. */
static void ranges_are_a_text_as_well(void)
{
	static const struct {
		const char *text, *printed, *why;
	} cases[] = {
		{ "", "", NULL },
		{ "0-8:cuda[0]:q3k;8:metal[1];9-12:cpu",
		  "0-8:cuda[0]:Q3K;8-9:metal[1];9-12:cpu", NULL },
		{ "3;0-2::4", "0-2::Q4K;3-4:", NULL },
		{ "0-4:cpu;2-6:cuda[1]", "0-2:cpu;2-6:cuda[1]", NULL },
		{ "*::q6k", "*::Q4_0", NULL },
		{ "0:cpu;*::q8_1;*:cpu:q8_1", "0-1:cpu;*::Q8_1", NULL },
		{ "*:cpu", "", NULL },
		{ "0-4:gpu", NULL, "Device specifier must match" },
		{ "0-4:cpu:q99", NULL, "ISQ" },
		{ "0-4:cuda[0]:q8_1", NULL, "ISQ type on CUDA" },
		{ "4-4", NULL, "must be > start" },
		{ "x:cpu", NULL, "invalid digit" },
		{ "*x:cpu", NULL, "invalid digit" },
		{ ":", NULL, "empty" },
		{ ";0:cpu", NULL, "empty" },
		{ "18446744073709551615", NULL, "too large" },
		{ "0: cpu", NULL, "Device specifier must match" },
		{ "0-16:cpu:Q8_0:junk", NULL, "more than three fields" },
		{ "0-16:cpu:Q8_0:", NULL, "more than three fields" },
		{ "00000000000000000000000000000000000000000000000000000000"
		  "00001-4:cpu",
		  "1-4:cpu", NULL },
		{ "00000000000000000000000000000000000000000000000000000000"
		  "000001-4:cpu",
		  NULL, "more than 63 bytes" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gm_plan_error err = { .text = "" };
		struct gm_topology t = { 0 };
		int ret = gm_topology_parse(cases[i].text, &t, &err);
		char *printed = ret == 0 ? gm_topology_print(&t) : NULL;

		if (cases[i].printed)
			STR(printed ? printed : err.text, cases[i].printed);
		else
			OK(ret == -EINVAL && strstr(err.text, cases[i].why));
		free(printed);
		gm_topology_free(&t);
	}
}

static void size_is_limited(void)
{
	const size_t n = GM_TOPOLOGY_ENTRIES + 1;
	char *text = malloc(GM_TOPOLOGY_FILE_BYTES + 2), *at = text;
	struct gm_plan_error err = { 0 };
	struct gm_topology t;

	if (!OK(text != NULL))
		return;
	for (size_t i = 0; i < n; i++)
		at += sprintf(at, "%zu: {}\n", i);
	EQ(parse(text, &t, &err), -E2BIG);
	/* One entry more than there are semicolons. */
	memset(text, ';', n);
	text[n - 1] = '\0';
	EQ(gm_topology_parse(text, &t, &err), -E2BIG);
	text[n - 2] = '\0';
	EQ(gm_topology_parse(text, &t, &err), -EINVAL);
	memset(text, '#', GM_TOPOLOGY_FILE_BYTES + 1);
	text[GM_TOPOLOGY_FILE_BYTES + 1] = '\0';
	EQ(parse(text, &t, &err), -E2BIG);
	free(text);
}

TAP_CASE()
{
	all_forms_are_read();
	nothing_is_a_topology_too();
	the_higher_end_wins_then_the_later();
	chance_agrees_with_the_rule();
	refused_entries_say_why();
	devices_are_spelt_exactly();
	yaml_beyond_need_is_refused();
	patterns_are_not_compiled();
	directives_are_refused();
	ranges_are_a_text_as_well();
	size_is_limited();
	return tap_done();
}
