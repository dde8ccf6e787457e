/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cards - turn reports of probes into rows of cards and their states.
 *
 * A start waits until every card has been named or has had its time.  The
 * cards that are known by then get their rows at once, in the order of PCI
 * addresses, each card before its instances.  A card that is named later gets a
 * later row.
 *
 * A device's verdict (watched.h), and the row's state:
 *
 *	USABLE   has a worker when one is needed; READY
 *	FAILED   FAILED with the probe's reason
 *	LOST     LOST
 *	SPLIT    FAILED: only its instances are used
 *	TAKEN    FAILED: its compute mode allows one process at a time, or none
 */
#ifndef GM_DAEMON_HEALTH_CARDS_H
#define GM_DAEMON_HEALTH_CARDS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/probe_wire.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/devices/rows.h"

struct gm_daemon;

struct gm_cards {
	struct gm_daemon *d;
	struct gm_timer limit; /* config.cuda_list_limit_ns */
	struct gm_timer flush; /* facts have changed and are not published */
	uint64_t since_ns;     /* when we began to wait */
	bool is_complete;      /* there is nothing more to wait for */
	bool is_listed;        /* or has had its time: the start may go on */
	bool is_open;          /* rows have been given out */
	uint32_t n_found;      /* devices that were named before that */
	struct gm_device *found[GM_ROWS];
	char why[GM_WHY_BYTES];    /* there may be none of them */
	char broken[GM_WHY_BYTES]; /* the last fault, as it was logged */
};

/* Have the probes started; is_listed follows when their lists are complete, or
 * at the limits: CUDA's first, then those of vendors.h. */
void gm_cards_start(struct gm_daemon *d);
void gm_cards_exit(struct gm_daemon *d);

/* Event; see base/events.h: the row is LOST until the probe sees its device. */
void gm_cards_unseen(struct gm_daemon *d, uint32_t row);

#endif
