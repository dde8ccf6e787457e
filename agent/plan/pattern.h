/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * pattern - compile regular expressions over the names of tensors.
 *
 * Users write them as for Rust's regex library; the search uses POSIX extended
 * expressions, byte by byte.  Syntax that both have passes as it is. \d, \D,
 * (?:...) and lazy quantifiers, which do not change whether there is a match,
 * are translated to POSIX.  Syntax that POSIX lacks or reads differently is
 * refused rather than matched wrongly.  The C library expands repetitions and
 * lists what each choice leads to: two hundred bytes can take a gigabyte, and a
 * thousand with loops take seconds.  So the memory and time of a pattern are
 * estimated before it is compiled.
 */
#ifndef GM_PATTERN_H
#define GM_PATTERN_H

#include <regex.h>
#include <stddef.h>
#include <stdint.h>

#define GM_PATTERN_BYTES  1024u /* most bytes of one, as written */
#define GM_PATTERN_COPIES 1000u /* most copies that {n}s make together */

/* for all patterns of one file */
#define GM_PATTERN_MEMORY (UINT64_C(64) << 20)

/*
 * gm_pattern_compile - compile @n bytes
 *
 * budget	bytes that patterns may still take; lowered by this one
 * ret_regex	for regexec(); give it back with regfree()
 * ret_why	receives what is wrong
 *
 * Returns	0, -EINVAL
 * Threads	any
 */
int gm_pattern_compile(const char *text, size_t n, uint64_t *budget,
		       regex_t *ret_regex, char ret_why[128]);

#endif
