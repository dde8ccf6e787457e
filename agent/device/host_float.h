/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * host_float - loops over f16, bf16 and f64 for one vector width, and casts.
 *
 * A part of host_vec.h, which has what is used here.  Elements of 16 bits are
 * computed as f32, a whole vector of them at a time, and what is left over by
 * way of a vector as well: so every element has the same arithmetic.
 */

typedef uint32_t VEC(u32v)
	__attribute__((vector_size(VEC_BYTES), may_alias, aligned(1)));
typedef int32_t VEC(i32v)
	__attribute__((vector_size(VEC_BYTES), may_alias, aligned(1)));
typedef double VEC(f64v)
	__attribute__((vector_size(VEC_BYTES), may_alias, aligned(1)));
/* As many as there are f32 in a vector. */
typedef uint16_t VEC(u16v)
	__attribute__((vector_size(VEC_BYTES / 2), may_alias, aligned(1)));

#define U32V VEC(u32v)
#define I32V VEC(i32v)
#define F64V VEC(f64v)
#define U16V VEC(u16v)

/* ---- one vector ---------------------------------------------------------- */

/* Where the bits of @mask are set those of @a, elsewhere those of @b. */
VEC_VALUE U32V VEC(select)(I32V mask, U32V a, U32V b)
{
	return ((U32V)mask & a) | (~(U32V)mask & b);
}

/*
 * The exponent of a normal number is shifted; a subnormal becomes the mantissa
 * of 2^-14, which is then subtracted, exactly.
 */
VEC_VALUE F32V VEC(get_f16)(const char *from)
{
#ifdef VEC_FROM_F16
	return (F32V)VEC_FROM_F16(*(const U16V *)from);
#else
	U32V h = __builtin_convertvector(*(const U16V *)from, U32V);
	U32V sign = (h & 0x8000) << 16, x = (h & 0x7fff) << 13;
	I32V is_small = (I32V)x < 0x400 << 13;
	I32V is_large = (I32V)x >= 0x7c00 << 13;
	I32V is_nan = (I32V)x > 0x7c00 << 13;
	U32V small = (U32V)((F32V)(x + (113u << 23)) - 0x1p-14f);

	x += (112u << 23) + ((U32V)is_large & 112u << 23);
	x |= (U32V)is_nan & 0x400000;
	return (F32V)(VEC(select)(is_small, small, x) | sign);
#endif
}

/*
 * Rounding adds half of the last kept bit's value to the dropped bits, less one
 * where the last kept bit is even; a carry runs into the exponent.  A subnormal
 * result is rounded by adding 0.5, whose last bit has the value of a
 * subnormal's.
 */
VEC_VALUE void VEC(put_f16)(char *to, F32V v)
{
#ifdef VEC_TO_F16
	*(U16V *)to = (U16V)VEC_TO_F16(v);
#else
	U32V x = (U32V)v & 0x7fffffff, sign = (U32V)v >> 16 & 0x8000;
	I32V is_small = (I32V)x < 113 << 23;
	I32V is_large = (I32V)x >= 143 << 23;
	I32V is_nan = (I32V)x > 255 << 23;
	U32V small = (U32V)((F32V)x + 0.5f) - (126u << 23);
	U32V large = 0x7c00 | ((U32V)is_nan & (0x200 | (x >> 13 & 0x3ff)));
	U32V normal = (x - (112u << 23) + 0xfff + (x >> 13 & 1)) >> 13;

	x = VEC(select)(is_large, large, VEC(select)(is_small, small, normal));
	*(U16V *)to = __builtin_convertvector(x | sign, U16V);
#endif
}

VEC_VALUE F32V VEC(get_bf16)(const char *from)
{
	U32V x = __builtin_convertvector(*(const U16V *)from, U32V) << 16;
	I32V is_nan = (I32V)(x & 0x7fffffff) > 255 << 23;

	return (F32V)(x | ((U32V)is_nan & 0x400000));
}

VEC_VALUE void VEC(put_bf16)(char *to, F32V v)
{
	U32V x = (U32V)v, rounded = (x + 0x7fff + (x >> 16 & 1)) >> 16;
	I32V is_nan = (I32V)(x & 0x7fffffff) > 255 << 23;

	x = VEC(select)(is_nan, x >> 16 | 0x40, rounded);
	*(U16V *)to = __builtin_convertvector(x, U16V);
}

VEC_VALUE F32V VEC(get_f32)(const char *from)
{
	return *(const F32V *)from;
}

VEC_VALUE void VEC(put_f32)(char *to, F32V v)
{
	*(F32V *)to = v;
}

VEC_VALUE F64V VEC(get_f64)(const char *from)
{
	return *(const F64V *)from;
}

VEC_VALUE void VEC(put_f64)(char *to, F64V v)
{
	*(F64V *)to = v;
}

/* ---- loops --------------------------------------------------------------- */

/* A function that has n elements of @size bytes made, in vectors of so many
 * @lanes; the body makes those at @to from those at @from. */
