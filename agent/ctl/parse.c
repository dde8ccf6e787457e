/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/ctl/parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Parse the digits at *text; *text is behind them afterwards. */
static int digits(const char **text, uint64_t *ret_value)
{
	char *end;

	if (!isdigit((unsigned char)**text))
		return -EINVAL;
	errno = 0;
	*ret_value = strtoull(*text, &end, 10);
	if (errno != 0)
		return -errno;
	*text = end;
	return 0;
}

int gm_parse_number(const char *text, uint64_t *ret_value)
{
	uint64_t value;
	int ret = digits(&text, &value);

	if (ret == 0 && *text != '\0')
		ret = -EINVAL;
	if (ret == 0)
		*ret_value = value;
	return ret;
}

int gm_parse_rows(const char *text, uint32_t ret_rows[GPUMAP_ROWS_MAX],
		  uint32_t *ret_n)
{
	uint32_t rows[GPUMAP_ROWS_MAX], n = 0;
	bool seen[GPUMAP_ROWS_MAX] = { false };

	for (;;) {
		uint64_t row, last;

		if (digits(&text, &row) != 0)
			return -EINVAL;
		last = row;
		if (*text == '-' && (text++, digits(&text, &last) != 0))
			return -EINVAL;
		if (last < row || last >= GPUMAP_ROWS_MAX)
			return -EINVAL;
		for (; row <= last; row++) {
			if (seen[row])
				return -EINVAL;
			seen[row] = true;
			rows[n++] = (uint32_t)row;
		}
		if (*text == '\0')
			break;
		if (*text++ != ',')
			return -EINVAL;
	}
	memcpy(ret_rows, rows, n * sizeof(rows[0]));
	*ret_n = n;
	return 0;
}

int gm_parse_hash(const char *text, uint8_t ret_hash[32])
{
	uint8_t hash[32], any = 0;

	for (size_t i = 0; i < sizeof(hash); i++) {
		char byte[3] = { 0 };

		for (size_t j = 0; j < 2; j++) {
			if (!isxdigit((unsigned char)*text))
				return -EINVAL;
			byte[j] = *text++;
		}
		hash[i] = (uint8_t)strtoul(byte, NULL, 16);
		any |= hash[i];
	}
	if (*text != '\0' || any == 0)
		return -EINVAL;
	memcpy(ret_hash, hash, sizeof(hash));
	return 0;
}
