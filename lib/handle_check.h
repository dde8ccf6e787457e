/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* handle_check - check the operands of a job before it is submitted. */
#ifndef GM_LIB_HANDLE_CHECK_H
#define GM_LIB_HANDLE_CHECK_H

#include "lib/internal.h"

/* An operand of a job. */
struct gm_operand {
	uint64_t buffer; /* 0: the operand is at @memory in the arena */
	uint64_t at;     /* in the buffer */
	const void *memory;
	uint64_t n;
	uint32_t element; /* bytes of each of @n */
	bool is_written;
};

/* Check one operand of a RUN or of a collective on a row. */
int gm_buffers_check_one(const struct gpumap_session *session, uint32_t row,
			 uint32_t op, const struct gm_operand *operand);

#endif
