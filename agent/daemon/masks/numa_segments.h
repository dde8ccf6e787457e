/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * numa_segments - the node segments: memory for masks, one segment for each
 * NUMA node.
 *
 * The file node<N> of the instance's folder, mode 0640, gets its name when its
 * header is whole.  The file has its full length from the start and gets pages
 * as they are needed.  Pages stay, because a reader with an old view may
 * still touch them.  So the file is never truncated, no access to it can miss
 * its page, and it takes as much of /dev/shm as masks have had there at one
 * time.
 *
 * The blocks of masks say which spans are in use.  This module counts the
 * blocks and changes that have a span, and frees it with the last; masks with
 * the same bytes share a span.  An agent that adopts a segment counts again,
 * and spans of a publication that was not finished are free with it.
 *
 * Only the loop uses it, except for gm_numa_segments_fill() and the bytes of
 * spans that a change has.
 */
#ifndef GM_DAEMON_MASKS_NUMA_SEGMENTS_H
#define GM_DAEMON_MASKS_NUMA_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/common/refusal.h"
#include "agent/daemon/segment/block_alloc.h"
#include "shm/replicas.h"

struct gm_daemon;

struct gm_span {
	LIST_ENTRY(gm_span) entry;
	struct gm_node_segment *segment;
	uint32_t unit; /* in GM_SPAN_UNIT */
	uint32_t refs;
	uint64_t bytes;
	uint64_t hash;
};

struct gm_node_segment {
	uint32_t node;
	int fd;
	int reader; /* cannot write; negative: not opened yet */
	int share;  /* nor can be opened anew to; likewise */
	char *base;
	uint64_t bytes;
	uint64_t made;
	uint32_t high; /* the I/O thread's: no view names units from here on */
	struct gm_heap heap; /* of GM_SPAN_UNITs; the first is the header's */
	LIST_HEAD(, gm_span) spans;
};

struct gm_numa_segments {
	struct gm_node_segment *of[GM_NODES]; /* NULL: not opened */
};

/*
 * gm_numa_segments_open - the segment of a node, as it is or made now
 *
 * make		where there is none, or one that is not of use, make it
 *
 * Returns	0
 *		-ENOENT		there is none of use, and none is to be made
 *		-EPERM		the name is taken by something that is not ours
 *		-ENOMEM, and what open and mmap return
 */
int gm_numa_segments_open(struct gm_daemon *d, uint32_t node, bool make,
			  char ret_why[GM_WHY_BYTES],
			  struct gm_node_segment **ret_segment);

/* A span with these bytes, as far as the hash can tell; NULL: there is none. */
struct gm_span *gm_numa_segments_find(const struct gm_node_segment *segment,
				      uint64_t bytes, uint64_t hash);

/*
 * gm_numa_segments_take - allocate a span, with one reference
 *
 * The span has no pages yet, or some; see gm_numa_segments_fill().
 *
 * Returns	0
 *		-ENOSPC		masks.bytes are used up
 *		-ENOMEM
 */
int gm_numa_segments_take(struct gm_node_segment *segment, uint64_t bytes,
			  uint64_t hash, char ret_why[GM_WHY_BYTES],
			  struct gm_span **ret_span);

/*
 * gm_numa_segments_claim - count a span that the block of a mask names
 *
 * Returns	0
 *		-EPROTO		it is not inside, or lies in another
 *		-ENOMEM
 */
int gm_numa_segments_claim(struct gm_node_segment *segment, uint64_t at,
			   uint64_t bytes, uint64_t hash);

/* The span that a replica names, or NULL: the span is in another file, or was
 * not claimed.  The file of a DEVICE replica was checked by gm_masks_read(). */
struct gm_span *gm_numa_segments_span(const struct gm_numa_segments *nodes,
				      const struct gm_replica_image *replica);

/* One reference less; without any it is free. */
void gm_numa_segments_drop(struct gm_span *span);

static inline char *gm_nodes_at(const struct gm_span *span)
{
	return span->segment->base + (uint64_t)span->unit * GM_SPAN_UNIT;
}

/* The segment's descriptor for workers, which cannot write: ours, open as long
 * as the segment.  Returns it, or a negative errno. */
int gm_numa_segments_reader(struct gm_node_segment *segment);

/* The same for clients, see segment/mount.h: each mount costs all CPUs a
 * grace period when it goes, so there is one, however often they ask. Returns
 * it, or a negative errno of gm_mount_open(). */
int gm_numa_segments_share(struct gm_node_segment *segment);

/*
 * gm_numa_segments_fill - give a span pages of its node, and these bytes
 *
 * The I/O thread calls it.
 *
 * Returns	0
 *		-ENOSPC		/dev/shm is full
 */
int gm_numa_segments_fill(const struct gm_span *span, const void *bytes,
			  char ret_why[GM_WHY_BYTES]);

/* Has every open one still a name?  See gm_folder_has(). */
bool gm_numa_segments_have_names(const struct gm_numa_segments *nodes);

/* Unlink those of an instance whose segment is new, or goes. */
void gm_numa_segments_remove(const char *instance);

/* Unmap and close: the files stay for the next agent. */
void gm_numa_segments_exit(struct gm_daemon *d);

#endif
