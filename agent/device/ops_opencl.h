/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * ops_opencl - what ops.k is made of in OpenCL C 1.2, little endian.
 *
 * The options of a build are
 *
 *	GM_F32 GM_F64	see ops.k
 *	GM_ANY		elements may begin at any byte; else at a multiple of
 *			their size
 *	GM_LANES	the lanes of a chunk are the items of a group, as a GPU
 *			would have it; else one item has them all, as a compiler
 *			for a CPU makes most of
 *
 * Addresses are a memory and an offset in it.
 */
#ifndef GM_OPS_OPENCL_H
#define GM_OPS_OPENCL_H

#pragma OPENCL FP_CONTRACT OFF
#ifdef GM_F64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define u64      ulong
#define i64      long
#define U64(x)   ((ulong)(x))
#define I64(x)   ((long)(x))
#define INT(x)   ((int)(x))
#define UINT(x)  ((uint)(x))
#define FLOAT(x) ((float)(x))
#define ADR      __global uchar *
#define FN       static

#ifdef GM_ANY
#define TYPE(type)                               \
	typedef struct __attribute__((packed)) { \
		type x;                          \
	} any_##type;
TYPE(ushort)
TYPE(uint)
TYPE(ulong)
#define ELEMENT(type, a) (((__global any_##type *)(a))->x)
#else
#define ELEMENT(type, a) (*(__global type *)(a))
#endif

#define LD8(a)             ((uint) * (a))
#define LD16(a)            ((uint)ELEMENT(ushort, a))
#define LD32(a)            ELEMENT(uint, a)
#define LD64(a)            ELEMENT(ulong, a)
#define ST8(a, v)          (*(a) = (uchar)(v))
#define ST16(a, v)         (ELEMENT(ushort, a) = (ushort)(v))
#define ST32(a, v)         (ELEMENT(uint, a) = (v))
#define ST64(a, v)         (ELEMENT(ulong, a) = (v))

#define F32(x)             as_float(x)
#define B32(x)             as_uint(x)
#define F64(x)             as_double(x)
#define B64(x)             as_ulong(x)

#define MUL(a, b)          ((a) * (b))
#define ADD(a, b)          ((a) + (b))

#define TO                 ADR dst_mem, ulong dst_at
#define FROM               ADR src_mem, ulong src_at
#define FILL(name)         __kernel void name(TO, ulong n, ulong pattern)
#define OPERANDS           TO, FROM, ulong n
#define KERNEL(name, more) __kernel void name(OPERANDS more)
#define NOTHING
#define ALPHA(real) , real alpha
#define MASK        , ADR by_mem, ulong by_at, ulong m, ulong at
#define DST         (dst_mem + dst_at)
#define SRC         (src_mem + src_at)
#define BY          (by_mem + by_at)
#define N           n
#define ITEM        get_global_id(0)

#ifdef GM_LANES
#define REDUCTION(name, value)                                              \
	__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void name( \
		OPERANDS)
#define LANES(value)         \
	__local value v[32]; \
	uint l = (uint)get_local_id(0);
#define CHUNK get_group_id(0)
#define EACH_LANE
#define TOGETHER barrier(CLK_LOCAL_MEM_FENCE)
#else
#define REDUCTION(name, value) KERNEL(name, NOTHING)
#define LANES(value)           value v[32];
#define CHUNK                  get_global_id(0)
#define EACH_LANE              for (uint l = 0u; l < 32u; l++)
#define TOGETHER
#endif
#define V(value, l) v[l]

#endif
