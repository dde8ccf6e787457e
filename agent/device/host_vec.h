/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * host_vec - the loops of host_kernels for one vector width.
 *
 * A template without a guard: host_kernels.c includes it once per width, with
 *
 *	VEC_NAME	suffix of its functions
 *	VEC_BYTES	16, 32 or 64
 *	VEC_TARGET	function attribute that allows the instructions
 *	VEC_PAST(p, v)	store v, of type f32 vector, at the aligned p, past the
 *			caches
 *	VEC_ORDER()	order those stores before later ones
 *	VEC_TO_F16(v)	v, of type f32 vector, as f16, and back; neither: by
 *	VEC_FROM_F16(v)	arithmetic on the bits, with the same result
 *
 * beside what host_kernels.c has above the first inclusion.
 *
 * Everything else is GNU C's vectors, so the widths cannot drift apart.  This
 * must be compiled with -ffp-contract=off, or a CPU with fused multiply-add
 * gives other results than one without.
 */

#define VEC_PASTE_(a, b) a##_##b
#define VEC_PASTE(a, b)  VEC_PASTE_(a, b)
#define VEC(name)        VEC_PASTE(name, VEC_NAME)
#define VEC_FN           VEC_TARGET static void
#define VEC_VALUE        VEC_TARGET static inline __attribute__((always_inline))
#define VEC_INLINE       VEC_VALUE void

/* Memory of clients: any alignment, any type. */
typedef float VEC(f32v)
	__attribute__((vector_size(VEC_BYTES), may_alias, aligned(1)));
typedef uint64_t VEC(u64v)
	__attribute__((vector_size(VEC_BYTES), may_alias, aligned(1)));

#define F32V  VEC(f32v)
#define U64V  VEC(u64v)
#define LANES (VEC_BYTES / sizeof(float))

/* One block of whole cache lines; @to is the beginning of a line. */
VEC_INLINE VEC(copy_block)(char *to, const char *from)
{
	for (size_t i = 0; i < BLOCK; i += VEC_BYTES)
		VEC_PAST(to + i, *(const F32V *)(from + i));
}

/* In order, asking for the source some way ahead. */
VEC_FN VEC(copy_past)(void *dst, const void *src, size_t bytes)
{
	size_t head = to_line(dst, bytes);
	const char *from = src;
	char *to = dst;

	memcpy(to, from, head);
	to += head;
	from += head;
	bytes -= head;
	for (; bytes >= BLOCK; bytes -= BLOCK, to += BLOCK, from += BLOCK) {
		for (size_t i = 0; i < BLOCK; i += GM_HOST_LINE)
			__builtin_prefetch(from + AHEAD + i, 0, 0);
		VEC(copy_block)(to, from);
	}
	VEC_ORDER();
	memcpy(to, from, bytes);
}

/* A block from each of some pages in turn: each is a stream of its own. */
VEC_FN VEC(copy_pages)(void *dst, const void *src, size_t bytes)
{
	size_t head = to_line(dst, bytes);
	const char *from = src;
	char *to = dst;

	memcpy(to, from, head);
	to += head;
	from += head;
	bytes -= head;
	for (; bytes >= PAGES * PAGE; bytes -= PAGES * PAGE) {
		for (size_t i = 0; i < PAGE; i += BLOCK) {
			for (size_t p = i; p < PAGES * PAGE; p += PAGE)
				VEC(copy_block)(to + p, from + p);
		}
		to += PAGES * PAGE;
		from += PAGES * PAGE;
	}
	VEC(copy_past)(to, from, bytes);
}

/*
 * One vector at the beginning and one at the end, wherever they lie, and
 * aligned ones between: they overlap, with the same bytes.
 */
VEC_INLINE VEC(fill_any)(void *dst, uint64_t pattern, size_t bytes, bool past)
{
	size_t head = -(uintptr_t)dst % VEC_BYTES;
	char *to = dst, *end = to + bytes;
	U64V v;

	if (bytes < VEC_BYTES) {
		fill_short(dst, pattern, bytes);
		return;
	}
	*(U64V *)to = (U64V){ 0 } + pattern;
	v = (U64V){ 0 } + turned(pattern, head);
	for (to += head; to + VEC_BYTES <= end; to += VEC_BYTES) {
		if (past)
			VEC_PAST(to, (F32V)v);
		else
			*(U64V *)to = v;
	}
	if (past)
		VEC_ORDER();
	v = (U64V){ 0 } + turned(pattern, bytes - VEC_BYTES);
	*(U64V *)(end - VEC_BYTES) = v;
}

VEC_FN VEC(fill)(void *dst, uint64_t pattern, size_t bytes)
{
	VEC(fill_any)(dst, pattern, bytes, false);
}

VEC_FN VEC(fill_past)(void *dst, uint64_t pattern, size_t bytes)
{
	VEC(fill_any)(dst, pattern, bytes, true);
}

/*
 * Through the caches, however long: measured, arithmetic that writes past them
 * is the slower one.
 */
VEC_FN VEC(scale_f32)(void *dst, const void *src, double alpha, size_t n)
{
	const float a = (float)alpha;
	const f32 *from = src;
	f32 *to = dst;
	size_t i = 0;

	/* A destination between two floats never gets aligned. */
	for (; i < n && i < LANES && (uintptr_t)(to + i) % VEC_BYTES; i++)
		to[i] = a * from[i];
	for (; i + LANES <= n; i += LANES)
		*(F32V *)(to + i) = a * *(const F32V *)(from + i);
	for (; i < n; i++)
		to[i] = a * from[i];
}

