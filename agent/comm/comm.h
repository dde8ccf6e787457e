/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * comm - collectives of host ranks, through memory that all of them have.
 *
 * Each rank calls in its own process and never blocks: gm_comm_step() does some
 * bytes at a time, as far as it can, and returns whether there is more.  A rank
 * writes to its own memory only, and reads that of the others between the
 * phases that say when it may: a rank that is late, or dead, or goes on when
 * the others have given up, harms no other rank's memory.
 *
 *	all_reduce	each rank combines one part of all and copies the other
 *			parts from those who did: every element is read twice
 *			and written once by each rank, whatever their number
 *	reduce_scatter	each rank combines its own part
 *	all_gather	each rank copies from all
 *	broadcast	each rank copies from the root
 *	send, recv	the receiver copies
 *
 * Small operands, GM_COMM_SMALL bytes or less of each rank, pass through the
 * page, in one step: each rank puts its own there, and computes the whole
 * result as soon as all have.
 *
 * Ranks that do not ask for the same thing all end with -EINVAL.  One that
 * cannot take part (its memory is not there) says so, and all end with its
 * error.  Once the page is broken every call ends with that error, for good.
 * tests/model/collective.pml
 */
#ifndef GM_COMM_H
#define GM_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/comm/combine.h"
#include "agent/comm/comm_shm.h"

/* Bytes that are copied past the caches. */
#define GM_COMM_LARGE (UINT64_C(1) << 20)

enum gm_comm_op {
	GM_COMM_BARRIER = 0,
	GM_COMM_ALL_REDUCE,
	GM_COMM_ALL_GATHER,
	GM_COMM_REDUCE_SCATTER,
	GM_COMM_BROADCAST,
	GM_COMM_SEND,
	GM_COMM_RECV
};

/* Where memory is, as the caller names it: nothing here looks at it. */
struct gm_comm_place {
	uint64_t buffer;
	uint64_t at;
};

/* One rank's view of its group. */
struct gm_comm {
	struct gm_comm_page *page;
	uint32_t rank;
	uint32_t ranks; /* 1 to GM_COMM_RANKS */

	/* @bytes of rank @rank's memory at @place as this process can read
	 * them, or, with @writes, write them; NULL: it cannot. */
	void *(*reach)(void *arg, uint32_t rank, struct gm_comm_place place,
		       uint64_t bytes, bool writes);
	void *arg;

	const struct gm_host_kernels *kernels;
	gm_host_copy *copy_large;

	uint64_t ticket;                  /* of the last collective begun */
	uint64_t offered[GM_COMM_RANKS];  /* to each rank so far */
	uint64_t accepted[GM_COMM_RANKS]; /* from each */
	uint64_t parted; /* of the last that gm_comm_part() was told of, */
	uint64_t parted_to[GM_COMM_RANKS]; /* and of those of pairs */
	uint64_t parted_from[GM_COMM_RANKS];
	uint64_t read; /* bytes of all ranks' memory, of all calls so far */
};

/*
 * The request of a rank.  @n elements are, of
 *
 *	ALL_REDUCE, BROADCAST, SEND, RECV  what each rank has or gets
 *	ALL_GATHER                         what each gives; it gets ranks * n
 *	REDUCE_SCATTER                     what each gets; it gives ranks * n
 *
 * send and recv may be the same memory where they have the same size; where
 * not, the smaller may be this rank's part of the larger.  They must not
 * overlap otherwise.  BROADCAST reads send at the root alone and writes recv
 * elsewhere.
 *
 * A rank that @meets looks at no memory.  All ranks do so or none does; of SEND
 * and RECV both.
 *
 * A piece of something larger has a number of its own in @whole: ranks that are
 * in pieces of different things do not ask for the same.
 */
