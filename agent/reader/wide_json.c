/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/reader/wide_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Remove the marks and their quotes, in place. */
static void narrow(char *text)
{
	char *to = text;

	while (*text) {
		if (strncmp(text, "\"" GM_WIDE_MARK, sizeof(GM_WIDE_MARK)) !=
		    0) {
			*to++ = *text++;
			continue;
		}
		for (text += sizeof(GM_WIDE_MARK); *text != '"';)
			*to++ = *text++;
		text++;
	}
	*to = '\0';
}

char *gm_wide_dump(const json_t *json)
{
	char *text = json_dumps(json, JSON_COMPACT);

	if (text)
		narrow(text);
	return text;
}

json_t *gm_wide_integer(uint64_t value)
{
	char text[24];

	if (value <= INT64_MAX)
		return json_integer((json_int_t)value);
	snprintf(text, sizeof(text), "%c%" PRIu64, GM_WIDE_MARK_CHAR, value);
	return json_string(text);
}
