/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * nvml: what is there is called, what is not answers for itself, and every
 * error has its words.  tests/support/tiny/nvml.c stands in for the library.
 */

#include <errno.h>

#include "agent/cuda/nvml.h"
#include "tests/support/library_dirs.h"
#include "tests/support/tap.h"

#define SONAME "libtinyml.so.1"

static char why[GM_LIBRARY_WHY_BYTES];
static struct gm_nvml nvml;

static int open_in(const char *folder)
{
	struct shelf_path path = shelf_path(folder);
	const char *const folders[] = { path.text, NULL };
	struct gm_library_where where = { .soname = SONAME,
					  .folders = folders };

	return gm_nvml_open(&where, &nvml, why);
}

static void absence_is_no_fault(void)
{
	nvml.has = 77;
	EQ(open_in("none"), -ENOENT);
	EQ(nvml.has, 77);
}

static void what_is_no_nvml_is_refused(void)
{
	EQ(open_in("bare"), -ELIBBAD);
	OK(strstr(why, "lacks nvmlShutdown") != NULL);
	EQ(nvml.has, 77);
}

static void each_fact_comes_by_itself(void)
{
	unsigned int a, b;

	EQ(open_in("good"), 0);
	OK(gm_nvml_has(&nvml, GM_NVML_CORE));
	OK(gm_nvml_has(&nvml, GM_NVML_EVENTS));
	OK(!gm_nvml_has(&nvml, GM_NVML_FACT));
	EQ(nvml.nvmlInit_v2(), GM_NVML_NOT_READY);
	EQ(nvml.nvmlDeviceGetEccMode(NULL, &a, &b), GM_NVML_NO_DATA);
	EQ(nvml.nvmlDeviceGetNumaNodeId(NULL, &a), GM_NVML_FUNCTION_NOT_FOUND);
	EQ(nvml.nvmlEventSetWait_v2(NULL, NULL, 0), GM_NVML_TIMEOUT);
}

static void mig_is_there_whole_or_not(void)
{
	unsigned int a, b;

	OK(!gm_nvml_has(&nvml, GM_NVML_MIG));
	EQ(nvml.nvmlDeviceGetMigMode(NULL, &a, &b), GM_NVML_FUNCTION_NOT_FOUND);
	EQ(nvml.nvmlDeviceGetMaxMigDeviceCount(NULL, &a),
	   GM_NVML_FUNCTION_NOT_FOUND);
	OK(nvml.n_missing > 0);
	OK(nvml.first_missing != NULL);
}

static void errors_have_words(void)
{
	STR(gm_nvml_error_name(GM_NVML_SUCCESS), "SUCCESS");
	STR(gm_nvml_error_name(GM_NVML_GPU_IS_LOST), "GPU_IS_LOST");
	STR(gm_nvml_error_name(GM_NVML_INVALID_STATE), "INVALID_STATE");
	STR(gm_nvml_error_name(GM_NVML_UNKNOWN), "UNKNOWN");
	for (gm_nvml_result r = 0; r < 1100; r++) {
		if (!gm_nvml_error_name(r))
			OK(!"a number without a name");
	}
	STR(gm_nvml_error_name(30), "unknown error");
	STR(gm_nvml_error_remedy(GM_NVML_NOT_SUPPORTED), NULL);
	OK(strstr(gm_nvml_error_remedy(GM_NVML_GPU_IS_LOST), "Xid 79") != NULL);
	OK(strstr(gm_nvml_error_remedy(GM_NVML_LIB_RM_VERSION_MISMATCH),
		  "reboot") != NULL);
	OK(strstr(gm_nvml_error_remedy(GM_NVML_DRIVER_NOT_LOADED),
		  "modprobe") != NULL);
}

TAP_CASE()
{
	if (!shelf_make() || !shelf_folder("none") || !shelf_folder("good") ||
	    !shelf_folder("bare") || !shelf_copy("nvml", "good/" SONAME) ||
	    !shelf_copy("nvml_bare", "bare/" SONAME)) {
		SKIP(1, "the modules of tests/tiny are not beside this test");
		return tap_done();
	}
	absence_is_no_fault();
	what_is_no_nvml_is_refused();
	each_fact_comes_by_itself();
	mig_is_there_whole_or_not();
	errors_have_words();
	return tap_done();
}
