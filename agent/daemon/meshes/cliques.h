/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cliques - cards that do collectives among themselves, by NCCL.
 *
 * Jobs of two sessions may come to two cards in two orders, and each card would
 * wait for the other.  So a row serves the cliques of one session at a time,
 * whose own order is the same everywhere.  Groups of other sessions use
 * windows.
 *
 * While a card is drained no clique begins: open_cards.h.
 */
#ifndef GM_DAEMON_MESHES_CLIQUES_H
#define GM_DAEMON_MESHES_CLIQUES_H

#include <stdbool.h>
#include <stdint.h>

struct gm_devices;
struct gm_session;

/* Is any card drained? */
bool gm_cliques_are_barred(const struct gm_devices *devices);

/* Are all @n rows cards that may meet, is none of them in use by another
 * session, and is no card drained? */
bool gm_cliques_may_meet(const struct gm_session *session, const uint32_t *rows,
			 uint32_t n);

/* A clique of the session has these rows, and has them no more. */
void gm_cliques_take(const struct gm_session *session, uint32_t row);
void gm_cliques_give_back(const struct gm_session *session, uint32_t row);

#endif
