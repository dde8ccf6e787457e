/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * segment.h - a segment made by a test, as an agent would make it: for readers
 * that need one without an agent, and a writer that publishes flat out.
 *
 * The heap here is a ring of equal blocks, reused first-in first-out.
 */
#ifndef GM_TEST_SUPPORT_SEGMENT_H
#define GM_TEST_SUPPORT_SEGMENT_H

#include <stdlib.h>
#include <string.h>

#include "gpumap.h"
#include "shm/cluster.h"
#include "shm/layers.h"
#include "shm/meshes.h"
#include "shm/replicas.h"
#include "shm/rows.h"

#define SEGMENT_BYTES (GM_HEAP_AT + (UINT64_C(4) << 20))

/* A writer of one segment. */
struct segment {
	struct gm_map map;
	uint64_t next; /* where the next block goes, from the heap's start */
	uint64_t block_bytes; /* of each place in the heap */
};

/* Write an empty READY segment into SEGMENT_BYTES of zeroed memory. */
int segment_make(void *base, uint64_t block_bytes, struct segment *ret_segment);

/* Store a block's words in the next place and let @slot name it. */
void segment_publish(struct segment *segment, gm_a64 *slot,
		     const uint64_t *words, uint64_t bytes);

/* Publish a layer map in directory slot @index. */
void segment_layers(struct segment *segment, uint32_t index,
		    const struct gm_layers *layers);

/* Publish a mesh likewise. */
void segment_mesh(struct segment *segment, uint32_t index,
		  const struct gm_meshes *mesh);

/* Publish a cluster likewise. */
void segment_cluster(struct segment *segment, uint32_t index,
		     const struct gm_cluster *cluster);

/* The bytes of a mask of segment_mask(), and their offset in each node
 * segment. */
#define SEGMENT_MASK_BYTES 64u
#define SEGMENT_MASK_AT    GM_SPAN_UNIT

/* Publish a mask likewise.  Row @i has its replica in the segment of node @i,
 * which was made at @made, for each @i below @n_rows. */
void segment_mask(struct segment *segment, uint32_t index, const char *name,
		  uint64_t made, uint32_t n_rows);

/* Publish other facts of a row. */
void segment_facts(struct segment *segment, uint32_t row,
		   const struct gm_row_image *facts);

/* Publish a row's static facts and its first moving facts. */
void segment_row(struct segment *segment, uint32_t row, const char *name);

#endif
