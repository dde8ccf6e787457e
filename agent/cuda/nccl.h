/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * nccl - NCCL, or for AMD's cards RCCL, opened at run time.
 *
 * One struct holds what was found: each function of nccl_symbols.h as a member
 * of its own name.  NCCL 2.19 and later ones of the same major version are
 * taken: its functions keep their ABI, and a communicator's configuration says
 * how much of it there is.  All ranks of a communicator must have the same
 * version.
 *
 * RCCL has NCCL's functions, structs and numbers, and its version is that of
 * the NCCL that it follows: 2.20.5 in ROCm 6.2, and 2.18.6 in 6.1.
 *
 * NCCL brings a CUDA runtime of its own, which uses the primary context of the
 * device, as we do, and finds the driver that this process has already.
 */
#ifndef GM_NCCL_H
#define GM_NCCL_H

#include <limits.h>
#include <stddef.h>

#include "agent/cuda/library.h"

#define GM_NCCL_MIN_VERSION 21900 /* 10000 * major + 100 * minor + patch */
#define GM_NCCL_MAX_VERSION 29999
#define GM_NCCL_ID_BYTES    128

struct CUstream_st;
struct ncclComm;

typedef unsigned int gm_nccl_result;

enum gm_nccl_library { GM_NCCL_NVIDIA, GM_NCCL_AMD };

enum {
	GM_NCCL_SUCCESS = 0,
	GM_NCCL_UNHANDLED_CUDA_ERROR = 1,
	GM_NCCL_SYSTEM_ERROR = 2,
	GM_NCCL_INTERNAL_ERROR = 3,
	GM_NCCL_INVALID_ARGUMENT = 4,
	GM_NCCL_INVALID_USAGE = 5,
	GM_NCCL_REMOTE_ERROR = 6,
	GM_NCCL_IN_PROGRESS = 7
};

/* ncclRedOp_t */
enum {
	GM_NCCL_SUM = 0,
	GM_NCCL_PROD = 1,
	GM_NCCL_MAX = 2,
	GM_NCCL_MIN = 3,
	GM_NCCL_AVG = 4
};

/* ncclDataType_t */
enum {
	GM_NCCL_U8 = 1,
	GM_NCCL_I32 = 2,
	GM_NCCL_I64 = 4,
	GM_NCCL_F16 = 6,
	GM_NCCL_F32 = 7,
	GM_NCCL_BF16 = 9
};

/* Passed by value. */
struct gm_nccl_id {
	char bytes[GM_NCCL_ID_BYTES];
};

/* As 2.19 has it. */
struct gm_nccl_config {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int blocking;
	int cga_cluster_size;
	int min_ctas;
	int max_ctas;
	const char *net_name;
	int split_share;
};

/* Options that are not chosen are INT_MIN. */
#define GM_NCCL_CONFIG_MAGIC 0xcafebeefu
#define GM_NCCL_CONFIG_NON_BLOCKING                                            \
	(struct gm_nccl_config)                                                \
	{                                                                      \
		.size = sizeof(struct gm_nccl_config),                         \
		.magic = GM_NCCL_CONFIG_MAGIC, .version = GM_NCCL_MIN_VERSION, \
		.blocking = 0, .cga_cluster_size = INT_MIN,                    \
		.min_ctas = INT_MIN, .max_ctas = INT_MIN, .net_name = NULL,    \
		.split_share = INT_MIN                                         \
	}

struct gm_nccl {
	struct gm_library library;
	int version;
#define SYMBOL(name, arguments) gm_nccl_result(*name) arguments;
#include "agent/cuda/nccl_symbols.h"
};

/*
 * gm_nccl_open - find the library and its functions
 *
 * folder	that it is taken from; NULL: "libnccl.so.2", or "librccl.so.1",
 *		wherever the system has it
 * ret_why	GM_LIBRARY_WHY_BYTES: on failure, a line for people
 *
 * Returns	0
 *		-ENOENT		there is none
 *		-ELIBBAD	what is there cannot be loaded, or is no NCCL
 *		-EOPNOTSUPP	it is older than 2.19, or of another major
 *				version
 * Threads	any
 */
int gm_nccl_open(enum gm_nccl_library which, const char *folder,
		 struct gm_nccl *ret_nccl, char *ret_why);

/* "invalid usage" and so on; "unknown result" for other numbers. */
const char *gm_nccl_error_name(gm_nccl_result result);

#endif
