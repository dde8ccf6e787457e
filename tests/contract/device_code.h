/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * contract_kernels - device code of the contract tests, for any card of the
 * last ten years and any driver that we support:
 *
 *	contract_store(u64 at, u32 value)	*at = value
 *	contract_add(u64 y, u64 x, u64 n)	y[i] += x[i], u32
 *	contract_spin(u64 at)			until *at is not 0
 *	contract_trap()				falls into a trap
 */
#ifndef GM_TEST_CONTRACT_DEVICE_CODE_H
#define GM_TEST_CONTRACT_DEVICE_CODE_H

#define CONTRACT_HEAD(version, target) \
	".version " version "\n"       \
	".target " target "\n"         \
	".address_size 64\n"

#define CONTRACT_STORE                                 \
	".visible .entry contract_store(\n"            \
	"	.param .u64 contract_store_at,\n"            \
	"	.param .u32 contract_store_value\n"          \
	")\n"                                          \
	"{\n"                                          \
	"	.reg .b32 %r<2>;\n"                          \
	"	.reg .b64 %rd<3>;\n"                         \
	"	ld.param.u64 %rd1, [contract_store_at];\n"   \
	"	ld.param.u32 %r1, [contract_store_value];\n" \
	"	cvta.to.global.u64 %rd2, %rd1;\n"            \
	"	st.global.u32 [%rd2], %r1;\n"                \
	"	ret;\n"                                      \
	"}\n"

/* A grid-stride loop: any grid and block will do. */
#define CONTRACT_ADD                              \
	".visible .entry contract_add(\n"         \
	"	.param .u64 contract_add_y,\n"          \
	"	.param .u64 contract_add_x,\n"          \
	"	.param .u64 contract_add_n\n"           \
	")\n"                                     \
	"{\n"                                     \
	"	.reg .pred %p<2>;\n"                    \
	"	.reg .b32 %r<9>;\n"                     \
	"	.reg .b64 %rd<11>;\n"                   \
	"	ld.param.u64 %rd1, [contract_add_y];\n" \
	"	ld.param.u64 %rd2, [contract_add_x];\n" \
	"	ld.param.u64 %rd3, [contract_add_n];\n" \
	"	cvta.to.global.u64 %rd1, %rd1;\n"       \
	"	cvta.to.global.u64 %rd2, %rd2;\n"       \
	"	mov.u32 %r1, %ctaid.x;\n"               \
	"	mov.u32 %r2, %ntid.x;\n"                \
	"	mov.u32 %r3, %tid.x;\n"                 \
	"	mov.u32 %r4, %nctaid.x;\n"              \
	"	mul.wide.u32 %rd4, %r1, %r2;\n"         \
	"	cvt.u64.u32 %rd5, %r3;\n"               \
	"	add.u64 %rd4, %rd4, %rd5;\n"            \
	"	mul.wide.u32 %rd6, %r4, %r2;\n"         \
	"next:\n"                                 \
	"	setp.ge.u64 %p1, %rd4, %rd3;\n"         \
	"	@%p1 bra done;\n"                       \
	"	shl.b64 %rd7, %rd4, 2;\n"               \
	"	add.u64 %rd8, %rd1, %rd7;\n"            \
	"	add.u64 %rd9, %rd2, %rd7;\n"            \
	"	ld.global.u32 %r5, [%rd8];\n"           \
	"	ld.global.u32 %r6, [%rd9];\n"           \
	"	add.u32 %r7, %r5, %r6;\n"               \
	"	st.global.u32 [%rd8], %r7;\n"           \
	"	add.u64 %rd4, %rd4, %rd6;\n"            \
	"	bra next;\n"                            \
	"done:\n"                                 \
	"	ret;\n"                                 \
	"}\n"

#define CONTRACT_SPIN                               \
	".visible .entry contract_spin(\n"          \
	"	.param .u64 contract_spin_at\n"           \
	")\n"                                       \
	"{\n"                                       \
	"	.reg .pred %p<2>;\n"                      \
	"	.reg .b32 %r<2>;\n"                       \
	"	.reg .b64 %rd<3>;\n"                      \
	"	ld.param.u64 %rd1, [contract_spin_at];\n" \
	"	cvta.to.global.u64 %rd2, %rd1;\n"         \
	"again:\n"                                  \
	"	ld.volatile.global.u32 %r1, [%rd2];\n"    \
	"	setp.eq.u32 %p1, %r1, 0;\n"               \
	"	@%p1 bra again;\n"                        \
	"	ret;\n"                                   \
	"}\n"

#define CONTRACT_TRAP                       \
	".visible .entry contract_trap()\n" \
	"{\n"                               \
	"	trap;\n"                          \
	"	ret;\n"                           \
	"}\n"

#define CONTRACT_KERNELS              \
	CONTRACT_HEAD("6.4", "sm_50") \
	CONTRACT_STORE CONTRACT_ADD CONTRACT_SPIN CONTRACT_TRAP

#endif
