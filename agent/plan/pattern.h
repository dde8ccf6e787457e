/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * pattern - regular expressions over the names of tensors.
 *
 * People write them as for Rust's regex library; they are searched for as
 * POSIX extended expressions, byte by byte.  What both know passes as it is;
 * \d, \D, (?:...) and lazy quantifiers, which change no answer of yes or no,
 * are put in POSIX terms; what POSIX lacks or reads differently is refused
 * rather than matched wrongly.  Repetitions are limited so that no pattern
 * takes more than some megabytes.
 */
#ifndef GM_PATTERN_H
#define GM_PATTERN_H

#include <regex.h>
#include <stddef.h>

#define GM_PATTERN_BYTES  1024u /* most bytes of one, as written */
#define GM_PATTERN_COPIES 1000u /* most copies that {n}s make together */

/*
 * gm_pattern_compile - compile @n bytes
 *
 * ret_regex	for regexec(); give it back with regfree()
 * ret_why	receives what is wrong
 *
 * Returns	0, -EINVAL
 * Threads	any
 */
int gm_pattern_compile(const char *text, size_t n, regex_t *ret_regex,
		       char ret_why[128]);

#endif
