/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* page_nodes - ask the kernel on which NUMA nodes the pages of a range lie. */
#ifndef GM_TEST_SUPPORT_PAGE_NODES_H
#define GM_TEST_SUPPORT_PAGE_NODES_H

#include <stddef.h>
#include <stdint.h>

/* Where the pages of a range are, counted. */
struct page_nodes_count {
	uint64_t here;      /* on the node that was asked about */
	uint64_t elsewhere; /* on another node */
	uint64_t absent;    /* not touched through this mapping yet */
};

/*
 * page_nodes - ask the kernel where the pages of a range lie
 *
 * addr		page aligned; only pages that this process itself has touched
 *		can be told, also in a shared mapping
 *
 * Returns	0
 *		-EPERM, -ENOSYS, ...	from move_pages(), which moves nothing
 */
int page_nodes(const void *addr, size_t bytes, int node,
	       struct page_nodes_count *ret_pages);

#endif
