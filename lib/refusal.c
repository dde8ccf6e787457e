/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/internal.h"

#include <errno.h>
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

int gm_refuse_plain(const struct gpumap *map, int error)
{
	gm_map_refuse(map, error < 0 ? gpumap_strerror(error) : "");
	return error;
}

int gm_refuse_call(const struct gpumap *map, int error,
		   const struct gm_call *call)
{
	if (call->why[0] == '\0')
		return gm_refuse_plain(map, error);
	gm_map_refuse(map, call->why);
	return error;
}

int gm_refuse_unknown(const struct gpumap *map)
{
	return gm_refuse(map, -E2BIG,
			 "a flag or a field is set that this library does not "
			 "know: leave it 0, or use a newer library");
}

int gm_refuse_memory(const struct gpumap *map, size_t bytes)
{
	return gm_refuse(map, -ENOMEM,
			 "this process gets no memory for %zu bytes more: see "
			 "its limits and those of its cgroup",
			 bytes);
}

int gm_map_begin(const struct gpumap *map)
{
	return gm_refuse_plain(map, gm_fork_map_mine(map));
}

int gm_map_size_in(const struct gpumap *map, void *ret_ours, size_t known,
		   const void *theirs)
{
	int ret = gm_size_in(ret_ours, known, theirs);

	if (ret == -EINVAL)
		return gm_refuse(map, ret,
				 "the struct is NULL, or its size is not set: "
				 "set it to sizeof");
	if (ret == -E2BIG)
		return gm_refuse(map, ret,
				 "the size is above %u, or a field beyond the "
				 "%zu bytes that this library knows is set: "
				 "set the size to sizeof, or use a newer "
				 "library",
				 GM_SIZE_MOST, known);
	return ret;
}

int gm_map_size_out(const struct gpumap *map, const void *theirs, size_t least)
{
	int ret = gm_size_out(theirs, least);

	if (ret == 0)
		return 0;
	return gm_refuse(map, ret,
			 "the struct to be filled in is NULL, or its size is "
			 "not from %zu to %u: set it to sizeof",
			 least, GM_SIZE_MOST);
}

const char *gpumap_refusal(const struct gpumap *map)
{
	static const char none[GM_WHY];

	return last.map == map ? last.text : none;
}
