/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/cuda/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Stands in for a function that is not there: see driver.h. */
#define SYMBOL(group, name, version, arguments)   \
	static gm_cu_result lack_##name arguments \
	{                                         \
		return GM_CU_NOT_SUPPORTED;       \
	}
#include "agent/cuda/driver_symbols.h"

#define SYMBOL(group, name, version, arguments) .name = lack_##name,
static const struct gm_driver nothing = {
#include "agent/cuda/driver_symbols.h"
};

static const struct symbol {
	const char *name;
	int version;
	uint32_t group;  /* enum gm_driver_group */
	uint32_t offset; /* in struct gm_driver */
} symbols[] = {
#define SYMBOL(group, name, version, arguments) \
	{ #name, version, GM_DRIVER_##group, offsetof(struct gm_driver, name) },
#include "agent/cuda/driver_symbols.h"
};

_Static_assert(N_OF(symbols) == GM_DRIVER_SYMBOLS, "one list");
_Static_assert(GM_DRIVER_SYMBOLS <= UINT8_MAX, "a missing one is a byte");

/* The feature that is missing with it. */
static const char *const without[GM_DRIVER_GROUPS] = {
	[GM_DRIVER_CORE] = "the driver cannot be used",
	[GM_DRIVER_REGISTER] = "copies go through staging",
	[GM_DRIVER_VMM] = "no memory can be exported",
	[GM_DRIVER_MEMOPS] = "completions wait for events",
	[GM_DRIVER_BATCH] = "each copy is a call of its own",
	[GM_DRIVER_LIBRARY] = "programs are loaded as modules",
};

/* "12.8", for people. */
struct version {
	char text[24];
};

static struct version print_version(int version)
{
	struct version v;

	snprintf(v.text, sizeof(v.text), "%d.%d", version / 1000,
		 version % 1000 / 10);
	return v;
}

/*
 * A symbol's function for its version, or NULL.  An unknown symbol succeeds
 * without one.  A symbol that is newer than the driver may succeed with a
 * function that is older, and takes other arguments: it is not asked for.
 */
static void *look_up(gm_cu_get_proc_address *get, const struct symbol *symbol,
		     int driver_version, gm_cu_result *ret_result)
{
	unsigned int status = GM_CU_SYMBOL_FOUND;
	void *fn = NULL;

	*ret_result = GM_CU_NOT_SUPPORTED;
	if (symbol->version > driver_version)
		return NULL;
	*ret_result = get(symbol->name, &fn, symbol->version,
			  GM_CU_GET_PROC_ADDRESS_DEFAULT, &status);
	if (*ret_result != GM_CU_SUCCESS || status != GM_CU_SYMBOL_FOUND)
		return NULL;
	return fn;
}

static void set_function(struct gm_driver *driver, const struct symbol *symbol,
			 const void *fn)
{
	memcpy((char *)driver + symbol->offset, fn, sizeof(void *));
}

static int find_entry(const struct gm_library *library,
		      gm_cu_get_proc_address **ret_get, char *ret_why)
{
	void *get = dlsym(library->handle, "cuGetProcAddress_v2");

	/* POSIX, not C, lets a pointer to data hold a function. */
	if (get) {
		memcpy(ret_get, &get, sizeof(get));
		return 0;
	}
	if (dlsym(library->handle, "cuInit")) {
		snprintf(ret_why, GM_LIBRARY_WHY_BYTES,
			 "%s is older than CUDA 12.0: install driver 525 or a "
			 "later one",
			 library->path);
		return -EOPNOTSUPP;
	}
	snprintf(ret_why, GM_LIBRARY_WHY_BYTES, "%s is no CUDA driver",
		 library->path);
	return -ELIBBAD;
}

/* First of all: what is asked for later depends on it. */
static int find_version(struct gm_driver *driver, gm_cu_get_proc_address *get,
			char *ret_why)
{
	gm_cu_result result;
	void *fn = look_up(get, &symbols[GM_DRIVER_SYMBOL_cuDriverGetVersion],
			   GM_DRIVER_MIN_VERSION, &result);
	gm_cu_result (*get_version)(int *ret_version);

	if (fn) {
		memcpy(&get_version, &fn, sizeof(fn));
		result = get_version(&driver->version);
	}
	if (result == GM_CU_STUB_LIBRARY) {
		snprintf(ret_why, GM_LIBRARY_WHY_BYTES,
			 "%s is the toolkit's stub for the linker, no driver: "
			 "take its folder out of LD_LIBRARY_PATH",
			 driver->library.path);
		return -ELIBBAD;
	}
	if (!fn || result != GM_CU_SUCCESS) {
		snprintf(ret_why, GM_LIBRARY_WHY_BYTES,
			 "%s does not tell its version (CUDA error %u)",
			 driver->library.path, result);
		return -ELIBBAD;
	}
	if (driver->version < GM_DRIVER_MIN_VERSION) {
		snprintf(ret_why, GM_LIBRARY_WHY_BYTES,
			 "%s brings CUDA %s and 12.0 is needed: install driver "
			 "525 or a later one",
			 driver->library.path,
			 print_version(driver->version).text);
		return -EOPNOTSUPP;
	}
	return 0;
}

/* From those that lack everything to what the driver has. */
static void find_functions(struct gm_driver *driver,
			   gm_cu_get_proc_address *get)
{
	driver->has = (UINT32_C(1) << GM_DRIVER_GROUPS) - 1;
	for (uint32_t i = 0; i < GM_DRIVER_SYMBOLS; i++) {
		gm_cu_result result;
		void *fn = look_up(get, &symbols[i], driver->version, &result);

		if (fn) {
			set_function(driver, &symbols[i], &fn);
			continue;
		}
		driver->has &= ~(UINT32_C(1) << symbols[i].group);
		driver->missing[driver->n_missing++] = (uint8_t)i;
	}
}

/* A group is there as a whole, or not at all. */
static void drop_torn_groups(struct gm_driver *driver)
{
	for (uint32_t i = 0; i < GM_DRIVER_SYMBOLS; i++) {
		if (!gm_driver_has(driver, symbols[i].group))
			set_function(driver, &symbols[i],
				     (const char *)&nothing +
					     symbols[i].offset);
	}
}

int gm_driver_open_where(const struct gm_library_where *where,
			 struct gm_driver *ret_driver, char *ret_why)
{
	struct gm_driver driver = nothing;
	gm_cu_get_proc_address *get = NULL;
	int rc;

	rc = gm_library_open(where, &driver.library, ret_why);
	if (rc < 0)
		return rc;
	rc = find_entry(&driver.library, &get, ret_why);
	if (rc < 0)
		return rc;
	rc = find_version(&driver, get, ret_why);
	if (rc < 0)
		return rc;
	find_functions(&driver, get);
	drop_torn_groups(&driver);
	if (gm_driver_lack(&driver, GM_DRIVER_CORE, ret_why,
			   GM_LIBRARY_WHY_BYTES))
		return -EOPNOTSUPP;
	*ret_driver = driver;
	return 0;
}

int gm_driver_open(const char *compat, struct gm_driver *ret_driver,
		   char *ret_why)
{
	/* Those of PTX, each needed by the next, and the one that NCCL
	 * opens. */
	static const char *const further[] = {
		"libnvidia-gpucomp.so.",
		"libnvidia-nvvm.so.4",
		"libnvidia-ptxjitcompiler.so.1",
		"libnvidia-ml.so.1",
		NULL,
	};
	const struct gm_library_where where = { .soname = "libcuda.so.1",
						.compat = compat,
						.further = further };

	return gm_driver_open_where(&where, ret_driver, ret_why);
}

uint32_t gm_driver_lack(const struct gm_driver *driver, uint32_t group,
			char *ret_text, size_t bytes)
{
	const struct symbol *first = NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; i < driver->n_missing; i++) {
		const struct symbol *symbol = &symbols[driver->missing[i]];

		if (symbol->group != group)
			continue;
		if (n++ == 0)
			first = symbol;
	}
	if (!first)
		return 0;
	snprintf(ret_text, bytes,
		 "the driver brings CUDA %s and lacks %s of %s: %s",
		 print_version(driver->version).text, first->name,
		 print_version(first->version).text, without[group]);
	return n;
}
