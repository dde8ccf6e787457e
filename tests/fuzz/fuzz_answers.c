/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Requests of tests/support/answers.
 *
 *	byte 0	the kind: 's' spec, 'p' plan, 'm' mesh, 'c' choose, 'a' mask,
 *		else split
 *	then	the line
 */

#include "tests/fuzz/fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "tests/answers/answers.h"

static const struct answers_kind *kind_of(uint8_t byte)
{
	static const char *const names[] = {
		['s'] = "spec",   ['p'] = "plan", ['m'] = "mesh",
		['c'] = "choose", ['a'] = "mask", [UINT8_MAX] = NULL,
	};
	const char *name = names[byte] ? names[byte] : "split";
	const struct answers_kind *kind = answers_kinds;

	while (strcmp(kind->name, name) != 0)
		kind++;
	return kind;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;
	size_t n;

	if (size < 1)
		return 0;
	text = answers_line(kind_of(data[0]), (const char *)data + 1, size - 1);
	MUST(text);
	n = strlen(text);
	MUST(n > 2 && text[n - 1] == '}');
	MUST(strncmp(text, "{\"ok\":{", 7) == 0 ||
	     strncmp(text, "{\"error\":\"", 10) == 0);
	/* One line, and no mark left in it. */
	for (size_t i = 0; i < n; i++)
		MUST((unsigned char)text[i] >= ' ');
	MUST(text[2] == 'e' || !strstr(text, "u0001"));
	free(text);
	return 0;
}
