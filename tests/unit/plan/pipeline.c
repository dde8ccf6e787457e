/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* pipeline: shares of ranks, and what is refused instead of guessed. */

#include <errno.h>
#include <stdlib.h>

#include "agent/plan/pipeline.h"
#include "tests/support/dice.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* "10,11,11", or the text of the error. */
static const char *show(uint32_t layers, uint32_t ranks, const char *exact,
			const char *weights)
{
	static struct gm_plan_error err;
	static char text[256];
	uint32_t counts[16];
	char *at = text;

	if (gm_pipeline_split(layers, ranks, exact, weights, counts, &err))
		return err.text;
	for (uint32_t i = 0; i < ranks; i++)
		at += sprintf(at, "%s%" PRIu32, i ? "," : "", counts[i]);
	return text;
}

static void ranks_share_evenly_and_the_first_take_what_is_over(void)
{
	STR(show(32, 1, NULL, NULL), "32");
	STR(show(32, 3, NULL, NULL), "11,11,10");
	STR(show(2, 4, NULL, NULL), "1,1,0,0");
}

static void counts_are_taken_as_they_are(void)
{
	STR(show(32, 3, "10, 12 ,\t10", NULL), "10,12,10");
	STR(show(32, 2, "0,+32", "1,1"), "0,32");
}

static void weights_are_floored_and_then_go_round(void)
{
	/* 8.7 and 23.3: by fraction the first would have the last layer. */
	STR(show(32, 2, NULL, "24,64.2"), "9,23");
	/* 5.3, 5.3, 21.3 leave one, and it is rank 0's. */
	STR(show(32, 3, NULL, " 1,1 ,4"), "6,5,21");
	STR(show(7, 3, NULL, "0,0,1e3"), "0,0,7");
	STR(show(10, 3, NULL, ".5,5.,+5"), "1,5,4");
}

static void nonsense_is_refused(void)
{
	static const struct {
		const char *exact, *weights, *error;
	} table[] = {
		{ "3,-1", NULL, "\"-1\" is no count" },
		{ "", NULL, "\"\" is no count" },
		{ "16,16,", NULL, "\"\" is no count" },
		{ "32", NULL, "There are 1 counts for 2 ranks" },
		{ "16,17", NULL,
		  "The counts sum to 33, and the model has 32 layers" },
		{ "18446744073709551615,33", NULL,
		  "The counts sum to 18446744073709551615, and the model has "
		  "32 layers" },
		{ NULL, "1,x", "\"x\" is no weight" },
		{ NULL, "1,0x10", "\"0x10\" is no weight" },
		{ NULL, "1,", "\"\" is no weight" },
		{ NULL, "1,2,3", "There are 3 weights for 2 ranks" },
		{ NULL, "3,-1", "\"-1\" is no weight" },
		{ NULL, "nan,1", "\"nan\" is no weight" },
		{ NULL, "inf,1", "\"inf\" is no weight" },
		{ NULL, "0,0",
		  "The weights sum to nothing that can be shared" },
		{ NULL, "1e308,1e308",
		  "The weights sum to nothing that can be shared" },
	};

	for (size_t i = 0; i < COUNT(table); i++)
		STR(show(32, 2, table[i].exact, table[i].weights),
		    table[i].error);
	STR(show(0, 2, NULL, NULL), "The model has no layers");
	STR(show(32, 0, NULL, NULL), "A pipeline of no ranks");
	EQ(gm_pipeline_split(65537, 1, NULL, NULL, NULL, NULL), -E2BIG);
}

static void chance_loses_no_layer(void)
{
	int wrong = 0;

	for (int i = 0; i < 5000; i++) {
		uint32_t n = 1 + (uint32_t)dice(200), counts[8], sum = 0;
		uint32_t ranks = 1 + (uint32_t)dice(8);
		char text[256], *at = text;

		for (uint32_t j = 0; j < ranks; j++)
			at += sprintf(at, "%s%.3f", j ? "," : "",
				      0.001 * (double)(1 + dice(90000)));
		wrong += gm_pipeline_split(n, ranks, NULL, text, counts,
					   NULL) != 0;
		for (uint32_t j = 0; j < ranks; j++)
			sum += counts[j];
		wrong += sum != n;
	}
	EQ(wrong, 0);
}

TAP_CASE()
{
	ranks_share_evenly_and_the_first_take_what_is_over();
	counts_are_taken_as_they_are();
	weights_are_floored_and_then_go_round();
	nonsense_is_refused();
	chance_loses_no_layer();
	return tap_done();
}
