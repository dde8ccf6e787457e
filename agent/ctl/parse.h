/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* parse - parse numbers and lists of a command line. */
#ifndef GM_PARSE_H
#define GM_PARSE_H

#include <stdint.h>

#include "gpumap.h"

/* Decimal digits only.  Returns 0, -EINVAL or -ERANGE. */
int gm_parse_number(const char *text, uint64_t *ret_value);

/* "0,2,5": each row once, at least one.  Returns 0 or -EINVAL. */
int gm_parse_rows(const char *text, uint32_t ret_rows[GPUMAP_ROWS_MAX],
		  uint32_t *ret_n);

/* 64 hexadecimal digits, not all 0.  Returns 0 or -EINVAL. */
int gm_parse_hash(const char *text, uint8_t ret_hash[32]);

#endif
