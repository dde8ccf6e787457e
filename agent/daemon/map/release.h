/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* release - take a published object back: the change that a client asks for. */
#ifndef GM_DAEMON_MAP_RELEASE_H
#define GM_DAEMON_MAP_RELEASE_H

#include <stdint.h>

#include "shm/control.h"

struct gm_connection;

/*
 * gm_release_change - take an object out of the directory when it is its turn
 *
 * kind		GM_KIND_LAYERS, _MASK or _MESH
 * name		copied
 *
 * Returns	0, -ENOMEM
 */
int gm_release_change(struct gm_connection *c, const struct gm_control *header,
		      uint32_t kind, const char *name);

#endif
