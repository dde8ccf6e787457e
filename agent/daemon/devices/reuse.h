/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * reuse - gives rows of MIG instances that are gone to devices that come.
 *
 * Each time that a card is split its instances are new devices, and the table
 * has 256 rows.  So the row of a lost instance is given to a new device, the
 * row that was lost first, when nothing names it: no layer map of the
 * directory, pinned, waiting for its devices or on its way; no session's queue,
 * no export with an importer, no drain, and no process of the agent.
 *
 * A client that kept only the number finds out from the row's generation, which
 * moves on with the slot of its facts, before any other fact of the new device
 * can be seen; an older session cannot open a queue there.
 */
#ifndef GM_DAEMON_DEVICES_REUSE_H
#define GM_DAEMON_DEVICES_REUSE_H

#include <stdbool.h>
#include <stdint.h>

struct gm_daemon;

/* A row to be given anew.  Returns false where there is none. */
bool gm_reuse_find(const struct gm_daemon *d, uint32_t *ret_row);

#endif
