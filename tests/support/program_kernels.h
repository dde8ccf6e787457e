/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * program_kernels - device code of the tests of programs, by the interface of
 * gpumap/program.h.  tests/fake/kernel_table.c has the stand-in's versions.
 *
 *	gpumap_program(dst, src, n, f32 alpha)	dst[i] = alpha * src[i] * src[i]
 *	program_spin(dst, src, n)		until the u32 at dst is not 0
 *	program_trap(dst, src, n)		falls into a trap
 *	program_stray(dst, src, n)		writes outside of all memory
 *	program_geometry(dst, src, n)		dst[0] = blocks, dst[1] =
 *						threads of one
 */
#ifndef GM_TEST_SUPPORT_PROGRAM_KERNELS_H
#define GM_TEST_SUPPORT_PROGRAM_KERNELS_H

#define KERNEL_HEAD       \
	".version 6.4\n"  \
	".target sm_52\n" \
	".address_size 64\n"

#define KERNEL_SQUARE                                  \
	".visible .entry gpumap_program(\n"            \
	"	.param .u64 p_dst,\n"                        \
	"	.param .u64 p_src,\n"                        \
	"	.param .u64 p_n,\n"                          \
	"	.param .f32 p_alpha\n"                       \
	")\n"                                          \
	"{\n"                                          \
	"	.reg .pred done;\n"                          \
	"	.reg .b32 block, width, lane;\n"             \
	"	.reg .b64 dst, src, n, i, step, to, from;\n" \
	"	.reg .f32 f, alpha;\n"                       \
	"	ld.param.u64 dst, [p_dst];\n"                \
	"	ld.param.u64 src, [p_src];\n"                \
	"	ld.param.u64 n, [p_n];\n"                    \
	"	ld.param.f32 alpha, [p_alpha];\n"            \
	"	mov.u32 block, %ctaid.x;\n"                  \
	"	mov.u32 width, %ntid.x;\n"                   \
	"	mov.u32 lane, %tid.x;\n"                     \
	"	mul.wide.u32 i, block, width;\n"             \
	"	cvt.u64.u32 step, lane;\n"                   \
	"	add.u64 i, i, step;\n"                       \
	"	mov.u32 block, %nctaid.x;\n"                 \
	"	mul.wide.u32 step, block, width;\n"          \
	"next:\n"                                      \
	"	setp.ge.u64 done, i, n;\n"                   \
	"	@done bra end;\n"                            \
	"	mad.lo.u64 from, i, 4, src;\n"               \
	"	mad.lo.u64 to, i, 4, dst;\n"                 \
	"	ld.global.f32 f, [from];\n"                  \
	"	mul.rn.f32 f, f, f;\n"                       \
	"	mul.rn.f32 f, alpha, f;\n"                   \
	"	st.global.f32 [to], f;\n"                    \
	"	add.u64 i, i, step;\n"                       \
	"	bra next;\n"                                 \
	"end:\n"                                       \
	"	ret;\n"                                      \
	"}\n"

#define KERNEL_PARAMS(name)           \
	".visible .entry " name "(\n" \
	"	.param .u64 p_dst,\n"       \
	"	.param .u64 p_src,\n"       \
	"	.param .u64 p_n\n"          \
	")\n"

#define KERNEL_SPIN                               \
	KERNEL_PARAMS("program_spin")             \
	"{\n"                                     \
	"	.reg .pred done;\n"                     \
	"	.reg .b32 value;\n"                     \
	"	.reg .b64 dst;\n"                       \
	"	ld.param.u64 dst, [p_dst];\n"           \
	"again:\n"                                \
	"	ld.volatile.global.u32 value, [dst];\n" \
	"	setp.eq.u32 done, value, 0;\n"          \
	"	@done bra again;\n"                     \
	"	ret;\n"                                 \
	"}\n"

#define KERNEL_TRAP                   \
	KERNEL_PARAMS("program_trap") \
	"{\n"                         \
	"	trap;\n"                    \
	"	ret;\n"                     \
	"}\n"

#define KERNEL_STRAY                   \
	KERNEL_PARAMS("program_stray") \
	"{\n"                          \
	"	.reg .b64 at;\n"             \
	"	mov.u64 at, 4096;\n"         \
	"	st.global.u32 [at], 0;\n"    \
	"	ret;\n"                      \
	"}\n"

#define KERNEL_GEOMETRY                    \
	KERNEL_PARAMS("program_geometry")  \
	"{\n"                              \
	"	.reg .b32 value;\n"              \
	"	.reg .b64 dst;\n"                \
	"	ld.param.u64 dst, [p_dst];\n"    \
	"	mov.u32 value, %nctaid.x;\n"     \
	"	st.global.u32 [dst], value;\n"   \
	"	mov.u32 value, %ntid.x;\n"       \
	"	st.global.u32 [dst+4], value;\n" \
	"	ret;\n"                          \
	"}\n"

#define KERNEL_ALL                                                     \
	KERNEL_HEAD KERNEL_SQUARE KERNEL_SPIN KERNEL_TRAP KERNEL_STRAY \
		KERNEL_GEOMETRY

#endif
