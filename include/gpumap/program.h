/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * program.h - write programs that host rows and cards run.
 *
 * A program is a file that the administrator has put into the agent's directory
 * of programs ([programs] in gpumapd.conf): a shared object NAME.so for host
 * rows, device code NAME.fatbin, NAME.cubin or NAME.ptx for CUDA rows, a text
 * of OpenCL C, NAME.cl, or a module of SPIR-V, NAME.cl.spv, for OpenCL rows, a
 * module of SPIR-V, NAME.spv, for Vulkan rows, and a code object, NAME.hsaco or
 * NAME.co, for HIP rows.  Sessions opened with GPUMAP_SESSION_PROGRAMS load it
 * by that name, and run it with jobs of GPUMAP_OP_RUN; see
 * gpumap_program_load() in gpumap/buffer.h.
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
 * A program runs in a worker that runs programs of one uid's sessions on one
 * row, and nothing else.  The worker may only make system calls that manage
 * memory and read the clock: opening a file fails with EACCES; any other call
 * ends the worker, and the jobs of that uid that were in flight with -EIO.  So
 * does a crash.  The program can use the C library and libm; linked with any
 * other library it fails to load.  The program cannot start threads.
 *
 * The program may rely on the following.  There is one call at a time, all from
 * one thread.  The tile's memory exists until the call returns, is aligned to
 * the dtype's elements, and src and dst are the same or do not overlap.  The
 * client may change that memory meanwhile: data that must not change between
 * two reads must be copied first.  Static variables belong to one load, by one
 * session on one row; they are initialised again when the worker is restarted.
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
 * job's params, from byte GPUMAP_KERNEL_PARAMS_AT on: the parameters declared
 * there must have the size of the job's params, or the job ends with -EINVAL.
 * An operand without bytes is 0.  The launch is of one dimension, in blocks of
 * GPUMAP_KERNEL_THREADS, with no dynamic shared memory, and of no more blocks
 * than fill the card: so a kernel advances by the width of the grid until it
 * has done all items.  A kernel that needs more of the card than such a block
 * may have ends with -EINVAL, too: use __launch_bounds__(256).
 *
 * On OpenCL rows a program is one kernel of this form:
 *
 *	struct params { float alpha; };
 *
 *	__kernel void gpumap_program(__global uchar *dst, ulong dst_at,
 *				     __global uchar *src, ulong src_at,
 *				     ulong n, struct params params)
 *	{
 *		__global float *to = (__global float *)(dst + dst_at);
 *		__global float *from = (__global float *)(src + src_at);
 *		ulong i = get_global_id(0);
 *
 *		if (i < n)
 *			to[i] = params.alpha * from[i] * from[i];
 *	}
 *
 * The pointers may be to any type in __global memory; params is a struct of any
 * tag, with as many bytes as the job's params, and is missing where the program
 * takes none.  There is an item of the launch for each of n, and there may be
 * more, for they come in whole groups.  A text that is not of this form is
 * refused with -ENOEXEC.  Where the device takes SPIR-V, the program may be a
 * module for OpenCL whose kernel has these arguments, the pointers in
 * CrossWorkgroup and params a pointer to a struct in Function, by value.
 *
 * On Vulkan rows a program is an entry point of a module of SPIR-V for Vulkan
 * 1.2: a compute shader without descriptors, whose groups have one dimension,
 * of a constant size.  Its push constants are three numbers of 64 bits, the
 * addresses of dst and src and n, and then the bytes of the job's params, in
 * 128 bytes together.  An invocation is an item; more may come than there are,
 * and fewer than 65536 groups.
 *
 * On HIP rows a program is a kernel as for CUDA rows, in one code object for
 * the card's instruction set, which is no bundle:
 *
 *	hipcc --offload-arch=gfx90a --cuda-device-only \
 *		--no-gpu-bundle-output -o square.hsaco square.hip
 *
 * HIP does not look at the size of parameters: those behind the job's are 0.
 *
 * A kernel runs in a worker, and a context of the card, that only programs of
 * one uid's sessions on one row use.  A fault in the kernel ends that worker,
 * and the jobs of that uid that were in flight there with -EIO; so does a
 * kernel that runs for longer than the administrator allows.
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

/* Changes when existing programs could not be run any more. */
#define GPUMAP_PROGRAM_ABI      1u

#define GPUMAP_KERNEL_THREADS   256u /* of a block */
#define GPUMAP_KERNEL_PARAMS_AT 24u  /* bytes: behind dst, src and n */

/* The work of one call.  Grows at the end only. */
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

/* The only symbol of a program that the worker looks up: gpumap_program. */
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
