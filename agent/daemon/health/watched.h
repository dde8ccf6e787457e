/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * watched - merges all that is said of one card or instance into its facts and
 * one verdict.
 *
 * Facts come in pieces, from NVML, from the driver, from an event and from
 * silence, in any order and each more than once.  The last report of each
 * source is kept.  The verdict is the worst of four; of the facts the driver's
 * win over NVML's.
 *
 * The table of Xids is here, too.  Those that any process's fault can cause
 * (13, 31, 43, 45, 68, 109) and those that end a process (94) say nothing of
 * the card.  A verdict that follows from an Xid lasts until the driver has said
 * that the card needs a reset, and says that no more; until the row was drained
 * and is brought back; or, where the card was lost, until it answers anew.
 *
 * Pure: no call here enters the kernel.
 */
#ifndef GM_DAEMON_HEALTH_WATCHED_H
#define GM_DAEMON_HEALTH_WATCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/probe_wire.h"

#define GM_NO_CARD UINT32_MAX

/* The sources of verdicts. */
enum gm_verdict_source {
	GM_VERDICT_SILENCE = 0, /* it does not answer */
	GM_VERDICT_XID = 1,
	GM_VERDICT_NVML = 2,
	GM_VERDICT_DRIVER = 3,
	GM_VERDICTS = 4
};

struct gm_verdict {
	uint32_t health; /* enum gm_probe_health */
	int32_t code;
	char text[160];
};

struct gm_watched {
	bool is_instance;
	bool is_met;    /* by the watcher that runs: an instance may be gone */
	bool has_facts; /* of NVML, or of the kernel where NVML is silent */
	bool has_moving;
	bool has_driver;
	bool is_asked;    /* the driver has answered since the card came back */
	bool is_named;    /* to the reader */
	bool is_released; /* until it is resumed */
	bool is_awaited;  /* it was resumed, and was not looked at since */
	bool wanted_reset; /* since an Xid the driver wanted a reset */
	/* The reader is to be told. */
	bool facts_are_due;
	bool verdict_is_due;
	bool moving_is_due; /* it came before the name */
	uint32_t slot; /* NVML index of its GPU; GM_NO_CARD: none any more */
	uint8_t uuid[16];
	uint64_t since_ns;    /* when it was first heard of */
	uint64_t released_ns; /* what began later has nothing of it open; 0:
			       * nothing has */
	uint64_t ask_ns;      /* when the driver may be asked again */
	uint32_t refusals;    /* of the driver, in a row */
	struct gm_probe_device device; /* as NVML has it */
	struct gm_row_image driver;    /* as the driver has it */
	struct gm_probe_moving moving; /* the last look */
	int32_t ordinals[2]; /* by PCI address, by speed; -1: not enumerated */
	int32_t counting[2]; /* the same, of a list that has not ended yet */
	bool has_ordinals;
	struct gm_verdict verdicts[GM_VERDICTS];
};

/* Before anything is known of it. */
void gm_watched_begin(struct gm_watched *card, const uint8_t uuid[16],
		      uint64_t now);

/* DEVICE and MOVING of a watcher. */
void gm_watched_facts(struct gm_watched *card, const struct gm_probe_wire *w);
void gm_watched_moving(struct gm_watched *card, const struct gm_probe_wire *w);

/* DRIVER of a process that asked the driver. */
void gm_watched_driver(struct gm_watched *card, const struct gm_probe_wire *w);

/* A card that NVML does not speak of: by its PCI address, or by its index. */
void gm_watched_made(struct gm_watched *card, const struct gm_probe_wire *place,
		     uint32_t index);

/* Store one source's verdict; NULL: "usable". */
void gm_watched_set(struct gm_watched *card, enum gm_verdict_source source,
		    const struct gm_verdict *verdict);

/* Is it an Xid that says that the card is of no use, whatever else it is?  With
 * the verdict of those. */
bool gm_watched_is_grave(uint64_t xid, struct gm_verdict *ret_verdict);

/* The worst verdict; text and code are of its source. */
const struct gm_verdict *gm_watched_verdict(const struct gm_watched *card);

/* Does it answer, with nothing wrong? */
bool gm_watched_is_well(const struct gm_watched *card);

/* Can the driver be asked about it, and is it worth it? */
bool gm_watched_is_askable(const struct gm_watched *card);

/* The facts of all sources. */
struct gm_probe_device gm_watched_device(const struct gm_watched *card);

#endif
