/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * text - what of a client's bytes a terminal prints as itself.
 *
 * Text is UTF-8 as RFC 3629 has it.  Terminals obey control characters, and
 * some characters cannot be seen, or change the direction or the look of what
 * is around them, so that a reader takes the text for another.
 */
#ifndef GM_COMMON_TEXT_H
#define GM_COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decode the character that begins at @text, which ends with a NUL: no longer
 * form than it needs, no surrogate, nothing above U+10FFFF.  Returns its bytes,
 * or 0 where there is none. */
uint32_t gm_text_decode(const char *text, uint32_t *ret_point);

/* Is it printed as itself?  A blank or a line end of Unicode (White_Space) is
 * not, nor is a control character (Cc) or a mark (Cf). */
bool gm_text_is_fit(uint32_t point);

/* Write '?' for each byte of the first @n of @text, which ends with a NUL, that
 * is not printed as itself; ' ' stays. */
void gm_text_make_plain(char *text, size_t n);

/* Copy as much as fits into @bytes: all; or of a driver's error, "CUDA 999
 * UNKNOWN from cuInit: see dmesg", what comes before its remedy; or else whole
 * words and "...". */
void gm_text_shorten(char *ret_text, size_t bytes, const char *text);

#endif
