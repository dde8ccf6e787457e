/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * library and driver: which file is taken, what is asked of it, and what is
 * said about one that is absent, broken, old, torn or no driver.
 *
 * No driver takes part: tests/support/tiny/driver.c answers.
 */

#include <dlfcn.h>
#include <errno.h>
#include <sys/wait.h>

#include "agent/cuda/driver.h"
#include "tests/support/library_dirs.h"
#include "tests/support/tap.h"
#include "tests/support/tiny/driver.h"

#define SONAME "libtiny.so.1" /* of no driver: a real one stays out */

static char why[GM_LIBRARY_WHY_BYTES];
static struct gm_driver driver;

/* As gm_driver_open_where() in one or two folders of the shelf. */
static int open_in(const char *first, const char *second)
{
	struct shelf_path a = shelf_path(first);
	struct shelf_path b = shelf_path(second ? second : first);
	const char *const folders[] = { a.text, b.text, NULL };
	struct gm_library_where where = { .soname = SONAME,
					  .folders = folders };

	memset(&driver, 0x5a, sizeof(driver));
	why[0] = '\0';
	return gm_driver_open_where(&where, &driver, why);
}

static bool untouched(void)
{
	const char *bytes = (const char *)&driver;

	for (size_t i = 0; i < sizeof(driver); i++) {
		if (bytes[i] != 0x5a)
			return false;
	}
	return true;
}

static bool says(const char *part)
{
	if (strstr(why, part))
		return true;
	NOTE("\"%s\" is not in: %s", part, why);
	return false;
}

static bool fill_the_shelf(void)
{
	static const char garbage[] = "no library\n";

	return shelf_make() && shelf_folder("none") && shelf_folder("good") &&
	       shelf_folder("other") && shelf_folder("broken") &&
	       shelf_folder("old") && shelf_folder("else") &&
	       shelf_folder("compat") && shelf_folder("loaded") &&
	       shelf_folder("family") && shelf_copy("driver", "good/" SONAME) &&
	       shelf_copy("driver", "other/libtiny.so.2") &&
	       shelf_write("broken/" SONAME, garbage, sizeof(garbage) - 1) &&
	       shelf_copy("driver_old", "old/" SONAME) &&
	       shelf_copy("driver_else", "else/" SONAME) &&
	       shelf_copy("driver", "compat/" SONAME) &&
	       shelf_copy("driver", "loaded/tiny.so") &&
	       shelf_copy("driver", "family/libtiny.so.535.1") &&
	       symlink("libtiny.so.535.1", shelf_path("family/" SONAME).text) ==
		       0 &&
	       shelf_copy("nvml", "family/nvml.so") &&
	       shelf_copy("nvml_bare", "family/libtinybare.so.535.1");
}

static void absence_is_no_fault(void)
{
	EQ(open_in("none", "nowhere"), -ENOENT);
	OK(says("there is no " SONAME));
	OK(untouched());
	EQ(open_in("other", NULL), -ENOENT); /* another soname */
}

static void what_cannot_be_loaded_is_named(void)
{
	EQ(open_in("broken", NULL), -ELIBBAD);
	OK(says("cannot load " SONAME));
	OK(says("broken/" SONAME));
	OK(untouched());
	/* and does not hide a good one */
	EQ(open_in("broken", "good"), 0);
	OK(strstr(driver.library.path, "/good/" SONAME) != NULL);
}

static void what_is_no_driver_is_refused(void)
{
	EQ(open_in("else", NULL), -ELIBBAD);
	OK(says("is no CUDA driver"));
	OK(untouched());

	setenv("TINY_STUB", "1", 1);
	EQ(open_in("good", NULL), -ELIBBAD);
	OK(says("stub"));
	unsetenv("TINY_STUB");

	setenv("TINY_MISSING", "cuDriverGetVersion", 1);
	EQ(open_in("good", NULL), -ELIBBAD);
	OK(says("does not tell its version"));
	unsetenv("TINY_MISSING");
}

static void an_old_driver_is_refused(void)
{
	EQ(open_in("old", NULL), -EOPNOTSUPP);
	OK(says("older than CUDA 12.0"));
	OK(untouched());

	setenv("TINY_VERSION", "11080", 1);
	EQ(open_in("good", NULL), -EOPNOTSUPP);
	OK(says("brings CUDA 11.8"));
	unsetenv("TINY_VERSION");
}

