/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * batch_plan - answer the requests of plan --batch.
 *
 * Each function returns the value of "ok", a new reference; or NULL with the
 * reason in @f, or want of memory if @f has none.
 */
#ifndef GM_BATCH_PLAN_H
#define GM_BATCH_PLAN_H

#include "agent/plan/spec.h"
#include "agent/plan/wide_json.h"

json_t *gm_batch_map(struct gm_fields *f);
json_t *gm_batch_auto(struct gm_fields *f);
json_t *gm_batch_sizes(struct gm_fields *f);

/* The bytes of the type that the field "dtype" names. */
uint32_t gm_batch_dtype(struct gm_fields *f);

/* [[row, layers]...], NULL if out of memory. */
json_t *gm_batch_entries(const struct gm_spec_entry *entries, size_t n);

/* The text of a spec, or null. */
json_t *gm_batch_spec_text(const struct gm_spec *spec);

#endif
