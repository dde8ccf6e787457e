/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/spirv_kernel.h"

#include <string.h>

/* Numbers of the module. */
enum {
	KERNEL = 1,
	VOID,
	UCHAR,
	ULONG,
	FLOAT,
	BOOL,
	V3,
	PARAMS,
	TO_UCHAR,
	TO_FLOAT,
	TO_V3,
	TO_PARAMS,
	TO_OWN_FLOAT,
	FUNCTION,
	ITEM,
	FOUR,
	DST,
	DST_AT,
	SRC,
	SRC_AT,
	N,
	ALPHA,
	BEGIN,
	THEN,
	END,
	R0,
	R1,
	R2,
	R3,
	R4,
	R5,
	R6,
	R7,
	R8,
	R9,
	R10,
	R11,
	R12,
	R13,
	R14,
	R15,
	R16,
	BOUND
};

#define COUNT(...) (sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))
#define OP(number, ...) \
	((uint32_t)(1 + COUNT(__VA_ARGS__)) << 16 | (number)), __VA_ARGS__
#define BARE(number) (1u << 16 | (number))

static const uint32_t words[] = {
	0x07230203,
	0x00010000,
	0,
	BOUND,
	0,
	OP(17, 4),    /* Capability Addresses */
	OP(17, 6),    /* Kernel */
	OP(17, 11),   /* Int64 */
	OP(17, 39),   /* Int8 */
	OP(14, 2, 2), /* MemoryModel Physical64 OpenCL */
	OP(15, 6, KERNEL, 0x61757173, 0x00006572, ITEM), /* "square" */
	OP(71, ITEM, 11, 28), /* Decorate BuiltIn GlobalInvocationId */
	OP(71, ALPHA, 38, 2), /* FuncParamAttr ByVal */
	OP(19, VOID),
	OP(21, UCHAR, 8, 0),
	OP(21, ULONG, 64, 0),
	OP(22, FLOAT, 32),
	OP(20, BOOL),
	OP(23, V3, ULONG, 3),
	OP(30, PARAMS, FLOAT),
	OP(32, TO_UCHAR, 5, UCHAR), /* TypePointer CrossWorkgroup */
	OP(32, TO_FLOAT, 5, FLOAT),
	OP(32, TO_V3, 1, V3),         /* Input */
	OP(32, TO_PARAMS, 7, PARAMS), /* Function */
	OP(32, TO_OWN_FLOAT, 7, FLOAT),
	OP(33, FUNCTION, VOID, TO_UCHAR, ULONG, TO_UCHAR, ULONG, ULONG,
	   TO_PARAMS),
	OP(43, ULONG, FOUR, 4, 0),
	OP(59, TO_V3, ITEM, 1),
	OP(54, VOID, KERNEL, 0, FUNCTION),
	OP(55, TO_UCHAR, DST),
	OP(55, ULONG, DST_AT),
	OP(55, TO_UCHAR, SRC),
	OP(55, ULONG, SRC_AT),
	OP(55, ULONG, N),
	OP(55, TO_PARAMS, ALPHA),
	OP(248, BEGIN),
	OP(61, V3, R0, ITEM, 2, 32), /* Load Aligned */
	OP(81, ULONG, R1, R0, 0),    /* CompositeExtract */
	OP(176, BOOL, R2, R1, N),    /* ULessThan */
	OP(250, R2, THEN, END),
	OP(248, THEN),
	OP(132, ULONG, R3, R1, FOUR), /* IMul */
	OP(117, ULONG, R4, SRC),      /* ConvertPtrToU */
	OP(128, ULONG, R5, R4, SRC_AT),
	OP(128, ULONG, R6, R5, R3),
	OP(120, TO_FLOAT, R7, R6), /* ConvertUToPtr */
	OP(61, FLOAT, R8, R7, 2, 4),
	OP(124, TO_OWN_FLOAT, R9, ALPHA), /* Bitcast */
	OP(61, FLOAT, R10, R9, 2, 4),
	OP(133, FLOAT, R11, R10, R8), /* FMul */
	OP(133, FLOAT, R12, R11, R8),
	OP(117, ULONG, R13, DST),
	OP(128, ULONG, R14, R13, DST_AT),
	OP(128, ULONG, R15, R14, R3),
	OP(120, TO_FLOAT, R16, R15),
	OP(62, R16, R12, 2, 4), /* Store */
	OP(249, END),
	OP(248, END),
	BARE(253), /* Return */
	BARE(56),  /* FunctionEnd */
};

_Static_assert(sizeof(words) <= SPIRV_KERNEL_WORDS * sizeof(words[0]), "room");

size_t spirv_kernel(uint32_t ret_words[SPIRV_KERNEL_WORDS])
{
	memcpy(ret_words, words, sizeof(words));
	return sizeof(words) / sizeof(words[0]);
}

uint32_t *spirv_find(uint32_t *all, size_t n, uint32_t op, uint32_t at,
		     uint32_t value)
{
	for (size_t i = 5; i < n; i += all[i] >> 16)
		if ((all[i] & 0xffff) == op && all[i + at] == value)
			return all + i;
	return NULL;
}
