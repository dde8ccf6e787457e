/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * timens.h - the clock of the times that processes have in common.
 *
 * A time namespace adds an offset to the CLOCK_MONOTONIC of its processes.  The
 * agent, its workers and its clients may be in different ones, so the times in
 * shared memory (the heartbeat, since when a row is in its state, the deadlines
 * of entries) are those of the initial time namespace: a process subtracts its
 * offset from its clock before it stores such a time or compares with one.
 *
 * The kernel has no call for the offset.  GM_TIMENS_OFFSETS has that of the
 * process's children, which is the process's own unless it has called unshare()
 * and has neither forked nor executed since.  GM_TIMENS_LINK tells a process in
 * the initial namespace that its offset is 0.
 */
#ifndef GM_TIMENS_H
#define GM_TIMENS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define GM_TIMENS_LINK    "/proc/self/ns/time"
#define GM_TIMENS_INITIAL "time:[4026531834]" /* the kernel's fixed number */
#define GM_TIMENS_OFFSETS "/proc/self/timens_offsets"
#define GM_TIMENS_BYTES   128u /* room for the text of either, with a NUL */

/*
 * gm_timens_offset - the offset that a text of GM_TIMENS_OFFSETS gives
 *
 * Returns	nanoseconds, modulo 2^64; 0 when the text has none
 */
static inline uint64_t gm_timens_offset(const char *text)
{
	static const char name[] = "monotonic ";
	const char *at = strstr(text, name);
	uint64_t seconds;
	char *end;

	if (at == NULL)
		return 0;
	seconds = (uint64_t)strtoll(at + sizeof(name) - 1, &end, 10);
	return seconds * UINT64_C(1000000000) +
	       (uint64_t)strtoll(end, NULL, 10);
}

#endif
