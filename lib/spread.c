/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/spread.h"

#include <linux/mempolicy.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/internal.h"
#include "shm/rows.h"

#define NODES     1024 /* most that Linux is built for */
#define WORD_BITS (8 * sizeof(unsigned long))

struct gm_spread {
	struct gm_spread *next;
	uint64_t at; /* in the arena, whole pages */
	uint64_t bytes;
};

/* The row's NUMA node; -1: it is not known. */
static int node_of(const struct gpumap_session *s, uint32_t row)
{
	struct gm_row_image facts;

	if (gm_rows_facts(&s->map->map, row, &facts) != 0 ||
	    (facts.known & GPUMAP_KNOWN_NUMA) == 0 || facts.numa_node < 0 ||
	    facts.numa_node >= NODES)
		return -1;
	return facts.numa_node;
}

/* Prefer a node, for memory that is not there yet.  A container may forbid the
 * call, and a kernel may have no NUMA: then the memory is anywhere. */
static void prefer(char *at, uint64_t bytes, int node)
{
	unsigned long nodes[NODES / WORD_BITS] = { 0 };

	if (bytes == 0 || node < 0)
		return;
	nodes[(unsigned)node / WORD_BITS] = 1ul << (unsigned)node % WORD_BITS;
	syscall(SYS_mbind, at, bytes, MPOL_PREFERRED, nodes, NODES + 1ul, 0u);
}

/* A part that begins within a page has the page. */
static void prefer_parts(struct gpumap_session *s,
			 const struct gm_spread *spread,
			 const struct gm_spread_part *parts, uint32_t n)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	for (uint32_t i = 0; i < n; i++) {
		uint64_t from = parts[i].at / page * page;
		uint64_t to = i + 1 < n ? parts[i + 1].at / page * page
					: spread->bytes;

		prefer(s->arena + spread->at + from, to - from,
		       node_of(s, parts[i].row));
	}
}

static bool is_one_node(const struct gpumap_session *s,
			const struct gm_spread_part *parts, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		if (node_of(s, parts[i].row) != node_of(s, parts[0].row))
			return false;
	return true;
}

/* Give the memory back, also that of an earlier allocation, which lies where
 * that one had it. */
static void empty(struct gpumap_session *s, const struct gm_spread *spread)
{
	madvise(s->arena + spread->at, spread->bytes, MADV_REMOVE);
	if (!s->sparse)
		gm_huge_forget(&s->huge, spread->at, spread->bytes);
}

static int take(struct gpumap_session *s, uint32_t row, uint64_t bytes,
		struct gm_spread *spread)
{
	struct gm_queue_pair *pair;
	int ret = gm_session_pair(s, row, &pair);

	if (ret == 0)
		ret = gm_session_take(s, pair, bytes, &spread->at);
	spread->at += row * s->range_bytes;
	spread->bytes = bytes;
	return ret;
}

int gm_spread_alloc(struct gpumap_session *session, uint64_t bytes,
		    const struct gm_spread_part *parts, uint32_t n,
		    void **ret_memory)
{
	struct gpumap_session *s = session;
	struct gm_spread *spread;
	int ret;

	if (bytes < GM_SPREAD_LEAST || is_one_node(s, parts, n))
		return gpumap_alloc(s, parts[0].row, bytes, ret_memory);
	spread = calloc(1, sizeof(*spread));
	if (spread == NULL)
		return gm_refuse_memory(s->map, sizeof(*spread));
	ret = take(s, parts[0].row,
		   gm_round_up(bytes, (uint64_t)sysconf(_SC_PAGESIZE)), spread);
	if (ret != 0) {
		free(spread);
		return ret;
	}
	spread->next = s->spreads;
	s->spreads = spread;
	empty(s, spread);
	prefer_parts(s, spread, parts, n);
	*ret_memory = s->arena + spread->at;
	if (!s->sparse)
		ret = gm_huge_fill(&s->huge, spread->at, spread->bytes);
	if (ret == 0)
		return 0;
	gpumap_free(s, *ret_memory);
	return gm_refuse_memory(s->map, bytes);
}

void gm_spread_free(struct gpumap_session *session, uint64_t at)
{
	struct gpumap_session *s = session;
	struct gm_spread **link = &s->spreads, *spread;

	while (*link != NULL && (*link)->at != at)
		link = &(*link)->next;
	spread = *link;
	if (spread == NULL)
		return;
	*link = spread->next;
	empty(s, spread);
	prefer(s->arena + spread->at, spread->bytes,
	       node_of(s, (uint32_t)(at / s->range_bytes)));
	free(spread);
}

void gm_spread_drop_session(struct gpumap_session *session)
{
	struct gm_spread *spread;

	while ((spread = session->spreads) != NULL) {
		session->spreads = spread->next;
		free(spread);
	}
}
