/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * driver - the CUDA driver, or HIP's runtime, opened at run time.
 *
 * One struct holds what was found: each function of driver_symbols.h as a
 * member of its own name, to be called as driver->cuMemAlloc(&ptr, bytes).
 * Every symbol is asked for with the version of the ABI that it is called by,
 * so a newer driver gives the function that we know and not its successor.
 *
 * Opening initialises nothing: cuInit is the caller's, as is the time it takes.
 * Every driver from CUDA 12.0 on is taken.  A symbol that one lacks turns off
 * the group that it belongs to, and a sentence says which it was and what
 * happens without.  The functions of such a group may be called all the same:
 * they answer NOT_SUPPORTED.
 *
 * HIP's runtime has the same functions under names of its own.  Its differences
 * are in what it is given: gm_driver_attribute(), gm_driver_launch_end() and
 * is_hip tell them.
 */
#ifndef GM_DRIVER_H
#define GM_DRIVER_H

#include <stdbool.h>

#include "agent/cuda/abi.h"
#include "agent/cuda/library.h"

#define GM_DRIVER_MIN_VERSION 12000 /* 1000 * major + 10 * minor */

enum gm_driver_group {
	GM_DRIVER_CORE = 0,     /* always there */
	GM_DRIVER_REGISTER = 1, /* registration of host memory */
	GM_DRIVER_VMM = 2,      /* exportable memory */
	GM_DRIVER_MEMOPS = 3,   /* stream memory operations */
	GM_DRIVER_BATCH = 4,    /* several copies in one call */
	GM_DRIVER_LIBRARY = 5,  /* programs apart from contexts */
	GM_DRIVER_FLAGS = 6,    /* how threads wait in a context */
	GM_DRIVER_GROUPS = 7
};

/* Symbols, for the size of the list of missing ones. */
#define SYMBOL(group, name, version, hip, arguments) GM_DRIVER_SYMBOL_##name,
enum gm_driver_symbol {
#include "agent/cuda/driver_symbols.h"
	GM_DRIVER_SYMBOLS
};

struct gm_driver {
	struct gm_library library;
	bool is_hip;
	int version; /* the CUDA or HIP that it brings: GM_DRIVER_MIN_VERSION */
	uint32_t has;                       /* a bit per enum gm_driver_group */
	uint32_t n_missing;                 /* symbols, and which: */
	uint8_t missing[GM_DRIVER_SYMBOLS]; /* enum gm_driver_symbol */
#define SYMBOL(group, name, version, hip, arguments) \
	gm_cu_result(*name) arguments;
#include "agent/cuda/driver_symbols.h"
};

/*
 * gm_driver_open - find the driver and its functions
 *
 * compat	folder of a compat library to use instead; NULL for none
 * ret_why	GM_LIBRARY_WHY_BYTES: on failure, a line for people
 *
 * Returns	0
 *		-ENOENT		there is no driver: no fault
 *		-ELIBBAD	what is there cannot be loaded or is no driver
 *		-EOPNOTSUPP	it is older than CUDA 12.0, or lacks a function
 *				of the core
 * Threads	any
 */
int gm_driver_open(const char *compat, struct gm_driver *ret_driver,
		   char *ret_why);

/* The same, looking elsewhere: for tests. */
int gm_driver_open_where(const struct gm_library_where *where,
			 struct gm_driver *ret_driver, char *ret_why);

/*
 * gm_driver_open_hip - the same of HIP's runtime, of ROCm 5, 6 or 7
 *
 * folder	of the library to use instead; NULL for the system's
 */
int gm_driver_open_hip(const char *folder, struct gm_driver *ret_driver,
		       char *ret_why);

/* The driver's number of an attribute, for cuDeviceGetAttribute; -1: it has
 * none.  HIP's are those of its headers since 5.0. */
int gm_driver_attribute(const struct gm_driver *driver,
			uint32_t which /* enum gm_cu_attribute */);

/* The last of cuLaunchKernel()'s extras. */
static inline void *gm_driver_launch_end(const struct gm_driver *driver)
{
	return driver->is_hip ? GM_HIP_LAUNCH_PARAM_END
			      : GM_CU_LAUNCH_PARAM_END;
}

/* The driver's name of a function of driver_symbols.h. */
const char *gm_driver_call(const struct gm_driver *driver, const char *name);

static inline bool gm_driver_has(const struct gm_driver *driver, uint32_t group)
{
	return driver->has >> group & 1;
}

/*
 * gm_driver_lack - say what of a group is missing, and what that means
 *
 * Returns	the number of its symbols that are missing; 0 leaves @ret_text
 *		alone
 */
uint32_t gm_driver_lack(const struct gm_driver *driver, uint32_t group,
			char *ret_text, size_t bytes);

#endif
