/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/comm/comm.h"

#include <errno.h>
#include <string.h>

#include "gpumap.h"

/* A rank's state.  Those of one collective come in this order, some are left
 * out. */
enum state {
	MEET = 0, /* until all have arrived */
	WORK,     /* on what is read from the others as they brought it */
	GATHER,   /* on what they have made of it */
	HALF,     /* until all have made their part */
	PART,     /* until no rank reads our memory */
	OFFER,    /* SEND: until it has been taken */
	ACCEPT,   /* RECV: until there is something */
	TAKE,
	REFUSE, /* SEND, RECV: what there cannot be */
};

#define LINE_BYTES 64u

static struct gm_comm_slot *slot_of(const struct gm_comm *comm, uint32_t rank,
				    uint64_t ticket)
{
	return &comm->page->by_rank[rank].slot[ticket & 1];
}

void gm_comm_init(struct gm_comm *comm, struct gm_comm_page *page,
		  uint32_t rank, uint32_t ranks)
{
	*comm = (struct gm_comm){ .page = page, .rank = rank, .ranks = ranks };
	comm->kernels = gm_host_kernels_choose();
	comm->copy_large = gm_host_copy_large(comm->kernels);
}

void gm_comm_break(struct gm_comm_page *page, int error)
{
	uint32_t whole = 0;

	/* COMM.tell COMM.left */
	gm_try_ordered(&page->broken, &whole, (uint32_t)error);
}

int gm_comm_broken_by(const struct gm_comm_page *page)
{
	return -(int)gm_get_ordered(&page->broken); /* COMM.tell COMM.left */
}

/* A rank that has read from others checks once more before it reports success:
 * ranks that ended because the group is broken may have new data there.  A load
 * alone could be done before the reading. */
static int after_reading(const struct gm_comm *comm)
{
	uint32_t broken =
		gm_add_ordered(&comm->page->broken, 0); /* COMM.left */

	return broken ? -(int)broken : 1;
}

/* ---- what is asked for --------------------------------------------------- */

static uint64_t what(const struct gm_comm_ask *ask)
{
	return ask->op | (uint64_t)ask->dtype << 8 |
	       (uint64_t)ask->reduce << 16 | (uint64_t)ask->meets << 31 |
	       (uint64_t)ask->peer << 32;
}

static uint64_t what_of_pair(const struct gm_comm_ask *ask)
{
	return ask->dtype | (uint64_t)ask->meets << 31;
}

static bool reduces(uint32_t op)
{
	return op == GM_COMM_ALL_REDUCE || op == GM_COMM_REDUCE_SCATTER;
}

static bool has_peer(uint32_t op)
{
	return op == GM_COMM_BROADCAST || op == GM_COMM_SEND ||
	       op == GM_COMM_RECV;
}

/* Returns 0, or why this rank cannot take part. */
static int check(struct gm_comm *comm, struct gm_comm_call *c)
{
	const struct gm_comm_ask *ask = &c->ask;
	uint64_t gives, gets;

	c->each = gm_comm_each(ask->dtype);
	if (ask->status)
		return ask->status;
	if (c->each == 0 || ask->op > GM_COMM_RECV ||
	    (reduces(ask->op) && !gm_combine_knows(ask->reduce, ask->dtype)) ||
	    (has_peer(ask->op) && ask->peer >= comm->ranks) ||
	    ask->n > (uint64_t)INT64_MAX / GM_COMM_RANKS / c->each)
		return -EINVAL;
	if ((ask->op == GM_COMM_SEND || ask->op == GM_COMM_RECV) &&
	    ask->peer == comm->rank)
		return -EINVAL;
	if (ask->meets)
		return 0;
	gives = gm_comm_given(ask, comm->rank, comm->ranks) * c->each;
	gets = gm_comm_gotten(ask, comm->rank, comm->ranks) * c->each;
	if (gives)
		c->send = comm->reach(comm->arg, comm->rank, ask->send, gives,
				      false);
	if (gets)
		c->recv = comm->reach(comm->arg, comm->rank, ask->recv, gets,
				      true);
	if ((gives && !c->send) || (gets && !c->recv))
		return -EFAULT;
	if (!gm_comm_is_aligned(ask, (uintptr_t)c->send, (uintptr_t)c->recv))
		return -EINVAL;
	c->is_small =
		ask->n * c->each *
			(ask->op == GM_COMM_REDUCE_SCATTER ? comm->ranks : 1) <=
		GM_COMM_SMALL;
	return gm_comm_lie_well(ask, comm->rank, comm->ranks,
				(uintptr_t)c->send, (uintptr_t)c->recv)
		       ? 0
		       : -EINVAL;
}

