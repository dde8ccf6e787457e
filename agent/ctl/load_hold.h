/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * load_hold - hold a model that was loaded, until a signal, or until its share
 * has ended.
 *
 * Where the agent ends and the share outlives it, the command holds the share
 * by its pid, and then by a session with the next agent.
 */
#ifndef GM_CTL_LOAD_HOLD_H
#define GM_CTL_LOAD_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include <gpumap/model.h>

#include "agent/ctl/ctl.h"

struct gm_load_held {
	struct gm_ctl *ctl;
	const char *name;
	struct gpumap_session **session; /* replaced with the agent */
	uint64_t share;
	uint64_t since_ns; /* of CLOCK_MONOTONIC: it was there then */
	const struct gpumap_model_buffer *buffers;
	uint32_t n_buffers;
	uint32_t *restarts; /* of the worker of each, as last seen */
};

/* From here on SIGINT, SIGTERM and SIGHUP interrupt nothing: has one come? */
void gm_load_mind_signals(void);
bool gm_load_is_told(void);

struct gpumap_device gm_load_device(const struct gm_ctl *ctl, uint32_t row);

/* Returns an exit status. */
int gm_load_hold(struct gm_load_held *held);

#endif
