/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mask_peers, quota: memory for replicas that no client waits for any more is
 * its user's again as soon as the worker has answered or ended.  The free
 * memory is read later, and its reading may arrive later still.
 */

#include "agent/daemon/account/quota.h"
#include "agent/daemon/masks/replica_private.h"
#include "agent/daemon/masks/validate.h"
#include "tests/support/worker_process_rig.h"

#define MIB  (UINT64_C(1) << 20)
#define UID  5u
#define FREE (100 * MIB) /* as it was seen while all of that was there */
#define OWN  (40 * MIB)
#define FROM (16 * MIB)
#define MINE 7u /* the ids of two that no mask has */
#define ITS  8u

static void row_is_full(uint32_t at)
{
	struct gm_device *device = d->devices->of[at];

	device->facts.total_bytes = 1024 * MIB;
	device->moving.free_bytes = FREE;
	gm_devices_memory_read(device, gm_loop_now());
}

/* Row 0's worker makes one that no mask has, of another on row 1, which none
 * has either. */
static void copies(void)
{
	row_is_full(0);
	row_is_full(1);
	worker->masks[0] = (struct gm_mask_question){ .id = MINE,
						      .bytes = OWN,
						      .uid = UID,
						      .from_row = 1,
						      .from = ITS,
						      .from_bytes = FROM };
	worker->n_masks = 1;
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
	/* Not any more when that was looked at. */
	row_is_full(0);
	EQ(gm_quota_of(d, 0, UID, 0), FREE);
	EQ(gm_quota_of(d, 1, UID, 0), FREE + FROM);
}

static void when_it_is_answered(void)
{
	copies();
	gm_mask_peers_answered(worker, MINE + 100);
	EQ(worker->n_masks, 1);
	gm_mask_peers_answered(worker, MINE);
	it_is_back();
}

static void when_the_worker_ends(void)
{
	copies();
	gm_mask_peers_silence(worker);
	it_is_back();
}

/* A reading from before memory was given back arrives later, and more than
 * once. */
static void looks_are_late(void)
{
	struct gm_device *device = d->devices->of[0];
	uint64_t before;

	row_is_full(0);
	before = gm_loop_now();
	gm_quota_freed(d, 0, OWN);
	for (int i = 0; i < 3; i++) {
		gm_devices_memory_read(device, before);
		EQ(gm_quota_of(d, 0, UID, 0), FREE + OWN);
	}
	gm_devices_memory_read(device, gm_loop_now());
	EQ(gm_quota_of(d, 0, UID, 0), FREE);
}

/* Memory is given back all the time: the part that a reading has seen is
 * dropped. */
static void looks_come_between(void)
{
	struct gm_device *device = d->devices->of[0];
	uint64_t at;

	row_is_full(0);
	for (int i = 0; i < 5; i++) {
		gm_quota_freed(d, 0, MIB);
		at = gm_loop_now();
		gm_quota_freed(d, 0, MIB);
		gm_devices_memory_read(device, at);
	}
	OK(gm_quota_of(d, 0, UID, 0) <= FREE + 4 * MIB);
	OK(gm_quota_of(d, 0, UID, 0) >= FREE + MIB);
}

/* Whatever the card's kind. */
static void a_card_has_to_export_its_memory(void)
{
	struct gm_masks_rows rows = { .n = 2, .of = { 0, 1 } };
	char why[GM_WHY_BYTES];

	EQ(gm_mask_check_rows(d, "", true, &rows, why), 0);
	d->devices->of[1]->facts.flags &= ~GPUMAP_DEVICE_EXPORTS;
	EQ(gm_mask_check_rows(d, "", true, &rows, why), -EOPNOTSUPP);
	STR(why, "row 1 is of a card whose memory is nobody else's to read: "
		 "take it off the list");
	EQ(gm_mask_check_rows(d, "", false, &rows, why), 0);
}

TAP_CASE_ARGS(argc, argv)
{
	play_if_child(argc, argv);
	if (!begin())
		return tap_done();
	make_row(1);
	gm_mask_devices_init(d);
	when_it_is_answered();
	when_the_worker_ends();
	looks_are_late();
	looks_come_between();
	a_card_has_to_export_its_memory();
	gm_mask_devices_exit(d);
	end();
	return tap_done();
}
