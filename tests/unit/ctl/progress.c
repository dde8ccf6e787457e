/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* progress_text: the line of long work at each width, and its rate. */

#include <string.h>

#include "agent/ctl/progress.h"
#include "tests/support/tap.h"

#define SECOND UINT64_C(1000000000)
#define GIB    (UINT64_C(1) << 30)

static const struct gm_progress_facts load = { .what = "load",
					       .name = "llama",
					       .done = 3 * GIB,
					       .total = 6 * GIB,
					       .elapsed_ns = 3 * SECOND,
					       .per_second = GIB,
					       .left_ns = 3 * SECOND };

static void check_line(const struct gm_progress_facts *facts, uint32_t columns,
		       const char *want)
{
	char line[GM_PROGRESS_LINE];

	STR(gm_progress_line(facts, columns, line), want);
}

static void what_has_no_room_is_left_out(void)
{
	check_line(&load, 80,
		   "load llama: [#########.........]  50 %  "
		   "3.0 GiB of 6.0 GiB, 1.0 GiB/s, 3 s left");
	check_line(&load, 61,
		   "load llama:  50 %  3.0 GiB of 6.0 GiB, 1.0 GiB/s, "
		   "3 s left");
	check_line(&load, 57,
		   "load llama:  50 %  3.0 GiB of 6.0 GiB, 1.0 GiB/s");
	check_line(&load, 45, "load llama:  50 %  3.0 GiB of 6.0 GiB");
	check_line(&load, 34, "load:  50 %  3.0 GiB of 6.0 GiB");
	check_line(&load, 10, "load:  50");
	check_line(&load, 1, "");
	check_line(&load, 0, "");
}

static void each_width_has_room_for_a_cursor(void)
{
	struct gm_progress_facts long_name = load;
	char line[GM_PROGRESS_LINE];
	char name[64];

	memset(name, 'n', sizeof(name) - 1);
	name[63] = '\0';
	long_name.name = name;
	long_name.done = UINT64_MAX / 2;
	long_name.total = UINT64_MAX;
	for (uint32_t columns = 0; columns < 400; columns++) {
		size_t n = strlen(gm_progress_line(&long_name, columns, line));

		if (n > 0 && n >= columns) {
			EQ((intmax_t)n, (intmax_t)columns);
			return;
		}
	}
	OK(strstr(line, "50 %") != NULL || strstr(line, "49 %") != NULL);
}

static void an_unknown_total_has_no_bar(void)
{
	struct gm_progress_facts facts = { .what = "read headers",
					   .unit = "files",
					   .done = 7,
					   .elapsed_ns = 65 * SECOND,
					   .left_ns = UINT64_MAX };

	check_line(&facts, 80, "read headers: 7 files, 1 min 05 s");
	facts.note = "another process loads it";
	check_line(&facts, 80,
		   "read headers: another process loads it, 1 min 05 s");
}

/* The line is of one row of the terminal, whatever the name has. */
static void names_have_no_effect_on_a_terminal(void)
{
	struct gm_progress_facts facts = { .what = "load",
					   .name = "a\033[2J\nb\303\244",
					   .done = 1,
					   .left_ns = UINT64_MAX };

	check_line(&facts, 80, "load a?[2J?b??: 1 B, 0 s");
}

static void times_are_of_their_size(void)
{
	struct gm_progress_facts facts = { .what = "x",
					   .unit = "files",
					   .done = 1,
					   .left_ns = 3599 * SECOND };

	check_line(&facts, 80, "x: 1 files, 59 min 59 s left");
	facts.left_ns = 3600 * SECOND + 125 * SECOND;
	check_line(&facts, 80, "x: 1 files, 1 h 02 min left");
	facts.left_ns = UINT64_MAX - 1;
	check_line(&facts, 80, "x: 1 files, 5124095 h 34 min left");
}

static void the_rate_is_that_of_the_last_seconds(void)
{
	struct gm_progress_rate rate = { .n = 0 };
	uint64_t done = 0, now = 5 * SECOND;

	EQ(gm_progress_rate(&rate, now, done), 0);
	for (int i = 0; i < 20; i++)
		EQ((intmax_t)gm_progress_rate(&rate, now += SECOND,
					      done += 100),
		   100);
	/* The work becomes faster: after all samples the old rate is
	 * forgotten. */
	for (unsigned i = 0; i < GM_PROGRESS_SAMPLES + 1; i++)
		gm_progress_rate(&rate, now += SECOND, done += 700);
	EQ((intmax_t)gm_progress_rate(&rate, now, done), 700);
	/* The work stands. */
	for (unsigned i = 0; i < GM_PROGRESS_SAMPLES + 1; i++)
		gm_progress_rate(&rate, now += SECOND, done);
	EQ((intmax_t)gm_progress_rate(&rate, now + 1, done), 0);
	/* A redraw takes no sample each tenth of a second. */
	rate = (struct gm_progress_rate){ .n = 0 };
	for (int i = 0; i < 40; i++)
		gm_progress_rate(&rate, now += SECOND / 10, done += 10);
	EQ(rate.n, 8);
}

static void the_rest_takes_so_long(void)
{
	OK(gm_progress_left(1, 0, 5) == UINT64_MAX);
	OK(gm_progress_left(1, 2, 0) == UINT64_MAX);
	OK(gm_progress_left(0, UINT64_MAX, 1) == UINT64_MAX);
	EQ((intmax_t)gm_progress_left(5, 5, 0), 0);
	EQ((intmax_t)gm_progress_left(10, 30, 10), (intmax_t)(2 * SECOND));
}

TAP_CASE()
{
	what_has_no_room_is_left_out();
	each_width_has_room_for_a_cursor();
	an_unknown_total_has_no_bar();
	names_have_no_effect_on_a_terminal();
	times_are_of_their_size();
	the_rate_is_that_of_the_last_seconds();
	the_rest_takes_so_long();
	return tap_done();
}
