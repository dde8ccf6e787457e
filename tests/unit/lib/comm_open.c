/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Communicators against a peer in a thread, whose rows form a communicator of
 * NCCL's or do not: what is asked for, and which flags the program sees; and as
 * many collectives as there may be.
 */

#include "tests/support/peer/peer_session.h"

static const struct gpumap_comm_opts by_nccl = { .size = sizeof(by_nccl),
						 .flags = GPUMAP_COMM_NCCL };

static void publish_mesh(uint32_t object, const char *name, uint32_t world)
{
	static const uint32_t rows[] = { 0, 1, 2 };
	const struct gm_meshes_group group = { .name = "world",
					       .n = world,
					       .ranks = rows };
	const struct gm_meshes mesh = { .name = name,
					.topology = GPUMAP_MESH_DATA,
					.tp = 1,
					.pp = 1,
					.dp = world,
					.world = world,
					.rows = rows,
					.n_groups = 1,
					.groups = &group };

	segment_mesh(&file.segment, object, &mesh);
}

static struct gpumap_comm *opened(struct gpumap_session *s,
				  const struct gpumap_comm_opts *opts)
{
	struct gpumap_comm *comm = NULL;

	gm_put(&peer.comm_asked, 0);
	EQ(gpumap_comm_open_opts(s, "pair", NULL, opts, &comm), 0);
	return comm;
}

static void closed(struct gpumap_comm *comm)
{
	EQ(gpumap_comm_close(comm), 0);
	EQ(gm_get(&peer.comm_open), 0);
}

static void nccl_is_asked_for(struct gpumap_session *s)
{
	struct gpumap_comm *comm;

	gm_put(&peer.comm_flags, GM_COMM_STAGED | GM_COMM_NCCL);
	comm = opened(s, &by_nccl);
	EQ(gm_get(&peer.comm_asked), 1);
	EQ(gpumap_comm_flags(comm), GPUMAP_COMM_NCCL);
	closed(comm);
	/* No client gets a feature that it did not ask for. */
	comm = opened(s, NULL);
	EQ(gpumap_comm_flags(comm), 0);
	closed(comm);
}

/* The workers form a communicator of NCCL's at one time and not at another. */
static void flags_are_of_the_newest_group(struct gpumap_session *s)
{
	struct gpumap_comm *comm;

	gm_put(&peer.comm_flags, GM_COMM_STAGED);
	comm = opened(s, &by_nccl);
	EQ(gpumap_comm_flags(comm), 0);
	STR(gpumap_refusal(map), "");
	gm_put(&peer.comm_flags, GM_COMM_STAGED | GM_COMM_NCCL);
	EQ(gpumap_comm_renew(comm), 0);
	EQ(gm_get(&peer.comm_asked), 2);
	EQ(gm_get(&peer.comm_open), 1);
	EQ(gpumap_comm_flags(comm), GPUMAP_COMM_NCCL);
	closed(comm);
}

/* The library refuses flags that it does not know. */
static void a_newer_program(struct gpumap_session *s)
{
	struct {
		struct gpumap_comm_opts known;
		uint64_t more;
	} newer = { .known = by_nccl };
	struct gpumap_comm_opts odd = by_nccl;
	struct gpumap_comm *comm = NULL;

	gm_put(&peer.comm_asked, 0);
	newer.known.size = sizeof(newer);
	newer.more = 1;
	EQ(gpumap_comm_open_opts(s, "pair", NULL, &newer.known, &comm), -E2BIG);
	odd.flags |= 2;
	EQ(gpumap_comm_open_opts(s, "pair", NULL, &odd, &comm), -E2BIG);
	odd = by_nccl;
	odd.reserved = 1;
	EQ(gpumap_comm_open_opts(s, "pair", NULL, &odd, &comm), -E2BIG);
	odd.size = 1;
	EQ(gpumap_comm_open_opts(s, "pair", NULL, &odd, &comm), -EINVAL);
	EQ(gm_get(&peer.comm_asked), 0);
	OK(comm == NULL);
	newer.more = 0;
	comm = opened(s, &newer.known);
	EQ(gpumap_comm_flags(comm), GPUMAP_COMM_NCCL);
	closed(comm);
}

/* A SEND takes two rows' credit.  So a communicator of three ranks has as many
 * collectives as it can before any row lacks credit.  AddressSanitizer finds a
 * search for one more that goes too far. */
static void as_many_as_there_may_be(struct gpumap_session *s)
{
	struct gpumap_rank ranks[3] = { 0 };
	struct gpumap_collective send = { .size = sizeof(send),
					  .op = GPUMAP_OP_SEND,
					  .n = 1,
					  .ranks = ranks };
	struct gpumap_comm *comm = NULL;
	struct gpumap_done done;
	uint32_t submitted = 0;

	EQ(gpumap_comm_open(s, "three", NULL, &comm), 0);
	for (uint32_t r = 0; r < 3; r++)
		ranks[r].send = ranks[r].recv = floats(s, r, 1);
	gm_put(&peer.hold, 7);
	for (uint32_t i = 0; i < 16; i++) {
		send.root = i % 3;
		send.peer = (i + 1) % 3;
		submitted += gpumap_comm_submit(comm, &send) == 0;
	}
	EQ(submitted, 16);
	for (uint32_t r = 0; r < 3; r++)
		OK(gpumap_credit(s, r) > 2);
	EQ(gpumap_comm_submit(comm, &send), -EAGAIN);
	gm_put(&peer.hold, 0);
	while (submitted > 0 &&
	       gpumap_wait(s, &done, 1, GPUMAP_NO_DEADLINE) == 1)
		submitted--;
	EQ(submitted, 0);
	closed(comm);
}

TAP_CASE()
{
	struct gpumap_session *s;

	if (!client_begin("comm-open"))
		return tap_done();
	publish_mesh(6, "pair", 2);
	publish_mesh(7, "three", 3);
	s = open_session(16, 0);
	nccl_is_asked_for(s);
	flags_are_of_the_newest_group(s);
	a_newer_program(s);
	as_many_as_there_may_be(s);
	gpumap_session_close(s);
	return client_end();
}
