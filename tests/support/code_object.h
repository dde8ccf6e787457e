/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* code_object - what an ELF file for AMD's cards says of its kernels, as the
 * runtime reads it: by the notes and by the descriptors. */
#ifndef GM_TEST_SUPPORT_CODE_OBJECT_H
#define GM_TEST_SUPPORT_CODE_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#define CODE_KERNELS 256
#define CODE_ARGS    16

struct code_kernel {
	char name[64];
	uint32_t n_args; /* hidden ones, too */
	uint8_t sizes[CODE_ARGS];
	uint32_t offsets[CODE_ARGS];
	bool is_hidden; /* one or more are */
	uint32_t group; /* items, at most */
	uint32_t shared_bytes;
	uint32_t stack_bytes;
	/* COMPUTE_PGM_RSRC1 of the descriptor; 0: it has none */
	uint32_t mode;
};

struct code_object {
	char target[64]; /* "amdgcn-amd-amdhsa--gfx90a" */
	uint32_t n;
	struct code_kernel kernels[CODE_KERNELS];
};

/* Returns whether it is one. */
bool code_object_read(const void *image, struct code_object *ret);

#endif
