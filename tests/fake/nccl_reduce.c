/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Types and what ranks are combined by: element by element, in rank order. */

#include <string.h>

#include "tests/fake/nccl.h"

size_t fake_nccl_bytes(ncclDataType_t type)
{
	static const size_t bytes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2 };

	return (unsigned int)type < sizeof(bytes) / sizeof(bytes[0])
		       ? bytes[type]
		       : 0;
}

/* Exact; the smallest ones by their unit, 2^-24. */
static float from_half(uint16_t half)
{
	uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
	uint32_t bits;
	float value;

	if (exponent == 0) {
		value = (float)fraction / 16777216.0f;
		return half >> 15 ? -value : value;
	}
	bits = exponent == 31 ? 0x7f800000u : (exponent + 112) << 23;
	bits |= fraction << 13 | (uint32_t)(half >> 15) << 31;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* To the nearest, ties to even. */
static uint16_t to_half(float value)
{
	uint32_t bits, sign, rest, whole;
	int exponent, shift;

	memcpy(&bits, &value, sizeof(bits));
	sign = bits >> 16 & 0x8000;
	exponent = (int)(bits >> 23 & 255) - 127;
	if (exponent == 128)
		return (uint16_t)(sign | (bits & 0x7fffff ? 0x7e00 : 0x7c00));
	if (exponent > 15)
		return (uint16_t)(sign | 0x7c00);
	if (exponent < -25)
		return (uint16_t)sign;
	shift = exponent < -14 ? -1 - exponent : 13;
	whole = (bits & 0x7fffff) | 0x800000;
	rest = whole & ((1u << shift) - 1);
	whole >>= shift;
	if (rest > 1u << (shift - 1) ||
	    (rest == 1u << (shift - 1) && (whole & 1)))
		whole++;
	if (exponent >= -14)
		whole += (uint32_t)(exponent + 14) << 10;
	return (uint16_t)(sign | whole);
}

static float from_brain(uint16_t brain)
{
	uint32_t bits = (uint32_t)brain << 16;
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static uint16_t to_brain(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	if (value != value)
		return 0x7fff;
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define COMBINE(op, a, b)                            \
	((op) == ncclProd  ? (a) * (b)               \
	 : (op) == ncclMax ? ((a) > (b) ? (a) : (b)) \
	 : (op) == ncclMin ? ((a) < (b) ? (a) : (b)) \
			   : (a) + (b))

#define EACH(ctype)                                                 \
	do {                                                        \
		ctype *to = into;                                   \
		const ctype *from = with;                           \
		for (size_t i = 0; i < count; i++)                  \
			to[i] = (ctype)COMBINE(op, to[i], from[i]); \
	} while (0)

#define EACH_SHORT(unpack, pack)                                      \
	do {                                                          \
		uint16_t *to = into;                                  \
		const uint16_t *from = with;                          \
		for (size_t i = 0; i < count; i++) {                  \
			float a = unpack(to[i]), b = unpack(from[i]); \
			to[i] = pack(COMBINE(op, a, b));              \
		}                                                     \
	} while (0)

void fake_nccl_combine(ncclDataType_t type, ncclRedOp_t op, void *into,
		       const void *with, size_t count)
{
	switch (type) {
	case ncclInt8:
		EACH(int8_t);
		break;
	case ncclUint8:
		EACH(uint8_t);
		break;
	case ncclInt32:
	case ncclUint32:
		if (type == ncclInt32 && (op == ncclMax || op == ncclMin))
			EACH(int32_t);
		else
			EACH(uint32_t);
		break;
	case ncclInt64:
	case ncclUint64:
		if (type == ncclInt64 && (op == ncclMax || op == ncclMin))
			EACH(int64_t);
		else
			EACH(uint64_t);
		break;
	case ncclFloat16:
		EACH_SHORT(from_half, to_half);
		break;
	case ncclFloat32:
		EACH(float);
		break;
	case ncclFloat64:
		EACH(double);
		break;
	case ncclBfloat16:
		EACH_SHORT(from_brain, to_brain);
		break;
	}
}

#define DIVIDE(ctype)                                      \
	do {                                               \
		ctype *at = values;                        \
		for (size_t i = 0; i < count; i++)         \
			at[i] = (ctype)(at[i] / (ctype)n); \
	} while (0)

#define DIVIDE_SHORT(unpack, pack)                              \
	do {                                                    \
		uint16_t *at = values;                          \
		for (size_t i = 0; i < count; i++)              \
			at[i] = pack(unpack(at[i]) / (float)n); \
	} while (0)

void fake_nccl_divide(ncclDataType_t type, void *values, size_t count, int n)
{
	switch (type) {
	case ncclInt8:
		DIVIDE(int8_t);
		break;
	case ncclUint8:
		DIVIDE(uint8_t);
		break;
	case ncclInt32:
		DIVIDE(int32_t);
		break;
	case ncclUint32:
		DIVIDE(uint32_t);
		break;
	case ncclInt64:
		DIVIDE(int64_t);
		break;
	case ncclUint64:
		DIVIDE(uint64_t);
		break;
	case ncclFloat16:
		DIVIDE_SHORT(from_half, to_half);
		break;
	case ncclFloat32:
		DIVIDE(float);
		break;
	case ncclFloat64:
		DIVIDE(double);
		break;
	case ncclBfloat16:
		DIVIDE_SHORT(from_brain, to_brain);
		break;
	}
}