#define VEC_LOOP(lanes, to_size, from_size, make)        \
	do {                                             \
		char rest_to[VEC_BYTES] = { 0 };         \
		char rest_from[VEC_BYTES] = { 0 };       \
		const char *from = src;                  \
		char *to = dst;                          \
                                                         \
		for (; n >= (lanes); n -= (lanes)) {     \
			make;                            \
			to += (lanes) * (to_size);       \
			from += (lanes) * (from_size);   \
		}                                        \
		memcpy(rest_to, to, n *(to_size));       \
		memcpy(rest_from, from, n *(from_size)); \
		dst = to;                                \
		to = rest_to;                            \
		from = rest_from;                        \
		make;                                    \
		memcpy(dst, rest_to, n *(to_size));      \
	} while (0)

#define VEC_FLOAT(t, value, lanes, size)                                    \
	VEC_FN VEC(scale_##t)(void *dst, const void *src, double alpha,     \
			      size_t n)                                     \
	{                                                                   \
		const value a = (value)alpha;                               \
                                                                            \
		VEC_LOOP(lanes, size, size,                                 \
			 VEC(put_##t)(to, a * VEC(get_##t)(from)));         \
	}                                                                   \
	VEC_FN VEC(axpy_##t)(void *dst, const void *src, double alpha,      \
			     size_t n)                                      \
	{                                                                   \
		const value a = (value)alpha;                               \
                                                                            \
		VEC_LOOP(lanes, size, size,                                 \
			 VEC(put_##t)(to, VEC(get_##t)(to) +                \
						  a * VEC(get_##t)(from))); \
	}

#define VEC_CAST(t, u, from_size, to_size)                               \
	VEC_FN VEC(cast_##t##_##u)(void *dst, const void *src, size_t n) \
	{                                                                \
		VEC_LOOP(LANES, to_size, from_size,                      \
			 VEC(put_##u)(to, VEC(get_##t)(from)));          \
	}

VEC_FLOAT(f16, float, LANES, 2)
VEC_FLOAT(bf16, float, LANES, 2)
VEC_FLOAT(f64, double, LANES / 2, 8)

VEC_CAST(f16, bf16, 2, 2)
VEC_CAST(f16, f32, 2, 4)
VEC_CAST(bf16, f16, 2, 2)
VEC_CAST(bf16, f32, 2, 4)
VEC_CAST(f32, f16, 4, 2)
VEC_CAST(f32, bf16, 4, 2)

/* ---- masks --------------------------------------------------------------- */

typedef uint8_t VEC(u8v)
	__attribute__((vector_size(VEC_BYTES / 4), may_alias, aligned(1)));
typedef uint8_t VEC(u8half)
	__attribute__((vector_size(VEC_BYTES / 8), may_alias, aligned(1)));

/* Bits of minus infinity where a byte of the mask is not 0. */
#define VEC_BLOT(bytes, bits, minus_infinity)                                  \
	do {                                                                   \
		bits is = (bits)(__builtin_convertvector(*(const bytes *)by,   \
							 bits) != 0);          \
                                                                               \
		*(bits *)to =                                                  \
			(is & (minus_infinity)) | (~is & *(const bits *)from); \
	} while (0)

/* As VEC_LOOP, with the mask at @by. */
#define VEC_MASK(lanes, size, by_size, make)         \
	do {                                         \
		char rest_to[VEC_BYTES] = { 0 };     \
		char rest_from[VEC_BYTES] = { 0 };   \
		char rest_by[VEC_BYTES] = { 0 };     \
		const char *from = src, *by = mask;  \
		char *to = dst;                      \
                                                     \
		for (; n >= (lanes); n -= (lanes)) { \
			make;                        \
			to += (lanes) * (size);      \
			from += (lanes) * (size);    \
			by += (lanes) * (by_size);   \
		}                                    \
		memcpy(rest_from, from, n *(size));  \
		memcpy(rest_by, by, n *(by_size));   \
		dst = to;                            \
		to = rest_to;                        \
		from = rest_from;                    \
		by = rest_by;                        \
		make;                                \
		memcpy(dst, rest_to, n *(size));     \
	} while (0)

#define VEC_MASKS(t, lanes, size, bytes, bits, minus_infinity)                 \
	VEC_FN VEC(mask_add_##t)(void *dst, const void *src, const void *mask, \
				 size_t n)                                     \
	{                                                                      \
		VEC_MASK(lanes, size, size,                                    \
			 VEC(put_##t)(to,                                      \
				      VEC(get_##t)(from) + VEC(get_##t)(by))); \
	}                                                                      \
	VEC_FN VEC(mask_bool_##t)(void *dst, const void *src,                  \
				  const void *mask, size_t n)                  \
	{                                                                      \
		VEC_MASK(lanes, size, 1,                                       \
			 VEC_BLOT(bytes, bits, minus_infinity));               \
	}

VEC_MASKS(f16, LANES, 2, VEC(u8v), U16V, (uint16_t)0xfc00)
VEC_MASKS(bf16, LANES, 2, VEC(u8v), U16V, (uint16_t)0xff80)
VEC_MASKS(f32, LANES, 4, VEC(u8v), U32V, UINT32_C(0xff800000))
VEC_MASKS(f64, LANES / 2, 8, VEC(u8half), U64V, UINT64_C(0xfff0000000000000))

#undef VEC_BLOT
#undef VEC_MASK
#undef VEC_MASKS
#undef U32V
#undef I32V
#undef F64V
#undef U16V
#undef VEC_LOOP
#undef VEC_FLOAT
#undef VEC_CAST