VEC_FN VEC(axpy_f32)(void *dst, const void *src, double alpha, size_t n)
{
	const float a = (float)alpha;
	const f32 *from = src;
	f32 *to = dst;
	size_t i = 0;

	for (; i < n && i < LANES && (uintptr_t)(to + i) % VEC_BYTES; i++)
		to[i] = to[i] + a * from[i];
	for (; i + LANES <= n; i += LANES) {
		F32V v = a * *(const F32V *)(from + i);

		*(F32V *)(to + i) = *(const F32V *)(to + i) + v;
	}
	for (; i < n; i++)
		to[i] = to[i] + a * from[i];
}

#include "agent/device/host_float.h"
#include "agent/device/host_reduce.h"

#define VEC_ALL(name)                                   \
	{                                               \
		[GPUMAP_DTYPE_U8] = VEC(name##_u8),     \
		[GPUMAP_DTYPE_F16] = VEC(name##_f16),   \
		[GPUMAP_DTYPE_BF16] = VEC(name##_bf16), \
		[GPUMAP_DTYPE_F32] = VEC(name##_f32),   \
		[GPUMAP_DTYPE_I32] = VEC(name##_i32),   \
		[GPUMAP_DTYPE_I64] = VEC(name##_i64),   \
		[GPUMAP_DTYPE_F64] = VEC(name##_f64),   \
		[GPUMAP_DTYPE_U16] = VEC(name##_u16),   \
		[GPUMAP_DTYPE_U32] = VEC(name##_u32),   \
		[GPUMAP_DTYPE_U64] = VEC(name##_u64),   \
	}

static const struct gm_host_kernels VEC(kernels) = {
	.name = VEC_STRING(VEC_NAME),
	.usable = VEC(usable),
	.copy = copy,
	.copy_past = VEC(copy_past),
	.copy_pages = VEC(copy_pages),
	.fill = VEC(fill),
	.fill_past = VEC(fill_past),
	.scale = { [GPUMAP_DTYPE_F16] = VEC(scale_f16),
		   [GPUMAP_DTYPE_BF16] = VEC(scale_bf16),
		   [GPUMAP_DTYPE_F32] = VEC(scale_f32),
		   [GPUMAP_DTYPE_F64] = VEC(scale_f64) },
	.axpy = { [GPUMAP_DTYPE_F16] = VEC(axpy_f16),
		  [GPUMAP_DTYPE_BF16] = VEC(axpy_bf16),
		  [GPUMAP_DTYPE_F32] = VEC(axpy_f32),
		  [GPUMAP_DTYPE_F64] = VEC(axpy_f64) },
	.cast = { [GPUMAP_DTYPE_F16] = { [GPUMAP_DTYPE_BF16] =
						 VEC(cast_f16_bf16),
					 [GPUMAP_DTYPE_F32] =
						 VEC(cast_f16_f32) },
		  [GPUMAP_DTYPE_BF16] = { [GPUMAP_DTYPE_F16] =
						  VEC(cast_bf16_f16),
					  [GPUMAP_DTYPE_F32] =
						  VEC(cast_bf16_f32) },
		  [GPUMAP_DTYPE_F32] = { [GPUMAP_DTYPE_F16] = VEC(cast_f32_f16),
					 [GPUMAP_DTYPE_BF16] =
						 VEC(cast_f32_bf16) } },
	.mask_add = { [GPUMAP_DTYPE_F16] = VEC(mask_add_f16),
		      [GPUMAP_DTYPE_BF16] = VEC(mask_add_bf16),
		      [GPUMAP_DTYPE_F32] = VEC(mask_add_f32),
		      [GPUMAP_DTYPE_F64] = VEC(mask_add_f64) },
	.mask_bool = { [GPUMAP_DTYPE_F16] = VEC(mask_bool_f16),
		       [GPUMAP_DTYPE_BF16] = VEC(mask_bool_bf16),
		       [GPUMAP_DTYPE_F32] = VEC(mask_bool_f32),
		       [GPUMAP_DTYPE_F64] = VEC(mask_bool_f64) },
	.sum_rows = { [GPUMAP_DTYPE_F16] = VEC(sum_f16),
		      [GPUMAP_DTYPE_BF16] = VEC(sum_bf16),
		      [GPUMAP_DTYPE_F32] = VEC(sum_f32),
		      [GPUMAP_DTYPE_F64] = VEC(sum_f64) },
	.sum = { [GPUMAP_DTYPE_U8] = VEC(sum_u8),
		 [GPUMAP_DTYPE_I32] = VEC(sum_i32),
		 [GPUMAP_DTYPE_I64] = VEC(sum_i64),
		 [GPUMAP_DTYPE_U16] = VEC(sum_u16),
		 [GPUMAP_DTYPE_U32] = VEC(sum_u32),
		 [GPUMAP_DTYPE_U64] = VEC(sum_u64) },
	.min = VEC_ALL(min),
	.max = VEC_ALL(max),
};

#undef VEC_PASTE_
#undef VEC_PASTE
#undef VEC
#undef VEC_FN
#undef VEC_INLINE
#undef VEC_VALUE
#undef VEC_ALL
#undef F32V
#undef U64V
#undef LANES
#undef VEC_NAME
#undef VEC_BYTES
#undef VEC_TARGET
#undef VEC_PAST
#undef VEC_TO_F16
#undef VEC_FROM_F16
#undef VEC_ORDER
