/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/tap.h"

int tap_failures;

static int tap_count;

bool tap_check(bool pass, const char *what, const char *file, int line)
{
	printf("%sok %d - %s\n", pass ? "" : "not ", ++tap_count, what);
	if (!pass) {
		tap_failures++;
		printf("# %s:%d\n", file, line);
	}
	/* A killed test keeps what it found out; a fork repeats none of it. */
	fflush(stdout);
	return pass;
}

bool tap_equal(intmax_t got, intmax_t want, const char *what, const char *file,
	       int line)
{
	bool pass = tap_check(got == want, what, file, line);

	if (!pass)
		printf("# got %" PRIdMAX ", want %" PRIdMAX "\n", got, want);
	fflush(stdout);
	return pass;
}

bool tap_string(const char *got, const char *want, const char *what,
		const char *file, int line)
{
	bool same = got && want ? strcmp(got, want) == 0 : got == want;
	bool pass = tap_check(same, what, file, line);

	if (!pass)
		printf("# got \"%s\", want \"%s\"\n", got ? got : "(null)",
		       want ? want : "(null)");
	fflush(stdout);
	return pass;
}

static bool tap_required(const char *thing)
{
	const char *at = getenv("GPUMAP_REQUIRE");
	size_t n = strlen(thing);

	for (; at && *at; at += strspn(at, " ")) {
		size_t word = strcspn(at, " ");

		if (word == n && strncmp(at, thing, n) == 0)
			return true;
		at += word;
	}
	return false;
}

void tap_skip(int n, const char *why)
{
	while (n-- > 0)
		printf("ok %d # SKIP %s\n", ++tap_count, why);
	fflush(stdout);
}

void tap_lack(const char *thing, int n, const char *why)
{
	if (tap_required(thing))
		tap_check(false, why, thing, 0);
	else
		tap_skip(n, why);
}

bool tap_has_points(void)
{
#ifdef GM_TESTPOINTS
	return true;
#else
	return false;
#endif
}

int tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failures != 0;
}