static void come_to(struct gm_comm *comm, uint64_t ticket,
		    enum gm_comm_phase phase)
{
	gm_put_ordered(&comm->page->by_rank[comm->rank].phase,
		       4 * ticket + phase); /* COMM.phase COMM.tell */
}

static void arrive(struct gm_comm *comm, struct gm_comm_call *c, int status)
{
	struct gm_comm_slot *slot;

	c->ticket = ++comm->ticket;
	c->state = MEET;
	slot = slot_of(comm, comm->rank, c->ticket);
	gm_put(&slot->what, what(&c->ask));
	gm_put(&slot->n, c->ask.n);
	gm_put(&slot->whole, c->ask.whole);
	gm_put(&slot->send, c->ask.send.at);
	gm_put(&slot->recv, c->ask.recv.at);
	gm_put(&slot->send_buffer, c->ask.send.buffer);
	gm_put(&slot->recv_buffer, c->ask.recv.buffer);
	gm_put(&slot->status, (uint64_t)(int64_t)status);
	gm_put(&slot->direct, c->ask.is_direct);
	if (status == 0 && c->is_small && c->send)
		memcpy(slot->small, c->send,
		       gm_comm_given(&c->ask, comm->rank, comm->ranks) *
			       c->each);
	come_to(comm, c->ticket, GM_COMM_ARRIVED);
}

static void offer(struct gm_comm *comm, struct gm_comm_call *c, int status)
{
	struct gm_comm_cell *cell =
		gm_comm_cell(comm->page, comm->ranks, comm->rank, c->ask.peer);

	c->ticket = ++comm->offered[c->ask.peer];
	c->state = OFFER;
	gm_put(&cell->what, what_of_pair(&c->ask));
	gm_put(&cell->n, c->ask.n);
	gm_put(&cell->whole, c->ask.whole);
	gm_put(&cell->send, c->ask.send.at);
	gm_put(&cell->send_buffer, c->ask.send.buffer);
	gm_put(&cell->status, (uint64_t)(int64_t)status);
	gm_put(&cell->direct, c->ask.is_direct);
	gm_put_ordered(&cell->offered, c->ticket); /* COMM.cell COMM.tell */
}

void gm_comm_begin(struct gm_comm *comm, const struct gm_comm_ask *ask,
		   struct gm_comm_call *ret_call)
{
	struct gm_comm_call *c = ret_call;
	bool is_pair = ask->op == GM_COMM_SEND || ask->op == GM_COMM_RECV;
	int status;

	*c = (struct gm_comm_call){ .ask = *ask };
	status = check(comm, c);
	c->status = status;
	if (!is_pair) {
		arrive(comm, c, status);
	} else if (ask->peer >= comm->ranks || ask->peer == comm->rank) {
		c->state = REFUSE;
	} else if (ask->op == GM_COMM_SEND) {
		offer(comm, c, status);
	} else {
		c->ticket = ++comm->accepted[ask->peer];
		c->state = ACCEPT;
	}
}

/* ---- together ------------------------------------------------------------ */

static bool all_at(const struct gm_comm *comm, uint64_t ticket,
		   enum gm_comm_phase phase)
{
	for (uint32_t i = 0; i < comm->ranks; i++)
		if (gm_get_ordered(&comm->page->by_rank[i].phase) <
		    4 * ticket + phase) /* COMM.phase COMM.tell */
			return false;
	return true;
}

/* Do all ask for the same?  All find the same answer. */
static int agree(const struct gm_comm *comm, const struct gm_comm_call *c)
{
	const struct gm_comm_slot *first = slot_of(comm, 0, c->ticket);
	int ret = 0;

	for (uint32_t i = 0; i < comm->ranks; i++) {
		const struct gm_comm_slot *slot = slot_of(comm, i, c->ticket);
		int status = (int)gm_get(&slot->status);

		if (status != 0)
			return status;
		if (gm_get(&slot->what) != gm_get(&first->what) ||
		    gm_get(&slot->n) != gm_get(&first->n) ||
		    gm_get(&slot->whole) != gm_get(&first->whole))
			ret = -EINVAL;
	}
	return ret;
}

