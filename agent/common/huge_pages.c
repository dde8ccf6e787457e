/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/huge_pages.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

/* Older headers lack them. */
#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE /* Linux 6.1 */
#define MADV_COLLAPSE 25
#endif

#define LEAST_PAGE 4096u

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* Address space of whole pages that begins @into a block; the rest is given
 * back.  NULL: there is not so much. */
static char *reserve(uint64_t bytes, uint64_t into)
{
	char *all = mmap(NULL, bytes + GM_THP_BYTES, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t before;

	if (all == MAP_FAILED)
		return NULL;
	before = (into - (uintptr_t)all) % GM_THP_BYTES;
	if (before > 0)
		munmap(all, before);
	munmap(all + before + bytes, GM_THP_BYTES - before);
	return all + before;
}

void *gm_huge_pages_map(uint64_t bytes, int prot, int flags, int fd, off_t at)
{
	uint64_t whole = round_up(bytes, (uint64_t)sysconf(_SC_PAGESIZE));
	char *place = NULL;
	void *map;

	if (bytes >= GM_THP_BYTES && whole <= INT64_MAX)
		place = reserve(whole, (uint64_t)at % GM_THP_BYTES);
	if (place)
		flags |= MAP_FIXED;
	map = mmap(place, bytes, prot, flags, fd, at);
	if (map == MAP_FAILED && place)
		munmap(place, whole);
	return map;
}

/* No page is missing: a copy would gain nothing. */
static bool is_full(char *block)
{
	unsigned char there[GM_THP_BYTES / LEAST_PAGE];
	uint64_t n = GM_THP_BYTES / (uint64_t)sysconf(_SC_PAGESIZE);

	if (n == 0 || mincore(block, GM_THP_BYTES, there) < 0)
		return false;
	for (uint64_t i = 0; i < n; i++)
		if (!(there[i] & 1))
			return false;
	return true;
}

/* The node of a huge page follows from the pages that are there, so one is had
 * first, by the memory's own policy.  Not by a store: this fails where that
 * would be a fault. */
static bool make(char *block)
{
	if (is_full(block))
		return true;
	if (madvise(block, 1, MADV_POPULATE_WRITE) < 0)
		return false;
	return madvise(block, GM_THP_BYTES, MADV_COLLAPSE) == 0 ||
	       errno == EAGAIN;
}

void gm_huge_pages_fill(char *at, uint64_t bytes)
{
	uint64_t next = (-(uintptr_t)at) % GM_THP_BYTES;

	while (next + GM_THP_BYTES <= bytes && make(at + next))
		next += GM_THP_BYTES;
}
