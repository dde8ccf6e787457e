/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * ops_vulkan - what ops.k is made of in GLSL, for SPIR-V of Vulkan 1.2.
 *
 * ops_vulkan.sh compiles each kernel alone, by
 *
 *	GM_KERNEL	its name
 *	GM_ARGS		its arguments behind dst and src, from args
 *	GM_F32 GM_F64	see ops.k; without GM_F64 a module has no doubles
 *
 * and the driver makes two pipelines of each, which differ in ANY: elements may
 * begin at any byte, or at multiples of their size.  Groups are counted in two
 * dimensions, and may be more than are needed.  All sums and products are
 * precise: in SPIR-V they are NoContraction.
 */
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float64 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool ANY = false;
layout(push_constant) uniform given
{
	uint64_t args[6];
};

#define u64      uint64_t
#define i64      int64_t
#define U64(x)   uint64_t(x)
#define I64(x)   int64_t(x)
#define INT(x)   int(x)
#define UINT(x)  uint(x)
#define FLOAT(x) float(x)
#define FN

#define MEMORY(name, type, bytes)                                        \
	layout(buffer_reference, std430, buffer_reference_align = bytes) \
		buffer name                                              \
	{                                                                \
		type x;                                                  \
	};
MEMORY(mem8, uint8_t, 1)
MEMORY(mem16, uint16_t, 2)
MEMORY(mem32, uint, 4)
MEMORY(mem64, uint64_t, 8)

#define LD8(a)    uint(mem8(a).x)
#define ST8(a, v) mem8(a).x = uint8_t(v)

uint LD16(u64 a)
{
	return ANY ? LD8(a) | LD8(a + 1) << 8 : uint(mem16(a).x);
}

uint LD32(u64 a)
{
	return ANY ? LD16(a) | LD16(a + 2) << 16 : mem32(a).x;
}

u64 LD64(u64 a)
{
	return ANY ? U64(LD32(a)) | U64(LD32(a + 4)) << 32 : mem64(a).x;
}

void ST16(u64 a, uint v)
{
	if (ANY) {
		ST8(a, v & 255u);
		ST8(a + 1, v >> 8 & 255u);
	} else {
		mem16(a).x = uint16_t(v);
	}
}

void ST32(u64 a, uint v)
{
	if (ANY) {
		ST16(a, v & 65535u);
		ST16(a + 2, v >> 16);
	} else {
		mem32(a).x = v;
	}
}

void ST64(u64 a, u64 v)
{
	if (ANY) {
		ST32(a, uint(v));
		ST32(a + 4, uint(v >> 32));
	} else {
		mem64(a).x = v;
	}
}

#define F32(x) uintBitsToFloat(x)
#define B32(x) floatBitsToUint(x)

float MUL(float a, float b)
{
	precise float x = a * b;
	return x;
}

float ADD(float a, float b)
{
	precise float x = a + b;
	return x;
}

u64 ADD(u64 a, u64 b)
{
	return a + b;
}

#ifdef GM_F64
#define F64(x) uint64BitsToDouble(x)
#define B64(x) doubleBitsToUint64(x)

double MUL(double a, double b)
{
	precise double x = a * b;
	return x;
}

double ADD(double a, double b)
{
	precise double x = a + b;
	return x;
}

shared double v_double[32];
#endif
shared float v_float[32];
shared int v_int[32];
shared uint v_uint[32];
shared int64_t v_int64_t[32];
shared uint64_t v_uint64_t[32];

#define ROW                gl_NumWorkGroups.x
#define GROUP              (U64(gl_WorkGroupID.y) * ROW + gl_WorkGroupID.x)

#define FILL(name)         void name(u64 n, u64 pattern)
#define KERNEL(name, more) void name(u64 n more)
#define REDUCTION(name, value)             \
	void name##_chunk(u64 n);          \
	void name(u64 n)                   \
	{                                  \
		if (CHUNK * U64(1024) < n) \
			name##_chunk(n);   \
	}                                  \
	void name##_chunk(u64 n)
#define NOTHING
#define ALPHA(real)  , real alpha
#define MASK         , u64 m, u64 at
#define DST          args[0]
#define SRC          args[1]
#define BY           args[3]
#define N            n
#define ITEM         (GROUP * gl_WorkGroupSize.x + gl_LocalInvocationID.x)

#define LANES(value) uint l = gl_LocalInvocationID.x;
#define V(value, l)  v_##value[l]
#define CHUNK        GROUP
#define EACH_LANE
#define TOGETHER barrier()
