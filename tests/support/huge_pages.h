/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * huge_pages.h - what of a mapping is there, and in huge pages; and whether
 * this kernel gives them to who asks.
 */
#ifndef GM_TEST_SUPPORT_HUGE_PAGES_H
#define GM_TEST_SUPPORT_HUGE_PAGES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define HUGE_BLOCK (UINT64_C(2) << 20)

/* Bytes of the mapping that holds @at which are mapped by huge pages, here. */
static inline uint64_t huge_bytes(const void *at)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	uintptr_t here = (uintptr_t)at;
	unsigned long from, to, kib;
	bool inside = false;
	uint64_t bytes = 0;
	char line[512];

	while (smaps != NULL && fgets(line, sizeof(line), smaps) != NULL) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = here >= from && here < to;
		else if (inside &&
			 (sscanf(line, "ShmemPmdMapped: %lu", &kib) == 1 ||
			  sscanf(line, "AnonHugePages: %lu", &kib) == 1))
			bytes += (uint64_t)kib << 10;
	}
	if (smaps != NULL)
		fclose(smaps);
	return bytes;
}

/* Bytes of [at, at + bytes) that have memory, whichever process touched it; @at
 * starts a page. */
static inline uint64_t present_bytes(const void *at, uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), n = 0;
	unsigned char one;

	for (uint64_t i = 0; i < bytes; i += page)
		if (mincore((char *)(uintptr_t)at + i, page, &one) == 0)
			n += one & 1 ? page : 0;
	return n;
}

/* A page, and the whole block of it as a huge one: of a memfd. */
static inline bool huge_pages_are_given(void)
{
	int fd = memfd_create("huge-probe", MFD_CLOEXEC);
	char *room = mmap(NULL, 2 * HUGE_BLOCK, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *at = room + (-(uintptr_t)room) % HUGE_BLOCK;
	bool given;

	given = ftruncate(fd, HUGE_BLOCK) == 0 && room != MAP_FAILED &&
		mmap(at, HUGE_BLOCK, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_FIXED, fd, 0) == at &&
		madvise(at, 1, MADV_POPULATE_WRITE) == 0 &&
		madvise(at, HUGE_BLOCK, MADV_COLLAPSE) == 0 &&
		huge_bytes(at) == HUGE_BLOCK;
	munmap(room, 2 * HUGE_BLOCK);
	close(fd);
	return given;
}

#endif
