/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * operators - the built-in operators for CUDA rows, as one text of PTX.
 *
 * The text is checked in (operators.ptx, which operators.sh prints) in a
 * version so old that every driver takes it, and is part of the program.  Each
 * kernel is named gm_<operator>_<dtype> and has these parameters, 64 bits each
 * but for alpha:
 *
 *	fill			dst, bytes, pattern
 *	scale, axpy		dst, src, n, alpha (f64 for f64, else f32)
 *	cast			dst, src, n
 *	mask_add, mask_bool	dst, src, n, mask, m, at
 *	sum, min, max		dst, src, n
 *
 * Pointers may have any alignment; those that are no multiple of the element
 * cost several times as much.
 *
 * Results are those of agent/device/README.md, whatever the card and the
 * launch.
 */
#ifndef GM_OPERATORS_H
#define GM_OPERATORS_H

#include <stddef.h>
#include <stdint.h>

enum gm_operator {
	GM_OPERATOR_FILL = 0, /* any dtype: it goes by bytes */
	GM_OPERATOR_SCALE = 1,
	GM_OPERATOR_AXPY = 2,
	GM_OPERATOR_CAST = 3,
	GM_OPERATOR_MASK_ADD = 4,
	GM_OPERATOR_MASK_BOOL = 5,
	GM_OPERATOR_SUM = 6,
	GM_OPERATOR_MIN = 7,
	GM_OPERATOR_MAX = 8,
	GM_OPERATORS = 9
};

#define GM_OPERATOR_NAME_BYTES 32
#define GM_OPERATOR_CHUNK      1024u /* elements that one warp reduces */

/* For cuModuleLoadDataEx: ends with a NUL. */
extern const char gm_operators_ptx[];
extern const size_t gm_operators_ptx_bytes; /* with the NUL */

/*
 * gm_operators_name - the kernel of an operator
 *
 * dtype	enum gpumap_dtype of src; of any dtype for FILL
 * to		CAST: that of dst; ignored otherwise
 * ret_name	GM_OPERATOR_NAME_BYTES
 *
 * Returns	0
 *		-EOPNOTSUPP	no such operator
 *		-EINVAL		it is not made for elements of this dtype
 */
int gm_operators_name(uint32_t op, uint32_t dtype, uint32_t to, char *ret_name);

/* The operator of an operation, GM_OPERATORS where it has no kernel. */
uint32_t gm_operators_of(uint32_t op);

/* Chunks of n elements. */
uint64_t gm_operators_chunks(uint64_t n);

/* How to launch: a grid of @blocks by 1 by 1 blocks of @threads by 1 by 1. */
struct gm_worker_exec {
	uint32_t blocks;
	uint32_t threads;
};

/*
 * gm_operators_launch - a launch that fills the card, and no larger than needed
 *
 * n		as in the parameters: elements, or bytes of FILL
 * units	multiprocessors of the card, at least 1
 */
struct gm_worker_exec gm_operators_launch(uint32_t op, uint64_t n,
					  uint32_t units);

#endif
