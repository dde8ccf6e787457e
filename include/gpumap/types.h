/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/types.h - types and limits that all headers use.
 */
#ifndef GPUMAP_TYPES_H
#define GPUMAP_TYPES_H

#include <stdint.h>

#define GPUMAP_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* The version of these headers: 10000 * major + 100 * minor + patch.
 * gpumap_version() has the library's, gpumap_health() the agent's. */
#define GPUMAP_VERSION     200

#define GPUMAP_NAME_MAX    63  /* bytes of a name, without its NUL */
#define GPUMAP_ROWS_MAX    256 /* rows of a device table */
#define GPUMAP_NO_DEADLINE UINT64_MAX

/* One process's view of one agent.  Opaque. */
struct gpumap;

/* The types of elements; each operation's comment names those that it takes.
 * No operation takes those behind U64, which tensors have: jobs move these as
 * U8 or U16. */
enum gpumap_dtype {
	GPUMAP_DTYPE_U8 = 0,
	GPUMAP_DTYPE_F16 = 1,
	GPUMAP_DTYPE_BF16 = 2,
	GPUMAP_DTYPE_F32 = 3,
	GPUMAP_DTYPE_I32 = 4,
	GPUMAP_DTYPE_I64 = 5,
	GPUMAP_DTYPE_F64 = 6,
	GPUMAP_DTYPE_U16 = 7,
	GPUMAP_DTYPE_U32 = 8,
	GPUMAP_DTYPE_U64 = 9,
	GPUMAP_DTYPE_BOOL = 10, /* a byte, 0 or 1 */
	GPUMAP_DTYPE_I8 = 11,
	GPUMAP_DTYPE_I16 = 12,
	GPUMAP_DTYPE_F8_E4M3 = 13, /* without infinities: torch's
				    * float8_e4m3fn */
	GPUMAP_DTYPE_F8_E5M2 = 14
};

#ifdef __cplusplus
}
#endif
#endif
