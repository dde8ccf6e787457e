/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* location - parse and print devices as topologies and requests name them:
 * "cpu", "cuda[1]". */
#ifndef GM_LOCATION_H
#define GM_LOCATION_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/plan/error.h"

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

#define GM_LOCATION_TEXT 32u /* bytes that suffice for every location */

/* Returns 0, or -EINVAL with the error text of mistral.rs. */
int gm_location_parse(const char *text, struct gm_location *ret_location,
		      struct gm_plan_error *ret_err);

/* Print to @text, which is returned. */
const char *gm_location_print(const struct gm_location *location,
			      char text[GM_LOCATION_TEXT]);

static inline bool gm_location_equal(const struct gm_location *a,
				     const struct gm_location *b)
{
	return a->kind == b->kind && a->ordinal == b->ordinal;
}

#endif
