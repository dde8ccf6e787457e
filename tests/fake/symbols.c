/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Which function a name means, for a caller of a given age.
 *
 * A caller names the CUDA version whose interface it was written for, and gets
 * the newest form of the function that is not newer than that, nor than the
 * machine's driver: a caller that is newer than the driver gets a form that is
 * older than it asked for, and no error.  A missing argument is read or written
 * all the same.  Drivers 535, 550 and 555 do all that, also without a card.
 */

#include <string.h>

#include "tests/fake/driver.h"

/* Every form: the name, the CUDA version that it came with, the function. */
static const struct symbol {
	const char *name;
	int since;
	void *function;
} symbols[] = {
#define SYMBOL(name, since, function) { #name, since, (void *)function },
#include "tests/support/cuda_symbols.h"
#undef SYMBOL
};

#define N_SYMBOLS (sizeof(symbols) / sizeof(symbols[0]))

/* Does the machine's plan lack it?  Without a machine there is no plan. */
static bool is_missing(const char *name)
{
	bool is;

	if (!fake.hw.board)
		return false;
	fake_lock(&fake.hw);
	is = fake_is_missing(&fake.hw, name);
	fake_unlock(&fake.hw);
	return is;
}

static CUdriverProcAddressQueryResult find(const char *name, int version,
					   int driver, void **ret_function)
{
	CUdriverProcAddressQueryResult status =
		CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	int since = 0;

	if (is_missing(name))
		return status;
	for (size_t i = 0; i < N_SYMBOLS; i++) {
		const struct symbol *s = &symbols[i];

		if (strcmp(s->name, name) != 0 || s->since > driver)
			continue;
		if (s->since > version) {
			if (!since)
				status =
					CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
		} else if (s->since > since) {
			since = s->since;
			*ret_function = s->function;
			status = CU_GET_PROC_ADDRESS_SUCCESS;
		}
	}
	return status;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version,
			     cuuint64_t flags,
			     CUdriverProcAddressQueryResult *status)
{
	CUdriverProcAddressQueryResult found;
	void *function = NULL;
	int driver = 0;

	if (flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	(void)cuDriverGetVersion(&driver);
	pthread_mutex_lock(&fake_mutex);
	found = find(symbol, version, driver, &function);
	pthread_mutex_unlock(&fake_mutex);
	*pfn = function;
	if (status)
		*status = found;
	return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int version,
			  cuuint64_t flags)
{
	CUresult result =
		cuGetProcAddress_v2(symbol, pfn, version, flags, NULL);

	/* The old form has no other way to say so. */
	return !result && !*pfn ? CUDA_ERROR_NOT_FOUND : result;
}
