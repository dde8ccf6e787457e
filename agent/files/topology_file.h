/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * topology_file - read a file that gives layers their devices and quantisation.
 *
 *	0-16:			# layers 0 to 15
 *	  device: cuda[0]
 *	  isq: Q4K
 *	"16":			# one layer
 *	  device: cpu
 *	/ffn\.down/:		# tensors whose name has a match
 *	  isq: Q6K
 *
 * The format is that of mistral.rs, with its order of checks and texts of
 * errors.  The syntax of patterns is checked, so that a file is valid here and
 * in mistral.rs alike; pattern.h describes them.  Keys of an entry other than
 * device and isq are ignored.  A type that CUDA devices cannot compute with is
 * refused for such a device.
 *
 * YAML is accepted without aliases and directives, as one document, with no key
 * twice, nested at most GM_TOPOLOGY_FILE_DEPTH deep.
 */
#ifndef GM_TOPOLOGY_FILE_H
#define GM_TOPOLOGY_FILE_H

#include <stddef.h>

#include "lib/model/plan/error.h"
#include "lib/model/plan/topology.h"

#define GM_TOPOLOGY_FILE_BYTES (1u << 20) /* most bytes of a file */
#define GM_TOPOLOGY_FILE_DEPTH 16u

/*
 * gm_topology_file_parse - read a topology
 *
 * text		@n bytes of YAML
 * ret_topology	give it back with gm_topology_free()
 *
 * Returns	0
 *		-EINVAL	not YAML, not a topology, or an invalid entry
 *		-E2BIG	beyond a limit
 *		-ENOMEM
 * Threads	any
 */
int gm_topology_file_parse(const char *text, size_t n,
			   struct gm_topology *ret_topology,
			   struct gm_plan_error *ret_err);

#endif
