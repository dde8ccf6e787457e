/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * monitor - the process that gpumapd talks to.
 *
 * One thread, which never blocks: monitor_messages.c turns reports of roles
 * into state, monitor_schedule.c does overdue work and gives up overdue
 * children, and monitor_report.c sends gpumapd the changes that it does not
 * have yet, as fast as it takes them.  Moving facts overwrite those that
 * gpumapd did not take in time; only events are queued, and the oldest are
 * dropped first.
 *
 * A slot is an NVML index and its watcher; a card is a GPU or an instance,
 * known by its uuid.
 */
#ifndef GM_PROBE_MONITOR_H
#define GM_PROBE_MONITOR_H

#include "agent/probe/role.h"
#include "agent/probe/card.h"
#include "agent/probe/probe.h"

#define GM_MONITOR_ASKS     4u /* drivers started at the same time */
#define GM_MONITOR_CHILDREN (GM_PROBE_GPUS + GM_MONITOR_ASKS + 4)
#define GM_MONITOR_PENDING  256u
#define GM_NO_CARD          UINT32_MAX

/* The purpose of a driver's child: a card, or one of the two orders. */
#define GM_ORDER_PCI     GM_PROBE_CARDS
#define GM_ORDER_FASTEST (GM_PROBE_CARDS + 1)

struct gm_probe_slot {
	bool is_used;
	bool is_released;
	bool is_settled; /* it has answered, or is known not to */
	uint32_t card;   /* its GPU in cards, or GM_NO_CARD */
	uint32_t failures;
	uint64_t start_at;               /* when a watcher may be started */
	struct gm_probe_verdict trouble; /* of one that is no card yet */
	enum gm_card_voice voice;        /* of that trouble */
};

struct gm_order {
	bool is_over; /* one list has ended, well or not */
	bool is_good;
	bool is_due;
	uint32_t failures;
	uint64_t start_at;
};

/* For two slots, by their numbers. */
struct gm_probe_pair {
	bool is_dirty;
	struct gm_probe_peers peers;
};

/* Records that gpumapd is sent once, in order. */
struct gm_pending {
	uint32_t type;   /* GM_PROBE_EVENT or GM_PROBE_RELEASED */
	uint32_t serial; /* of RELEASED */
	uint8_t uuid[16];
	struct gm_probe_event event;
};

struct gm_monitor {
	const struct gm_probe_options *options;
	uint64_t next; /* when something is due, ns */
	bool has_census;
	bool is_census_over;
	bool has_watched; /* watchers have been started */
	bool is_listed;
	bool want_peers;
	bool is_blocked; /* gpumapd's end of the pair is full */
	bool is_over;    /* gpumapd has hung up, or there is nothing to do */
	int status;      /* then: our exit status */
	uint32_t n_slots;
	uint32_t n_places;
	uint64_t list_at; /* when the wait for the first answers ends */
	struct gm_order orders[2];
	struct gm_probe_slot slots[GM_PROBE_GPUS];
	struct gm_card cards[GM_PROBE_CARDS];
	struct gm_note places[GM_PROBE_GPUS];
	struct gm_probe_child children[GM_MONITOR_CHILDREN];
	struct gm_probe_pair pairs[GM_PROBE_GPUS][GM_PROBE_GPUS];
	struct gm_pending pending[GM_MONITOR_PENDING];
	uint32_t first_pending;
	uint32_t n_pending;
	uint64_t n_dropped;
	char peers_list[4 * GM_PROBE_GPUS];
};

/* monitor_messages.c: a note of a child, and its end. */
void gm_monitor_on_message(struct gm_monitor *s, struct gm_probe_child *child,
			   const struct gm_note *note);
void gm_monitor_child_ended(struct gm_monitor *s,
			    const struct gm_probe_child *was, const char *how);

/* The card of that uuid; with @make one is made where there is none.  NULL:
 * none, or the table is full. */
struct gm_card *gm_monitor_card(struct gm_monitor *s, const uint8_t uuid[16],
				bool make);

/* A verdict over all cards of a slot, or over a slot that has none yet. */
void gm_monitor_check_slot(struct gm_monitor *s, uint32_t slot,
			   enum gm_card_voice voice,
			   const struct gm_probe_verdict *verdict);

/* monitor_schedule.c: start, stop and name what is due; sets @next. */
void gm_monitor_schedule(struct gm_monitor *s, uint64_t now);

/* Are the ordinals known, or not to be known soon? */
bool gm_monitor_has_orders(const struct gm_monitor *s);

void gm_monitor_release(struct gm_monitor *s, const uint8_t uuid[16],
			uint32_t serial);
void gm_monitor_resume(struct gm_monitor *s, const uint8_t uuid[16]);

/* monitor_report.c: to gpumapd, and from it. */
void gm_monitor_send(struct gm_monitor *s, uint64_t now);
void gm_monitor_listen(struct gm_monitor *s);
void gm_monitor_queue(struct gm_monitor *s, const struct gm_pending *what);

/* The last word: ABSENT or BROKEN. */
void gm_monitor_end(struct gm_monitor *s, uint32_t type, const char *text);

/* Whether @at has come; if not, we shall look again then. */
static inline bool gm_monitor_due(struct gm_monitor *s, uint64_t at,
				  uint64_t now)
{
	if (now >= at)
		return true;
	if (at < s->next)
		s->next = at;
	return false;
}

/* Later and later: the refresh, doubled with each failure up to 64 times. */
static inline uint64_t gm_monitor_later(const struct gm_monitor *s,
					uint32_t failures, uint64_t now)
{
	uint32_t shift = failures < 6 ? failures : 6;

	return now + (gm_probe_ms(s->options->refresh_ms) << shift);
}

#endif
