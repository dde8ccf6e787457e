/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * host_reduce - loops of reductions for one vector width.
 *
 * A part of host_vec.h, behind host_float.h.  Each goes on with what it is
 * given, and leaves that much more.
 *
 * The least of floats is the least of integers that are ordered as they are:
 * those above 0 are, and of the others all bits but the sign are turned over.
 * So -0 is less than +0.  A NaN becomes an integer beyond all others.
 */

/* ---- sums ---------------------------------------------------------------- */

/* Rows of 32 elements, a lane each. */
#define VEC_SUM_ROWS(t, value, lanes, size)                           \
	VEC_FN VEC(sum_##t)(void *sums, const void *src, size_t rows) \
	{                                                             \
		value sum[32 / (lanes)];                              \
		const char *from = src;                               \
                                                                      \
		memcpy(sum, sums, sizeof(sum));                       \
		for (; rows > 0; rows--) {                            \
			for (size_t i = 0; i < 32 / (lanes); i++) {   \
				sum[i] += VEC(get_##t)(from);         \
				from += (lanes) * (size);             \
			}                                             \
		}                                                     \
		memcpy(sums, sum, sizeof(sum));                       \
	}

/* Integers, as 64 bits that wrap. */
#define VEC_SUM(t, type)                                                  \
	typedef type VEC(t##_row)                                         \
		__attribute__((vector_size(sizeof(type) * VEC_BYTES / 8), \
			       may_alias, aligned(1)));                   \
	VEC_FN VEC(sum_##t)(void *total, const void *src, size_t n)       \
	{                                                                 \
		const size_t lanes = VEC_BYTES / 8;                       \
		const char *from = src;                                   \
		uint64_t sum;                                             \
		U64V sums = { 0 };                                        \
		type one;                                                 \
                                                                          \
		memcpy(&sum, total, sizeof(sum));                         \
		for (; n >= lanes; n -= lanes) {                          \
			sums += __builtin_convertvector(                  \
				*(const VEC(t##_row) *)from, U64V);       \
			from += lanes * sizeof(type);                     \
		}                                                         \
		for (size_t i = 0; i < lanes; i++)                        \
			sum += sums[i];                                   \
		for (; n > 0; n--, from += sizeof(type)) {                \
			memcpy(&one, from, sizeof(one));                  \
			sum += (uint64_t)one;                             \
		}                                                         \
		memcpy(total, &sum, sizeof(sum));                         \
	}

VEC_SUM_ROWS(f16, VEC(f32v), LANES, 2)
VEC_SUM_ROWS(bf16, VEC(f32v), LANES, 2)
VEC_SUM_ROWS(f32, VEC(f32v), LANES, 4)
VEC_SUM_ROWS(f64, VEC(f64v), LANES / 2, 8)

VEC_SUM(u8, uint8_t)
VEC_SUM(u16, uint16_t)
VEC_SUM(u32, uint32_t)
VEC_SUM(u64, uint64_t)
VEC_SUM(i32, int32_t)
VEC_SUM(i64, int64_t)

/* ---- the least and the greatest ------------------------------------------ */

/* @is picks lanes of @a, the others are those of @b. */
#define VEC_PICK(v, is, a, b) (((v)(is) & (a)) | (~(v)(is) & (b)))

/* Elements that are in order by themselves. */
#define VEC_PLAIN(v, x, end) (x)

/* Floats, of which infinity has these bits. */
#define VEC_ORDERED(v, x, end, most, infinity)                     \
	VEC_PICK(v, ((x) & (most)) > (infinity), (v){ 0 } + (end), \
		 (x) ^ ((v)((x) < 0) & (most)))
#define VEC_F16(v, x, end) \
	VEC_ORDERED(v, x, end, (int16_t)INT16_MAX, (int16_t)0x7c00)
#define VEC_BF16(v, x, end) \
	VEC_ORDERED(v, x, end, (int16_t)INT16_MAX, (int16_t)0x7f80)
#define VEC_F32(v, x, end) VEC_ORDERED(v, x, end, INT32_MAX, 0x7f800000)
#define VEC_F64(v, x, end)                         \
	VEC_ORDERED(v, x, end, (int64_t)INT64_MAX, \
		    (int64_t)INT64_C(0x7ff0000000000000))

#define VEC_EXTREME(name, before, t, type, order, end)                         \
	VEC_FN VEC(name##_##t)(void *best, const void *src, size_t n)          \
	{                                                                      \
		const size_t lanes = VEC_BYTES / sizeof(type);                 \
		const char *from = src;                                        \
		VEC(t##_key) x, most;                                          \
		type one;                                                      \
                                                                               \
		memcpy(&one, best, sizeof(one));                               \
		most = (VEC(t##_key)){ 0 } + one;                              \
		for (; n >= lanes; n -= lanes, from += VEC_BYTES) {            \
			x = *(const VEC(t##_key) *)from;                       \
			x = order(VEC(t##_key), x, end);                       \
			most = VEC_PICK(VEC(t##_key), x before most, x, most); \
		}                                                              \
		x = (VEC(t##_key)){ 0 };                                       \
		memcpy(&x, from, n * sizeof(type));                            \
		x = order(VEC(t##_key), x, end);                               \
		for (size_t i = 0; i < lanes; i++) {                           \
			if (i < n && x[i] before one)                          \
				one = x[i];                                    \
			if (most[i] before one)                                \
				one = most[i];                                 \
		}                                                              \
		memcpy(best, &one, sizeof(one));                               \
	}

#define VEC_EXTREMES(t, type, order, low, high)                           \
	typedef type VEC(t##_key) __attribute__((vector_size(VEC_BYTES),  \
						 may_alias, aligned(1))); \
	VEC_EXTREME(min, <, t, type, order, (type)(low))                  \
	VEC_EXTREME(max, >, t, type, order, (type)(high))

VEC_EXTREMES(u8, uint8_t, VEC_PLAIN, 0, 0)
VEC_EXTREMES(u16, uint16_t, VEC_PLAIN, 0, 0)
VEC_EXTREMES(u32, uint32_t, VEC_PLAIN, 0, 0)
VEC_EXTREMES(u64, uint64_t, VEC_PLAIN, 0, 0)
VEC_EXTREMES(i32, int32_t, VEC_PLAIN, 0, 0)
VEC_EXTREMES(i64, int64_t, VEC_PLAIN, 0, 0)
VEC_EXTREMES(f16, int16_t, VEC_F16, INT16_MIN, INT16_MAX)
VEC_EXTREMES(bf16, int16_t, VEC_BF16, INT16_MIN, INT16_MAX)
VEC_EXTREMES(f32, int32_t, VEC_F32, INT32_MIN, INT32_MAX)
VEC_EXTREMES(f64, int64_t, VEC_F64, INT64_MIN, INT64_MAX)

#undef VEC_SUM_ROWS
#undef VEC_SUM
#undef VEC_PICK
#undef VEC_PLAIN
#undef VEC_ORDERED
#undef VEC_F16
#undef VEC_BF16
#undef VEC_F32
#undef VEC_F64
#undef VEC_EXTREME
#undef VEC_EXTREMES
