/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * peer.h - an agent and its workers in one thread, for tests of the library.
 *
 * The peer speaks the protocol of shm/control.h over a socket in a directory of
 * its own, makes sealed session memory, and serves the queue pairs as a worker
 * does: entries out of one ring, completions into the other, parked while it
 * waits.  Only where the test says so it breaks the protocol.
 *
 * One connection holds at most one session; connections are never many.
 */
#ifndef GM_TEST_SUPPORT_PEER_PEER_H
#define GM_TEST_SUPPORT_PEER_PEER_H

#include "tests/support/peer/peer_agent.h"

/* ---- both ---------------------------------------------------------------- */

int peer_start(struct peer *p, struct segment_file *file);
void peer_stop(struct peer *p);

#endif
