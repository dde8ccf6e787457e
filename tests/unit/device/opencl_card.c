/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * opencl: the same of a device that is like a card: its memory is apart, and
 * the lanes of a reduction are items of a group.  oclgrind's is one, which also
 * looks at each access of a kernel and at each call: it has nothing to complain
 * of.  With OCLGRIND_DATA_RACES=1 in the environment it looks for races, too,
 * and the test takes an hour.
 */

#include "tests/support/gpu_cases.h"

static const char *const libraries[] = {
	"/usr/lib/oclgrind/liboclgrind-rt-icd.so",
	"/usr/lib64/oclgrind/liboclgrind-rt-icd.so",
	"/usr/local/lib/oclgrind/liboclgrind-rt-icd.so",
};

static void show_complaints(const char *path)
{
	FILE *log = fopen(path, "r");
	char line[512];
	int n = 0;

	while (log && n < 20 && fgets(line, sizeof(line), log)) {
		line[strcspn(line, "\n")] = '\0';
		NOTE("%s", line);
		n++;
	}
	EQ(n, 0);
	if (log)
		fclose(log);
}

TAP_CASE()
{
	struct bench b = { .backend = &gm_opencl_backend, .is_serial = true };
	char cache[] = "/tmp/gpumap-test-oclgrind.XXXXXX", log[64];

	for (int i = 0; i < 3 && !b.library; i++)
		b.library =
			access(libraries[i], R_OK) == 0 ? libraries[i] : NULL;
	if (!b.library) {
		LACK("oclgrind", 1, "there is no liboclgrind-rt-icd.so");
		return tap_done();
	}
	if (!OK(mkdtemp(cache)))
		return tap_done();
	b.cache = cache;
	/* The compiler writes there, too. */
	snprintf(log, sizeof(log), "%s/log", cache);
	setenv("OCLGRIND_LOG", log, 1);
	setenv("OCLGRIND_CHECK_API", "1", 1);
	/* Optimised code uses instructions that it computes wrong. */
	setenv("OCLGRIND_BUILD_OPTIONS", "-cl-opt-disable", 1);
	if (bench_is_open(&b, "oclgrind")) {
		OK(!b.region->address);
		gpu_cases_work(&b);
		gpu_cases_memory(&b);
	}
	bench_close(&b);
	show_complaints(log);
	unlink(log);
	rmdir(cache);
	return tap_done();
}
