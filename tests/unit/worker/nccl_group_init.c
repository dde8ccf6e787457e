/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The limit of connecting the devices of a group counts no time in which the
 * machine stood still, and ends the wait for a rank that does not come.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/worker/collective/member.h"
#include "agent/worker/collective/nccl_group.h"
#include "agent/worker/queue/heartbeat.h"
#include "tests/support/tap.h"

#define MS   UINT64_C(1000000)
#define HOUR (3600 * 1000 * MS)

static struct gm_nccl_group_thread thread;
static gm_a64 sign;
static int n_looks, looks_needed, n_aborted;

static int version(struct gm_backend_device *dev)
{
	(void)dev;
	return 1;
}

static int make_id(struct gm_backend_device *dev,
		   unsigned char ret_id[GM_NCCL_GROUP_ID_BYTES])
{
	(void)dev;
	ret_id[0] = 1;
	return 0;
}

static int begin(struct gm_backend_device *dev,
		 const unsigned char id[GM_NCCL_GROUP_ID_BYTES], uint32_t rank,
		 uint32_t ranks, struct gm_nccl_group **ret_group)
{
	(void)dev;
	(void)id;
	(void)rank;
	(void)ranks;
	*ret_group = (struct gm_nccl_group *)&thread;
	return 0;
}

/* The machine stands still for an hour while the other rank is waited for. */
static int is_ready(struct gm_backend_device *dev, struct gm_nccl_group *group)
{
	(void)dev;
	(void)group;
	if (++n_looks == 1)
		gm_node_clock_offset -= HOUR;
	return looks_needed != 0 && n_looks >= looks_needed;
}

static void leave(struct gm_backend_device *dev, struct gm_nccl_group *group)
{
	(void)dev;
	(void)group;
	n_aborted++;
}

static int memory(struct gm_backend_device *dev, struct gm_device_memory *ret)
{
	(void)dev;
	(void)ret;
	return -EIO;
}

static const struct gm_backend backend = { .clique_version = version,
					   .clique_id = make_id,
					   .clique_begin = begin,
					   .clique_ready = is_ready,
					   .clique_abort = leave,
					   .memory = memory };

/* Connect rank 0 of two within @limit_ns.  The other rank has come, and the
 * device is ready at the look of this number; 0: never. */
static struct gm_nccl_group *connect_within(uint64_t limit_ns, int looks)
{
	struct gm_backend_device dev = { .backend = &backend };
	struct gm_comm_page *page =
		aligned_alloc(4096, (gm_comm_page_bytes(2) + 4095) & ~4095u);
	struct gm_journal journal = { .has_cards = 0 };
	struct gm_worker_session session = { .signs = &journal };
	struct gm_collective_member m = { .comm = { .page = page, .ranks = 2 },
					  .session = &session,
					  .thread = &thread };

	memset(page, 0, gm_comm_page_bytes(2));
	gm_put(&page->by_rank[1].version, 1);
	gm_put(&page->by_rank[1].is_ready, 1);
	thread.slow.sign = &sign;
	n_looks = n_aborted = 0;
	looks_needed = looks;
	gm_nccl_group_come(&m, &dev, limit_ns);
	EQ(gm_get(&journal.has_cards), 1);
	gm_node_clock_offset = 0;
	free(page);
	return m.formed;
}

TAP_CASE()
{
	OK(connect_within(HOUR / 2, 3) != NULL);
	EQ(n_looks, 3);
	EQ(n_aborted, 0);
	OK(connect_within(5 * MS, 0) == NULL);
	EQ(n_aborted, 1);
	return tap_done();
}
