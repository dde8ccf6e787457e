/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Marks that a rank is through with a call that ranks have met for: of all
 * ranks, in their places; of two, in their cell. */

#include "agent/comm/comm.h"

static struct gm_comm_cell *cell_of(const struct gm_comm *comm, uint32_t from,
				    uint32_t to)
{
	return gm_comm_cell(comm->page, comm->ranks, from, to);
}

void gm_comm_part(struct gm_comm *comm, const struct gm_comm_call *call)
{
	uint32_t own = comm->rank, peer = call->ask.peer;
	uint64_t ticket = call->ticket;

	if (call->ask.op == GM_COMM_SEND) {
		comm->parted_to[peer] = ticket;
		gm_put_ordered(&cell_of(comm, own, peer)->sender_parted,
			       ticket); /* COMM.tell */
	} else if (call->ask.op == GM_COMM_RECV) {
		comm->parted_from[peer] = ticket;
		gm_put_ordered(&cell_of(comm, peer, own)->receiver_parted,
			       ticket); /* COMM.tell */
	} else {
		comm->parted = ticket;
		gm_put_ordered(
			&comm->page->by_rank[own].phase,
			4 * ticket + GM_COMM_PARTED); /* COMM.phase COMM.tell */
	}
}

static bool has_parted(const struct gm_comm *comm, uint32_t peer)
{
	uint64_t all = comm->parted ? 4 * comm->parted + GM_COMM_PARTED : 0;
	uint32_t own = comm->rank;

	return gm_get_ordered(&comm->page->by_rank[peer].phase) >=
		       all && /* COMM.phase COMM.tell */
	       gm_get_ordered(&cell_of(comm, own, peer)->receiver_parted) >=
		       comm->parted_to[peer] && /* COMM.tell */
	       gm_get_ordered(&cell_of(comm, peer, own)->sender_parted) >=
		       comm->parted_from[peer]; /* COMM.tell */
}

bool gm_comm_all_parted(const struct gm_comm *comm)
{
	for (uint32_t i = 0; i < comm->ranks; i++)
		if (!has_parted(comm, i))
			return false;
	return true;
}
