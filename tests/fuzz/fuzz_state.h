/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* A state file's text: as it is, and with a first line that fits the rest. */
#ifndef FUZZ_STATE_H
#define FUZZ_STATE_H

#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "agent/common/refusal.h"
#include "tests/support/fnv.h"

/* Whatever reads a state file answers with one of these, and says why. */
static inline int fuzz_state_must(int ret, const char why[GM_WHY_BYTES])
{
	MUST(ret == 0 || ret == -EPROTO || ret == -EBADMSG);
	MUST((ret == 0) == (why[0] == '\0'));
	return ret;
}

static inline void fuzz_state(const uint8_t *data, size_t size,
			      void (*try_text)(const char *text, size_t bytes))
{
	char *text = malloc(size + 64);
	int n;

	MUST(text != NULL);
	memcpy(text, data, size);
	try_text(text, size);
	n = sprintf(text, "gpumap-state 1 %zu %016" PRIx64 "\n", size,
		    fnv(data, size));
	memcpy(text + n, data, size);
	try_text(text, (size_t)n + size);
	free(text);
}

#endif
