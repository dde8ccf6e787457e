/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * state_field - what state files of several kinds have in their JSON.
 */
#ifndef GM_STATE_FIELD_H
#define GM_STATE_FIELD_H

#include "agent/daemon/state_text.h"
#include "agent/plan/wide_json.h"

/* The name of any object, as it was. */
void gm_state_field_name(struct gm_fields *f, const char *key,
			 char ret_name[GM_NAME_BYTES]);

#endif
