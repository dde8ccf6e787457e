/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/sync/sync.h"

const struct gm_sync_part *const gm_sync_parts[] = {
	NULL,
};
