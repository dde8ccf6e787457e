/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * code_validate - validates a client's device code before the driver gets it.
 *
 * A driver gets an address without a length, and trusts the sizes inside the
 * image.  So these sizes are validated first.
 *
 * The functions are pure.
 */
#ifndef GM_WORKER_PROGRAMS_CODE_VALIDATE_H
#define GM_WORKER_PROGRAMS_CODE_VALIDATE_H

#include <stddef.h>
#include <stdint.h>

/*
 * gm_code_check - is the image complete?
 *
 * kind		of the row: OpenCL's takes a text of OpenCL C or a module of
 *		SPIR-V, Vulkan's such a module, HIP's a code object, others PTX,
 *		a cubin or a fatbin
 * bytes, n	the image, with a NUL behind its n bytes
 *
 * Returns	NULL, or the defect, as constant text
 */
const char *gm_code_check(uint32_t kind, const void *bytes, size_t n);

#endif
