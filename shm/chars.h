/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* chars - a part of a text, without its end: trimmed and compared as Rust's
 * trim() and eq_ignore_ascii_case() do. */
#ifndef GM_CHARS_H
#define GM_CHARS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct gm_chars {
	const char *at;
	size_t n; /* bytes */
};

/* A terminated text as a whole. */
static inline struct gm_chars gm_chars_of(const char *text)
{
	return (struct gm_chars){ text, strlen(text) };
}

/* The bytes behind the first @n. */
static inline struct gm_chars gm_chars_behind(struct gm_chars piece, size_t n)
{
	return (struct gm_chars){ piece.at + n, piece.n - n };
}

/* Bytes of the white space character, in Unicode's sense, that @n bytes begin
 * with, or 0. */
static inline size_t gm_chars_space(const char *at, size_t n)
{
	const unsigned char *c = (const unsigned char *)at;

	if (n >= 1 && (c[0] == ' ' || (c[0] >= '\t' && c[0] <= '\r')))
		return 1;
	if (n >= 2 && c[0] == 0xc2 && (c[1] == 0x85 || c[1] == 0xa0))
		return 2;
	if (n < 3)
		return 0;
	if (c[0] == 0xe2 && c[1] == 0x80 &&
	    ((c[2] >= 0x80 && c[2] <= 0x8a) || c[2] == 0xa8 || c[2] == 0xa9 ||
	     c[2] == 0xaf))
		return 3;
	if ((c[0] == 0xe1 && c[1] == 0x9a && c[2] == 0x80) ||
	    (c[0] == 0xe2 && c[1] == 0x81 && c[2] == 0x9f) ||
	    (c[0] == 0xe3 && c[1] == 0x80 && c[2] == 0x80))
		return 3;
	return 0;
}

/* Bytes of the white space character that the piece ends with, or 0. */
static inline size_t gm_chars_last_space(struct gm_chars piece)
{
	for (size_t n = 1; n <= 3 && n <= piece.n; n++)
		if (gm_chars_space(piece.at + piece.n - n, n) == n)
			return n;
	return 0;
}

/* Remove the white space on both sides. */
static inline struct gm_chars gm_chars_trim(struct gm_chars piece)
{
	size_t n;

	while ((n = gm_chars_space(piece.at, piece.n)) > 0)
		piece = gm_chars_behind(piece, n);
	while ((n = gm_chars_last_space(piece)) > 0)
		piece.n -= n;
	return piece;
}

static inline char gm_chars_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Does @whole begin with @part, but for the case of ASCII letters? */
static inline bool gm_chars_begins(struct gm_chars whole, struct gm_chars part)
{
	if (part.n > whole.n)
		return false;
	for (size_t i = 0; i < part.n; i++)
		if (gm_chars_lower(whole.at[i]) != gm_chars_lower(part.at[i]))
			return false;
	return true;
}

/* Are both the same, but for the case of ASCII letters? */
static inline bool gm_chars_equal(struct gm_chars a, struct gm_chars b)
{
	return a.n == b.n && gm_chars_begins(a, b);
}

#endif
