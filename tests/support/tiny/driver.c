/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A driver that has entry points only, so that unit/cuda/driver.c can test one
 * that is old, torn or no driver at all.  Each function that it gives returns a
 * number of its own.  As real drivers do, it gives a caller that names a newer
 * version than its own a form that is older, and no error.
 *
 * The environment decides what it has: TINY_VERSION, the CUDA version (13000);
 * TINY_MISSING, names of functions between blanks; TINY_UNFIT, names of
 * functions that are found but not for the version; TINY_STUB, by which every
 * call says "stub library".  TINY_OLD leaves cuGetProcAddress out when
 * compiled, TINY_ELSE everything.
 */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cuda/driver.h"
#include "tests/support/tiny/driver.h"

#define EXPORT __attribute__((visibility("default")))

#ifdef TINY_ELSE
EXPORT int tiny_else(void);
EXPORT int tiny_else(void)
{
	return 0;
}
#else
EXPORT gm_cu_result cuInit(unsigned int flags);
EXPORT gm_cu_result cuInit(unsigned int flags)
{
	return GM_CU_SUCCESS;
}

#ifndef TINY_OLD
static int version(void)
{
	const char *text = getenv("TINY_VERSION");

	return text ? atoi(text) : 13000;
}

/* Is the word in the list that a variable holds? */
static bool listed(const char *variable, const char *word)
{
	const char *at = getenv(variable);
	size_t n = strlen(word);

	for (; at && *at; at += strcspn(at, " ")) {
		at += strspn(at, " ");
		if (strncmp(at, word, n) == 0 && strcspn(at, " ") == n)
			return true;
	}
	return false;
}

static gm_cu_result get_version(int *ret_version)
{
	if (getenv("TINY_STUB"))
		return GM_CU_STUB_LIBRARY;
	*ret_version = version();
	return GM_CU_SUCCESS;
}

#define SYMBOL(group, name, version, hip, arguments)         \
	static gm_cu_result tiny_##name arguments            \
	{                                                    \
		return TINY_RESULT(GM_DRIVER_SYMBOL_##name); \
	}
#include "agent/cuda/driver_symbols.h"

static const struct {
	const char *name;
	void *fn;
} functions[] = {
#define SYMBOL(group, name, version, hip, arguments) \
	{ #name, (void *)tiny_##name },
#include "agent/cuda/driver_symbols.h"
};

static void *find(const char *name)
{
	if (listed("TINY_MISSING", name))
		return NULL;
	if (strcmp(name, "cuDriverGetVersion") == 0)
		return (void *)get_version;
	for (size_t i = 0; i < GM_DRIVER_SYMBOLS; i++) {
		if (strcmp(functions[i].name, name) == 0)
			return functions[i].fn;
	}
	return NULL;
}

/* Which version each name was asked for with, "name version " and so on. */
EXPORT char tiny_asked[8192];

static void note(const char *name, int asked)
{
	size_t used = strlen(tiny_asked);

	snprintf(tiny_asked + used, sizeof(tiny_asked) - used, "%s %d ", name,
		 asked);
}

EXPORT gm_cu_get_proc_address cuGetProcAddress_v2;
EXPORT gm_cu_result cuGetProcAddress_v2(const char *symbol, void **ret_fn,
					int asked, uint64_t flags,
					unsigned int *ret_status)
{
	note(symbol, asked);
	*ret_fn = find(symbol);
	*ret_status = *ret_fn ? GM_CU_SYMBOL_FOUND : GM_CU_SYMBOL_NOT_FOUND;
	if (listed("TINY_UNFIT", symbol))
		*ret_status = GM_CU_SYMBOL_VERSION_NOT_SUFFICIENT;
	return GM_CU_SUCCESS;
}
#endif
#endif
