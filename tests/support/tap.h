/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * tap.h - what a test prints: one line per check, then the plan.
 *
 *	OK(condition)		holds
 *	EQ(got, want)		two integers agree; shows both when they do not
 *	STR(got, want)		two strings agree; NULL equals only NULL
 *	SKIP(n, why)		n checks that cannot run here, and the reason
 *	LACK(thing, n, why)	the same for want of @thing ("cuda", "numa"),
 *				but a failure where GPUMAP_REQUIRE names it: the
 *				machine was meant to have it
 *	NOTE(format, ...)	a line for the reader of the log
 *
 * Each returns whether it passed, so that a test which cannot go on returns.
 * One process prints: a child must report to its parent, for its lines would
 * be numbered apart.  NDEBUG changes nothing here.
 *
 * A file of a suite (tests/support/suite.c) is one case of it, and has instead
 * of main():
 *
 *	TAP_CASE()			{ ...; return tap_done(); }
 *	TAP_CASE_ARGS(argc, argv)	the same with the case's arguments
 */
#ifndef GM_TEST_SUPPORT_TAP_H
#define GM_TEST_SUPPORT_TAP_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int tap_failures; /* checks of this process that did not pass */

bool tap_check(bool pass, const char *what, const char *file, int line);
bool tap_equal(intmax_t got, intmax_t want, const char *what, const char *file,
	       int line);
bool tap_string(const char *got, const char *want, const char *what,
		const char *file, int line);
void tap_skip(int n, const char *why);
void tap_lack(const char *thing, int n, const char *why);

#define OK(cond) tap_check((cond), #cond, __FILE__, __LINE__)
#define EQ(got, want) \
	tap_equal((got), (want), #got " is " #want, __FILE__, __LINE__)
#define STR(got, want) \
	tap_string((got), (want), #got " is " #want, __FILE__, __LINE__)
#define SKIP(n, why)        tap_skip((n), (why))
#define LACK(thing, n, why) tap_lack((thing), (n), (why))
#define NOTE(...)           (printf("# " __VA_ARGS__), puts(""), fflush(stdout))

/* Does this build have the test points of shm/point.h? */
bool tap_has_points(void);

/* The plan, last.  Returns main's status. */
int tap_done(void);

/* One file's tests, named after it. */
struct tap_case {
	const char *file;
	int (*run)(int argc, char **argv);
	struct tap_case *next;
};

void tap_add(struct tap_case *new_case);

#define TAP_CASE_ARGS(argc, argv)                                             \
	static int tap_main(int argc, char **argv);                           \
	__attribute__((constructor)) static void tap_register(void)           \
	{                                                                     \
		static struct tap_case this_file = { __FILE__, tap_main, 0 }; \
                                                                              \
		tap_add(&this_file);                                          \
	}                                                                     \
	static int tap_main(int argc, char **argv)
#define TAP_CASE()                                      \
	TAP_CASE_ARGS(tap_argc __attribute__((unused)), \
		      tap_argv __attribute__((unused)))

#endif
