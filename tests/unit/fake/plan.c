/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The stand-in's plan of faults: every sentence, and what is none. */

#include <errno.h>

#include "tests/fake/plan.h"
#include "tests/support/tap.h"

static const struct {
	const char *text;
	struct fake_fault want;
} sentences[] = {
	{ "row 1: launch 17: sticky 700",
	  { FAKE_STICKY, FAKE_ON_LAUNCH, 1, 17, 700, 0, "" } },
	{ "copy 3: sticky 719",
	  { FAKE_STICKY, FAKE_ON_COPY, FAKE_ANY_GPU, 3, 719, 0, "" } },
	{ "row 2:launch 4:hang",
	  { FAKE_HANG, FAKE_ON_LAUNCH, 2, 4, 0, 0, "" } },
	{ "row 0: lost", { FAKE_LOST, FAKE_ALWAYS, 0, 0, 0, 0, "" } },
	{ "back", { FAKE_BACK, FAKE_ALWAYS, FAKE_ANY_GPU, 0, 0, 0, "" } },
	{ "row 0: xid 79", { FAKE_XID, FAKE_ALWAYS, 0, 0, 79, 0, "" } },
	{ "row 7: out of memory after 3 GiB",
	  { FAKE_MEMORY, FAKE_ALWAYS, 7, 0, UINT64_C(3) << 30, 0, "" } },
	{ "out of memory after 4096",
	  { FAKE_MEMORY, FAKE_ALWAYS, FAKE_ANY_GPU, 0, 4096, 0, "" } },
	{ "row 0: exclusive process",
	  { FAKE_MODE, FAKE_ALWAYS, 0, 0, 3, 0, "" } },
	{ "row 0: prohibited", { FAKE_MODE, FAKE_ALWAYS, 0, 0, 2, 0, "" } },
	{ "row 0: attribute 122 is 0",
	  { FAKE_ATTRIBUTE, FAKE_ALWAYS, 0, 0, 122, 0, "" } },
	{ "row 0: attribute 134 is 1",
	  { FAKE_ATTRIBUTE, FAKE_ALWAYS, 0, 0, 134, 1, "" } },
	{ "peer copies corrupt",
	  { FAKE_CORRUPT, FAKE_ALWAYS, FAKE_ANY_GPU, 0, 0, 0, "" } },
	{ "row 3: copies take 5 ms",
	  { FAKE_COPIES_TAKE, FAKE_ALWAYS, 3, 0, 5000000, 0, "" } },
	{ "init takes 2 s",
	  { FAKE_INIT_TAKES, FAKE_ALWAYS, FAKE_ANY_GPU, 0, 2000000000, 0,
	    "" } },
	{ "init fails 802",
	  { FAKE_INIT_FAILS, FAKE_ALWAYS, FAKE_ANY_GPU, 0, 802, 0, "" } },
	{ "driver 12.2",
	  { FAKE_DRIVER, FAKE_ALWAYS, FAKE_ANY_GPU, 0, 12020, 0, "" } },
	{ "symbol missing cuMemcpyBatchAsync",
	  { FAKE_SYMBOL, FAKE_ALWAYS, FAKE_ANY_GPU, 0, 0, 0,
	    "cuMemcpyBatchAsync" } },
	{ "exit takes 3 s",
	  { FAKE_EXIT_TAKES, FAKE_ALWAYS, FAKE_ANY_GPU, 0, 3000000000, 0,
	    "" } },
	{ "nvml slow 30 s",
	  { FAKE_NVML_SLOW, FAKE_ALWAYS, FAKE_ANY_GPU, 0, 30000000000, 0,
	    "" } },
	{ "row 0: nvml memory not supported",
	  { FAKE_NVML_MEMORY, FAKE_ALWAYS, 0, 0, 0, 0, "" } },
	{ "row 0: memory error", { FAKE_ECC, FAKE_ALWAYS, 0, 0, 0, 0, "" } },
	{ "row 3: recovery action 1",
	  { FAKE_RECOVERY, FAKE_ALWAYS, 3, 0, 1, 0, "" } },
	{ "row 2: link to 5", { FAKE_LINK, FAKE_ALWAYS, 2, 0, 5, 0, "" } },
	{ "nvml event wait fails # as in HAMi#2321",
	  { FAKE_NVML_WAIT, FAKE_ALWAYS, FAKE_ANY_GPU, 0, 0, 0, "" } },
};

static const char *const nonsense[] = {
	"sticky",
	"sticky many",
	"row 1 lost",
	"row: lost",
	"lost and found",
	"launch 3: launch 4: hang",
	"out of memory after 3 GB",
	"out of memory after 18446744073709551615 GiB",
	"driver 12",
	"driver 12.2.1",
	"init takes 5",
	"init takes 5 parsecs",
	"symbol missing",
	"xid 99999999999999999999",
	"hangs",
};

static void every_sentence_is_read(void)
{
	for (size_t i = 0; i < sizeof(sentences) / sizeof(sentences[0]); i++) {
		const struct fake_fault *want = &sentences[i].want, *got;
		struct fake_plan plan = { 0 };
		const char *where;

		NOTE("%s", sentences[i].text);
		if (!EQ(fake_plan_add(&plan, sentences[i].text, &where), 0))
			continue;
		got = &plan.faults[0];
		EQ(plan.n_faults, 1);
		OK(got->kind == want->kind && got->on == want->on &&
		   got->gpu == want->gpu && got->nth == want->nth);
		OK(got->value == want->value && got->to == want->to);
		STR(got->name, want->name);
	}
}

static void nonsense_is_shown_and_adds_nothing(void)
{
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		struct fake_plan plan = { 0 };
		const char *where = NULL;
		char text[128];

		snprintf(text, sizeof(text), "lost; %s", nonsense[i]);
		EQ(fake_plan_add(&plan, text, &where), -EINVAL);
		STR(where, nonsense[i]);
		EQ(plan.n_faults, 0);
	}
}

static void many_lines_are_one_plan(void)
{
	static const char text[] = "# a bad day\n"
				   "row 0: lost\n"
				   "\n"
				   "driver 12.2; init takes 5 ms  # slow\n"
				   "copy 1: sticky 700\n";
	struct fake_plan plan = { 0 };
	const char *where;

	EQ(fake_plan_add(&plan, text, &where), 0);
	EQ(plan.n_faults, 4);
	EQ(fake_plan_add(&plan, "back", &where), 0);
	EQ(plan.n_faults, 5);
}

static void a_plan_has_an_end(void)
{
	struct fake_plan plan = { 0 };
	const char *where;

	for (int i = 0; i < FAKE_FAULTS; i++)
		if (fake_plan_add(&plan, "lost", &where))
			break;
	EQ(plan.n_faults, FAKE_FAULTS);
	EQ(fake_plan_add(&plan, "back", &where), -ENOSPC);
	EQ(plan.n_faults, FAKE_FAULTS);
}

TAP_CASE()
{
	every_sentence_is_read();
	nonsense_is_shown_and_adds_nothing();
	many_lines_are_one_plan();
	a_plan_has_an_end();
	return tap_done();
}
