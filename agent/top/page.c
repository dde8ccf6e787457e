/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/top/page.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 1024

static bool make_room(struct gm_page *page, int lines)
{
	struct gm_page_cell *cells;
	int32_t *tags;

	if (lines <= page->room && page->width <= page->room_width)
		return true;
	lines = lines < 32 ? 32 : lines + lines / 2;
	cells = realloc(page->cells,
			(size_t)lines * (size_t)page->width * sizeof(*cells));
	if (cells != NULL)
		page->cells = cells;
	tags = realloc(page->tags, (size_t)lines * sizeof(*tags));
	if (tags != NULL)
		page->tags = tags;
	if (cells == NULL || tags == NULL) {
		page->room = 0; /* what there is may be of either size */
		page->failed = true;
		return false;
	}
	page->room = lines;
	page->room_width = page->width;
	return true;
}

void gm_page_clear(struct gm_page *page, int width, bool is_ascii)
{
	if (width != page->width)
		page->room = 0;
	page->width = width > 0 ? width : 1;
	page->is_ascii = is_ascii;
	page->failed = false;
	page->n = 0;
}

void gm_page_free(struct gm_page *page)
{
	free(page->cells);
	free(page->tags);
	*page = (struct gm_page){ .n = 0 };
}

static struct gm_page_cell *line_of(const struct gm_page *page, int line)
{
	return page->cells + (size_t)line * (size_t)page->width;
}

void gm_page_line(struct gm_page *page, int32_t tag)
{
	struct gm_page_cell *cells;

	if (page->failed || !make_room(page, page->n + 1))
		return;
	page->tags[page->n] = tag;
	cells = line_of(page, page->n++);
	for (int x = 0; x < page->width; x++)
		cells[x] = (struct gm_page_cell){ L' ', GM_STYLE_PLAIN };
}

/* ---- text ---------------------------------------------------------------- */

/* Take the next character, as a terminal may have it. */
static wchar_t take(const struct gm_page *page, const char **text,
		    int *ret_columns)
{
	mbstate_t state = { 0 };
	wchar_t ch = 0;
	size_t n = mbrtowc(&ch, *text, strlen(*text), &state);

	*ret_columns = 1;
	if (n == (size_t)-1 || n == (size_t)-2 || n == 0) {
		*text += 1;
		return L'?';
	}
	*text += n;
	if (ch >= L' ' && ch <= L'~')
		return ch;
	if (page->is_ascii || wcwidth(ch) < 1)
		return L'?';
	*ret_columns = wcwidth(ch);
	return ch;
}

int gm_page_columns(const struct gm_page *page, const char *text)
{
	int columns, n = 0;

	while (*text != '\0') {
		take(page, &text, &columns);
		n += columns;
	}
	return n;
}

int gm_page_put(struct gm_page *page, int x, int end, enum gm_page_style style,
		const char *text)
{
	struct gm_page_cell *cells;
	int columns;

	if (page->n == 0)
		return x;
	cells = line_of(page, page->n - 1);
	if (end > page->width)
		end = page->width;
	while (*text != '\0' && x < end) {
		wchar_t ch = take(page, &text, &columns);

		if (x + columns > end)
			break;
		cells[x] = (struct gm_page_cell){ ch, (uint8_t)style };
		for (int k = 1; k < columns; k++)
			cells[x + k] =
				(struct gm_page_cell){ 0, (uint8_t)style };
		x += columns;
	}
	return x;
}

int gm_page_printf(struct gm_page *page, int x, enum gm_page_style style,
		   const char *format, ...)
{
	char text[LINE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return gm_page_put(page, x, page->width, style, text);
}

void gm_page_right(struct gm_page *page, int x, int end,
		   enum gm_page_style style, const char *text)
{
	int start = end - gm_page_columns(page, text);

	gm_page_put(page, start > x ? start : x, end, style, text);
}

void gm_page_fill(struct gm_page *page, int x, int end,
		  enum gm_page_style style, wchar_t ch)
{
	struct gm_page_cell *cells;

	if (page->n == 0)
		return;
	cells = line_of(page, page->n - 1);
	for (; x < end && x < page->width; x++)
		cells[x] = (struct gm_page_cell){ ch, (uint8_t)style };
}

wchar_t gm_page_sign(const struct gm_page *page, wchar_t ch, char ascii)
{
	return page->is_ascii ? (wchar_t)ascii : ch;
}

/* ---- lines --------------------------------------------------------------- */

void gm_page_copy(struct gm_page *to, int x, const struct gm_page *from,
		  int line, unsigned int mark)
{
	const struct gm_page_cell *cells = line_of(from, line);
	struct gm_page_cell *at;

	if (to->n == 0)
		return;
	at = line_of(to, to->n - 1) + x;
	for (int i = 0; i < from->width && x + i < to->width; i++) {
		at[i] = cells[i];
		at[i].style |= (uint8_t)mark;
	}
}

void gm_page_write(const struct gm_page *page, FILE *to)
{
	for (int line = 0; line < page->n; line++) {
		const struct gm_page_cell *cells = line_of(page, line);
		mbstate_t state = { 0 };
		int end = page->width;

		while (end > 0 && cells[end - 1].ch == L' ')
			end--;
		for (int x = 0; x < end; x++) {
			char bytes[MB_LEN_MAX];
			size_t n = wcrtomb(bytes, cells[x].ch, &state);

			if (cells[x].ch == 0)
				continue;
			if (n == (size_t)-1)
				putc('?', to);
			else
				fwrite(bytes, 1, n, to);
		}
		putc('\n', to);
	}
}
