/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * program.h - what a program is, for host rows and for CUDA rows.
 *
 * A program is a file that the administrator has put into the agent's directory
 * of programs ([programs] in gpumapd.conf): a shared object NAME.so for host
 * rows, device code NAME.fatbin, NAME.cubin or NAME.ptx for CUDA rows.
 * Sessions opened with GPUMAP_SESSION_PROGRAMS load it by that name, and run it
 * with jobs of GPUMAP_OP_RUN; see gpumap_program_load() in gpumap/buffer.h.
 * Device code may also be the client's own: gpumap_program_load_image().
 *
 * On host rows:
 *
 *	#include <gpumap/program.h>
 *
 *	static int run(const struct gpumap_program_tile *tile)
 *	{
 *		const float *src = tile->src;
 *		float *dst = tile->dst;
 *
 *		for (uint64_t i = 0; i < tile->n; i++)
 *			dst[i] = src[i] * src[i];
 *		return 0;
 *	}
 *
 *	GPUMAP_PROGRAM(run);
 *
 *	cc -shared -fPIC -O2 -o square.so square.c
 *
 * Where it runs.  In a worker that runs programs of one uid's sessions on one
 * row, and nothing else.  The worker may make no system call but those that
 * manage memory and read the clock: opening a file fails with EACCES, anything
 * else ends the worker, and with it the jobs of that uid that were in flight,
 * with -EIO.  So does a crash.  It finds the C library and libm; what else it
 * was linked with fails to load.  It can start no thread.
 *
 * What it may rely on.  One call at a time, all from one thread; memory of the
 * tile's that is there until it returns, aligned to the dtype's elements, src
 * and dst apart or the same.  What the client does with that memory meanwhile
 * is up to the client: what must not change between two looks has to be copied
 * first.  What is static is that of one load, by one session on one row; it
 * begins anew when the worker does.
 *
 * On CUDA rows a program is one kernel:
 *
 *	extern "C" __global__ void gpumap_program(float *dst, const float *src,
 *						  unsigned long long n,
 *						  float alpha)
 *	{
 *		unsigned long long i, step;
 *
 *		i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
 *		step = (unsigned long long)gridDim.x * blockDim.x;
 *		for (; i < n; i += step)
 *			dst[i] = alpha * src[i] * src[i];
 *	}
 *
 *	nvcc -fatbin -o square.fatbin square.cu
 *
 * Its parameters are dst, src and n, 64 bits each, and then the bytes of the
 * job's params as they are, from byte GPUMAP_KERNEL_PARAMS_AT on: what is
 * declared there has to have their size, or the job ends with -EINVAL.  An
 * operand without bytes is 0.  The launch is of one dimension, in blocks of
 * GPUMAP_KERNEL_THREADS, with no dynamic shared memory, and of no more blocks
 * than fill the card: so a kernel goes on by the width of the grid until it has
 * all items.  One that needs more of the card than such a block may have ends
 * with -EINVAL, too: __launch_bounds__(256).
 *
 * It runs in a worker, and a context of the card's, that programs of one uid's
 * sessions on one row have for themselves.  A fault of it ends that worker, and
 * the jobs of that uid that were in flight there with -EIO; so does one that
 * runs for longer than the administrator allows.
 *
 * C99 and C++11; the header needs nothing of gpumap.
 */
#ifndef GPUMAP_PROGRAM_H
#define GPUMAP_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Moves when a program of before could not be run any more. */
#define GPUMAP_PROGRAM_ABI      1u

#define GPUMAP_KERNEL_THREADS   256u /* of a block */
#define GPUMAP_KERNEL_PARAMS_AT 24u  /* bytes: behind dst, src and n */

/* What one job has it do.  Grows at the end only. */
struct gpumap_program_tile {
	size_t size;             /* bytes of this struct, as the agent has it */
	uint32_t row;            /* of the device table */
	uint32_t dtype;          /* enum gpumap_dtype, as the job says */
	uint64_t n;              /* items, at least 1 */
	void *dst;               /* n of dst_item_bytes; NULL where that is 0 */
	const void *src;         /* likewise */
	uint64_t dst_item_bytes; /* 0: it writes nothing */
	uint64_t src_item_bytes;
	const void *params; /* a private copy, aligned to 16; NULL: none */
	uint64_t params_bytes;
};

/* The one symbol of a program that is looked up: gpumap_program. */
struct gpumap_program {
	uint32_t abi;      /* GPUMAP_PROGRAM_ABI */
	uint32_t reserved; /* 0 */
	/* Returns 0, or a negative errno that the job ends with; anything else
	 * ends it with -EIO. */
	int (*run)(const struct gpumap_program_tile *tile);
};

#if defined(__GNUC__)
#define GPUMAP_PROGRAM_SEEN __attribute__((visibility("default")))
#else
#define GPUMAP_PROGRAM_SEEN
#endif

extern GPUMAP_PROGRAM_SEEN const struct gpumap_program gpumap_program;

/* Once in a program, in a C or C++ file. */
#define GPUMAP_PROGRAM(function)                                              \
	const struct gpumap_program gpumap_program = { GPUMAP_PROGRAM_ABI, 0, \
						       (function) }

#ifdef __cplusplus
}
#endif
#endif
