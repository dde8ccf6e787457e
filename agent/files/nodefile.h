/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * nodefile - read a file that describes a node: its rows, whether or not they
 * exist.
 *
 *	name: dgx-h100
 *	rows:
 *	  - name: NVIDIA H100 80GB HBM3
 *	    kind: cuda			# cuda, host, dummy
 *	    count: 8			# number of identical rows
 *	    memory: 81559M		# bytes, or with K, M, G, T of 1024
 *	    free: 79G
 *	    compute-capability: 9.0	# cuda
 *	    sm-count: 132		# cuda, dummy
 *	    threads-per-sm: 2048	# cuda, dummy
 *	    integrated: no		# cuda, dummy
 *	    numa-node: 0
 *	  - name: NVIDIA H100 80GB HBM3 MIG 3g.40gb
 *	    kind: cuda
 *	    mig: 3g.40gb		# cuda: a part of the GPU above
 *	    memory: 40448M
 *	    compute-capability: 9.0
 *	  - name: two sockets' memory
 *	    kind: host
 *	    cpus: 112			# host
 *	    memory: 2T
 *
 * Every row needs a name, kind and memory, and a cuda row also its compute
 * capability.  YAML is accepted without aliases, as one document, with no key
 * twice.  An unknown key, or one that this kind of row may not have, is an
 * error: a misspelt key must not be ignored silently. gpumap-node(5) has the
 * details.
 */
#ifndef GM_NODEFILE_H
#define GM_NODEFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpumap.h"
#include "lib/model/plan/plan.h"

#define GM_NODEFILE_BYTES (1u << 20) /* most bytes of a file */
#define GM_NODEFILE_MIG   32         /* likewise */

struct gm_nodefile_row {
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t kind; /* enum gpumap_device_kind */
	uint64_t total_bytes;
	uint64_t free_bytes; /* at most total_bytes */
	bool has_cc;
	uint32_t cc_major;
	uint32_t cc_minor;
	uint32_t units; /* multiprocessors, CPUs of a host; 0: not said */
	uint32_t threads_per_unit; /* 0: not said */
	int32_t numa_node;         /* -1: not said */
	bool is_integrated;        /* its memory is the host's */
	char mig[GM_NODEFILE_MIG]; /* profile of a MIG instance; "": none */
	uint32_t parent;           /* for an instance: the row of its GPU */
	bool is_split; /* instances follow: nothing runs on the whole GPU */
};

struct gm_nodefile {
	char name[GPUMAP_NAME_MAX + 1]; /* "" where it has none */
	uint32_t n_rows;                /* at least one */
	/* as in the file, identical ones repeated */
	struct gm_nodefile_row *rows;
};

/*
 * gm_nodefile_parse - read @n bytes of YAML
 *
 * ret_node	give it back with gm_nodefile_free()
 *
 * Returns	0
 *		-EINVAL	not YAML, or a line that a node file may not have
 *		-E2BIG	beyond a limit
 *		-ENOMEM
 * Threads	any
 */
int gm_nodefile_parse(const char *text, size_t n, struct gm_nodefile *ret_node,
		      struct gm_plan_error *ret_err);

/*
 * gm_nodefile_read - the same of a regular file; errors say "path:line: "
 *
 * Returns	as gm_nodefile_parse(), and
 *		-EFBIG	longer than GM_NODEFILE_BYTES
 *		-ENOENT and what else open and read answer
 * Threads	any
 */
int gm_nodefile_read(const char *path, struct gm_nodefile *ret_node,
		     struct gm_plan_error *ret_err);

/* Make the rows' devices, numbered, as many as there are. */
void gm_nodefile_devices(const struct gm_nodefile *node,
			 struct gm_plan_device ret_devices[GPUMAP_ROWS_MAX]);

/* Free the result of either.  NULL is allowed. */
void gm_nodefile_free(struct gm_nodefile *node);

#endif
