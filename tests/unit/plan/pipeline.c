/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* pipeline: shares of ranks, and what is refused instead of guessed. */

#include <errno.h>
#include <stdlib.h>

#include "lib/model/plan/pipeline.h"
#include "tests/support/dice.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* "10,11,11", or the text of the error. */
static const char *show(uint64_t layers, uint32_t ranks, const char *exact,
			const char *weights)
{
	static struct gm_plan_error err;
	static char text[512];
	uint64_t counts[16];
	char *at = text;

	if (gm_pipeline_split(layers, ranks, exact, weights, counts, &err))
		return err.text;
	for (uint32_t i = 0; i < ranks; i++)
		at += sprintf(at, "%s%" PRIu64, i ? "," : "", counts[i]);
	*at = '\0';
	return text;
}

static void every_layer_has_its_rank(void)
{
	static const struct {
		uint64_t layers;
		uint32_t ranks;
		const char *exact, *weights, *want;
	} table[] = {
		/* Ranks share evenly, and the first take what is over. */
		{ 32, 1, NULL, NULL, "32" },
		{ 32, 3, NULL, NULL, "11,11,10" },
		{ 2, 4, NULL, NULL, "1,1,0,0" },
		/* Counts are taken as they are. */
		{ 32, 3, "10, 12 ,\t10", NULL, "10,12,10" },
		{ 32, 2, "0,+32", "1,1", "0,32" },
		/* Weights are floored, and the rest goes round: 8.7 and 23.3,
		 * where by fraction the first would have the last layer; 5.3,
		 * 5.3 and 21.3. */
		{ 32, 2, NULL, "24,64.2", "9,23" },
		{ 32, 3, NULL, " 1,1 ,4", "6,5,21" },
		{ 7, 3, NULL, "0,0,1e3", "0,0,7" },
		{ 10, 3, NULL, ".5,5.,+5", "1,5,4" },
		/* Shares that are no numbers are none. */
		{ 32, 2, NULL, "0,0", "16,16" },
		{ 32, 2, NULL, "nan,1", "16,16" },
		{ 33, 2, NULL, "-NaN,Infinity", "17,16" },
		{ 32, 2, NULL, "inf,1", "16,16" },
		{ 32, 2, NULL, "1e308,1e308", "16,16" },
		{ 32, 2, NULL, "-1,-3", "8,24" },
		/* Every number of layers is shared. */
		{ 0, 3, NULL, NULL, "0,0,0" },
		{ 0, 0, NULL, NULL, "" },
		{ 0, 2, "0,0", NULL, "0,0" },
		{ UINT64_MAX, 1, NULL, NULL, "18446744073709551615" },
		{ UINT64_MAX, 3, NULL, "0,0,0",
		  "6148914691236517205,6148914691236517205,"
		  "6148914691236517205" },
		{ UINT64_MAX, 2, "18446744073709551615,0", NULL,
		  "18446744073709551615,0" },
		/* Any white space is trimmed. */
		{ 32, 2,
		  "\xc2\xa0"
		  "20\xe2\x80\x83,\xe3\x80\x80 12\xc2\x85",
		  NULL, "20,12" },
		{ 32, 2, NULL,
		  "\v1\xe1\x9a\x80,\xe2\x81\x9f"
		  "3\xe2\x80\xaf",
		  "8,24" },
		{ 32, 2, "\xe2\x80,32", NULL,
		  "RING_LAYER_SPLIT parse: invalid digit found in string" },
	};

	for (size_t i = 0; i < COUNT(table); i++)
		STR(show(table[i].layers, table[i].ranks, table[i].exact,
			 table[i].weights),
		    table[i].want);
}

static void nonsense_is_refused(void)
{
	static const struct {
		const char *exact, *weights, *error;
	} table[] = {
		{ "3,-1", NULL,
		  "RING_LAYER_SPLIT parse: invalid digit found in string" },
		{ "", NULL,
		  "RING_LAYER_SPLIT parse: cannot parse integer from empty "
		  "string" },
		{ "16,16,", NULL,
		  "RING_LAYER_SPLIT parse: cannot parse integer from empty "
		  "string" },
		{ "18446744073709551616,1", NULL,
		  "RING_LAYER_SPLIT parse: number too large to fit in target "
		  "type" },
		{ "32", NULL,
		  "RING_LAYER_SPLIT has 1 entries but world_size is 2" },
		{ "16,17", NULL,
		  "RING_LAYER_SPLIT sums to 33 but model has 32 layers" },
		{ "18446744073709551615,33", NULL,
		  "RING_LAYER_SPLIT sums to 2^64 or more but model has 32 "
		  "layers" },
		{ NULL, "1,x", "RING_MEM_GIB parse: invalid float literal" },
		{ NULL, "1,0x10", "RING_MEM_GIB parse: invalid float literal" },
		{ NULL, "1,nan(1)",
		  "RING_MEM_GIB parse: invalid float literal" },
		{ NULL, "1,.", "RING_MEM_GIB parse: invalid float literal" },
		{ NULL, "1,1e", "RING_MEM_GIB parse: invalid float literal" },
		{ NULL, "1,1 2", "RING_MEM_GIB parse: invalid float literal" },
		{ NULL, "1,+-2", "RING_MEM_GIB parse: invalid float literal" },
		{ NULL, "1,",
		  "RING_MEM_GIB parse: cannot parse float from empty string" },
		{ NULL, "1,2,3",
		  "RING_MEM_GIB has 3 entries but world_size is 2" },
		/* The original has ranges that leave the model here. */
		{ NULL, "3,-1",
		  "RING_MEM_GIB sums to 48 but model has 32 layers" },
		{ NULL, "1,-1",
		  "RING_MEM_GIB sums to 18446744073709551615 but model has 32 "
		  "layers" },
	};

	for (size_t i = 0; i < COUNT(table); i++)
		STR(show(32, 2, table[i].exact, table[i].weights),
		    table[i].error);
	STR(show(32, 4, NULL, "1,-1,1,-1"),
	    "RING_MEM_GIB sums to 2^64 or more but model has 32 layers");
	STR(show(32, 0, NULL, NULL), "A pipeline of no ranks");
	STR(show(0, 0, NULL, "1"),
	    "RING_MEM_GIB has 1 entries but world_size is 0");
	EQ(gm_pipeline_split(1, GM_PIPELINE_RANKS + 1, NULL, NULL, NULL, NULL),
	   -E2BIG);
}

static void chance_loses_no_layer(void)
{
	int wrong = 0;

	for (int i = 0; i < 5000; i++) {
		uint64_t n = 1 + dice(200), counts[8], sum = 0;
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
	every_layer_has_its_rank();
	nonsense_is_refused();
	chance_loses_no_layer();
	return tap_done();
}
