/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * export - gpumapctl export: layer maps in the settings of engines.
 */
#ifndef GM_CTL_EXPORT_H
#define GM_CTL_EXPORT_H

#include "agent/ctl/ctl.h"

/* Find an engine, of enum gpumap_engine, by its name in --for.  Returns an exit
 * status; an error has been printed. */
int gm_ctl_engine(const char *word, uint32_t *ret_engine);

/* These names, each by its index; NULL past the last. */
const char *gm_ctl_engine_name(size_t i);

#endif
