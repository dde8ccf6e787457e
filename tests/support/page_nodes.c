/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/page_nodes.h"

#include <errno.h>
#include <numaif.h>
#include <unistd.h>

/* @status: of each page its node, or a negative errno where it is not there. */
static void count_pages(const int *status, size_t n, int node,
			struct page_nodes_count *pages)
{
	for (size_t i = 0; i < n; i++) {
		if (status[i] < 0)
			pages->absent++;
		else if (status[i] == node)
			pages->here++;
		else
			pages->elsewhere++;
	}
}

int page_nodes(const void *addr, size_t bytes, int node,
	       struct page_nodes_count *ret_pages)
{
	enum { BATCH = 512 };
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t left = bytes / page + (bytes % page != 0);
	struct page_nodes_count pages = { 0 };
	uintptr_t at = (uintptr_t)addr;

	while (left) {
		void *where[BATCH];
		int status[BATCH];
		size_t n = left < BATCH ? left : BATCH;

		for (size_t i = 0; i < n; i++, at += page)
			where[i] = (void *)at;
		if (move_pages(0, n, where, NULL, status, 0) < 0)
			return -errno;
		count_pages(status, n, node, &pages);
		left -= n;
	}
	*ret_pages = pages;
	return 0;
}