struct gm_comm_ask {
	uint32_t op;     /* enum gm_comm_op */
	uint32_t dtype;  /* enum gpumap_dtype */
	uint32_t reduce; /* enum gm_combine_op; of ALL_REDUCE, REDUCE_SCATTER */
	uint32_t peer;   /* the root; SEND, RECV: the other rank */
	uint64_t n;
	uint64_t whole;
	struct gm_comm_place send;
	struct gm_comm_place recv;
	bool meets;     /* find out whether all ask for it, and do nothing: */
	bool is_direct; /* this rank could do it without the host */
	int status; /* not 0: this rank cannot take part, the negative errno */
};

/* A collective under way at one rank. */
struct gm_comm_call {
	struct gm_comm_ask ask;
	uint64_t ticket; /* SEND, RECV: of the pair */
	uint32_t state;  /* of comm.c */
	uint64_t next;   /* element of the part in hand */
	uint32_t part;   /* which that is */
	uint32_t each;   /* bytes of an element */
	int status;      /* why this rank cannot take part, or 0 */
	bool is_small;
	bool all_direct; /* it met and has ended well: all who took part said
			  * that they could, and all of them find the same */
	void *send;
	void *recv;
};

/* @page: zeroes at first, of gm_comm_page_bytes(). */
void gm_comm_init(struct gm_comm *comm, struct gm_comm_page *page,
		  uint32_t rank, uint32_t ranks);

/* Bytes of an element of a dtype; 0: no rank has such. */
uint32_t gm_comm_each(uint32_t dtype);

/* Elements that @rank gives in what is asked for, and that it gets. */
uint64_t gm_comm_given(const struct gm_comm_ask *ask, uint32_t rank,
		       uint32_t ranks);
uint64_t gm_comm_gotten(const struct gm_comm_ask *ask, uint32_t rank,
			uint32_t ranks);

/* Are the addresses of what a rank gives and gets those of elements?  No
 * library submits others, and a card's kernel would fault.  0: it has none. */
bool gm_comm_is_aligned(const struct gm_comm_ask *ask, uint64_t send,
			uint64_t recv);

/* May what a rank gives and gets lie there?  Addresses; 0: it has none. */
bool gm_comm_lie_well(const struct gm_comm_ask *ask, uint32_t rank,
		      uint32_t ranks, uint64_t send, uint64_t recv);

/*
 * gm_comm_begin - take part in the group's next collective
 *
 * Never waits and never fails: what is wrong with @ask is told to all ranks,
 * and gm_comm_step() says it.  One collective of a group at a time; a SEND or a
 * RECV of another pair may be under way beside it.
 */
void gm_comm_begin(struct gm_comm *comm, const struct gm_comm_ask *ask,
		   struct gm_comm_call *ret_call);

/*
 * gm_comm_step - go on with it
 *
 * budget	bytes to read at most, from one of the ranks each; at least a
 *		cache line's worth is done
 * ret_told	set where others may be waiting for this step: look for them
 *
 * Returns	1		it has ended
 *		0		there is more to do, at once
 *		-EAGAIN		not before another rank has come on
 *		-EINVAL		the ranks do not ask for the same, or for what
 *				there is not
 *		-EFAULT		memory that one of them names is not there
 *		else		the error of gm_comm_break(), negative
 *
 * Received data is whole after 1, and undefined otherwise.
 */
int gm_comm_step(struct gm_comm *comm, struct gm_comm_call *call,
		 uint64_t budget, bool *ret_told);

/* For a call that met and that all ranks could do: this rank is through with
 * it. */
void gm_comm_part(struct gm_comm *comm, const struct gm_comm_call *call);

/* Are the others through with all that gm_comm_part() was told of here? */
bool gm_comm_all_parted(const struct gm_comm *comm);

/* No rank goes on from here: all end with -@error.  The first word counts.  May
 * be called by any process that has the page. */
void gm_comm_break(struct gm_comm_page *page, int error);

/* The error that all ranks end with, negative; 0: the group is whole. */
int gm_comm_broken_by(const struct gm_comm_page *page);

#endif
