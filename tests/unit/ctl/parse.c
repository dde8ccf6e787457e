/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* parse: numbers, sizes and row lists of gpumapctl's command line. */

#include <errno.h>
#include <string.h>

#include "agent/ctl/parse.h"
#include "tests/support/tap.h"

static void numbers_are_decimal_and_fit(void)
{
	uint64_t value = 7;

	EQ(gm_parse_number("0", &value), 0);
	EQ(value, 0);
	EQ(gm_parse_number("18446744073709551615", &value), 0);
	OK(value == UINT64_MAX);
	EQ(gm_parse_number("18446744073709551616", &value), -ERANGE);
	EQ(gm_parse_number("", &value), -EINVAL);
	EQ(gm_parse_number("-1", &value), -EINVAL);
	EQ(gm_parse_number(" 1", &value), -EINVAL);
	EQ(gm_parse_number("1x", &value), -EINVAL);
	EQ(gm_parse_number("0x10", &value), -EINVAL);
	OK(value == UINT64_MAX);
}

static void rows_are_listed_once_each(void)
{
	uint32_t rows[GPUMAP_ROWS_MAX] = { 9 }, n = 5;

	EQ(gm_parse_rows("3,0,255", rows, &n), 0);
	EQ(n, 3);
	EQ(rows[0], 3);
	EQ(rows[1], 0);
	EQ(rows[2], 255);
	EQ(gm_parse_rows("1", rows, &n), 0);
	EQ(n, 1);
	EQ(gm_parse_rows("7,0-2,4-4", rows, &n), 0);
	EQ(n, 5);
	EQ(rows[0], 7);
	EQ(rows[1], 0);
	EQ(rows[3], 2);
	EQ(rows[4], 4);
	EQ(gm_parse_rows("0-255", rows, &n), 0);
	EQ(n, 256);
	EQ(gm_parse_rows("1", rows, &n), 0);
	EQ(gm_parse_rows("0-256", rows, &n), -EINVAL);
	EQ(gm_parse_rows("2-1", rows, &n), -EINVAL);
	EQ(gm_parse_rows("0-2,1", rows, &n), -EINVAL);
	EQ(gm_parse_rows("0-", rows, &n), -EINVAL);
	EQ(gm_parse_rows("-1", rows, &n), -EINVAL);
	EQ(gm_parse_rows("", rows, &n), -EINVAL);
	EQ(gm_parse_rows("1,", rows, &n), -EINVAL);
	EQ(gm_parse_rows(",1", rows, &n), -EINVAL);
	EQ(gm_parse_rows("1,1", rows, &n), -EINVAL);
	EQ(gm_parse_rows("256", rows, &n), -EINVAL);
	EQ(gm_parse_rows("1;2", rows, &n), -EINVAL);
	EQ(n, 1);
}

static void a_hash_has_64_digits(void)
{
	static const char right[] = "0123456789abcdefABCDEF0000000000"
				    "000000000000000000000000000000fe";
	char text[66] = "";
	uint8_t hash[32] = { 9 };

	EQ(gm_parse_hash(right, hash), 0);
	EQ(hash[0], 0x01);
	EQ(hash[4], 0x89);
	EQ(hash[8], 0xab);
	EQ(hash[31], 0xfe);
	EQ(gm_parse_hash("", hash), -EINVAL);
	EQ(gm_parse_hash(right + 1, hash), -EINVAL);
	memset(text, '1', 65);
	EQ(gm_parse_hash(text, hash), -EINVAL);
	text[64] = '\0';
	EQ(gm_parse_hash(text, hash), 0);
	text[7] = 'g';
	EQ(gm_parse_hash(text, hash), -EINVAL);
	memset(text, '0', 64);
	EQ(gm_parse_hash(text, hash), -EINVAL);
	EQ(hash[31], 0x11);
}

TAP_CASE()
{
	numbers_are_decimal_and_fit();
	rows_are_listed_once_each();
	a_hash_has_64_digits();
	return tap_done();
}
