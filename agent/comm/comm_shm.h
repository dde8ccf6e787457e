/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * comm_shm - the page that the ranks of one group share: how far each rank is
 * in which collective.
 *
 * Memory that only agent processes have: a head, a place for each rank, written
 * by that rank alone, and a cell for each ordered pair of ranks. The page
 * starts as zeroes but for the rows of the ranks, and is used for one life of
 * the group: one that is broken stays so.
 *
 * The collectives of a group have tickets 1, 2, 3, ..., the same at every rank.
 * How far a rank is, is one number that only grows: 4 * ticket + enum
 * gm_comm_phase.  A rank's request of a ticket lies in one of its two slots, by
 * the ticket's last bit: a rank in ticket t + 1 has seen all others there, so
 * no rank reads the slot of ticket t any more, which t + 2 is written into.
 * Pairs have numbers of their own, of what has been offered and taken so far,
 * in their cell: how often two meet is nothing to the others' tickets.
 *
 * Edges
 *
 *   COMM.phase  a rank stores its slot, or its results, before the phase that
 *               says so; a rank that sees the phase sees them.
 *   COMM.tell   a rank that has come on, or breaks the group, looks afterwards
 *               for ranks that wait (the caller does); all are sequentially
 *               consistent.
 *   COMM.left   a rank that breaks the group, or finds it broken, lets its
 *               client write again; a rank that has read another's memory
 *               looks afterwards, by adding nothing: it has read before the
 *               word is broken, or finds it so.
 *   COMM.cell   a sender stores what it offers before the number of the offer;
 *               the receiver is done with that, and with the bytes, and stores
 *               what it says of it before the number of what it has taken.
 *
 *   COMM.clique each rank stores its version; where all are the same, rank 0
 *               stores what devices meet by before it says that it is there;
 *               each rank says when its device has met the others.
 *   COMM.met    the rank that finds all of them ready says so for all, and a
 *               rank that gives up does before; the first word counts, and
 *               all ranks know it before gpumapd is told that they have
 *               joined.
 *
 * Windows.  Where the others cannot have a rank's memory mapped, as that of a
 * card, all ranks of the group go by way of windows behind the cells,
 * GM_COMM_WINDOWS for each rank and written by that one alone: each brings its
 * memory there, piece by piece, and what lies in them is seen by the others as
 * any rank's memory is.
 */
#ifndef GM_COMM_COMM_SHM_H
#define GM_COMM_COMM_SHM_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/atomic.h"

#define GM_COMM_RANKS 64u   /* at most */
#define GM_COMM_SMALL 4096u /* bytes that go by way of a slot */

/* For each rank: while the data of one goes around, the other is filled or
 * emptied. */
#define GM_COMM_WINDOWS      2u
#define GM_COMM_WINDOW_BYTES (UINT64_C(1) << 20)

/* As agent/device/device.h has it. */
#define GM_COMM_CLIQUE_ID_BYTES 128u

enum gm_comm_phase {
	GM_COMM_ARRIVED = 1, /* the slot says what for */
	GM_COMM_COMBINED,    /* this rank's part of a result is there */
	/* The rank reads no other's memory any more, or its device is through
	 * with the call that all met for. */
	GM_COMM_PARTED
};

/* How the meeting of the ranks' devices ended, for all of them. */
enum gm_comm_met { GM_COMM_MET = 1, GM_COMM_NOT_MET };

/* In shared memory. */
struct gm_comm_slot {
	alignas(GM_LINE) gm_a64 what; /* gm_comm_call's numbers, see comm.c */
	gm_a64 n;
	gm_a64 whole;
	gm_a64 send; /* places in memory, as the caller names them, */
	gm_a64 recv;
	gm_a64 send_buffer; /* and what they lie in */
	gm_a64 recv_buffer;
	gm_a64 status; /* a negative errno: this rank cannot take part */
	gm_a64 direct; /* 1: it could without the host */
	/* Plain: whole before the phase that says so. */
	alignas(GM_LINE) unsigned char small[GM_COMM_SMALL];
};

/* In shared memory.  Written by its rank. */
struct gm_comm_rank {
	alignas(GM_LINE) gm_a64 phase;
	/* Version of the library that its device would use for collectives; 0:
	 * not yet known.  COMM.clique */
	gm_a64 version;
	gm_a64 is_ready; /* 1: its device has met the others.  COMM.clique */
	struct gm_comm_slot slot[2];
};

/* In shared memory, between a sender and a receiver. */
struct gm_comm_cell {
	alignas(GM_LINE) gm_a64 offered; /* written by the sender */
	gm_a64 what;
	gm_a64 n;
	gm_a64 whole;
	gm_a64 send;
	gm_a64 send_buffer;
	gm_a64 status;
	gm_a64 direct;                 /* as a slot's */
	gm_a64 sender_parted;          /* its device is through with so many */
	alignas(GM_LINE) gm_a64 taken; /* written by the receiver */
	gm_a64 refused;                /* of that one: a negative errno, or 0 */
	gm_a64 able;                   /* 1: neither needs the host */
	gm_a64 receiver_parted;        /* as the sender's */
};

/* In shared memory. */
struct gm_comm_page {
	alignas(GM_LINE) gm_a32 broken; /* an errno, for good; 0: it is whole */
	/* For each rank.  Written by the maker of the page, before any other
	 * process has the page. */
	gm_a32 row[GM_COMM_RANKS];
	gm_a32 met;    /* enum gm_comm_met, for good; 0: not yet.  COMM.met */
	gm_a32 has_id; /* 1: clique_id is there.  COMM.clique */
	/* The identifier that the devices meet by.  Plain: written by rank 0,
	 * before it says that it is there. */
	alignas(GM_LINE) unsigned char clique_id[GM_COMM_CLIQUE_ID_BYTES];
	struct gm_comm_rank by_rank[]; /* one each, then the cells */
};

_Static_assert(sizeof(struct gm_comm_slot) == 128 + GM_COMM_SMALL, "layout");
_Static_assert(sizeof(struct gm_comm_cell) == 256, "layout");
_Static_assert(offsetof(struct gm_comm_page, by_rank) == 512, "layout");

static inline size_t gm_comm_page_bytes(uint32_t ranks)
{
	return sizeof(struct gm_comm_page) +
	       ranks * sizeof(struct gm_comm_rank) +
	       (size_t)ranks * ranks * sizeof(struct gm_comm_cell);
}

/* All windows of one rank: a huge page. */
static inline size_t gm_comm_windows_bytes(void)
{
	return GM_COMM_WINDOWS * GM_COMM_WINDOW_BYTES;
}

/* Where the windows begin. */
static inline size_t gm_comm_windows_at(uint32_t ranks)
{
	return (gm_comm_page_bytes(ranks) + gm_comm_windows_bytes() - 1) /
	       gm_comm_windows_bytes() * gm_comm_windows_bytes();
}

/* Bytes of the page and of everything behind it. */
static inline size_t gm_comm_bytes(uint32_t ranks, bool is_staged)
{
	return is_staged ? gm_comm_windows_at(ranks) +
				   ranks * gm_comm_windows_bytes()
			 : gm_comm_page_bytes(ranks);
}

static inline struct gm_comm_cell *gm_comm_cell(struct gm_comm_page *page,
						uint32_t ranks, uint32_t from,
						uint32_t to)
{
	struct gm_comm_cell *cells = (void *)&page->by_rank[ranks];

	return &cells[from * ranks + to];
}

#endif
