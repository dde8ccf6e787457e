/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * lookup - what a lookup costs, beside a plain array.
 *
 * Lookups come in chains of 64: independent ones, whose indices are known
 * beforehand, show how many go through per second; dependent ones, where each
 * index needs the entry before, show how long one takes.  The same chains run
 * over an array of this process.
 *
 * Two figures each.  The median of the chains is the cost when nothing happens;
 * the mean, of the time that this thread had the CPU, is what counts beside a
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
 * ret_refreshes	times that the view was found old; may be NULL
 *
 * Returns	0, or what gpumap_view_refresh() returns
 */
int gm_lookup_view(const struct gpumap *map, struct gpumap_view *view,
		   enum gm_lookup_kind kind, uint32_t chains,
		   struct gm_lookup_cost *ret_cost, uint64_t *ret_refreshes);

/* The same over a plain array. */
void gm_lookup_plain(enum gm_lookup_kind kind, uint32_t chains,
		     struct gm_lookup_cost *ret_cost);

/*
 * gm_lookup_sealed - a million lookups where any system call is death
 *
 * Returns	0: a child in seccomp's strict mode lived through them
 *		-EPERM	it made a system call and was killed
 *		-ENOTSUP	this build or this kernel cannot tell
 */
int gm_lookup_sealed(const struct gpumap *map, const struct gpumap_view *view);

#endif
