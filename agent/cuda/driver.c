/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/cuda/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Stands in for a function that is not there: see driver.h. */
#define SYMBOL(group, name, version, hip, arguments) \
	static gm_cu_result lack_##name arguments    \
	{                                            \
		return GM_CU_NOT_SUPPORTED;          \
	}
#include "agent/cuda/driver_symbols.h"

#define SYMBOL(group, name, version, hip, arguments) .name = lack_##name,
static const struct gm_driver nothing = {
#include "agent/cuda/driver_symbols.h"
};

static const struct symbol {
	const char *name;
	const char *hip;
	int version;
	uint32_t group;  /* enum gm_driver_group */
	uint32_t offset; /* in struct gm_driver */
} symbols[] = {
#define SYMBOL(group, name, version, hip, arguments) \
	{ #name, hip, version, GM_DRIVER_##group,    \
	  offsetof(struct gm_driver, name) },
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
	[GM_DRIVER_FLAGS] = "threads that wait may use a CPU",
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

/* HIP's functions have one form each.  Those of memory that is exported take
 * other structs in HIP 5. */
static void *look_up_hip(const struct gm_driver *driver,
			 const struct symbol *symbol)
{
	if (!symbol->hip ||
	    (symbol->group == GM_DRIVER_VMM && driver->version < 6000))
		return NULL;
	return dlsym(driver->library.handle, symbol->hip);
}

/* From those that lack everything to what the driver has. */
static void find_functions(struct gm_driver *driver,
			   gm_cu_get_proc_address *get)
{
	driver->has = (UINT32_C(1) << GM_DRIVER_GROUPS) - 1;
	for (uint32_t i = 0; i < GM_DRIVER_SYMBOLS; i++) {
		gm_cu_result result;
		void *fn = get ? look_up(get, &symbols[i], driver->version,
					 &result)
			       : look_up_hip(driver, &symbols[i]);

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

static int fill(struct gm_driver *driver, gm_cu_get_proc_address *get,
		struct gm_driver *ret_driver, char *ret_why)
{
	find_functions(driver, get);
	drop_torn_groups(driver);
	if (gm_driver_lack(driver, GM_DRIVER_CORE, ret_why,
			   GM_LIBRARY_WHY_BYTES))
		return -EOPNOTSUPP;
	*ret_driver = *driver;
	return 0;
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
	return rc < 0 ? rc : fill(&driver, get, ret_driver, ret_why);
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

/* The newest first; one that cannot be loaded hides no older one. */
static int open_runtime(const char *folder, struct gm_library *ret_library,
			char *ret_why)
{
	static const char *const sonames[] = { "libamdhip64.so.7",
					       "libamdhip64.so.6",
					       "libamdhip64.so.5" };
	static const char *const folders[] = { "/opt/rocm/lib", NULL };
	char why[GM_LIBRARY_WHY_BYTES];
	int rc = -ENOENT;

	snprintf(ret_why, GM_LIBRARY_WHY_BYTES,
		 "there is no libamdhip64.so.7, .6 or .5: no ROCm is "
		 "installed, or this container was not given it");
	for (size_t i = 0; i < N_OF(sonames); i++) {
		const struct gm_library_where where = { .soname = sonames[i],
							.compat = folder,
							.folders = folders };
		int r = gm_library_open(&where, ret_library, why);

		if (r == 0)
			return 0;
		if (r == -ENOENT)
			continue;
		memcpy(ret_why, why, sizeof(why));
		rc = r;
	}
	return rc;
}

int gm_driver_open_hip(const char *folder, struct gm_driver *ret_driver,
		       char *ret_why)
{
	struct gm_driver driver = nothing;
	gm_cu_result (*get_version)(int *ret_version);
	int version, rc = open_runtime(folder, &driver.library, ret_why);
	void *fn;

	if (rc < 0)
		return rc;
	driver.is_hip = true;
	fn = look_up_hip(&driver,
			 &symbols[GM_DRIVER_SYMBOL_cuDriverGetVersion]);
	memcpy(&get_version, &fn, sizeof(fn));
	if (!fn || get_version(&version) != GM_CU_SUCCESS) {
		snprintf(ret_why, GM_LIBRARY_WHY_BYTES,
			 "%s does not tell HIP's version", driver.library.path);
		return -ELIBBAD;
	}
	/* 10,000,000 * major + 100,000 * minor + patch */
	driver.version =
		version / 10000000 * 1000 + version / 100000 % 100 * 10;
	return fill(&driver, NULL, ret_driver, ret_why);
}

int gm_driver_attribute(const struct gm_driver *driver, uint32_t which)
{
	/* The runtime exports all memory that it maps, or says that it cannot;
	 * older ones have no number for HOST_REGISTER_SUPPORTED.  AMD's cards
	 * have no compute modes: none is the default. */
	static const struct {
		uint32_t cuda;
		int hip;
	} table[] = {
		{ GM_CU_MULTIPROCESSOR_COUNT, GM_HIP_MULTIPROCESSOR_COUNT },
		{ GM_CU_MEMORY_CLOCK_RATE, GM_HIP_MEMORY_CLOCK_RATE },
		{ GM_CU_GLOBAL_MEMORY_BUS_WIDTH, GM_HIP_MEMORY_BUS_WIDTH },
		{ GM_CU_HOST_REGISTER_SUPPORTED, GM_HIP_CAN_MAP_HOST_MEMORY },
		{ GM_CU_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
		  GM_HIP_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED },
		{ GM_CU_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
		  GM_HIP_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED },
		{ GM_CU_CAN_USE_64_BIT_STREAM_MEM_OPS,
		  GM_HIP_CAN_USE_STREAM_WAIT_VALUE },
	};

	if (!driver->is_hip)
		return (int)which;
	for (size_t i = 0; i < N_OF(table); i++) {
		if (table[i].cuda == which)
			return table[i].hip;
	}
	return -1;
}

const char *gm_driver_call(const struct gm_driver *driver, const char *name)
{
	for (uint32_t i = 0; driver->is_hip && i < GM_DRIVER_SYMBOLS; i++) {
		if (symbols[i].hip && strcmp(symbols[i].name, name) == 0)
			return symbols[i].hip;
	}
	return name;
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
	if (driver->is_hip)
		snprintf(ret_text, bytes,
			 "the runtime brings HIP %s and lacks %s: %s",
			 print_version(driver->version).text,
			 gm_driver_call(driver, first->name), without[group]);
	else
		snprintf(ret_text, bytes,
			 "the driver brings CUDA %s and lacks %s of %s: %s",
			 print_version(driver->version).text, first->name,
			 print_version(first->version).text, without[group]);
	return n;
}