/* Another rank's memory.  If it is not there, the whole group fails. */
static const char *of_rank(struct gm_comm *comm, uint32_t rank,
			   struct gm_comm_place place, uint64_t bytes)
{
	const char *there = comm->reach(comm->arg, rank, place, bytes, false);

	if (!there)
		gm_comm_break(comm->page, EFAULT);
	return there;
}

static void copy(struct gm_comm *comm, const struct gm_comm_call *c, char *to,
		 const char *from, uint64_t n)
{
	if (to == from)
		return;
	if (c->ask.n * c->each >= GM_COMM_LARGE)
		comm->copy_large(to, from, n * c->each);
	else
		comm->kernels->copy(to, from, n * c->each);
}

/* Elements of one slice: whole lines. */
static uint64_t slice(const struct gm_comm_call *c, uint64_t budget,
		      uint64_t left)
{
	uint64_t n = budget / LINE_BYTES * LINE_BYTES / c->each;

	if (n == 0)
		n = LINE_BYTES / c->each;
	return n < left ? n : left;
}

/* Where the part of rank @i of n elements begins; parts are whole lines, as far
 * as there are. */
static uint64_t cut(const struct gm_comm *comm, const struct gm_comm_call *c,
		    uint32_t i)
{
	uint64_t line = LINE_BYTES / c->each;
	uint64_t lines = (c->ask.n + line - 1) / line;
	uint64_t each = lines / comm->ranks, more = lines % comm->ranks;
	uint64_t at = (i * each + (i < more ? i : more)) * line;

	return at < c->ask.n ? at : c->ask.n;
}

static struct gm_comm_place sent(const struct gm_comm_slot *slot)
{
	return (struct gm_comm_place){ gm_get(&slot->send_buffer),
				       gm_get(&slot->send) };
}

static struct gm_comm_place received(const struct gm_comm_slot *slot)
{
	return (struct gm_comm_place){ gm_get(&slot->recv_buffer),
				       gm_get(&slot->recv) };
}

/* The same elements of all ranks, the first of them element @at of each. */
static int combine(struct gm_comm *comm, struct gm_comm_call *c, char *to,
		   uint64_t at, uint64_t n)
{
	const void *from[GM_COMM_RANKS];

	for (uint32_t i = 0; i < comm->ranks; i++) {
		struct gm_comm_slot *slot = slot_of(comm, i, c->ticket);

		if (i == comm->rank)
			from[i] = c->is_small ? slot->small : c->send;
		else if (c->is_small)
			from[i] = slot->small;
		else
			from[i] = of_rank(comm, i, sent(slot),
					  (at + n) * c->each);
		if (!from[i])
			return -EFAULT;
		from[i] = (const char *)from[i] + at * c->each;
	}
	comm->read += comm->ranks * n * c->each;
	gm_combine(&(struct gm_combination){ comm->kernels, c->ask.reduce,
					     c->ask.dtype, from, comm->ranks },
		   to, n);
	return 0;
}

/* ---- the work ------------------------------------------------------------ */

/* All of them return 1 when it is done, 0 when there is more, or an error. */

static int work_small(struct gm_comm *comm, struct gm_comm_call *c)
{
	uint64_t n = c->ask.n, bytes = n * c->each;
	char *to = c->recv;

	if (c->ask.op == GM_COMM_ALL_REDUCE)
		combine(comm, c, to, 0, n);
	else if (c->ask.op == GM_COMM_REDUCE_SCATTER)
		combine(comm, c, to, comm->rank * n, n);
	else if (c->ask.op == GM_COMM_BROADCAST && to)
		memcpy(to, slot_of(comm, c->ask.peer, c->ticket)->small, bytes);
	for (uint32_t i = 0;
	     c->ask.op == GM_COMM_ALL_GATHER && i < comm->ranks && bytes; i++)
		memcpy(to + i * bytes, slot_of(comm, i, c->ticket)->small,
		       bytes);
	comm->read += bytes;
	return 1;
}

