/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/driver_copy.h"

#define DRIVER_FILES (sizeof(driver_files) / sizeof(driver_files[0]))

/* From the top of the build, and the name of the copy. */
static const char *const driver_files[][2] = {
	{ "tests/fake/.libs/libcuda.so.1", "libcuda.so.1" },
	{ "tests/fake/.libs/libnvidia-ml.so.1", "libnvidia-ml.so.1" },
	{ "tests/fake/.libs/libnvidia-ptxjitcompiler.so.1",
	  "libnvidia-ptxjitcompiler.so.1" },
	{ "tests/fake/.libs/libnccl.so.2", "libnccl.so.2" },
	{ "tests/.libs/operators_kernels.so", "operators_kernels.so" },
};

static bool driver_copy_file(const char *from, const char *to)
{
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	ssize_t n = 1;

	while (in >= 0 && out >= 0 && n > 0)
		n = sendfile(out, in, NULL, 1 << 20);
	if (in >= 0)
		close(in);
	if (out >= 0)
		fchmod(out, 0755);
	return in >= 0 && out >= 0 && close(out) == 0 && n == 0;
}

bool driver_copy_make(const char *folder)
{
	const char *build = getenv("abs_top_builddir");
	char from[PATH_MAX], to[PATH_MAX];
	bool good = mkdir(folder, 0755) == 0 && chmod(folder, 0755) == 0;

	for (size_t i = 0; i < DRIVER_FILES && good; i++) {
		snprintf(from, sizeof(from), "%s/%s", build ? build : ".",
			 driver_files[i][0]);
		snprintf(to, sizeof(to), "%s/%s", folder, driver_files[i][1]);
		good = driver_copy_file(from, to);
	}
	return good;
}

bool driver_copy_remove(const char *folder)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < DRIVER_FILES; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder,
			 driver_files[i][1]);
		unlink(path);
	}
	return rmdir(folder) == 0;
}
