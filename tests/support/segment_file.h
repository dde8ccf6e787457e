/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * segment_file.h - a segment made by a test, under a name that gpumap_attach()
 * finds.  The name is the process's own, and gone when the test is.
 */
#ifndef GM_TEST_SUPPORT_SEGMENT_FILE_H
#define GM_TEST_SUPPORT_SEGMENT_FILE_H

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/segment.h"
#include "tests/support/shm_names.h"

struct segment_file {
	char instance[40];
	char path[GM_NAMES_BYTES];
	void *memory;     /* SEGMENT_BYTES, writable */
	uint32_t n_nodes; /* node segments: of nodes 0 to n_nodes - 1 */
	struct segment segment;
};

void segment_file_beat(struct segment_file *file);
void segment_file_remove(struct segment_file *file);

/* Returns 0 with an empty READY segment in place, or -1. */
int segment_file_make(const char *what, struct segment_file *ret_file);

/* Make the node segment of the next node, which has no more than its header and
 * the bytes of a mask of segment_mask(), each of them @byte.  Returns 0, or
 * -1. */
int segment_file_node(struct segment_file *file, uint64_t made,
		      unsigned char byte);

#endif
