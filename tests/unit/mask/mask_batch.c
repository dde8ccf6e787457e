/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* mask --batch: answers byte by byte, and each small mask element by
 * element. */

#include <jansson.h>

#include "agent/mask/mask_batch.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct line {
	const char *request, *answer;
};

static void ask(const struct line *lines, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char *got = gm_mask_batch(lines[i].request,
					  strlen(lines[i].request));

		if (!STR(got, lines[i].answer))
			NOTE("to %s", lines[i].request);
		free(got);
	}
}

#define ASK(kind, tgt, past, more)                \
	"{\"kind\":\"" kind "\",\"tgt_len\":" tgt \
	",\"past_kv_len\":" past more "}"
#define WINDOW(n) ",\"sliding_window\":" n
#define CHUNK(n)  ",\"chunk_size\":" n

static void each_kind_is_shown(void)
{
	static const struct line lines[] = {
		{ ASK("causal", "3", "2", WINDOW("null") CHUNK("null")),
		  "{\"ok\":{\"shape\":[3,5],\"rows\":[[\"00011\",1],"
		  "[\"00001\",1],[\"00000\",1]]}}" },
		/* Itself and one before it. */
		{ ASK("sliding", "3", "2", WINDOW("1")),
		  "{\"ok\":{\"shape\":[3,5],\"rows\":[[\"10011\",1],"
		  "[\"11001\",1],[\"11100\",1]]}}" },
		{ ASK("sliding", "2", "1", WINDOW("0")),
		  "{\"ok\":{\"shape\":[2,3],\"rows\":[[\"101\",1],"
		  "[\"110\",1]]}}" },
		/* Chunks begin with this call, the cache is seen by all. */
		{ ASK("chunked", "4", "1", CHUNK("2")),
		  "{\"ok\":{\"shape\":[4,5],\"rows\":[[\"00111\",1],"
		  "[\"00011\",1],[\"01101\",1],[\"01100\",1]]}}" },
		{ ASK("bidirectional_sliding", "4", "7", WINDOW("2")),
		  "{\"ok\":{\"shape\":[4,4],\"rows\":[[\"0011\",1],"
		  "[\"0001\",1],[\"1000\",1],[\"1100\",1]]}}" },
		/* A cache of no rows. */
		{ "{\"kind\":\"bidirectional_sliding\",\"tgt_len\":1,"
		  "\"sliding_window\":1}",
		  "{\"ok\":{\"shape\":[1,1],\"rows\":[[\"0\",1]]}}" },
	};

	ask(lines, COUNT(lines));
}

static void equal_rows_are_one(void)
{
	static const struct line lines[] = {
		{ ASK("bidirectional_sliding", "3", "0", WINDOW("0")),
		  "{\"ok\":{\"shape\":[3,3],\"rows\":[[\"111\",3]]}}" },
		{ ASK("bidirectional_sliding", "3", "0",
		      WINDOW("18446744073709551615")),
		  "{\"ok\":{\"shape\":[3,3],\"rows\":[[\"000\",3]]}}" },
		{ ASK("bidirectional_sliding", "4", "0", WINDOW("3")),
		  "{\"ok\":{\"shape\":[4,4],\"rows\":[[\"0001\",1],"
		  "[\"0000\",2],[\"1000\",1]]}}" },
		{ ASK("causal", "0", "5", ""),
		  "{\"ok\":{\"shape\":[0,5],\"rows\":[]}}" },
		{ ASK("causal", "0", "18446744073709551615", ""),
		  "{\"ok\":{\"shape\":[0,18446744073709551615],"
		  "\"rows\":[]}}" },
		{ ASK("bidirectional_sliding", "0", "0", WINDOW("0")),
		  "{\"ok\":{\"shape\":[0,0],\"rows\":[]}}" },
	};

	ask(lines, COUNT(lines));
}

#define NUMBER " is not a whole number from 0 to 2^64-1\"}"

