/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* ml - NVML for a role: opened, and its refusals as notes. */
#ifndef GM_PROBE_NVML_SESSION_H
#define GM_PROBE_NVML_SESSION_H

#include "agent/cuda/nvml.h"
#include "agent/probe/probe.h"
#include "agent/probe/say.h"

/*
 * gm_nvml_session_open - find NVML and initialise it
 *
 * note		on failure: health, code and text say why
 *
 * Returns	0; -ENOENT: there is no NVML; -ENODEV: no driver is loaded;
 *		-EIO
 */
int gm_nvml_session_open(const struct gm_probe_options *options,
			 struct gm_nvml *ret_nvml, struct gm_probe_wire *note);

/* Health, code and text of a call that was refused. */
void gm_nvml_session_refused(struct gm_probe_wire *note, const char *call,
			     gm_nvml_result result);

/* The health that a refusal means for the card: enum gm_probe_health. */
uint32_t gm_nvml_session_health(gm_nvml_result result);

#endif