static int work_combine(struct gm_comm *comm, struct gm_comm_call *c,
			uint64_t budget)
{
	bool all = c->ask.op == GM_COMM_ALL_REDUCE;
	uint64_t from = all ? cut(comm, c, comm->rank) : comm->rank * c->ask.n;
	uint64_t end = all ? cut(comm, c, comm->rank + 1) : from + c->ask.n;
	uint64_t n = slice(c, budget, end - from - c->next);
	char *to = (char *)c->recv + (all ? from * c->each : 0);

	if (n > 0 &&
	    combine(comm, c, to + c->next * c->each, from + c->next, n) < 0)
		return -EFAULT;
	c->next += n;
	return from + c->next == end;
}

/* Elements @from to @end of a rank's memory. */
struct part {
	uint32_t rank;
	struct gm_comm_place place;
	uint64_t from, end;
};

/* Copies a piece of the part. */
static int work_copy(struct gm_comm *comm, struct gm_comm_call *c,
		     const struct part *part, char *to, uint64_t budget)
{
	uint64_t at = part->from + c->next;
	uint64_t n = slice(c, budget, part->end - at);
	const char *there;

	if (n > 0) {
		there = of_rank(comm, part->rank, part->place,
				(at + n) * c->each);
		if (!there)
			return -EFAULT;
		copy(comm, c, to + c->next * c->each, there + at * c->each, n);
		comm->read += n * c->each;
		c->next += n;
	}
	return part->from + c->next == part->end;
}

/* From one rank after the other, each beginning with the one behind it. */
static int work_gather(struct gm_comm *comm, struct gm_comm_call *c,
		       uint64_t budget)
{
	uint32_t i = (comm->rank + 1 + c->part) % comm->ranks;
	struct gm_comm_slot *slot = slot_of(comm, i, c->ticket);
	bool all = c->ask.op == GM_COMM_ALL_REDUCE;
	struct part part = { .rank = i,
			     .place = all ? received(slot) : sent(slot),
			     .from = all ? cut(comm, c, i) : 0,
			     .end = all ? cut(comm, c, i + 1) : c->ask.n };
	char *to = (char *)c->recv + (all ? part.from : i * c->ask.n) * c->each;
	int rc;

	/* Its own part of a sum is there. */
	if (all && i == comm->rank)
		return 1;
	rc = work_copy(comm, c, &part, to, budget);
	if (rc <= 0)
		return rc;
	c->next = 0;
	return ++c->part == comm->ranks;
}

static int work_broadcast(struct gm_comm *comm, struct gm_comm_call *c,
			  uint64_t budget)
{
	uint32_t root = c->ask.peer;
	struct part part = { .rank = root, .end = c->ask.n };

	if (comm->rank == root)
		return 1;
	part.place = sent(slot_of(comm, root, c->ticket));
	return work_copy(comm, c, &part, c->recv, budget);
}

static int work(struct gm_comm *comm, struct gm_comm_call *c, uint64_t budget)
{
	if (reduces(c->ask.op))
		return work_combine(comm, c, budget);
	return c->ask.op == GM_COMM_BROADCAST ? work_broadcast(comm, c, budget)
					      : work_gather(comm, c, budget);
}

/* ---- pairs --------------------------------------------------------------- */

static int step_offer(struct gm_comm *comm, struct gm_comm_call *c)
{
	struct gm_comm_cell *cell =
		gm_comm_cell(comm->page, comm->ranks, comm->rank, c->ask.peer);
	int refused;

	if (gm_get_ordered(&cell->taken) != c->ticket) /* COMM.cell COMM.tell */
		return -EAGAIN;
	refused = (int)gm_get(&cell->refused);
	c->all_direct = gm_get(&cell->able);
	return refused ? refused : 1;
}

static void take(struct gm_comm_cell *cell, const struct gm_comm_call *c,
		 int refused)
{
	gm_put(&cell->refused, (uint64_t)(int64_t)refused);
	gm_put(&cell->able, c->all_direct);
	gm_put_ordered(&cell->taken, c->ticket); /* COMM.cell COMM.tell */
}

