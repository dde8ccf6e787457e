/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* text: what is left of a reason that is longer than its place. */

#include "agent/common/text.h"
#include "tests/support/tap.h"

static void reasons_are_shortened(void)
{
	static const struct {
		const char *text;
		const char *want;
	} cases[] = {
		{ "", "" },
		{ "a reason of 19 byte", "a reason of 19 byte" },
		{ "a reason of 20 bytes", "a reason of 20..." },
		{ "CUDA 100: is it run?", "CUDA 100" },
		{ "NO_DEVICE from cuInit: no card", "NO_DEVICE from..." },
		{ "NVML 15: lost: reset it", "NVML 15: lost" },
		{ "libcuda.so.1: undefined symbol", "libcuda.so.1:..." },
		{ ": four and twenty blackbirds", ": four and..." },
		{ "four-and-twenty-blackbirds", "four-and-twenty-..." },
		{ "0123456789012345 7890", "0123456789012345..." },
		{ "01234567890123456 890", "0123456789012345..." },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[20];

		gm_text_shorten(text, sizeof(text), cases[i].text);
		STR(text, cases[i].want);
	}
}

static void plain_text_stays(void)
{
	char text[] = "a b\x1b[2J\xc3\xa9\xe2\x80\xae\xff";

	gm_text_make_plain(text, sizeof(text) - 1);
	STR(text, "a b?[2J\xc3\xa9????");
}

TAP_CASE()
{
	reasons_are_shortened();
	plain_text_stays();
	return tap_done();
}
