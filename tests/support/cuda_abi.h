/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda_abi - the driver's interface for tests: the toolkit's own header where
 * there is one, else ours.  Entry points stand under the names that the
 * library exports, so that a version is chosen by writing it.
 */
#ifndef GM_TEST_SUPPORT_CUDA_ABI_H
#define GM_TEST_SUPPORT_CUDA_ABI_H

#if defined(HAVE_CUDA_H) && !defined(GM_STUB_CUDA)
/* Asks for the exported names of all versions, as a driver's author does. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef cuDeviceTotalMem
#undef cuGetProcAddress
#else
#include "tests/stubs/cuda.h"
#endif

#endif
