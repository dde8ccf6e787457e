/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/name.h"

#include <errno.h>
#include <stdint.h>

#include "agent/common/text.h"
#include "shm/objects.h"

int gm_name_check(const char *name, char ret_why[GM_WHY_BYTES])
{
	uint32_t point, n;

	if (gm_object_name(name) == 0)
		return gm_why(ret_why, -EINVAL, "a name has 1 to %u bytes",
			      GM_NAME_BYTES - 1);
	for (const char *c = name; *c != '\0'; c += n) {
		n = gm_text_decode(c, &point);
		if (n == 0)
			return gm_why(ret_why, -EINVAL,
				      "a name is text in UTF-8, and byte %u of "
				      "this one is none",
				      (unsigned int)(c - name));
		if (!gm_text_is_fit(point))
			return gm_why(ret_why, -EINVAL,
				      "a name has no blanks and no control "
				      "characters in it, such as U+%04X",
				      (unsigned int)point);
	}
	return 0;
}
