/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * peer_worker.h - the worker's half of peer.h: entries out of one ring,
 * completions into the other, and buffers by handle.
 */
#ifndef GM_TEST_SUPPORT_PEER_PEER_WORKER_H
#define GM_TEST_SUPPORT_PEER_PEER_WORKER_H

#include "gpumap.h"
#include "tests/support/peer/peer_state.h"

struct peer_buffer *peer_buffer(struct peer_link *l, uint64_t handle);
void peer_buffer_end(struct peer *p, struct peer_buffer *b);

/* @fd, -1 for memory without a file, is the buffer's from now on. */
int32_t peer_buffer_begin(struct peer *p, struct peer_link *l, uint64_t handle,
			  int fd, uint64_t at, uint64_t bytes, int protection);

/* End the objects that a dead worker takes with it. */
void peer_worker_dies(struct peer *p, struct peer_link *l, uint32_t row);

/* Returns whether there was anything to do. */
bool peer_serve(struct peer *p, struct peer_link *l, uint32_t row);

#endif
