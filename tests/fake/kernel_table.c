/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The table of kernels, and those of the contract tests. */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake/code.h"

static uint64_t word(const void *param)
{
	return *(const uint64_t *)param;
}

/* *(u32 *)at = value */
static void store(struct fake_launch *launch, const void *const *params)
{
	uint32_t *at = launch->reach(launch, word(params[0]), 4, 4, true);

	if (at)
		*at = *(const uint32_t *)params[1];
}

/* y[i] += x[i], u32, every i below n */
static void add(struct fake_launch *launch, const void *const *params)
{
	uint64_t n = word(params[2]);
	const uint32_t *x;
	uint32_t *y;

	if (n == 0)
		return;
	y = launch->reach(launch, word(params[0]), 4 * n, 4, true);
	x = y ? launch->reach(launch, word(params[1]), 4 * n, 4, false) : NULL;
	for (uint64_t i = 0; x && i < n; i++)
		y[i] += x[i];
}

/* Until the u32 at an address is not 0. */
static void spin(struct fake_launch *launch, const void *const *params)
{
	_Atomic uint32_t *at =
		launch->reach(launch, word(params[0]), 4, 4, false);

	while (at && *at == 0 && !launch->error) {
		fake_sleep_ns(20000);
		at = launch->reach(launch, word(params[0]), 4, 4, false);
	}
}

static void trap(struct fake_launch *launch, const void *const *params)
{
	launch->error = CUDA_ERROR_LAUNCH_FAILED;
}

/* dst[i] = alpha * src[i] * src[i], f32 */
static void square(struct fake_launch *launch, const void *const *params)
{
	uint64_t n = word(params[2]);
	float alpha = *(const float *)params[3];
	const float *src;
	float *dst;

	dst = launch->reach(launch, word(params[0]), 4 * n, 4, true);
	src = dst ? launch->reach(launch, word(params[1]), 4 * n, 4, false)
		  : NULL;
	for (uint64_t i = 0; src && i < n; i++)
		dst[i] = alpha * src[i] * src[i];
}

/* Writes where there is no memory. */
static void stray(struct fake_launch *launch, const void *const *params)
{
	uint32_t *at = launch->reach(launch, 4096, 4, 4, true);

	(void)params;
	if (at)
		*at = 0;
}

/* dst[0] = blocks, dst[1] = threads of one, u32 */
static void geometry(struct fake_launch *launch, const void *const *params)
{
	uint32_t *dst = launch->reach(launch, word(params[0]), 8, 4, true);

	if (!dst)
		return;
	dst[0] = launch->grid[0];
	dst[1] = launch->block[0];
}

static const struct fake_kernel own[] = {
	{ "contract_store", "84", store },
	{ "contract_add", "888", add },
	{ "contract_spin", "8", spin },
	{ "contract_trap", "", trap },
	{ "gpumap_program", "8884", square },
	{ "program_spin", "888", spin },
	{ "program_trap", "888", trap },
	{ "program_stray", "888", stray },
	{ "program_geometry", "888", geometry },
	{ NULL, NULL, NULL },
};

static const struct fake_kernel *find_in(const struct fake_kernel *kernels,
					 const char *name)
{
	for (; kernels && kernels->name; kernels++)
		if (strcmp(kernels->name, name) == 0)
			return kernels;
	return NULL;
}

/* The program's own, looked for once. */
static const struct fake_kernel *others(void)
{
	static const struct fake_kernel *kernels;
	static bool is_looked_for;
	const char *path = getenv("GPUMAP_FAKE_KERNELS");
	void *library;

	if (is_looked_for || !path)
		return kernels;
	is_looked_for = true;
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library)
		kernels = dlsym(library, "gpumap_fake_kernels");
	if (!kernels)
		fprintf(stderr, "stand-in: kernels: %s\n", dlerror());
	return kernels;
}

const struct fake_kernel *fake_kernel_find(const char *name)
{
	const struct fake_kernel *kernel = find_in(own, name);

	return kernel ? kernel : find_in(others(), name);
}
