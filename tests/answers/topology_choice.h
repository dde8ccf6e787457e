/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * topology_choice - choose the topology in which kapsl runs a model.
 *
 * The choice is between what a request asks for and what the model's metadata
 * allows: only a model for ONNX generation whose metadata names the stages of a
 * pipeline runs in one, and everything else runs data-parallel.  The rules and
 * the texts of the warnings are kapsl's.
 */
#ifndef GM_TOPOLOGY_CHOICE_H
#define GM_TOPOLOGY_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gm_topology_choice {
	bool is_pipeline;   /* or data-parallel */
	uint64_t stages;    /* of the pipeline */
	const char *worker; /* the topology's name for workers */
	uint64_t tp_degree; /* for workers */
	char warning[160];  /* or "" */
};

/*
 * gm_topology_choice - choose one
 *
 * requested	"pipeline", "mixed", "tensor-parallel"...: a name that the rules
 *		do not have means data-parallel
 * tp_degree	as requested; 0 counts as 1
 * stages	that the metadata names, 0 where it names none
 *
 * Returns	the choice
 * Threads	any
 */
struct gm_topology_choice gm_topology_choice(const char *requested,
					     uint64_t tp_degree,
					     bool is_onnx_generate,
					     uint64_t stages);

#endif
