/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * spread: memory for a scatter over rows of two nodes is taken by policies of
 * its own, and leaves none when it is freed.
 */

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/huge_pages.h"
#include "tests/support/peer/peer_session.h"

#define BYTES PEER_RANGE /* of each row's range: 4 MiB, scores of 3 to 1 */

/* A row's node, as its facts say it. */
static void put_node(uint32_t row, int node)
{
	struct gm_row_image image;

	if (!EQ(gm_rows_facts(&file.segment.map, row, &image), 0))
		return;
	image.known |= GPUMAP_KNOWN_NUMA;
	image.numa_node = node;
	segment_facts(&file.segment, row, &image);
}

static bool is_zero(const char *memory, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i++)
		if (memory[i] != 0)
			return false;
	return true;
}

/* The node that the memory at this address prefers; -1: none; -2: the kernel
 * does not say. */
static int preferred(char *at)
{
	unsigned long nodes[1024 / (8 * sizeof(unsigned long))] = { 0 };
	int mode = MPOL_DEFAULT;

	if (syscall(SYS_get_mempolicy, &mode, nodes, 1024ul, at, MPOL_F_ADDR) !=
	    0)
		return -2;
	return mode == MPOL_PREFERRED ? __builtin_ctzl(nodes[0]) : -1;
}

static void it_is_all_there(void)
{
	struct gpumap_session *s = open_session_of(0, 0, BYTES);
	void *memory = NULL, *again = NULL;
	char *bytes;

	EQ(gpumap_scatter_alloc(s, BYTES / 4, 4, NULL, &memory), 0);
	bytes = memory;
	EQ(present_bytes(bytes, BYTES), BYTES);
	if (preferred(bytes) != -2) {
		/* This machine may have no other node to prefer. */
		EQ(preferred(bytes), 0);
		OK(preferred(bytes + BYTES / 4 * 3) != 0);
	} else {
		SKIP(2, "the kernel may not be asked for policies here");
	}
	memset(bytes, 7, BYTES);
	EQ(gpumap_free(s, memory), 0);
	EQ(present_bytes(bytes, BYTES), 0);
	/* The range is whole, and others have new memory there. */
	EQ(gpumap_alloc(s, 0, BYTES, &again), 0);
	OK(again == memory);
	EQ(present_bytes(bytes, BYTES), BYTES);
	OK(is_zero(again, BYTES));
	EQ(gpumap_free(s, again), 0);
	EQ(present_bytes(bytes, BYTES), BYTES);
	gpumap_session_close(s);
}

/* An allocation before it may have left memory there, on its own node. */
static void it_has_no_memory_of_others(void)
{
	struct gpumap_session *s = open_session_of(0, 0, BYTES);
	void *memory = NULL, *spread = NULL;

	EQ(gpumap_alloc(s, 0, BYTES, &memory), 0);
	memset(memory, 7, BYTES);
	EQ(gpumap_free(s, memory), 0);
	EQ(gpumap_scatter_alloc(s, BYTES, 1, NULL, &spread), 0);
	OK(spread == memory);
	OK(is_zero(spread, BYTES));
	gpumap_session_close(s);
}

static void a_sparse_one_waits_to_be_touched(void)
{
	struct gpumap_session *s =
		open_session_of(0, GPUMAP_SESSION_SPARSE, BYTES);
	void *memory = NULL;

	EQ(gpumap_scatter_alloc(s, BYTES, 1, NULL, &memory), 0);
	EQ(present_bytes(memory, BYTES), 0);
	EQ(gpumap_free(s, memory), 0);
	gpumap_session_close(s);
}

static void what_has_no_parts_is_as_any_other(void)
{
	static const uint32_t one[] = { 1 }, twice[] = { 0, 0 };
	struct gpumap_scatter_opts opts = { .size = sizeof(opts),
					    .rows = one,
					    .n_rows = 1 };
	struct gpumap_session *s = open_session_of(0, 0, BYTES);
	void *first = NULL, *memory = NULL;

	EQ(gpumap_alloc(s, 0, 64, &first), 0);
	EQ(gpumap_scatter_alloc(s, 100, 4, NULL, &memory), 0);
	OK((char *)memory == (char *)first + 64);
	EQ(gpumap_scatter_alloc(s, BYTES, 1, &opts, &memory), 0);
	OK((char *)memory == (char *)first + BYTES);
	EQ(gpumap_free(s, memory), 0);
	EQ(present_bytes(memory, BYTES), BYTES);

	EQ(gpumap_scatter_alloc(s, 0, 4, NULL, &memory), -EINVAL);
	EQ(gpumap_scatter_alloc(s, 4, 0, NULL, &memory), -EINVAL);
	EQ(gpumap_scatter_alloc(s, UINT64_MAX, 4, NULL, &memory), -ENOMEM);
	EQ(gpumap_scatter_alloc(s, BYTES, 2, NULL, &memory), -ENOMEM);
	opts.rows = twice;
	opts.n_rows = 2;
	EQ(gpumap_scatter_alloc(s, BYTES, 1, &opts, &memory), -EINVAL);
	gpumap_session_close(s);
}

TAP_CASE()
{
	if (!client_begin("spread"))
		return tap_done();
	put_node(0, 0);
	put_node(1, 1);
	it_is_all_there();
	it_has_no_memory_of_others();
	a_sparse_one_waits_to_be_touched();
	what_has_no_parts_is_as_any_other();
	return client_end();
}
