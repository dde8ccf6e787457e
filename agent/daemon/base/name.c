/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/name.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/objects.h"

/* How many bytes follow in a character that begins with this one? */
static uint32_t count_rest(unsigned char c)
{
	return c < 0xc2 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : c < 0xf5 ? 3 : 0;
}

/* The second set of control characters, 0x80 to 0x9f, is one byte each to some
 * terminals and behind 0xc2 to others; within longer characters these bytes
 * mean nothing of the kind. */
static bool has_controls(const char *name)
{
	const unsigned char *c = (const unsigned char *)name;
	uint32_t rest = 0;

	for (; *c != '\0'; c++) {
		bool is_second = *c >= 0x80 && *c <= 0x9f;

		if (*c <= ' ' || *c == 0x7f ||
		    (is_second && (rest == 0 || c[-1] == 0xc2)))
			return true;
		rest = rest > 0 && *c >= 0x80 && *c <= 0xbf ? rest - 1
							    : count_rest(*c);
	}
	return false;
}

int gm_name_check(const char *name, char ret_why[GM_WHY_BYTES])
{
	if (gm_object_name(name) == 0)
		return gm_why(ret_why, -EINVAL, "a name has 1 to %u bytes",
			      GM_NAME_BYTES - 1);
	if (has_controls(name))
		return gm_why(ret_why, -EINVAL,
			      "a name has no blanks and no control characters "
			      "in it");
	return 0;
}