/* Each member calls the function of its name, and no other's. */
static void functions_are_where_they_belong(void)
{
	gm_cu_ptr ptr;
	int value;

	EQ(open_in("good", NULL), 0);
	EQ(driver.version, 13000);
	EQ(driver.n_missing, 0);
	EQ(driver.has, (1 << GM_DRIVER_GROUPS) - 1);
	for (uint32_t g = 0; g < GM_DRIVER_GROUPS; g++)
		EQ(gm_driver_lack(&driver, g, why, sizeof(why)), 0);
	EQ(driver.cuDriverGetVersion(&value), GM_CU_SUCCESS);
	EQ(value, 13000);
	EQ(driver.cuInit(0), TINY_RESULT(GM_DRIVER_SYMBOL_cuInit));
	EQ(driver.cuMemAlloc(&ptr, 1),
	   TINY_RESULT(GM_DRIVER_SYMBOL_cuMemAlloc));
	EQ(driver.cuStreamWriteValue64(NULL, 0, 1, 0),
	   TINY_RESULT(GM_DRIVER_SYMBOL_cuStreamWriteValue64));
	EQ(driver.cuKernelGetFunction(NULL, NULL),
	   TINY_RESULT(GM_DRIVER_SYMBOL_cuKernelGetFunction));
}

/* By hand, for those whose signature has changed over time. */
static void symbols_are_asked_for_by_version(void)
{
	static const char *const asked[] = {
		"cuDeviceGetUuid 11040 ",
		"cuDeviceTotalMem 3020 ",
		"cuMemAlloc 3020 ",
		"cuMemHostRegister 6050 ",
		"cuStreamWriteValue64 11070 ",
		"cuEventElapsedTime 2000 ",
		"cuCtxSynchronize 2000 ",
		"cuMemcpyBatchAsync 12080 ",
		"cuMemCreate 10020 ",
		"cuLibraryLoadData 12000 ",
		"cuStreamDestroy 4000 ",
		"cuDevicePrimaryCtxRelease 11000 ",
	};
	char *list;

	EQ(open_in("good", NULL), 0);
	list = dlsym(driver.library.handle, "tiny_asked");
	if (!OK(list != NULL))
		return;
	list[0] = '\0';
	EQ(open_in("good", NULL), 0);
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		if (!OK(strstr(list, asked[i]) != NULL))
			NOTE("not asked for: %s", asked[i]);
	}
}

static void a_group_that_is_too_new_is_left_out(void)
{
	setenv("TINY_VERSION", "12020", 1);
	EQ(open_in("good", NULL), 0);
	EQ(driver.version, 12020);
	OK(!gm_driver_has(&driver, GM_DRIVER_BATCH));
	OK(gm_driver_has(&driver, GM_DRIVER_VMM));
	OK(gm_driver_has(&driver, GM_DRIVER_LIBRARY));
	EQ(driver.n_missing, 1);
	EQ(gm_driver_lack(&driver, GM_DRIVER_VMM, why, sizeof(why)), 0);
	EQ(gm_driver_lack(&driver, GM_DRIVER_BATCH, why, sizeof(why)), 1);
	STR(why, "the driver brings CUDA 12.2 and lacks cuMemcpyBatchAsync of "
		 "12.8: each copy is a call of its own");
	EQ(driver.cuMemcpyBatchAsync(NULL, NULL, NULL, 0, NULL, NULL, 0, NULL,
				     NULL),
	   GM_CU_NOT_SUPPORTED);
	unsetenv("TINY_VERSION");
}

static void a_torn_group_is_left_out_whole(void)
{
	gm_cu_handle handle;

	setenv("TINY_MISSING", "cuMemMap  cuMemUnmap", 1);
	setenv("TINY_UNFIT", "cuStreamWriteValue64", 1);
	EQ(open_in("good", NULL), 0);
	OK(!gm_driver_has(&driver, GM_DRIVER_VMM));
	OK(!gm_driver_has(&driver, GM_DRIVER_MEMOPS));
	OK(gm_driver_has(&driver, GM_DRIVER_CORE));
	OK(gm_driver_has(&driver, GM_DRIVER_REGISTER));
	EQ(gm_driver_lack(&driver, GM_DRIVER_VMM, why, sizeof(why)), 2);
	OK(says("lacks cuMemMap of 10.2: no memory can be exported"));
	EQ(gm_driver_lack(&driver, GM_DRIVER_MEMOPS, why, sizeof(why)), 1);
	EQ(driver.cuMemCreate(&handle, 1, NULL, 0), GM_CU_NOT_SUPPORTED);
	EQ(driver.cuMemUnmap(0, 1), GM_CU_NOT_SUPPORTED);
	EQ(driver.cuStreamWriteValue64(NULL, 0, 0, 0), GM_CU_NOT_SUPPORTED);
	EQ(driver.cuInit(0), TINY_RESULT(GM_DRIVER_SYMBOL_cuInit));
	unsetenv("TINY_UNFIT");

	setenv("TINY_MISSING", "cuLaunchKernel", 1);
	EQ(open_in("good", NULL), -EOPNOTSUPP);
	OK(says("lacks cuLaunchKernel of 4.0"));
	OK(untouched());
	unsetenv("TINY_MISSING");
}