static int step_accept(struct gm_comm *comm, struct gm_comm_call *c,
		       bool *ret_told)
{
	struct gm_comm_cell *cell =
		gm_comm_cell(comm->page, comm->ranks, c->ask.peer, comm->rank);
	int status;

	if (gm_get_ordered(&cell->offered) !=
	    c->ticket) /* COMM.cell COMM.tell */
		return -EAGAIN;
	status = (int)gm_get(&cell->status);
	if (status == 0)
		status = c->status;
	if (status == 0 && (gm_get(&cell->what) != what_of_pair(&c->ask) ||
			    gm_get(&cell->n) != c->ask.n ||
			    gm_get(&cell->whole) != c->ask.whole))
		status = -EINVAL;
	c->state = TAKE;
	if (status == 0 && !c->ask.meets)
		return 0;
	c->all_direct = c->ask.is_direct && gm_get(&cell->direct);
	take(cell, c, status);
	*ret_told = true;
	return status ? status : 1;
}

static int step_take(struct gm_comm *comm, struct gm_comm_call *c,
		     uint64_t budget, bool *ret_told)
{
	struct gm_comm_cell *cell =
		gm_comm_cell(comm->page, comm->ranks, c->ask.peer, comm->rank);
	struct part part = { .rank = c->ask.peer,
			     .place = { gm_get(&cell->send_buffer),
					gm_get(&cell->send) },
			     .end = c->ask.n };
	int rc = work_copy(comm, c, &part, c->recv, budget);

	if (rc <= 0)
		return rc;
	take(cell, c, 0);
	*ret_told = true;
	return after_reading(comm);
}

/* ---- steps --------------------------------------------------------------- */

static bool all_direct(const struct gm_comm *comm, const struct gm_comm_call *c)
{
	for (uint32_t i = 0; i < comm->ranks; i++)
		if (!gm_get(&slot_of(comm, i, c->ticket)->direct))
			return false;
	return true;
}

static int meet(struct gm_comm *comm, struct gm_comm_call *c)
{
	int rc;

	if (!all_at(comm, c->ticket, GM_COMM_ARRIVED))
		return -EAGAIN;
	rc = agree(comm, c);
	if (rc < 0)
		return rc;
	c->all_direct = c->ask.meets && all_direct(comm, c);
	if (c->ask.meets)
		return 1;
	if (c->ask.op == GM_COMM_BARRIER || c->is_small)
		return work_small(comm, c);
	c->state = WORK;
	return 0;
}

/* The part is done: say so.  A rank that only received from the root leaves. */
static int end_part(struct gm_comm *comm, struct gm_comm_call *c,
		    bool *ret_told)
{
	bool half = c->state == WORK && c->ask.op == GM_COMM_ALL_REDUCE;

	c->next = 0;
	c->state = half ? HALF : PART;
	come_to(comm, c->ticket, half ? GM_COMM_COMBINED : GM_COMM_PARTED);
	*ret_told = true;
	if (c->ask.op != GM_COMM_BROADCAST || comm->rank == c->ask.peer)
		return 0;
	return after_reading(comm);
}

static int step(struct gm_comm *comm, struct gm_comm_call *c, uint64_t budget,
		bool *ret_told)
{
	int rc;

	switch ((enum state)c->state) {
	case MEET:
		return meet(comm, c);
	case HALF:
		if (!all_at(comm, c->ticket, GM_COMM_COMBINED))
			return -EAGAIN;
		c->state = GATHER;
		return 0;
	case PART:
		return all_at(comm, c->ticket, GM_COMM_PARTED) ? 1 : -EAGAIN;
	case OFFER:
		return step_offer(comm, c);
	case ACCEPT:
		return step_accept(comm, c, ret_told);
	case TAKE:
		return step_take(comm, c, budget, ret_told);
	case REFUSE:
		return -EINVAL;
	case WORK:
		rc = work(comm, c, budget);
		break;
	default:
		rc = work_gather(comm, c, budget);
		break;
	}
	return rc <= 0 ? rc : end_part(comm, c, ret_told);
}

int gm_comm_step(struct gm_comm *comm, struct gm_comm_call *call,
		 uint64_t budget, bool *ret_told)
{
	int broken = gm_comm_broken_by(comm->page);

	*ret_told = false;
	if (broken < 0)
		return broken;
	return step(comm, call, budget, ret_told);
}
