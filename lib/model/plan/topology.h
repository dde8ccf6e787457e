/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * topology - the devices that ranges of layers are given, as texts name them.
 *
 * Where ranges overlap the one with the higher end wins, with equal ends the
 * later one, and it wins as a whole: what it leaves unset is unset there.
 * Plans do not use patterns over the names of tensors, because a layer map
 * places whole layers; only what they quantise matters.
 *
 * Nothing is allocated for each layer: a range may end anywhere below 2^64, and
 * placing checks whether the model has these layers.
 */
#ifndef GM_TOPOLOGY_H
#define GM_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/model/plan/error.h"
#include "lib/model/plan/isq.h"

#define GM_TOPOLOGY_ENTRIES 16384u

/* A device as topologies and requests name it: "cpu", "cuda[1]". */
enum gm_location_kind {
	GM_LOCATION_CPU,
	GM_LOCATION_CUDA,
	GM_LOCATION_METAL,
	GM_LOCATION_OTHER /* a device that no text names */
};

struct gm_location {
	enum gm_location_kind kind;
	uint64_t ordinal; /* 0 for the CPU */
};

struct gm_topology_entry {
	bool has_isq, has_device;
	enum gm_isq isq;
	struct gm_location device;
};

/* Layers @start to @end - 1. */
struct gm_topology_range {
	uint64_t start, end;
	uint64_t index; /* of its entry in the file */
	struct gm_topology_entry entry;
};

struct gm_topology {
	struct gm_topology_range *ranges; /* disjoint and ascending: the winner
					   * of each layer */
	size_t n_ranges;
	bool pattern_has_isq;  /* an entry for a pattern names one */
	bool pattern_not_cuda; /* and one without a device a type that CUDA
				* devices cannot compute with */
};

/*
 * gm_topology_parse - read ranges as requests have them
 *
 * text		"0-16:cuda[0];16:cpu:Q8_0;*::Q6K": entries of the layers START
 *		to END - 1, or of one; with a device, a type, or both; "*" is
 *		an entry for a pattern
 * ret_topology	give it back with gm_topology_free()
 *
 * Returns	0; -EINVAL, -E2BIG: more than GM_TOPOLOGY_ENTRIES; -ENOMEM
 * Threads	any
 */
int gm_topology_parse(const char *text, struct gm_topology *ret_topology,
		      struct gm_plan_error *ret_err);

/* The same in the other direction.  NULL: no memory; else free() it. */
char *gm_topology_print(const struct gm_topology *topology);

/* An entry by its texts; NULL: it has none.  Returns 0, -EINVAL with an error
 * text of mistral.rs. */
int gm_topology_entry_parse(const char *isq, const char *device,
			    struct gm_topology_entry *ret_entry,
			    struct gm_plan_error *ret_err);

/* Add an entry of @layers, "N" or "START-END", for which there is room.
 * Returns 0, -EINVAL. */
int gm_topology_add(struct gm_topology *topology, const char *layers,
		    const struct gm_topology_entry *entry, uint64_t index,
		    struct gm_plan_error *ret_err);

void gm_topology_add_pattern(struct gm_topology *topology,
			     const struct gm_topology_entry *entry);

/* Reduce ranges, which have their indices, to the layers that each wins. */
void gm_topology_settle(struct gm_topology *topology);

/* Free the ranges.  NULL is allowed. */
void gm_topology_free(struct gm_topology *topology);

/* Does the entry name a type that CUDA devices cannot compute with? */
bool gm_topology_is_off_cuda(const struct gm_topology_entry *entry);

/* Does any range place layers? */
bool gm_topology_places(const struct gm_topology *topology);

/*
 * gm_topology_suits_cuda - may a CUDA device hold layers of a range?
 *
 * n		layers from @first on
 *
 * Returns	false if an entry quantises one of them, or a pattern any
 *		tensor, to a type that CUDA devices cannot compute with
 * Threads	any
 */
bool gm_topology_suits_cuda(const struct gm_topology *topology, uint64_t first,
			    uint64_t n);

/* One more than the last layer that a range names, 0 without any. */
uint64_t gm_topology_end(const struct gm_topology *topology);

/* Returns 0, or -EINVAL with the error text of mistral.rs. */
int gm_topology_device_parse(const char *text, struct gm_location *ret_location,
			     struct gm_plan_error *ret_err);

static inline bool gm_location_equal(const struct gm_location *a,
				     const struct gm_location *b)
{
	return a->kind == b->kind && a->ordinal == b->ordinal;
}

#endif
