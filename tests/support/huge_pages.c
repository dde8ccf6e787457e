/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/huge_pages.h"

uint64_t huge_bytes(const void *at)
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

uint64_t present_bytes(const void *at, uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), n = 0;
	unsigned char one;

	for (uint64_t i = 0; i < bytes; i += page)
		if (mincore((char *)(uintptr_t)at + i, page, &one) == 0)
			n += one & 1 ? page : 0;
	return n;
}

bool huge_pages_are_given(void)
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
