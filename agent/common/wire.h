/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * wire.h - what gpumapd and a worker say to each other.
 *
 * Records of a SOCK_SEQPACKET pair, one struct gm_wire each, from and to a
 * child that gpumapd has exec'd from its own build: both ends know the same
 * struct.  A worker inherits, at fixed numbers, the pair's other end, the
 * journal of its row and the page of its group; everything else comes by
 * ATTACH.
 *
 *	gpumapd to worker        worker to gpumapd
 *	ATTACH   3 or 4 fds  ->  ATTACHED  status
 *	DETACH               ->  DETACHED  (nothing of it is mapped any more)
 *	REGISTER 1 fd        ->  REGISTERED status
 *	FORGET               ->  FORGOTTEN status (it is not mapped any more)
 *	EXPORT               ->  EXPORTED  status, 1 fd
 *	IMPORT   1 fd        ->  IMPORTED  status
 *	WAKER    1 fd        <-  WAKER     asks for it
 *	PROVE                ->  PROVEN    status, 1 fd: memory with a pattern
 *	TRY      1 fd        ->  TRIED     status (the pattern, seen here)
 *	LEND     1 fd        ->  LENT      status (it will be fetched from)
 *	BORROW   1 fd        ->  BORROWED  status (it may be named)
 *	FETCH                ->  FETCHED   status (the bytes are on the stage)
 *	FETCHED              <-  FETCH     (to another row's worker, and back)
 *	JOIN     1 fd        ->  JOINED    status (it is a rank of the group)
 *	MASK     1 or 2 fds  ->  MASKED    status, 1 fd: a copy on the device
 *	TRACE    1 fd            (record jobs there)
 *	TRACE_END                (and no more)
 *	DRAIN                ->  DRAINED   once, when the rings are empty
 *	LEAVE                ->  exit 0 (after DRAINED)
 *	GO                       (to a standby: serve the row)
 *	                     <-  STANDBY   of a standby: driver is ready
 *	                     <-  READY     once; text: what took how long
 *	                     <-  VIOLATION (the session is served no longer)
 *	                     <-  FAILED    text, code, then exit
 *
 * The second descriptor of a MASK stands for another card's copy of the same
 * bytes, which the worker may take them from.
 *
 * A worker that has DRAINED begins no entry any more, and goes on to lend its
 * memory: other rows that drain may have copies out of it to finish.  gpumapd
 * has it LEAVE when they have, or have taken too long.
 *
 * A recovery process (gpumap-worker --recover) gets the same ATTACH records,
 * ends the entries that a dead worker left in each queue, answers ATTACHED,
 * and exits 0 after DRAIN.
 *
 * A standby (gpumap-worker --standby) has initialised the driver and serves
 * no session yet; it has no lock, no context and no session before GO.
 *
 * The group of a JOIN is broken by FORGET: what is under way in it ends with
 * -EIO at every rank.
 *
 * A worker whose pair is closed finishes the slice in hand and exits.
 *
 * Copies between rows are done by the worker of the destination, which either
 * imports the source or borrows it.  Borrowed bytes pass through a stage:
 * memory of GM_STAGE_BYTES that both workers have mapped, one for each session
 * and row that borrows.  The borrower asks for a piece (FETCH), the lender puts
 * it there (FETCHED), and gpumapd hands on what they say, for they do not know
 * each other; it is gpumapd too who answers when the lender is gone.
 */
#ifndef GM_WIRE_H
#define GM_WIRE_H

#include <stdint.h>

#include "shm/atomic.h"
#include "shm/layout.h"

#define GM_FD_SUPERVISOR 3 /* the pair's other end */
#define GM_FD_JOURNAL    4 /* struct gm_journal ... */
#define GM_FD_GROUP_PAGE 5 /* struct gm_group_page */

/* Limits of a worker's reads of files: how many are in progress at most, and
 * bytes of one, a multiple of GM_LOAD_ALIGN. */
#define GM_LOAD_DEPTH_MAX 64u
#define GM_LOAD_BYTES_MAX (16u << 20)
#define GM_LOAD_ALIGN     4096u

/* How long the devices of a group may take to meet, at most. */
#define GM_NCCL_GROUP_LIMIT_NS UINT64_C(60000000000)

/* How long gpumap-build may compile one text: in seconds of a CPU, which others
 * may use as well, and for a compiler that waits instead in seconds in all. */
#define GM_BUILD_LIMIT_S 60u
#define GM_BUILD_WAIT_S  (10 * GM_BUILD_LIMIT_S)

/* For JOIN: the page has windows behind it; and the devices run the collective
 * among themselves, where they can. */
#define GM_JOIN_STAGED UINT32_C(1)
#define GM_JOIN_CLIQUE UINT32_C(2)

/* And bytes of a slice: a multiple of the least. */
#define GM_SLICE_LEAST   (64u << 10)
#define GM_SLICE_MOST    (4u << 20)
#define GM_SLICE_DEFAULT (1u << 20)

enum gm_wire_type {
	GM_WIRE_ATTACH = 1, /* fds: queues, arena, doorbell, socket if any */
	GM_WIRE_ATTACHED = 2,
	GM_WIRE_DETACH = 3,
	GM_WIRE_DETACHED = 4,
	GM_WIRE_DRAIN = 5,
	GM_WIRE_READY = 6,
	GM_WIRE_VIOLATION = 7,
	GM_WIRE_FAILED = 8,
	GM_WIRE_REGISTER = 9, /* a client's memfd or file, for one session */
	GM_WIRE_REGISTERED = 10,
	GM_WIRE_FORGET = 11,
	GM_WIRE_FORGOTTEN = 12,
	GM_WIRE_EXPORT = 13,
	GM_WIRE_EXPORTED = 14,
	GM_WIRE_IMPORT = 15,
	GM_WIRE_IMPORTED = 16,
	GM_WIRE_GO = 17,
	GM_WIRE_STANDBY = 18,
	GM_WIRE_WAKER = 19, /* an eventfd that wakes the worker of row @place */
	GM_WIRE_PROVE = 20, /* is the path between two cards any good? */
	GM_WIRE_PROVEN = 21,
	GM_WIRE_TRY = 22,
	GM_WIRE_TRIED = 23,
	GM_WIRE_LEND = 24,
	GM_WIRE_LENT = 25,
	GM_WIRE_BORROW = 26,
	GM_WIRE_BORROWED = 27,
	GM_WIRE_FETCH = 28,
	GM_WIRE_FETCHED = 29,
	GM_WIRE_JOIN = 30, /* the page of a group, see agent/comm/comm_shm.h */
	GM_WIRE_JOINED = 31,
	GM_WIRE_MASK = 32, /* a mask's bytes, of no session; see replica.h */
	GM_WIRE_MASKED = 33,
	GM_WIRE_DRAINED = 34, /* nothing is left to do but to lend */
	GM_WIRE_LEAVE = 35,
	GM_WIRE_TRACE = 36, /* memory for records of jobs, see shm/trace.h */
	GM_WIRE_TRACE_END = 37
};

/* A stage, and how many pieces of it are under way at most. */
#define GM_STAGE_PIECES      4u
#define GM_STAGE_PIECE_BYTES (UINT64_C(2) << 20)
#define GM_STAGE_BYTES       (GM_STAGE_PIECES * GM_STAGE_PIECE_BYTES)

/* For MASK: a replica that others may copy from has a pattern behind its bytes,
 * made of its handle; the second descriptor is the other card's replica; the
 * path is to be verified with that pattern.  For MASKED: the replica was copied
 * so, and verified, with @code. */
#define GM_MASK_MARK UINT32_C(1)
#define GM_MASK_PEER UINT32_C(2)
#define GM_MASK_TRY  UINT32_C(4)

/* ATTACH: a queue that the worker is to serve.  The descriptors are those of
 * the queue's memory, of the arena, of the doorbell, and of the socket if
 * any. */
struct gm_wire_attach {
	uint64_t queue_at;    /* offset of the queue pair in its memfd */
	uint64_t arena_bytes; /* of the whole arena */
	uint64_t range_at;    /* offset of this row's range in the arena */
	uint64_t range_bytes;
	/* Bytes of the device's memory that the sessions of this uid may have
	 * together, from now on; UINT64_MAX for any, 0 for none. */
	uint64_t quota;
	uint32_t uid; /* of the client */
	uint32_t depth;
	uint32_t incarnation; /* workers this queue has had, from 1 */
	uint32_t n_awaited;   /* REGISTERs that come before any job begins */
};

/* REGISTER to IMPORTED, PROVE to FETCHED: memory, a file or a program. */
struct gm_wire_buffer {
	union {
		uint64_t at;   /* REGISTER: in the file; FETCH: in the buffer */
		uint64_t seed; /* PROVE, TRY: of the pattern */
		uint64_t stage; /* LEND, BORROW: id of the stage */
	};
	uint64_t bytes;    /* REGISTER, EXPORTED, IMPORT, LENT, BORROW, FETCH */
	uint64_t stage_at; /* FETCH, FETCHED: on the stage */
	uint32_t borrower; /* LEND, FETCH, FETCHED: row whose stage it is */
	/* IMPORT: 1: memory of a card; REGISTER: of this one.  Else a file. */
	uint32_t is_card;
	uint32_t flags;      /* REGISTER, IMPORT: GPUMAP_BUFFER_* */
	uint32_t is_awaited; /* REGISTER: 1: one of ATTACH's n_awaited */
};

/* JOIN: this row's part in a group of collectives. */
struct gm_wire_join {
	uint32_t rank; /* of this row */
	uint32_t n_ranks;
	uint32_t flags; /* GM_JOIN_* */
};

/* JOINED. */
struct gm_wire_joined {
	/* 0, or where the devices of all ranks have met, 1 more than about the
	 * bytes of this device's memory that this took. */
	uint64_t device_bytes;
};

/* MASK: a mask's bytes, for a replica on the device. */
struct gm_wire_mask {
	uint64_t at; /* offset in the descriptor's file */
	uint64_t bytes;
	uint64_t peer;  /* handle of the other card's replica, GM_MASK_PEER */
	uint32_t flags; /* GM_MASK_* */
};

/* MASKED. */
struct gm_wire_masked {
	uint64_t device_bytes; /* of the device's memory that it takes */
	uint32_t flags;        /* GM_MASK_* */
	int32_t code;          /* result of the path's trial */
};

/* A message.  Those that the union does not name need no more than what stands
 * before it. */
struct gm_wire {
	uint32_t type; /* enum gm_wire_type */
	int32_t status;
	uint64_t session; /* id, never reused */
	/* REGISTER to IMPORTED, PROVE to FETCHED: of the buffer, see queue.h;
	 * JOIN: number of the group; MASK, MASKED: of the replica. */
	uint64_t handle;
	uint32_t place; /* of the queue's journal; WAKER: a row */
	int32_t code;   /* FAILED: the driver's number, or 0 */
	union {
		struct gm_wire_attach attach;
		struct gm_wire_buffer buffer;
		struct gm_wire_join join;
		struct gm_wire_joined joined;
		struct gm_wire_mask mask;
		struct gm_wire_masked masked;
	};
	/* VIOLATION, FAILED, REGISTERED: why, or ""; REGISTER: the entry point
	 * of a program that is an image, or "". */
	char text[240];
};

/* In shared memory: the rows whose workers wait for something of this one, a
 * bit each.  They set it, and the row's own worker clears it when it wakes
 * them. */
struct gm_awaited {
	alignas(GM_LINE) gm_a64 by[GM_ROWS / 64];
};

/* In shared memory, between gpumapd and all workers: who may spin, and who
 * waits for whom. */
struct gm_group_page {
	alignas(GM_LINE) gm_a32 spin_limit; /* written by gpumapd */
	/* Written by the worker of each row, and by gpumapd when it died. */
	alignas(GM_LINE) gm_a32 spinning[GM_ROWS];
	struct gm_awaited awaited[GM_ROWS];
};

#endif
