/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * pattern - check the syntax of regular expressions over the names of tensors.
 *
 * Users write them as for Rust's regex library.  No plan uses them, so they are
 * not compiled: a compiler may take exponential time for a hundred bytes, and
 * they come from clients.  The check takes time in proportion to the bytes, and
 * refuses flags, named groups, Unicode classes and sets in brackets.
 */
#ifndef GM_PATTERN_H
#define GM_PATTERN_H

#include <stddef.h>

#define GM_PATTERN_BYTES  1024u /* most bytes of one, as written */
#define GM_PATTERN_COPIES 1000u /* most of one {n} */

/*
 * gm_pattern_check - check @n bytes
 *
 * ret_why	receives what is wrong
 *
 * Returns	0, -EINVAL
 * Threads	any
 */
int gm_pattern_check(const char *text, size_t n, char ret_why[128]);

#endif
