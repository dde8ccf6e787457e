/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/stand_in.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void stand_in_exec(char **argv)
{
	const char *under = getenv("CONTRACT_UNDER");
	const char *top = getenv("abs_top_builddir");
	static char kernels[512], words[512];
	char *args[16];
	int n = 0;

	if (!under || !top || getenv("GM_CUDA_LIBRARY"))
		return;
	snprintf(words, sizeof(words), "%s", under);
	snprintf(kernels, sizeof(kernels),
		 "%s/tests/.libs/operators_kernels.so", top);
	for (char *w = strtok(words, " "); w && n < 6; w = strtok(NULL, " "))
		args[n++] = w;
	while (*argv && n < 15)
		args[n++] = *argv++;
	args[n] = NULL;
	unsetenv("CONTRACT_UNDER");
	setenv("GPUMAP_FAKE_KERNELS", kernels, 1);
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	setenv("GPUMAP_REQUIRE", "cuda", 1);
	execvp(args[0], args);
}
