/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The reason of this thread's last failed call.  Each thread has its own, as it
 * has its own errno, so no lock is needed. */
static _Thread_local struct {
	const struct gpumap *map;
	char text[GM_WHY];
} last;

void gm_map_refuse(const struct gpumap *map, const char *why)
{
	size_t n = strnlen(why, GM_WHY - 1);

	last.map = map;
	memmove(last.text, why, n); /* may be this text itself */
	last.text[n] = '\0';
}

int gm_refuse(const struct gpumap *map, int error, const char *format, ...)
{
	char why[GM_WHY];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	gm_map_refuse(map, why);
	return error;
}

const char *gpumap_refusal(const struct gpumap *map)
{
	static const char none[GM_WHY];

	return last.map == map ? last.text : none;
}
