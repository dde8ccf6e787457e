/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * ops_hip - what ops.k is made of in HIP, for code objects of AMD's cards.
 *
 * ops_hip.sh compiles it.  Elements may begin at any byte, which costs a card
 * nothing.  Sizes of groups are constants, so that no kernel has hidden
 * arguments.  A test makes C of the same text, and has macros of its own for
 * the built-ins.
 */
#ifndef GM_OPS_HIP_H
#define GM_OPS_HIP_H

#define GM_F32
#define GM_F64

#define uint     unsigned int
#define u64      unsigned long
#define i64      long
#define U64(x)   ((u64)(x))
#define I64(x)   ((i64)(x))
#define INT(x)   ((int)(x))
#define UINT(x)  ((uint)(x))
#define FLOAT(x) ((float)(x))
#define ADR      unsigned char *

#ifdef __HIP__
#define FN    static __attribute__((device))
#define LOCAL static __attribute__((shared))
#define ENTRY(items)                       \
	extern "C" __attribute__((global)) \
	__attribute__((amdgpu_flat_work_group_size(items, items)))
#endif

#define ELEMENT(bits, type)                              \
	struct any##bits {                               \
		type x;                                  \
	} __attribute__((packed, may_alias));            \
	FN type load##bits(const unsigned char *a)       \
	{                                                \
		return ((const struct any##bits *)a)->x; \
	}                                                \
	FN void store##bits(unsigned char *a, type x)    \
	{                                                \
		((struct any##bits *)a)->x = x;          \
	}
ELEMENT(8, unsigned char)
ELEMENT(16, unsigned short)
ELEMENT(32, uint)
ELEMENT(64, u64)

#define REAL(bits, type, real)        \
	union real##bits {            \
		type x;               \
		real f;               \
	};                            \
	FN real to_real##bits(type x) \
	{                             \
		union real##bits u;   \
                                      \
		u.x = x;              \
		return u.f;           \
	}                             \
	FN type of_real##bits(real f) \
	{                             \
		union real##bits u;   \
                                      \
		u.f = f;              \
		return u.x;           \
	}
REAL(32, uint, float)
REAL(64, u64, double)

#define LD8(a)     ((uint)load8(a))
#define LD16(a)    ((uint)load16(a))
#define LD32(a)    load32(a)
#define LD64(a)    load64(a)
#define ST8(a, v)  store8(a, (unsigned char)(v))
#define ST16(a, v) store16(a, (unsigned short)(v))
#define ST32(a, v) store32(a, v)
#define ST64(a, v) store64(a, v)

#define F32(x)     to_real32(x)
#define B32(x)     of_real32(x)
#define F64(x)     to_real64(x)
#define B64(x)     of_real64(x)

/* -ffp-contract=off */
#define MUL(a, b)          ((a) * (b))
#define ADD(a, b)          ((a) + (b))

#define GROUP              U64(__builtin_amdgcn_workgroup_id_x())
#define ITEM               (GROUP * 256 + __builtin_amdgcn_workitem_id_x())

#define FILL(name)         ENTRY(256) void name(ADR dst, u64 n, u64 pattern)
#define KERNEL(name, more) ENTRY(256) void name(ADR dst, ADR src, u64 n more)
#define NOTHING
#define ALPHA(real)            , real alpha
#define MASK                   , ADR by, u64 m, u64 at
#define DST                    dst
#define SRC                    src
#define BY                     by
#define N                      n

#define REDUCTION(name, value) ENTRY(32) void name(ADR dst, ADR src, u64 n)
#define LANES(value)       \
	LOCAL value v[32]; \
	uint l = __builtin_amdgcn_workitem_id_x();
#define V(value, l) v[l]
#define CHUNK       GROUP
#define EACH_LANE
#define TOGETHER together()

FN void together(void)
{
	__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
	__builtin_amdgcn_s_barrier();
	__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

#endif
