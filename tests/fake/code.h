/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* code - what the driver has read of an image of device code. */
#ifndef FAKE_CODE_H
#define FAKE_CODE_H

#include "tests/fake/driver.h"
#include "tests/fake/kernel.h"

#define FAKE_ENTRY_NAME 128

struct fake_entry {
	char name[FAKE_ENTRY_NAME];
	unsigned int n_params;
	uint16_t sizes[FAKE_PARAMS_MAX]; /* bytes of each parameter */
	uint16_t offsets[FAKE_PARAMS_MAX];
	unsigned int bytes; /* of all, as they lie in one buffer */
};

struct fake_code {
	unsigned int version; /* of the PTX, 64 for 6.4 */
	unsigned int target;  /* 52 for sm_52 */
	bool is_exact;        /* sm_90a: for that one architecture alone */
	unsigned int n_entries;
	struct fake_entry *entries;
};

/*
 * fake_code_read - read an image
 *
 * version	of the driver: it knows PTX up to its own age
 * ret_code	free(ret_code->entries)
 *
 * Returns	CUDA_SUCCESS
 *		CUDA_ERROR_INVALID_PTX	not PTX, or broken
 *		CUDA_ERROR_UNSUPPORTED_PTX_VERSION
 *		CUDA_ERROR_NO_BINARY_FOR_GPU	ready-made code: for no card
 *						here
 *		CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult fake_code_read(const void *image, int version,
			struct fake_code *ret_code);

/* Whether a card can have code for it. */
bool fake_code_fits(const struct fake_code *code, const struct fake_gpu *gpu);

/* NULL where there is none of that name. */
const struct fake_kernel *fake_kernel_find(const char *name);

#endif