static void what_is_no_mask_is_refused(void)
{
	static const struct line lines[] = {
		{ "", "{\"error\":\"not a JSON object: '[' or '{' "
		      "expected\"}" },
		{ "[]", "{\"error\":\"not a JSON object\"}" },
		{ "{}", "{\"error\":\"kind is not a string\"}" },
		{ "{\"kind\":7}", "{\"error\":\"kind is not a string\"}" },
		{ ASK("None", "1", "0", ""),
		  "{\"error\":\"mask kind \\\"None\\\" is not causal, "
		  "sliding, chunked or bidirectional_sliding\"}" },
		{ "{\"kind\":\"causal\",\"past_kv_len\":0}",
		  "{\"error\":\"tgt_len is missing: kind causal needs it\"}" },
		{ "{\"kind\":\"causal\",\"tgt_len\":1}",
		  "{\"error\":\"past_kv_len is missing: kind causal needs "
		  "it\"}" },
		{ ASK("causal", "null", "0", ""),
		  "{\"error\":\"tgt_len is missing: kind causal needs it\"}" },
		{ ASK("sliding", "1", "0", ""),
		  "{\"error\":\"sliding_window is missing: kind sliding needs "
		  "it\"}" },
		{ ASK("bidirectional_sliding", "1", "0", WINDOW("null")),
		  "{\"error\":\"sliding_window is missing: kind "
		  "bidirectional_sliding needs it\"}" },
		{ ASK("chunked", "1", "0", WINDOW("4")),
		  "{\"error\":\"chunk_size is missing: kind chunked needs "
		  "it\"}" },
		{ ASK("chunked", "1", "0", CHUNK("0")),
		  "{\"error\":\"chunk_size is 0: a chunk has at least one "
		  "position\"}" },
		{ ASK("causal", "-1", "0", ""), "{\"error\":\"tgt_len" NUMBER },
		{ ASK("causal", "1.0", "0", ""),
		  "{\"error\":\"tgt_len" NUMBER },
		{ ASK("causal", "1", "1e3", ""),
		  "{\"error\":\"past_kv_len" NUMBER },
		{ ASK("causal", "1", "18446744073709551616", ""),
		  "{\"error\":\"past_kv_len" NUMBER },
		{ ASK("causal", "true", "0", ""),
		  "{\"error\":\"tgt_len" NUMBER },
		{ ASK("causal", "\"1\"", "0", ""),
		  "{\"error\":\"tgt_len" NUMBER },
		/* Even where no reader would have used it. */
		{ ASK("causal", "1", "0", WINDOW("-1")),
		  "{\"error\":\"sliding_window" NUMBER },
		{ ASK("causal", "1", "0", CHUNK("0.5")),
		  "{\"error\":\"chunk_size" NUMBER },
		{ ASK("causal", "1", "18446744073709551615", ""),
		  "{\"error\":\"a mask over 18446744073709551615 cached and 1 "
		  "new positions has 2^64 columns or more\"}" },
		{ ASK("causal", "4294967296", "0", ""),
		  "{\"error\":\"a mask of 4294967296 x 4294967296 elements has "
		  "2^64 bytes or more\"}" },
	};

	ask(lines, COUNT(lines));
}

static void the_longest_answer_has_an_end(void)
{
	static const struct line lines[] = {
		{ ASK("causal", "16385", "0", ""),
		  "{\"error\":\"a mask of 16385 x 16385 elements: its rows "
		  "that differ have more than the 268435456 elements that an "
		  "answer may have\"}" },
		{ ASK("causal", "1", "268435456", ""),
		  "{\"error\":\"a mask of 1 x 268435457 elements: its rows "
		  "that differ have more than the 268435456 elements that an "
		  "answer may have\"}" },
	};
	/* 10^10 elements in as many characters as it has columns. */
	static const char large[] =
		ASK("bidirectional_sliding", "100000", "0", WINDOW("100000"));
	static const char tail[] = "0\",100000]]}}";
	char *got = gm_mask_batch(large, strlen(large));
	size_t n = got ? strlen(got) : 0;

	if (OK(n > 100000 && n < 100100))
		STR(got + n - strlen(tail), tail);
	free(got);
	ask(lines, COUNT(lines));
}

/* ---- the rules, an element at a time ------------------------------------- */

static bool is_masked(size_t kind, int past, int n, int i, int j)
{
	switch (kind) {
	case 0:
		return j > past + i;
	case 1:
		return j > past + i || j + n < past + i;
	case 2:
		return j >= past && (j - past > i || (j - past) / n != i / n);
	default:
		return abs(i - j) >= n;
	}
}

static bool rows_agree(const json_t *rows, size_t kind, int tgt, int past,
		       int n)
{
	int cols = kind == 3 ? tgt : past + tgt, i = 0;
	const char *before = "";
	const json_t *run;
	size_t at;

	json_array_foreach(rows, at, run)
	{
		const char *s = json_string_value(json_array_get(run, 0));
		json_int_t left = json_integer_value(json_array_get(run, 1));

		if (!s || (int)strlen(s) != cols || left < 1 ||
		    strcmp(s, before) == 0)
			return false;
		for (before = s; left > 0; left--, i++)
			for (int j = 0; j < cols; j++)
				if (s[j] !=
				    '0' + is_masked(kind, past, n, i, j))
					return false;
	}
	return i == tgt;
}

static bool answer_agrees(size_t kind, int tgt, int past, int n)
{
	static const char *const kinds[] = { "causal", "sliding", "chunked",
					     "bidirectional_sliding" };
	char request[256], *text;
	json_t *json, *ok;
	bool good;

	snprintf(request, sizeof(request),
		 "{\"kind\":\"%s\",\"tgt_len\":%d,\"past_kv_len\":%d,"
		 "\"sliding_window\":%d,\"chunk_size\":%d}",
		 kinds[kind], tgt, past, n, n);
	text = gm_mask_batch(request, strlen(request));
	json = text ? json_loads(text, 0, NULL) : NULL;
	ok = json_object_get(json, "ok");
	good = ok &&
	       rows_agree(json_object_get(ok, "rows"), kind, tgt, past, n);
	json_decref(json);
	free(text);
	return good;
}

static void every_small_answer_follows_its_rule(void)
{
	int wrong = 0, tried = 0;

	for (size_t kind = 0; kind < 4; kind++)
		for (int tgt = 0; tgt <= 9; tgt++)
			for (int past = 0; past <= 3; past++)
				for (int n = kind == 2; n <= 11; n++) {
					tried++;
					wrong += !answer_agrees(kind, tgt, past,
								n);
				}
	EQ(tried, 10 * 4 * (3 * 12 + 11));
	EQ(wrong, 0);
}

TAP_CASE()
{
	each_kind_is_shown();
	equal_rows_are_one();
	what_is_no_mask_is_refused();
	the_longest_answer_has_an_end();
	every_small_answer_follows_its_rule();
	return tap_done();
}
