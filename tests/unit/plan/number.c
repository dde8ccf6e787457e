/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* number, size_text: sizes as they are read, and as they are written. */

#include <errno.h>

#include "lib/model/plan/number.h"
#include "lib/model/plan/size_text.h"
#include "tests/support/tap.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static void sizes_take_a_unit(void)
{
	static const char *const wrong[] = { "16777216T", "1P", "1KB", "K",
					     "",          "-1", "+1",  " 1" };
	uint64_t bytes = 7;

	EQ(gm_number_size("12", &bytes), 0);
	EQ(bytes, 12);
	EQ(gm_number_size("12K", &bytes), 0);
	EQ(bytes, 12288);
	EQ(gm_number_size("3m", &bytes), 0);
	EQ(bytes, 3 << 20);
	EQ(gm_number_size("2T", &bytes), 0);
	EQ(bytes, (intmax_t)(2048 * GIB));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		EQ(gm_number_size(wrong[i], &bytes), -EINVAL);
	EQ(gm_number_size("16777215T", &bytes), 0);
	OK(bytes == UINT64_C(16777215) << 40);
}

static void sizes_are_for_people(void)
{
	char text[GM_SIZE_TEXT];

	STR(gm_size_text(1536 * MIB, text), "1.5 GiB");
	STR(gm_size_down(0).text, "0 B");
	STR(gm_size_up(1).text, "1 B");
	STR(gm_size_down(1023).text, "1023 B");
	STR(gm_size_up(1024).text, "1 KiB");
	STR(gm_size_down(64 * GIB).text, "64 GiB");
	STR(gm_size_up(64 * GIB).text, "64 GiB");
	STR(gm_size_down(1536 * MIB).text, "1.5 GiB");
	STR(gm_size_up(1536 * MIB).text, "1.5 GiB");
}

/* The larger of two sizes is never written as the smaller one. */
static void sizes_of_a_refusal_differ(void)
{
	STR(gm_size_down(UINT64_C(6319127552)).text, "5.8 GiB");
	STR(gm_size_up(UINT64_C(6319127553)).text, "5.9 GiB");
	STR(gm_size_down(64 * GIB).text, "64 GiB");
	STR(gm_size_up(64 * GIB + 1).text, "64.1 GiB");
	STR(gm_size_down(GIB - 1).text, "1023.9 MiB");
	STR(gm_size_up(GIB - 1).text, "1024 MiB");
	STR(gm_size_up(UINT64_MAX).text, "16 EiB");
}

TAP_CASE()
{
	sizes_take_a_unit();
	sizes_are_for_people();
	sizes_of_a_refusal_differ();
	return tap_done();
}
