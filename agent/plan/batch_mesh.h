/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* batch_mesh - answer the requests of mesh --batch. */
#ifndef GM_BATCH_MESH_H
#define GM_BATCH_MESH_H

#include "agent/plan/wide_json.h"

/* Runs of ranks that an answer may list, over all groups. */
#define GM_BATCH_MESH_RUNS (UINT64_C(1) << 20)

/*
 * gm_batch_mesh - arrange ranks
 *
 * Returns	the value of "ok" as text, to free(); or NULL with the reason in
 *		@f, or want of memory if @f has none
 * Cost		150 bytes for each group, and the text
 */
char *gm_batch_mesh(struct gm_fields *f);

#endif
