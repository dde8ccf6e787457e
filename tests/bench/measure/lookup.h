/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * lookup - measure the cost of a lookup, and of a plain array's.
 *
 * Lookups come in chains of 64: independent ones, whose indices are known
 * beforehand, show the throughput; dependent ones, where each index needs the
 * entry before, show the latency.  The same chains run over an array of this
 * process.
 *
 * Each has two figures.  The median of the chains is the cost without a writer;
 * the mean, of the time that this thread had the CPU, is the figure beside a
 * writer, as a median would hide a reader that starves.
 */
#ifndef GM_LOOKUP_H
#define GM_LOOKUP_H

#include "gpumap.h"

#define GM_LOOKUP_LAYERS 256u /* of the map that is read */

struct gm_lookup_cost {
	double median_ns; /* of one lookup */
	double mean_ns;
};

enum gm_lookup_kind {
	GM_LOOKUP_INDEPENDENT,
	GM_LOOKUP_DEPENDENT,
	GM_LOOKUP_KINDS
};

/*
 * gm_lookup_view - look up in a layer map of GM_LOOKUP_LAYERS layers
 *
 * chains	of 64 lookups
 * ret_refreshes	times that the view was out of date; may be NULL
 *
 * Returns	0, or as gpumap_view_refresh()
 */
int gm_lookup_view(const struct gpumap *map, struct gpumap_view *view,
		   enum gm_lookup_kind kind, uint32_t chains,
		   struct gm_lookup_cost *ret_cost, uint64_t *ret_refreshes);

/* The same over a plain array. */
void gm_lookup_plain(enum gm_lookup_kind kind, uint32_t chains,
		     struct gm_lookup_cost *ret_cost);

/*
 * gm_lookup_sealed - make a million lookups in a process that any system call
 * kills
 *
 * Returns	0: a child in seccomp's strict mode survived them
 *		-EPERM	it made a system call and was killed
 *		-ENOTSUP	this build or this kernel cannot tell
 */
int gm_lookup_sealed(const struct gpumap *map, const struct gpumap_view *view);

#endif