static void compat_is_taken_only_when_named(void)
{
	struct shelf_path compat = shelf_path("compat");
	struct shelf_path none = shelf_path("none");
	struct gm_library_where where = { .soname = SONAME,
					  .compat = none.text };

	EQ(open_in("compat", NULL), -ELIBBAD);
	OK(says("compat/" SONAME " is a compat library"));
	EQ(open_in("compat", "good"), 0);
	OK(strstr(driver.library.path, "/good/") != NULL);

	EQ(gm_driver_open_where(&where, &driver, why), -ELIBBAD);
	OK(says("has no such library"));
	where.compat = compat.text;
	EQ(gm_driver_open_where(&where, &driver, why), 0);
	OK(strstr(driver.library.path, "/compat/" SONAME) != NULL);
}

/* A driver opens them by their bare names. */
static void further_libraries_come_from_its_folder(void)
{
	static const char *const further[] = { "libnone.so.1", "nvml.so",
					       "libtinybare.so.", NULL };
	struct shelf_path none = shelf_path("none");
	struct shelf_path family = shelf_path("family");
	const char *const folders[] = { none.text, family.text, NULL };
	struct gm_library_where where = { .soname = SONAME,
					  .folders = folders };

	EQ(gm_driver_open_where(&where, &driver, why), 0);
	OK(!dlopen("nvml.so", RTLD_NOW));
	OK(!dlopen("nvml_bare.so", RTLD_NOW));
	where.further = further;
	EQ(gm_driver_open_where(&where, &driver, why), 0);
	OK(dlopen("nvml.so", RTLD_NOW) != NULL);
	OK(dlopen("nvml_bare.so", RTLD_NOW) != NULL); /* its own name */
}

/* In a process of its own, with another path for the linker. */
static int find_by_name(const char *library_path)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		setenv("LD_LIBRARY_PATH", library_path, 1);
		execl("/proc/self/exe", "driver", "by-name", shelf_root, NULL);
		_exit(99);
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

enum { FOUND_BY_NAME = 10, FOUND_IN_FOLDER = 11, FOUND_NONE = 12 };

static int by_name(const char *root)
{
	int rc;

	snprintf(shelf_root, sizeof(shelf_root), "%s", root);
	rc = open_in("loaded", "other");
	if (rc == 0)
		return FOUND_BY_NAME;
	return rc == -ELIBBAD && open_in("good", NULL) == 0 ? FOUND_IN_FOLDER
							    : FOUND_NONE;
}

static void the_linkers_path_is_searched(void)
{
	EQ(find_by_name(shelf_path("good").text), FOUND_BY_NAME);
	EQ(find_by_name(shelf_path("compat").text), FOUND_IN_FOLDER);
	EQ(find_by_name(shelf_path("none").text), FOUND_NONE);
}

/* Two copies of one driver in a process would not agree. */
static void one_that_is_loaded_is_taken(void)
{
	void *handle = dlopen(shelf_path("loaded/tiny.so").text, RTLD_NOW);
	const char *const folders[] = { NULL };
	struct gm_library_where where = { .soname = "driver.so",
					  .folders = folders };

	if (!OK(handle != NULL))
		return;
	EQ(gm_driver_open_where(&where, &driver, why), 0);
	OK(driver.library.handle == handle);
	OK(strstr(driver.library.path, "/loaded/tiny.so") != NULL);
}

TAP_CASE_ARGS(argc, argv)
{
	if (argc == 3 && strcmp(argv[1], "by-name") == 0)
		return by_name(argv[2]);
	if (!fill_the_shelf()) {
		SKIP(1, "the modules of tests/tiny are not beside this test");
		return tap_done();
	}
	one_that_is_loaded_is_taken(); /* before others of its soname are */
	absence_is_no_fault();
	what_cannot_be_loaded_is_named();
	what_is_no_driver_is_refused();
	an_old_driver_is_refused();
	functions_are_where_they_belong();
	symbols_are_asked_for_by_version();
	a_group_that_is_too_new_is_left_out();
	a_torn_group_is_left_out_whole();
	compat_is_taken_only_when_named();
	further_libraries_come_from_its_folder();
	the_linkers_path_is_searched();
	return tap_done();
}
