/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* idset: what is a list and what is none, and sets to their last bit. */

#include <errno.h>

#include "agent/common/idset.h"
#include "tests/support/tap.h"

static void lists_are_read_and_written(void)
{
	static const struct {
		const char *text;
		int count; /* or the error */
		const char *written;
	} table[] = {
		{ "0", 1, "0" },
		{ "0-3,8", 5, "0-3,8" },
		{ "0-3,8\n", 5, "0-3,8" },
		{ " 7 ", 1, "7" },
		{ "8,0-3", 5, "0-3,8" },
		{ "0-1,2-3", 4, "0-3" },
		{ "1-3,2-5", 5, "1-5" },
		{ "5-5", 1, "5" },
		{ "63,64,127-128", 4, "63-64,127-128" },
		{ "0-8191", 8192, "0-8191" },
		{ "", 0, "" },
		{ "\n", 0, "" },
		{ "8192", -ERANGE, NULL },
		{ "0-8192", -ERANGE, NULL },
		{ "4294967296", -ERANGE, NULL },
		{ "99999999999999999999", -ERANGE, NULL },
		{ "3-1", -EINVAL, NULL },
		{ "-1", -EINVAL, NULL },
		{ "+1", -EINVAL, NULL },
		{ "1-", -EINVAL, NULL },
		{ ",", -EINVAL, NULL },
		{ "1,", -EINVAL, NULL },
		{ "1,,2", -EINVAL, NULL },
		{ "1, 2", -EINVAL, NULL },
		{ "1 2", -EINVAL, NULL },
		{ "0x1", -EINVAL, NULL },
		{ "all", -EINVAL, NULL },
		{ "1-2-3", -EINVAL, NULL },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct gm_idset set = { { 42 } };
		char text[64] = "-";

		if (!EQ(gm_idset_parse(table[i].text, &set), table[i].count))
			NOTE("the list is \"%s\"", table[i].text);
		if (table[i].count < 0) {
			EQ(set.word[0], 42);
			continue;
		}
		EQ(gm_idset_format(&set, text, sizeof(text)),
		   (int)strlen(table[i].written));
		STR(text, table[i].written);
	}
}

static void a_text_that_does_not_fit_is_not_written(void)
{
	struct gm_idset set;
	char text[7] = "before";

	EQ(gm_idset_parse("0-3,8", &set), 5);
	EQ(gm_idset_format(&set, text, 5), -ENOBUFS);
	OK(memcmp(text, "before", 6) == 0);
	EQ(gm_idset_format(&set, text, 6), 5);
	STR(text, "0-3,8");
}

static void sets_are_walked_and_joined(void)
{
	struct gm_idset a, b;

	gm_idset_parse("0,63-64,8191", &a);
	EQ(gm_idset_next(&a, -1), 0);
	EQ(gm_idset_next(&a, 0), 63);
	EQ(gm_idset_next(&a, 63), 64);
	EQ(gm_idset_next(&a, 64), 8191);
	EQ(gm_idset_next(&a, 8191), -1);
	OK(gm_idset_has(&a, 8191) && !gm_idset_has(&a, 8190));
	OK(!gm_idset_has(&a, -1) && !gm_idset_has(&a, 8192));
	gm_idset_add(&a, -1);
	gm_idset_add(&a, 8192);
	EQ(gm_idset_count(&a), 4);
	gm_idset_parse("1-64", &b);
	EQ(gm_idset_and(&a, &b), 2);
	EQ(gm_idset_next(&a, -1), 63);
}

TAP_CASE()
{
	lists_are_read_and_written();
	a_text_that_does_not_fit_is_not_written();
	sets_are_walked_and_joined();
	return tap_done();
}
