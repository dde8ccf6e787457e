/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* target - the attachment that the exporter reads, as long as there is one. */
#ifndef GM_TARGET_H
#define GM_TARGET_H

#include "gpumap.h"

struct gm_target {
	struct gpumap_attach_opts opts;
	struct gpumap *map; /* NULL: none now */
	int error;          /* why; it has been printed */
};

/* Attach where there is no attachment, or that of a map that was retired.
 * Returns the attachment, or NULL: there is no map.  A map stays readable after
 * its agent's end.  Cost: none while the map lives; else as gpumap_attach(). */
struct gpumap *gm_target_map(struct gm_target *target);

void gm_target_close(struct gm_target *target);

#endif
