/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/plan/size_text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const units[] = { "B",   "KiB", "MiB", "GiB",
				     "TiB", "PiB", "EiB" };

static double scale(uint64_t bytes, size_t *ret_unit)
{
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1024 && unit + 1 < COUNT(units)) {
		value /= 1024;
		unit++;
	}
	*ret_unit = unit;
	return value;
}

const char *gm_size_text(uint64_t bytes, char ret_text[GM_SIZE_TEXT])
{
	size_t unit;
	double value = scale(bytes, &unit);

	snprintf(ret_text, GM_SIZE_TEXT,
		 unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value,
		 units[unit]);
	return ret_text;
}

/* In tenths, without a 0 behind the point. */
static struct gm_size_word round_size(uint64_t bytes, bool is_up)
{
	struct gm_size_word word;
	size_t unit;
	double tenths = 10 * scale(bytes, &unit);
	uint64_t n = (uint64_t)tenths;

	n += is_up && (double)n < tenths;
	if (n % 10 == 0)
		snprintf(word.text, sizeof(word.text), "%" PRIu64 " %s", n / 10,
			 units[unit]);
	else
		snprintf(word.text, sizeof(word.text), "%" PRIu64 ".%u %s",
			 n / 10, (unsigned int)(n % 10), units[unit]);
	return word;
}

struct gm_size_word gm_size_down(uint64_t bytes)
{
	return round_size(bytes, false);
}

struct gm_size_word gm_size_up(uint64_t bytes)
{
	return round_size(bytes, true);
}
