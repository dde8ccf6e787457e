/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * spirv - modules of SPIR-V, as far as drivers look into those of clients.
 *
 * A module is five words and then instructions: the lower half of the first
 * word of each says which it is, the upper half how many words it has.
 */
#ifndef GM_DEVICE_SPIRV_H
#define GM_DEVICE_SPIRV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gm_spirv {
	GM_SPIRV_MAGIC = 0x07230203,
	GM_SPIRV_HEAD = 5,  /* words */
	GM_SPIRV_BOUND = 3, /* of these: all numbers are less */

	/* instructions */
	GM_SPIRV_ENTRY_POINT = 15,
	GM_SPIRV_EXECUTION_MODE = 16,
	GM_SPIRV_CAPABILITY = 17,
	GM_SPIRV_TYPE_INT = 21,
	GM_SPIRV_TYPE_STRUCT = 30,
	GM_SPIRV_TYPE_POINTER = 32,
	GM_SPIRV_FUNCTION = 54,
	GM_SPIRV_FUNCTION_PARAMETER = 55,
	GM_SPIRV_FUNCTION_END = 56,
	GM_SPIRV_DECORATE = 71
};

/* Is it a module, whole or not? */
bool gm_spirv_is(const void *bytes, size_t n);

/*
 * gm_spirv_check - is the module whole?
 *
 * Instructions have their lengths, those above as many words as are looked at,
 * and the last one is the end of a function.
 *
 * Returns	NULL, or the defect, as constant text
 */
const char *gm_spirv_check(const void *bytes, size_t n);

/* Is this entry point for an execution model, and has this name? */
bool gm_spirv_is_entry(const uint32_t *at, uint32_t model, const char *name);

#endif
