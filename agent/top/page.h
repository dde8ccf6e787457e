/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * page - lines of character cells, each with a style.
 *
 *   - A page has one width; lines are added at its end, and text is put on the
 *     last line.  Text that does not fit is cut.
 *   - No text can do anything to a terminal: a control character, one that has
 *     no width, and a byte that is not of the locale's encoding become "?".
 *     On a page that is ASCII all other characters do, too.
 *   - A page that has run out of memory stays as it was: page->failed.
 */
#ifndef GM_TOP_PAGE_H
#define GM_TOP_PAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <wchar.h>

enum gm_page_style {
	GM_STYLE_PLAIN,
	GM_STYLE_DIM,
	GM_STYLE_STRONG,
	GM_STYLE_TITLE,
	GM_STYLE_OURS,     /* memory of sessions */
	GM_STYLE_OTHERS,   /* memory of other processes */
	GM_STYLE_PROMISED, /* memory that holders do not use yet */
	GM_STYLE_FREE,
	GM_STYLE_GOOD,
	GM_STYLE_WARN,
	GM_STYLE_BAD,
	GM_STYLE_ALARM, /* a line that must be seen */
	GM_STYLE_KEY,
	GM_STYLE_N
};

#define GM_PAGE_CHOSEN 0x80u /* with a style: the line that is selected */

struct gm_page_cell {
	wchar_t ch; /* 0: the right half of the one before */
	uint8_t style;
};

struct gm_page {
	int width;
	int n; /* lines */
	bool is_ascii;
	bool failed;
	struct gm_page_cell *cells; /* width * n */
	int32_t *tags;              /* of each line: its maker's */
	int room;                   /* lines that fit */
	int room_width;
};

/* Make it empty, with its memory kept. */
void gm_page_clear(struct gm_page *page, int width, bool is_ascii);
void gm_page_free(struct gm_page *page);

/* Add a blank line. */
void gm_page_line(struct gm_page *page, int32_t tag);

/* Put text on the last line from column @x to before @end.  Returns the column
 * behind it. */
int gm_page_put(struct gm_page *page, int x, int end, enum gm_page_style style,
		const char *text);
int gm_page_printf(struct gm_page *page, int x, enum gm_page_style style,
		   const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Likewise, so that it ends before @end; as far left as @x. */
void gm_page_right(struct gm_page *page, int x, int end,
		   enum gm_page_style style, const char *text);

/* Fill the last line with one character, from @x to before @end. */
void gm_page_fill(struct gm_page *page, int x, int end,
		  enum gm_page_style style, wchar_t ch);

/* The columns that a text takes. */
int gm_page_columns(const struct gm_page *page, const char *text);

/* A character of ours: @ch, or @ascii where the page is that. */
wchar_t gm_page_sign(const struct gm_page *page, wchar_t ch, char ascii);

/* Copy a line onto the last one of @to, at column @x; with GM_PAGE_CHOSEN in
 * @mark, as the selected one. */
void gm_page_copy(struct gm_page *to, int x, const struct gm_page *from,
		  int line, unsigned int mark);

/* Write it as text, without blanks at the ends of lines. */
void gm_page_write(const struct gm_page *page, FILE *to);

#endif
