/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/version.h"

#include <stddef.h>
#include <string.h>

#include "shm/chars.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static struct gm_chars whole(const char *text)
{
	return gm_chars_trim(gm_chars_of(text));
}

bool gm_version_valid(const char *text)
{
	struct gm_chars v = whole(text);

	/* Each dot stands between digits. */
	for (size_t i = 0; i < v.n; i++) {
		if (is_digit(v.at[i]))
			continue;
		if (v.at[i] != '.' || i == 0 || i + 1 == v.n ||
		    !is_digit(v.at[i - 1]))
			return false;
	}
	return true;
}

/* Remove the first part from *version, and return it without leading zeros. */
static struct gm_chars next_part(struct gm_chars *version)
{
	struct gm_chars part = { version->at, 0 };
	size_t n = 0;

	while (n < version->n && version->at[n] != '.')
		n++;
	part.n = n;
	n += n < version->n;
	version->at += n;
	version->n -= n;
	while (part.n > 0 && part.at[0] == '0') {
		part.at++;
		part.n--;
	}
	return part;
}

static int compare_parts(struct gm_chars a, struct gm_chars b)
{
	if (a.n != b.n)
		return a.n < b.n ? -1 : 1;
	return a.n == 0 ? 0 : memcmp(a.at, b.at, a.n);
}

bool gm_version_reaches(const char *text, const char *least)
{
	struct gm_chars a, b;
	int by = 0;

	if (!text || !gm_version_valid(text) || !gm_version_valid(least))
		return false;
	a = whole(text);
	b = whole(least);
	while (by == 0 && (a.n > 0 || b.n > 0))
		by = compare_parts(next_part(&a), next_part(&b));
	return by >= 0;
}
