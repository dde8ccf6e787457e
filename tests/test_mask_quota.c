/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mask_peers: what a worker had of a row's memory for replicas that nobody
 * waits for any more is its user's again as soon as the worker has answered, or
 * has ended: what is free there is looked at later.
 */

#include "agent/daemon/mask_device.h"
#include "agent/daemon/quota.h"
#include "keeper_scene.h"

#define MIB  (UINT64_C(1) << 20)
#define UID  5u
#define FREE (100 * MIB) /* as it was seen while all of that was there */
#define OWN  (40 * MIB)
#define FROM (16 * MIB)
#define MINE 7u /* the ids of two that no mask has */
#define ITS  8u

static void row_is_full(uint32_t at)
{
	struct gm_device *device = d->devices.of[at];

	device->facts.total_bytes = 1024 * MIB;
	device->moving.free_bytes = FREE;
	gm_quota_looked(device);
	gm_quota_looked(device);
}

/* Row 0's worker makes one that no mask has, of another on row 1, which none
 * has either. */
static void copies(void)
{
	row_is_full(0);
	row_is_full(1);
	keeper->masks[0] = (struct gm_mask_question){ .id = MINE,
						      .bytes = OWN,
						      .uid = UID,
						      .from_row = 1,
						      .from = ITS,
						      .from_bytes = FROM };
	keeper->n_masks = 1;
	EQ(gm_mask_devices_bytes(d, 0, UID), OWN);
	EQ(gm_mask_devices_bytes(d, 1, UID), FROM);
	EQ(gm_quota_of(d, 0, UID, 0), FREE);
	EQ(gm_quota_of(d, 1, UID, 0), FREE);
}

static void it_is_back(void)
{
	EQ(gm_mask_devices_bytes(d, 0, UID), 0);
	EQ(gm_mask_devices_bytes(d, 1, UID), 0);
	EQ(gm_quota_of(d, 0, UID, 0), FREE + OWN);
	EQ(gm_quota_of(d, 1, UID, 0), FREE + FROM);
	/* Not any more when that was looked at, twice. */
	row_is_full(0);
	EQ(gm_quota_of(d, 0, UID, 0), FREE);
}

static void when_it_is_answered(void)
{
	copies();
	gm_mask_peers_answered(keeper, MINE + 100);
	EQ(keeper->n_masks, 1);
	gm_mask_peers_answered(keeper, MINE);
	it_is_back();
}

static void when_the_worker_ends(void)
{
	copies();
	gm_mask_peers_silence(keeper);
	it_is_back();
}

int main(int argc, char **argv)
{
	play_if_child(argc, argv);
	if (!begin())
		return tap_done();
	make_row(1);
	gm_mask_devices_init(d);
	when_it_is_answered();
	when_the_worker_ends();
	gm_mask_devices_exit(d);
	end();
	return tap_done();
}
