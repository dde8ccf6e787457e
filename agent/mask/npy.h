/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * npy - read the header of a NumPy array file.
 *
 *	6 bytes		\x93NUMPY
 *	2 bytes		format version: 1.0, 2.0 or 3.0
 *	2 or 4 bytes	length of the header, little-endian: 2 in version 1.0
 *	header		a dictionary as Python writes it: descr, fortran_order
 *			and shape; then blanks
 *	data
 *
 * The types of masks are |b1, |u1, <f2, <f4, and <V2 or |V2, which files use
 * for bf16: NumPy has no name for it.
 */
#ifndef GM_NPY_H
#define GM_NPY_H

#include "agent/mask/mask_tensor.h"

#define GM_NPY_MAGIC  "\x93NUMPY"
#define GM_NPY_PROLOG 12u    /* bytes before the longest header */
#define GM_NPY_HEADER 65536u /* most bytes of one header */

/*
 * gm_npy_prolog - validate the first bytes of a file
 *
 * header	the file's first GM_NPY_PROLOG bytes, or all it has
 * ret_begin	receives the offset of its header
 * ret_bytes	receives the header's length
 *
 * Returns	0
 *		-EINVAL	not a .npy file, or of another version
 *		-EFBIG	a header longer than GM_NPY_HEADER
 *		-ENODATA	the file ends inside its header
 * Threads	any
 */
int gm_npy_prolog(const struct gm_file_header *header, uint32_t *ret_begin,
		  uint32_t *ret_bytes, struct gm_plan_error *ret_err);

/*
 * gm_npy_header - validate a header
 *
 * header	@n bytes
 * data_bytes	bytes of the file after the header
 * ret_tensor	receives all but @offset
 *
 * Returns	0
 *		-EINVAL	malformed, not a mask, or the data is longer than its
 *			shape
 *		-ENODATA	the data is shorter
 *		-EOVERFLOW	a shape of 2^64 bytes or more
 * Threads	any
 */
int gm_npy_header(const char *path, const char *header, size_t n,
		  uint64_t data_bytes, struct gm_mask_tensor *ret_tensor,
		  struct gm_plan_error *ret_err);

#endif
