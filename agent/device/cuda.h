/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda - the driver of CUDA and HIP rows (gpu.h): what its files share.
 *
 *	cuda.c		opening, work, kernels, and what an error means
 *	cuda_memory.c	memory of the device, of the worker and of clients
 *	cuda_clique.c	collectives with other devices, by NCCL or RCCL
 *
 * Rows of HIP have the same driver, over HIP's runtime.
 *
 * A lane is a stream.  A mark is an event, and where the device can write it,
 * a word.
 */
#ifndef GM_CUDA_H
#define GM_CUDA_H

#include "agent/cuda/driver.h"
#include "agent/device/stream.h"

struct gm_cuda_lane {
	struct CUstream_st *stream;
	struct CUevent_st *events[GM_GPU_MARKS];
	gm_cu_ptr word_at; /* of its word; 0: events only */
};

struct gm_cuda {
	struct gm_gpu gpu;
	const struct gm_driver *driver;
	int ordinal;
	struct CUctx_st *ctx;
	struct CUmod_st *module; /* operators */
	const char *nccl;        /* see gm_device_config */
	uint32_t units;          /* multiprocessors */
	bool can_export, can_write_words;
	struct gm_cuda_lane lanes[GM_GPU_LANES + 1]; /* and GM_GPU_SLOW */
	struct gm_gpu_mem *words;
	uint64_t granule; /* of memory that can be exported; 0: ask */
};

/* ---- cuda.c -------------------------------------------------------------- */

/* The context is of no use any more.  Returns -ENOTRECOVERABLE. */
int gm_cuda_lose(struct gm_cuda *cuda, gm_cu_result result);

/*
 * gm_cuda_check - what a result of the driver means for who called
 *
 * Returns	0; -ENOTRECOVERABLE; else as gm_cuerror_errno()
 * Threads	any that has the context
 */
int gm_cuda_check(struct gm_cuda *cuda, gm_cu_result result);

/* The same, where a stranger's argument may be to blame: what a trivial call
 * does not meet as well was the argument's fault, whatever its number. */
int gm_cuda_suspect(struct gm_cuda *cuda, gm_cu_result result);

#define GM_CUDA_CALL(cuda, call, ...) \
	gm_cuda_check(cuda, (cuda)->driver->call(__VA_ARGS__))

/* ---- cuda_memory.c: as gpu.h; cuda_clique.c: as device.h ----------------- */

/* One table, one shape. */
/* clang-format off */

#define GM_CUDA_MEMORY(CALL) \
	CALL(cuda, alloc) CALL(cuda, pin) CALL(cuda, reach) \
	CALL(cuda, release) CALL(cuda, export_fd) CALL(cuda, import_fd)

GM_CUDA_MEMORY(GM_STREAM_DRIVER_DECLARE)

#define GM_CUDA_CLIQUE_CALLS(CALL) \
	CALL(clique_version) CALL(clique_id) CALL(clique_begin) \
	CALL(clique_ready) CALL(clique_start) CALL(clique_ended) \
	CALL(clique_abort)

#define GM_CUDA_DECLARE(call) \
	__typeof__(*((struct gm_backend *)0)->call) gm_cuda_##call;
#define GM_CUDA_SET(call) .call = gm_cuda_##call,

GM_CUDA_CLIQUE_CALLS(GM_CUDA_DECLARE)

/* clang-format on */

#endif
