/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The kernel gives shared memory huge pages by itself only where the
 * administrator has enabled that.  MADV_COLLAPSE makes one at once, whatever
 * the administrator's setting (Linux 6.1): the pages of a block become one huge
 * page, missing pages included, as long as one is present.  The present pages
 * decide on which node the huge page lies, so the first page is populated by
 * the memory's own policy.
 */

#include "lib/huge_pages.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/internal.h"

/* Older headers lack them. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define BLOCK GM_ARENA_LARGE
#define CHUNK (UINT64_C(64) << 10)

/* Reserve address space of whole pages with a block's room to align it; give
 * back what is not needed. */
static char *reserve(uint64_t bytes)
{
	char *all = mmap(NULL, bytes + BLOCK, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t before;

	if (all == MAP_FAILED)
		return NULL;
	before = gm_round_up((uintptr_t)all, BLOCK) - (uintptr_t)all;
	if (before > 0)
		munmap(all, before);
	munmap(all + before + bytes, BLOCK - before);
	return all + before;
}

void *gm_huge_map(int fd, uint64_t bytes)
{
	uint64_t whole = gm_round_up(bytes, (uint64_t)sysconf(_SC_PAGESIZE));
	char *at = bytes < BLOCK ? NULL : reserve(whole);
	void *memory =
		mmap(at, bytes, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_NORESERVE | (at != NULL ? MAP_FIXED : 0),
		     fd, 0);

	if (memory == MAP_FAILED && at != NULL)
		munmap(at, whole);
	return memory;
}

static uint64_t chunks_of(const struct gm_huge *huge)
{
	return gm_round_up(huge->range_bytes, CHUNK) / CHUNK;
}

int gm_huge_init(struct gm_huge *huge, char *arena, uint32_t n_rows,
		 uint64_t range_bytes)
{
	uint64_t n_blocks = n_rows * range_bytes / BLOCK;

	huge->arena = arena;
	huge->range_bytes = range_bytes;
	huge->made = calloc(n_blocks / 64 + 1, sizeof(uint64_t));
	huge->had = calloc(n_rows * chunks_of(huge) / 64 + 1, sizeof(uint64_t));
	return huge->made != NULL && huge->had != NULL ? 0 : -ENOMEM;
}

void gm_huge_fini(struct gm_huge *huge)
{
	free(huge->made);
	free(huge->had);
	huge->made = huge->had = NULL;
}

static bool has(const uint64_t *bits, uint64_t i)
{
	return (bits[i / 64] >> i % 64 & 1) != 0;
}

static void set(uint64_t *bits, uint64_t i)
{
	bits[i / 64] |= UINT64_C(1) << i % 64;
}

static void clear(uint64_t *bits, uint64_t i)
{
	bits[i / 64] &= ~(UINT64_C(1) << i % 64);
}

/* Returns 0, or an errno. */
static int make(char *block)
{
	/* Populate by madvise(), not by a store: it fails where a store would
	 * raise SIGBUS. */
	if (madvise(block, 1, MADV_POPULATE_WRITE) == 0 &&
	    madvise(block, BLOCK, MADV_COLLAPSE) == 0)
		return 0;
	return errno;
}

static void fill_blocks(struct gm_huge *huge, uint64_t at, uint64_t bytes)
{
	uint64_t end = (at + bytes) / BLOCK;

	for (uint64_t i = gm_round_up(at, BLOCK) / BLOCK; i < end; i++) {
		int error;

		if (huge->refused)
			break;
		if (has(huge->made, i))
			continue;
		error = make(huge->arena + i * BLOCK);
		if (error == 0)
			set(huge->made, i);
		else if (error != EAGAIN && error != EINTR)
			huge->refused = true;
	}
}

/* A kernel or a filter that does not know the call is no lack of memory. */
static int populate(struct gm_huge *huge, uint64_t at, uint64_t bytes)
{
	int ret;

	do {
		ret = madvise(huge->arena + at, bytes, MADV_POPULATE_WRITE);
	} while (ret != 0 && (errno == EINTR || errno == EAGAIN));
	if (ret == 0)
		return 0;
	if (errno == ENOMEM || errno == EFAULT)
		return -ENOMEM;
	huge->unknown = true;
	return 0;
}

int gm_huge_fill(struct gm_huge *huge, uint64_t at, uint64_t bytes)
{
	uint64_t row = at / huge->range_bytes;
	uint64_t range_at = row * huge->range_bytes;
	uint64_t first = row * chunks_of(huge);
	uint64_t i = (at - range_at) / CHUNK;
	uint64_t end = gm_round_up(at - range_at + bytes, CHUNK) / CHUNK;
	int ret = 0;

	if (bytes >= BLOCK)
		fill_blocks(huge, at, bytes);
	while (ret == 0 && i < end && !huge->unknown) {
		uint64_t from = i * CHUNK, to;

		while (i < end && !has(huge->had, first + i))
			i++;
		to = i * CHUNK < huge->range_bytes ? i * CHUNK
						   : huge->range_bytes;
		if (to > from)
			ret = populate(huge, range_at + from, to - from);
		for (uint64_t k = from / CHUNK; ret == 0 && k < i; k++)
			set(huge->had, first + k);
		while (i < end && has(huge->had, first + i))
			i++;
	}
	return ret;
}

void gm_huge_forget(struct gm_huge *huge, uint64_t at, uint64_t bytes)
{
	uint64_t row = at / huge->range_bytes;
	uint64_t in_range = at - row * huge->range_bytes;
	uint64_t first = row * chunks_of(huge);

	for (uint64_t i = at / BLOCK; i <= (at + bytes - 1) / BLOCK; i++)
		clear(huge->made, i);
	for (uint64_t i = in_range / CHUNK; i <= (in_range + bytes - 1) / CHUNK;
	     i++)
		clear(huge->had, first + i);
}
