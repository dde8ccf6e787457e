/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/size_text.h"

#include <stddef.h>
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *gm_size_text(uint64_t bytes, char ret_text[GM_SIZE_TEXT])
{
	static const char *const units[] = { "B",   "KiB", "MiB", "GiB",
					     "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1024 && unit + 1 < COUNT(units)) {
		value /= 1024;
		unit++;
	}
	snprintf(ret_text, GM_SIZE_TEXT,
		 unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value,
		 units[unit]);
	return ret_text;
}
