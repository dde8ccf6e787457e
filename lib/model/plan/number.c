/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/plan/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

const char *gm_number_parse(const char *text, size_t n, uint64_t *ret_value)
{
	uint64_t value = 0;
	size_t i = n > 1 && text[0] == '+';

	if (n == 0)
		return "cannot parse integer from empty string";
	for (; i < n; i++) {
		uint64_t digit = (uint64_t)(unsigned char)text[i] - '0';
		bool over = __builtin_mul_overflow(value, 10, &value);

		/* As Rust does, report an invalid digit before a number that is
		 * too large. */
		if (digit > 9)
			return "invalid digit found in string";
		if (over || __builtin_add_overflow(value, digit, &value))
			return "number too large to fit in target type";
	}
	*ret_value = value;
	return NULL;
}

int gm_number_size(const char *text, uint64_t *ret_bytes)
{
	static const char units[] = "KMGT";
	size_t n = strspn(text, "0123456789");
	unsigned int shift = 0;
	uint64_t value;

	if (text[n] != '\0') {
		const char *unit =
			strchr(units, toupper((unsigned char)text[n]));

		if (!unit || text[n + 1] != '\0')
			return -EINVAL;
		shift = 10 * (unsigned int)(unit - units + 1);
	}
	if (gm_number_parse(text, n, &value) || value > UINT64_MAX >> shift)
		return -EINVAL;
	*ret_bytes = value << shift;
	return 0;
}
