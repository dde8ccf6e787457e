/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * wire.h - what gpumapd and a worker say to each other.
 *
 * Records of a SOCK_SEQPACKET pair, one struct gm_wire each, from and to a
 * child that gpumapd has exec'd from its own build: both ends know the same
 * struct.  A worker inherits, at fixed numbers, the pair's other end, the
 * journal of its row and the commons; everything else comes by ATTACH.
 *
 *	gpumapd to worker           worker to gpumapd
 *	ATTACH   3 or 4 fds    ->   ATTACHED  status
 *	DETACH                 ->   DETACHED  (nothing of it is mapped any more)
 *	DRAIN                  ->   exit 0 when the rings are empty
 *	                       <-   READY     once
 *	                       <-   VIOLATION (the session is served no longer)
 *	                       <-   FAILED    text, then exit
 *
 * An undertaker (gpumap-worker --bury) gets the same ATTACH records, ends what
 * is owed in each queue, answers ATTACHED, and exits 0 after DRAIN.
 *
 * A worker whose pair is closed finishes the slice in hand and exits.
 */
#ifndef GM_WIRE_H
#define GM_WIRE_H

#include <stdint.h>

#include "shm/atomic.h"
#include "shm/layout.h"

#define GM_FD_SUPERVISOR 3 /* the pair's other end */
#define GM_FD_JOURNAL    4 /* struct gm_journal ... */
#define GM_FD_COMMONS    5 /* struct gm_commons */

enum gm_wire_type {
	GM_WIRE_ATTACH = 1, /* fds: queues, arena, doorbell, socket if any */
	GM_WIRE_ATTACHED = 2,
	GM_WIRE_DETACH = 3,
	GM_WIRE_DETACHED = 4,
	GM_WIRE_DRAIN = 5,
	GM_WIRE_READY = 6,
	GM_WIRE_VIOLATION = 7,
	GM_WIRE_FAILED = 8
};

struct gm_wire {
	uint32_t type; /* enum gm_wire_type */
	int32_t status;
	uint64_t session;     /* id, never reused */
	uint32_t place;       /* of the queue's journal */
	uint32_t depth;       /* ATTACH */
	uint32_t incarnation; /* ATTACH: workers this queue has had, from 1 */
	uint32_t uid;         /* ATTACH: of the client */
	uint64_t queue_at;    /* ATTACH: of the queue pair in its memfd */
	uint64_t arena_bytes; /* ATTACH: of the whole arena */
	uint64_t range_at;    /* ATTACH: this row's range of the arena */
	uint64_t range_bytes;
	char text[120]; /* VIOLATION, FAILED: why */
};

/* In shared memory, between gpumapd and all workers: who may spin. */
struct gm_commons {
	alignas(GM_LINE) gm_a32 spin_limit; /* written by gpumapd */
	/* Written by the worker of each row, and by gpumapd when it died. */
	alignas(GM_LINE) gm_a32 spinning[GM_ROWS];
};

#endif
