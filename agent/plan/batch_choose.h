/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* batch_choose - answer the requests of choose --batch. */
#ifndef GM_BATCH_CHOOSE_H
#define GM_BATCH_CHOOSE_H

#include "agent/plan/wide_json.h"

/* Returns the value of "ok", a new reference; or NULL with the reason in @f, or
 * want of memory if @f has none. */
json_t *gm_batch_choose(struct gm_fields *f);

#endif
