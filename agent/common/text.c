/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/text.h"

#include <string.h>

uint32_t gm_text_decode(const char *text, uint32_t *ret_point)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *c = (const unsigned char *)text;
	uint32_t n = *c < 0x80   ? 1
		     : *c < 0xc2 ? 0
		     : *c < 0xe0 ? 2
		     : *c < 0xf0 ? 3
		     : *c < 0xf5 ? 4
				 : 0;
	uint32_t point = n > 1 ? *c & (0x7fu >> n) : *c;

	for (uint32_t i = 1; i < n; i++) {
		if ((c[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (c[i] & 0x3fu);
	}
	if (n == 0 || point < least[n] || point > 0x10ffff ||
	    (point >= 0xd800 && point <= 0xdfff))
		return 0;
	*ret_point = point;
	return n;
}

/* White_Space, Cc and Cf of Unicode, by ranges. */
static const struct {
	uint32_t first, last;
} unfit[] = {
	{ 0, ' ' },           { 0x7f, 0xa0 },       { 0xad, 0xad },
	{ 0x600, 0x605 },     { 0x61c, 0x61c },     { 0x6dd, 0x6dd },
	{ 0x70f, 0x70f },     { 0x1680, 0x1680 },   { 0x180e, 0x180e },
	{ 0x2000, 0x200f },   { 0x2028, 0x202f },   { 0x205f, 0x206f },
	{ 0x3000, 0x3000 },   { 0xfeff, 0xfeff },   { 0xfff9, 0xfffb },
	{ 0x1d173, 0x1d17a }, { 0xe0000, 0xe007f },
};

bool gm_text_is_fit(uint32_t point)
{
	for (size_t i = 0; i < sizeof(unfit) / sizeof(unfit[0]); i++) {
		if (point >= unfit[i].first && point <= unfit[i].last)
			return false;
	}
	return true;
}

void gm_text_make_plain(char *text, size_t n)
{
	uint32_t point, bytes;

	for (size_t i = 0; i < n; i += bytes) {
		bytes = gm_text_decode(text + i, &point);
		if (bytes != 0 && i + bytes <= n &&
		    (point == ' ' || gm_text_is_fit(point)))
			continue;
		bytes = 1;
		text[i] = '?';
	}
}

/* The last place before @end where @mark begins, or NULL. */
static const char *find_last(const char *text, const char *end,
			     const char *mark)
{
	const char *found = NULL;

	for (const char *at = text;
	     (at = strstr(at, mark)) != NULL && at <= end; at++)
		found = at;
	return found;
}

void gm_text_shorten(char *ret_text, size_t bytes, const char *text)
{
	static const char more[] = "...";
	size_t n = strlen(text);
	const char *end;

	if (n < bytes) {
		memcpy(ret_text, text, n + 1);
		return;
	}
	end = NULL;
	if (strncmp(text, "CUDA ", 5) == 0 || strncmp(text, "NVML ", 5) == 0)
		end = find_last(text, text + bytes - 1, ": ");
	if (end != NULL) {
		memcpy(ret_text, text, (size_t)(end - text));
		ret_text[end - text] = '\0';
		return;
	}
	end = find_last(text, text + bytes - sizeof(more), " ");
	if (end == NULL)
		end = text + bytes - sizeof(more);
	memcpy(ret_text, text, (size_t)(end - text));
	memcpy(ret_text + (end - text), more, sizeof(more));
}
