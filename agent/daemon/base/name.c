/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/name.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/objects.h"

/* Decode the character that begins at @c, as RFC 3629 has it: no longer form
 * than it needs, no surrogate, nothing above U+10FFFF.  Returns its bytes, or 0
 * where there is none. */
static uint32_t decode(const unsigned char *c, uint32_t *ret_point)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
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

/* Blanks and line ends of Unicode (White_Space), its control characters (Cc),
 * and those that cannot be seen or change the direction or the look of what is
 * around them (Cf), by ranges. */
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

static bool is_fit(uint32_t point)
{
	for (size_t i = 0; i < sizeof(unfit) / sizeof(unfit[0]); i++) {
		if (point >= unfit[i].first && point <= unfit[i].last)
			return false;
	}
	return true;
}

int gm_name_check(const char *name, char ret_why[GM_WHY_BYTES])
{
	const unsigned char *c = (const unsigned char *)name;
	uint32_t point, n;

	if (gm_object_name(name) == 0)
		return gm_why(ret_why, -EINVAL, "a name has 1 to %u bytes",
			      GM_NAME_BYTES - 1);
	for (; *c != '\0'; c += n) {
		n = decode(c, &point);
		if (n == 0)
			return gm_why(
				ret_why, -EINVAL,
				"a name is text in UTF-8, and byte %u of "
				"this one is none",
				(unsigned int)(c -
					       (const unsigned char *)name));
		if (!is_fit(point))
			return gm_why(ret_why, -EINVAL,
				      "a name has no blanks and no control "
				      "characters in it, such as U+%04X",
				      (unsigned int)point);
	}
	return 0;
}
