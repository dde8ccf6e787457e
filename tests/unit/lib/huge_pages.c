/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * huge_pages: allocations of an arena have their memory at once, large ones in
 * huge pages, those of a sparse session when it is touched; a kernel that gives
 * no huge pages is asked once; and memory that could not be had is asked for
 * again.
 */

#include <sys/prctl.h>

#include "lib/huge_pages.h"
#include "tests/support/huge_pages.h"
#include "tests/support/peer/peer_session.h"

static char *take(struct gpumap_session *s, uint32_t row, uint64_t bytes)
{
	void *memory = NULL;

	EQ(gpumap_alloc(s, row, bytes, &memory), 0);
	return memory;
}

static void large_ones_are_there_and_huge(void)
{
	struct gpumap_session *s = open_session_of(0, 0, PEER_RANGE);
	char *large = take(s, 1, PEER_RANGE);

	EQ((uintptr_t)large % HUGE_BLOCK, 0);
	EQ(present_bytes(large, PEER_RANGE), PEER_RANGE);
	EQ(huge_bytes(large), PEER_RANGE);
	/* The rows beside it have nothing. */
	EQ(present_bytes(large - PEER_RANGE, PEER_RANGE), 0);
	EQ(present_bytes(large + PEER_RANGE, PEER_RANGE), 0);
	memset(large, 7, PEER_RANGE);
	EQ(gpumap_free(s, large), 0);
	OK(take(s, 1, PEER_RANGE) == large);
	EQ(large[PEER_RANGE - 1], 7); /* the session's own */
	gpumap_session_close(s);
}

static void whole_blocks_only(void)
{
	struct gpumap_session *s = open_session_of(0, 0, PEER_RANGE);
	char *small = take(s, 0, 64), *large = take(s, 0, PEER_RANGE - 4096);
	char *least = take(s, 1, HUGE_BLOCK - 64);

	OK(large == small + 4096); /* no room for one on a block */
	EQ(present_bytes(small, PEER_RANGE), PEER_RANGE);
	EQ(present_bytes(least, HUGE_BLOCK), HUGE_BLOCK);
	EQ(huge_bytes(small), HUGE_BLOCK);
	gpumap_session_close(s);
}

/* The worker would touch them for a job, and pay for them. */
static void small_ones_are_there(void)
{
	struct gpumap_session *s = open_session_of(0, 0, PEER_RANGE);
	char *small = take(s, 1, 64), *next;

	EQ(present_bytes(small, 65536), 65536);
	EQ(present_bytes(small + 65536, 65536), 0);
	next = take(s, 1, 100000);
	EQ(present_bytes(small, 131072), 131072);
	OK(next > small && next < small + 65536);
	EQ(gpumap_free(s, next), 0);
	OK(take(s, 1, 100000) == next);
	/* The end of a range is no place to populate the next one. */
	take(s, 1, PEER_RANGE - 131072);
	EQ(present_bytes(small + PEER_RANGE, 65536), 0);
	gpumap_session_close(s);
}

static void sparse_ones_wait_to_be_touched(void)
{
	struct gpumap_session *s =
		open_session_of(0, GPUMAP_SESSION_SPARSE, PEER_RANGE);
	char *large = take(s, 0, PEER_RANGE);

	EQ(present_bytes(large, PEER_RANGE), 0);
	large[HUGE_BLOCK] = 1;
	OK(present_bytes(large, PEER_RANGE) > 0);
	EQ(present_bytes(large, HUGE_BLOCK), 0);
	gpumap_session_close(s);
}

static void a_refusal_is_no_error(void)
{
	struct gpumap_session *s = open_session_of(0, 0, PEER_RANGE);
	char *large;

	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) {
		SKIP(1, "this kernel cannot refuse huge pages");
		gpumap_session_close(s);
		return;
	}
	large = take(s, 0, PEER_RANGE);
	EQ(present_bytes(large, PEER_RANGE), PEER_RANGE);
	memset(large, 1, PEER_RANGE);
	EQ(huge_bytes(large), 0);
	EQ(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0), 0);
	/* And is not asked again. */
	large = take(s, 1, PEER_RANGE);
	EQ(present_bytes(large, PEER_RANGE), PEER_RANGE);
	EQ(huge_bytes(large), 0);
	gpumap_session_close(s);
}

/* A file that ends before the memory lacks pages, as a full one does. */
static void a_failure_is_not_kept(void)
{
	struct gm_huge huge = { 0 };
	int fd = memfd_create("huge", MFD_CLOEXEC);
	char *memory;

	EQ(ftruncate(fd, 65536), 0);
	memory = mmap(NULL, 1048576, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (!OK(memory != MAP_FAILED) ||
	    !EQ(gm_huge_init(&huge, memory, 1, 1048576), 0))
		return;
	EQ(gm_huge_fill(&huge, 0, 1), 0);
	if (huge.unknown) {
		SKIP(1, "this kernel does not populate memory");
	} else {
		EQ(gm_huge_fill(&huge, 65536, 524288), -ENOMEM);
		EQ(ftruncate(fd, 1048576), 0);
		EQ(gm_huge_fill(&huge, 65536, 524288), 0);
		EQ(present_bytes(memory, 1048576), 589824);
		/* Those before it are kept. */
		EQ(ftruncate(fd, 0), 0);
		EQ(gm_huge_fill(&huge, 0, 589824), 0);
	}
	gm_huge_fini(&huge);
	munmap(memory, 1048576);
	close(fd);
}

TAP_CASE()
{
	if (!client_begin("huge"))
		return tap_done();
	if (huge_pages_are_given()) {
		large_ones_are_there_and_huge();
		whole_blocks_only();
	} else {
		SKIP(1, "this kernel gives no huge pages to who asks");
	}
	small_ones_are_there();
	sparse_ones_wait_to_be_touched();
	a_refusal_is_no_error();
	a_failure_is_not_kept();
	return client_end();
}
