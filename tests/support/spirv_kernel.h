/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * spirv_kernel - a program of OpenCL rows as a module of SPIR-V 1.0, and words
 * of modules to be changed.
 *
 * Kernel square makes params.alpha * src[i] * src[i] of f32.
 */
#ifndef GM_TEST_SUPPORT_SPIRV_KERNEL_H
#define GM_TEST_SUPPORT_SPIRV_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#define SPIRV_KERNEL_WORDS 256u

/* Returns how many words it has. */
size_t spirv_kernel(uint32_t ret_words[SPIRV_KERNEL_WORDS]);

/* The first instruction of its kind whose word at @at is @value, or NULL. */
uint32_t *spirv_find(uint32_t *words, size_t n, uint32_t op, uint32_t at,
		     uint32_t value);

#endif
