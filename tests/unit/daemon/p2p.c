/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* paths: what is known of the way from card to card, from what is heard and
 * tried. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/devices/p2p.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/segment/segment.h"
#include "tests/support/tap.h"

#define CARDS 3u

static struct gm_daemon *d;
static struct gm_device devices[CARDS];
static struct gm_row rows[CARDS];

/* The state of a path, as readers see it. */
static uint32_t shown(uint32_t to, uint32_t from)
{
	return gm_path_get(&rows[to], from) >> 6;
}

static void hear(uint32_t to, uint32_t from, uint32_t read, uint32_t links)
{
	struct gm_probe_peers peers = { .read = read, .links = links };

	memcpy(peers.other, devices[from].facts.uuid, 16);
	gm_p2p_paths_on_report(d, devices[to].facts.uuid, &peers);
}

static void nothing_is_known_at_first(void)
{
	for (uint32_t to = 0; to < CARDS; to++)
		for (uint32_t from = 0; from < CARDS; from++)
			EQ(gm_p2p_paths_state(d, to, from), GM_PATH_NONE);
	/* Nor can it be found out without NVML's word. */
	gm_p2p_paths_tried(d, 0, 1, 0);
	EQ(gm_p2p_paths_state(d, 0, 1), GM_PATH_NONE);
}

static void a_path_has_a_direction(void)
{
	hear(0, 1, 1, 4);
	hear(1, 0, 0, 4);
	EQ(gm_p2p_paths_state(d, 0, 1), GM_PATH_UNTRIED);
	EQ(gm_p2p_paths_state(d, 1, 0), GM_PATH_NONE);
	EQ(gm_path_get(&rows[0], 1), gm_path_make(4, GPUMAP_PEER_REPORTED));
	EQ(gm_path_get(&rows[1], 0), gm_path_make(4, GPUMAP_PEER_NONE));
	gm_p2p_paths_tried(d, 0, 1, 0);
	gm_p2p_paths_tried(d, 1, 0, 0);
	EQ(gm_p2p_paths_state(d, 0, 1), GM_PATH_GOOD);
	EQ(gm_p2p_paths_state(d, 1, 0), GM_PATH_NONE);
	/* Two sessions may try at once: the first word counts. */
	gm_p2p_paths_tried(d, 0, 1, -EIO);
	EQ(gm_p2p_paths_state(d, 0, 1), GM_PATH_GOOD);
}

/* The probe may tell of paths before the cards have rows. */
static void a_path_is_shown_once_there_are_rows(void)
{
	d->devices->n = 0;
	hear(2, 0, 1, 3);
	d->devices->n = CARDS;
	EQ(gm_path_get(&rows[2], 0), 0);
	gm_p2p_paths_show(d);
	EQ(gm_path_get(&rows[2], 0), gm_path_make(3, GPUMAP_PEER_REPORTED));
	EQ(shown(0, 1), GPUMAP_PEER_RIGHT);
}

static void a_path_that_lies_is_bad_for_good(void)
{
	hear(0, 2, 1, 0);
	gm_p2p_paths_tried(d, 0, 2, -EIO);
	EQ(gm_p2p_paths_state(d, 0, 2), GM_PATH_BAD);
	EQ(shown(0, 2), GPUMAP_PEER_WRONG);
	EQ(shown(0, 1), GPUMAP_PEER_RIGHT);
	/* Another probe says the same again. */
	hear(0, 2, 1, 0);
	EQ(gm_p2p_paths_state(d, 0, 2), GM_PATH_BAD);
	hear(0, 2, 1, 1);
	EQ(gm_p2p_paths_state(d, 0, 2), GM_PATH_UNTRIED);
	hear(0, 2, 0, 1);
	EQ(gm_p2p_paths_state(d, 0, 2), GM_PATH_NONE);
}

static void a_death_is_no_proof_but_two_are(void)
{
	hear(1, 2, 1, 0);
	gm_p2p_paths_tried(d, 1, 2, -ESTALE);
	EQ(gm_p2p_paths_state(d, 1, 2), GM_PATH_UNTRIED);
	gm_p2p_paths_tried(d, 1, 2, -ESTALE);
	EQ(gm_p2p_paths_state(d, 1, 2), GM_PATH_BAD);
}

TAP_CASE()
{
	d = gm_daemon_new();
	if (!OK(d))
		return tap_done();
	d->segment->map.rows = rows;
	d->devices->n = CARDS;
	for (uint32_t i = 0; i < CARDS; i++) {
		memset(devices[i].facts.uuid, (int)i + 1, 16);
		d->devices->of[i] = &devices[i];
	}
	nothing_is_known_at_first();
	a_path_has_a_direction();
	a_path_is_shown_once_there_are_rows();
	a_path_that_lies_is_bad_for_good();
	a_death_is_no_proof_but_two_are();
	gm_p2p_paths_exit(d);
	gm_daemon_free(d);
	return tap_done();
}
