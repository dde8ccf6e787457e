/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/operators/operators_case.h"

#define PICK(array) ((array)[dice(sizeof(array) / sizeof((array)[0]))])

/* ---- numbers ------------------------------------------------------------ */

/* From the 19th on they are around halves of f16 and bf16, and where f16 begins
 * and ends. */
static const uint64_t hard_32[] = {
	0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
	0x7fc00000, 0xffc00000, 0x7f800001, 0xffbfffff, 0x7fffffff, 0xffffffff,
	0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff,
	0x3f801000, 0x3f803000, 0x3f800fff, 0x3f801001, 0x3f808000, 0x3f818000,
	0x3f807fff, 0x3f808001, 0x477fe000, 0x477fefff, 0x477ff000, 0x477ff001,
	0x7f7f8000, 0x33000000, 0x33000001, 0x32ffffff, 0x33800000, 0x387fc000,
	0x387fe000, 0x38800000, 0x387fdfff, 0x387ff000, 0x33c00000, 0x34200000,
};

static const uint64_t hard_16[] = {
	0x0000, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xffff,
	0x0001, 0x8001, 0x03ff, 0x0400, 0x7bff, 0xfbff, 0x3f80, 0xbf80, 0x7f80,
	0xff80, 0x7fc0, 0x7f81, 0x7f7f, 0xff7f, 0x007f, 0x0080, 0x8080, 0x7fff,
};

static const uint64_t hard_64[] = {
	0x0000000000000000, 0x8000000000000000, 0x7ff0000000000000,
	0xfff0000000000000, 0x7ff0000000000001, 0xfff0000000000001,
	0x7ff8000000000000, 0x7fffffffffffffff, 0xffffffffffffffff,
	0x0000000000000001, 0x8000000000000001, 0x7fefffffffffffff,
	0xffefffffffffffff, 0x000fffffffffffff, 0x0010000000000000,
};

uint64_t hard(uint32_t dtype)
{
	switch (ref_bytes(dtype)) {
	case 2:
		return PICK(hard_16);
	case 4:
		return PICK(hard_32);
	default:
		return PICK(hard_64);
	}
}

uint64_t any_bits(void)
{
	return dice(UINT64_C(1) << 32) << 32 | dice(UINT64_C(1) << 32);
}

/* A number of either sign, between 2^-8 and 2^8. */
static uint64_t tame(uint32_t dtype)
{
	uint64_t bits = any_bits(), low = dice(16);

	switch (dtype) {
	case GPUMAP_DTYPE_F16:
		return (bits & 0x83ff) | (low + 7) << 10;
	case GPUMAP_DTYPE_BF16:
		return (bits & 0x807f) | (low + 119) << 7;
	case GPUMAP_DTYPE_F32:
		return (bits & 0x807fffff) | (low + 119) << 23;
	case GPUMAP_DTYPE_F64:
		return (bits & UINT64_C(0x800fffffffffffff)) | (low + 1015)
								       << 52;
	default:
		return bits;
	}
}

void throw_numbers(void *to, uint64_t n, uint32_t dtype, enum numbers numbers)
{
	for (uint64_t i = 0; i < n; i++)
		ref_store(to, i, dtype,
			  numbers != ANY ? tame(dtype)
			  : dice(3)      ? any_bits()
					 : hard(dtype));
	if (numbers == ONE_HARD && n)
		ref_store(to, dice(n), dtype, hard(dtype));
}

uint32_t out_dtype(const struct trial *t)
{
	if (t->op == GM_OPERATOR_FILL)
		return GPUMAP_DTYPE_U8;
	if (t->op == GM_OPERATOR_CAST)
		return t->to;
	return ref_result(t->op, t->dtype);
}

uint64_t out_n(const struct trial *t)
{
	return t->op >= GM_OPERATOR_SUM ? gm_operators_chunks(t->n) : t->n;
}

uint64_t alpha_bits(const struct trial *t, double alpha)
{
	float f = (float)alpha;
	uint64_t bits = 0;

	if (t->dtype == GPUMAP_DTYPE_F64)
		memcpy(&bits, &alpha, sizeof(alpha));
	else
		memcpy(&bits, &f, sizeof(f));
	return bits;
}

uint32_t parameters(const struct trial *t, const struct ref_args *a,
		    uint64_t params[6])
{
	uint32_t n = 0;

	params[n++] = (uint64_t)(uintptr_t)a->dst;
	if (t->op != GM_OPERATOR_FILL)
		params[n++] = (uint64_t)(uintptr_t)a->src;
	params[n++] = a->n;
	switch (t->op) {
	case GM_OPERATOR_FILL:
		params[n++] = a->pattern;
		break;
	case GM_OPERATOR_SCALE:
	case GM_OPERATOR_AXPY:
		params[n++] = alpha_bits(t, a->alpha);
		break;
	case GM_OPERATOR_MASK_ADD:
	case GM_OPERATOR_MASK_BOOL:
		params[n++] = (uint64_t)(uintptr_t)a->mask;
		params[n++] = a->m;
		params[n++] = a->at;
		break;
	}
	return n;
}

void for_each_kernel(void (*each)(uint32_t op, uint32_t dtype, uint32_t to,
				  const char *name))
{
	char name[GM_OPERATOR_NAME_BYTES];

	each(GM_OPERATOR_FILL, GPUMAP_DTYPE_U8, 0, "gm_fill");
	for (uint32_t op = GM_OPERATOR_SCALE; op < GM_OPERATORS; op++) {
		for (uint32_t d = 0; d < N_DTYPES; d++) {
			uint32_t last = op == GM_OPERATOR_CAST ? N_DTYPES : 1;

			for (uint32_t to = 0; to < last; to++) {
				if (gm_operators_name(op, d, to, name) == 0)
					each(op, d, to, name);
			}
		}
	}
}
