/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A client that no library holds back asks for reductions of elements that are
 * not aligned.  NCCL checks no address, and its kernel would fault and end the
 * sessions of all users of the card.  The client gets an error, and the cards
 * go on.
 */

#define STAGE_CUDA 1

#include "tests/support/collective_nccl.h"
#include "tests/support/raw.h"
#include "shm/control_comm.h"

#define DEPTH 16u
#define N     9u

static struct raw client;
static uint64_t buffers[2];

static bool open_client(void)
{
	static const uint32_t rows[] = { 0, 1 };
	struct gm_comm_open ask = { .n_ranks = 2, .flags = GM_COMM_MAY_NCCL };
	char path[192];

	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	if (!EQ(raw_open_queue(&client, path, 0, DEPTH, MIB), 0) ||
	    !EQ(raw_queue(&client, 1), 0))
		return false;
	for (uint32_t row = 0; row < 2; row++) {
		struct gm_entry e =
			raw_entry(&client.row[row], GPUMAP_OP_ALLOC);

		e.n = MIB;
		e.dst_buffer = buffers[row] =
			gm_handle_make(1, GM_BUFFER_DEVICE, row, 0);
		if (!EQ(raw_do(&client, &client.row[row], &e), 0))
			return false;
	}
	return EQ(raw_ask_tail(&client, GM_CONTROL_COMM_OPEN, &ask, sizeof(ask),
			       rows, sizeof(rows)),
		  0);
}

static void post(uint32_t row, uint8_t op, uint64_t send_at, uint64_t recv_at)
{
	struct gm_entry e = raw_entry(&client.row[row], op);

	e.dtype = GPUMAP_DTYPE_F32;
	e.n = N;
	e.value = 1; /* the communicator */
	e.src_buffer = e.dst_buffer = buffers[row];
	e.src = send_at;
	e.dst = recv_at;
	raw_post(&client.row[row], &e, 1);
}

static int32_t end_of(uint32_t row)
{
	uint64_t until = raw_now() + RAW_PATIENCE_NS;
	uint32_t position;
	int32_t status;

	while (!raw_take(&client.row[row], &position, &status)) {
		if (raw_is_over(&client) || raw_now() > until)
			return 1;
		raw_nap(100000);
	}
	return status;
}

/* Rank 1's memory is aligned. */
static void both(uint8_t op, uint64_t send_at, uint64_t recv_at, int32_t status)
{
	post(0, op, send_at, recv_at);
	post(1, op, 0, 4096);
	EQ(end_of(0), status);
	EQ(end_of(1), status);
}

static void elements_are_aligned(void)
{
	if (!open_client())
		return;
	both(GPUMAP_OP_ALL_REDUCE, 0, 4096, 0);
	both(GPUMAP_OP_ALL_REDUCE, 1, 4096, -EINVAL);
	both(GPUMAP_OP_ALL_REDUCE, 0, 4098, -EINVAL);
	both(GPUMAP_OP_REDUCE_SCATTER, 2, 4096, -EINVAL);
	both(GPUMAP_OP_REDUCE_SCATTER, 0, 4099, -EINVAL);
	both(GPUMAP_OP_ALL_GATHER, 3, 4096, -EINVAL);
	both(GPUMAP_OP_ALL_REDUCE, 4, 4100, 0);
	OK(agent_logged(&agent, "nccl all_reduce rank=0"));
	raw_close(&client);
}

/* The cards' workers are the ones that the other client had, and are free for
 * others once gpumapd has seen its end. */
static void others_go_on(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct ranks g;

	EQ(story_device(map, 0).restarts, 0);
	EQ(story_device(map, 1).restarts, 0);
	if (!nccl_open(session, "two", 10 * MIB, &g))
		return;
	while (gpumap_comm_flags(g.comm) == 0 && story_now() < until)
		if (!EQ(gpumap_comm_renew(g.comm), 0))
			break;
	nccl_is_well(&g);
	nccl_close(&g);
}

TAP_CASE()
{
	if (!nccl_begin("tells", "nccl = yes\n"))
		return tap_done();
	elements_are_aligned();
	others_go_on();
	if (tap_failures)
		agent_show_log(&agent);
	nccl_end();
	stage_end(&agent);
	return tap_done();
}
