/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * watchers - starts the processes of gpumap-probe, which alone call NVML and
 * the driver, and tells a reader what they say.
 *
 * A census counts the cards.  Then each card has a watcher, which is started
 * again, later and later, when it has ended; further processes ask the driver,
 * and NVML for the paths between cards.  Each is believed for a time only: one
 * that hangs is killed and costs its card a verdict, and no other card
 * anything.  Where a census finds no driver, or one that is broken, another is
 * started later.
 *
 * A slot is an NVML index and its watcher; a card is a GPU or an instance,
 * known by its uuid (watched.h).  reports.c turns records into state; this file
 * starts what is due, ends what is overdue, and tells the reader what it does
 * not know yet.
 *
 * The end of a process is what closes its card.  So a card is released when
 * each process that may have it open has ended.
 */
#ifndef GM_DAEMON_HEALTH_WATCHERS_H
#define GM_DAEMON_HEALTH_WATCHERS_H

#include "agent/common/refusal.h"
#include "agent/daemon/base/child.h"
#include "agent/daemon/health/watched.h"

struct gm_daemon;

#define GM_DRIVER_ASKS 4u /* drivers started at the same time */
#define GM_PROBERS     (GM_PROBE_GPUS + GM_DRIVER_ASKS + 4)

/* The purpose of a process that asks the driver: a card, or an order. */
#define GM_ORDER_PCI     GM_PROBE_CARDS
#define GM_ORDER_FASTEST (GM_PROBE_CARDS + 1)

/* The module that takes what is found. */
struct gm_watchers_reader {
	/* Facts of a card, with its verdict; again, whole, when they change. */
	void (*device)(struct gm_daemon *d, const uint8_t uuid[16],
		       const struct gm_probe_device *device,
		       const struct gm_verdict *verdict);

	/* Another verdict of a card that was named. */
	void (*verdict)(struct gm_daemon *d, const uint8_t uuid[16],
			const struct gm_verdict *verdict);

	/* PROCESS, MOVING and EVENT of a card that was named, and PEERS. */
	void (*record)(struct gm_daemon *d, const struct gm_probe_wire *wire);

	/* Every card was named, or has had its time. */
	void (*listed)(struct gm_daemon *d);

	/* There is no driver, or none that tells anything. */
	void (*absent)(struct gm_daemon *d, const char *why);
	void (*broken)(struct gm_daemon *d, const char *why);

	/* No process of ours has the card open. */
	void (*released)(struct gm_daemon *d, const uint8_t uuid[16]);
};

/* A process of gpumap-probe. */
struct gm_prober {
	struct gm_child child;
	struct gm_watchers *w;
	enum gm_probe_role role; /* 0: none */
	uint32_t index;          /* the slot, the card or the order */
	uint64_t heard_ns;       /* when it said something last */
	bool has_said;           /* more than which call it is in */
	bool is_done;            /* it has said all that it was started for */
	bool is_unwanted;        /* and is killed for that */
	char call[64];           /* what it was in last */
};

struct gm_watch_slot {
	bool is_released;
	bool is_settled; /* it has answered, or is known not to */
	uint32_t card;   /* its GPU in cards, or GM_NO_CARD */
	uint32_t failures;
	uint64_t start_ns;             /* when a watcher may be started */
	struct gm_verdict trouble;     /* of one that is no card yet */
	enum gm_verdict_source source; /* of that trouble */
};

/* A list of all cards with their ordinals. */
struct gm_card_order {
	bool is_over; /* one list has ended, well or not */
	bool is_good;
	bool is_due;
	uint32_t failures;
	uint64_t start_ns;
};

struct gm_watchers {
	struct gm_daemon *d;
	const struct gm_watchers_reader *reader;
	uint64_t limit_ns;        /* what NVML may take for one card */
	uint64_t driver_limit_ns; /* what the driver may take for its start */
	struct gm_timer look;
	uint64_t next_ns;   /* when something is due */
	uint64_t census_ns; /* when the next census may be started */
	bool has_census;
	bool is_census_over;
	bool is_listed;
	bool wants_peers;
	bool found_none;         /* the last census found no driver */
	bool looks_again;        /* at once, when it has ended */
	uint32_t faults;         /* in a row, of a census */
	char said[GM_WHY_BYTES]; /* the last fault, as it was logged */
	uint32_t n_slots;
	uint32_t n_places;
	uint32_t n_cards;
	uint64_t list_ns; /* when the wait for the first answers ends */
	struct gm_card_order orders[2];
	struct gm_watch_slot slots[GM_PROBE_GPUS];
	struct gm_watched *cards[GM_PROBE_CARDS];
	struct gm_probe_wire places[GM_PROBE_GPUS];
	struct gm_prober probers[GM_PROBERS];
};

/* Have the cards looked for.  @reader has to stay. */
void gm_watchers_start(struct gm_daemon *d,
		       const struct gm_watchers_reader *reader);

/* Where there was no driver: look again now. */
void gm_watchers_look_again(struct gm_daemon *d);

/* Close everything of one card and leave it alone, until it is resumed.
 * Returns whether released() follows: else no process can have it open. */
bool gm_watchers_release(struct gm_daemon *d, const uint8_t uuid[16]);

/* A card or an instance, released or not, has had its reset. */
void gm_watchers_resume(struct gm_daemon *d, const uint8_t uuid[16]);

/* End all processes, and start no other. */
void gm_watchers_exit(struct gm_daemon *d);

#endif
