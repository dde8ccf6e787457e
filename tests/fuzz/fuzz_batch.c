/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Requests of gpumapctl --batch.
 *
 *	byte 0	which command: 's', 'p', 'm', 'c', 'a', else split
 *	then	the line
 */

#include "tests/fuzz/fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "agent/mask/mask_batch.h"
#include "agent/plan/batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum gm_batch_kind what = GM_BATCH_SPLIT;
	char *text;
	size_t n;

	if (size < 1)
		return 0;
	if (data[0] == 's')
		what = GM_BATCH_SPEC;
	else if (data[0] == 'p')
		what = GM_BATCH_PLAN;
	else if (data[0] == 'm')
		what = GM_BATCH_MESH;
	else if (data[0] == 'c')
		what = GM_BATCH_CHOOSE;
	if (data[0] == 'a')
		text = gm_mask_batch((const char *)data + 1, size - 1);
	else
		text = gm_batch_answer(what, (const char *)data + 1, size - 1);
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
