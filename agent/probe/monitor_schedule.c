/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/probe/monitor.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/probe/parse.h"
#include "gpumap.h"

#define PATIENCE 8u /* limits of silence until a watcher is ended */

static uint64_t limit_of(const struct gm_monitor *s)
{
	return gm_probe_ms(s->options->limit_ms);
}

/* ---- starting ----------------------------------------------------------- */

static struct gm_probe_child *room_for_child(struct gm_monitor *s)
{
	for (uint32_t i = 0; i < GM_MONITOR_CHILDREN; i++)
		if (!s->children[i].role)
			return &s->children[i];
	return NULL;
}

static struct gm_probe_child *child_of(struct gm_monitor *s, uint32_t role,
				       uint32_t index)
{
	for (uint32_t i = 0; i < GM_MONITOR_CHILDREN; i++)
		if (s->children[i].role == role &&
		    s->children[i].index == index)
			return &s->children[i];
	return NULL;
}

/* Returns whether it runs; where not, it is worth trying again soon. */
static bool start(struct gm_monitor *s, const struct gm_probe_options *o,
		  uint32_t index, uint64_t now)
{
	struct gm_probe_child *child = room_for_child(s);
	int rc = child ? gm_role_start(o, index, child) : -EAGAIN;

	if (rc == 0)
		return true;
	gm_log(GM_LOG_WARNING, "no_process", "role=%u index=%u error=%d",
	       o->role, index, -rc);
	gm_monitor_due(s, gm_monitor_later(s, 1, now), now);
	return false;
}

static void start_census(struct gm_monitor *s, uint64_t now)
{
	struct gm_probe_options o = *s->options;

	o.role = GM_ROLE_CENSUS;
	if (!start(s, &o, 0, now))
		gm_monitor_end(s, GM_PROBE_BROKEN, "no process can be started");
}

static void start_watch(struct gm_monitor *s, uint32_t index, uint64_t now)
{
	struct gm_probe_slot *slot = &s->slots[index];
	struct gm_probe_options o = *s->options;

	o.role = GM_ROLE_WATCH;
	o.index = index;
	for (uint32_t i = 0; i < GM_PROBE_CARDS; i++) {
		const struct gm_card *card = &s->cards[i];

		if (card->used && card->is_instance && card->is_released &&
		    card->slot == index && o.n_skips < GM_PROBE_SKIPS)
			o.skips[o.n_skips++] = card->facts.device.id;
	}
	if (!start(s, &o, index, now))
		slot->start_at = gm_monitor_later(s, slot->failures++, now);
}

/* Is a released card's index still unknown? */
static bool is_anything_sought(const struct gm_monitor *s)
{
	for (uint32_t i = 0; i < GM_PROBE_CARDS; i++)
		if (s->cards[i].used && s->cards[i].is_released &&
		    s->cards[i].slot == GM_NO_CARD)
			return true;
	return false;
}

/*
 * A card is known by its UUID once it is open, which is too late for one that
 * is to be left alone.  Where the kernel names them all, and NVML lists them
 * by their addresses as it mostly does, its index is known before.  Where it
 * does not, who turns up under that UUID is closed at once.
 */
static void guess_released(struct gm_monitor *s)
{
	for (uint32_t i = 0; i < s->n_places; i++) {
		struct gm_card *card =
			gm_monitor_card(s, s->places[i].uuid, false);

		if (s->n_places != s->n_slots || !s->places[i].place.named ||
		    !card || !card->is_released || card->slot != GM_NO_CARD)
			continue;
		card->slot = i;
		s->slots[i].card = (uint32_t)(card - s->cards);
		s->slots[i].is_released = true;
		s->slots[i].is_settled = true;
	}
}

static void mind_watches(struct gm_monitor *s, uint64_t now)
{
	if (!s->has_watched && is_anything_sought(s)) {
		if (!s->is_census_over)
			return;
		guess_released(s);
	}
	s->has_watched = true;
	for (uint32_t i = 0; i < s->n_slots; i++) {
		struct gm_probe_slot *slot = &s->slots[i];

		if (slot->is_used && !slot->is_released &&
		    !child_of(s, GM_ROLE_WATCH, i) &&
		    gm_monitor_due(s, slot->start_at, now))
			start_watch(s, i, now);
	}
}

static bool releases_any(const struct gm_monitor *s)
{
	for (uint32_t i = 0; i < GM_PROBE_CARDS; i++)
		if (s->cards[i].used && s->cards[i].is_released)
			return true;
	return false;
}

/* Both lists open every card, so neither begins while one is let go. */
static void mind_orders(struct gm_monitor *s, uint64_t now)
{
	static const char *const names[] = { "PCI_BUS_ID", "FASTEST_FIRST" };

	if (releases_any(s))
		return;
	for (uint32_t k = 0; k < 2; k++) {
		struct gm_order *order = &s->orders[k];
		struct gm_probe_options o = *s->options;

		if (!order->is_due ||
		    child_of(s, GM_ROLE_DRIVER, GM_ORDER_PCI + k) ||
		    !gm_monitor_due(s, order->start_at, now))
			continue;
		for (uint32_t i = 0; i < GM_PROBE_CARDS; i++)
			s->cards[i].counting[k] = -1;
		o.role = GM_ROLE_DRIVER;
		o.order = names[k];
		if (start(s, &o, GM_ORDER_PCI + k, now))
			order->is_due = false;
		else
			order->start_at = gm_monitor_later(s, 1, now);
	}
}

bool gm_monitor_has_orders(const struct gm_monitor *s)
{
	return (s->orders[0].is_over && s->orders[1].is_over) ||
	       releases_any(s);
}

/* A card that no list had is asked for alone, and so is every card where the
 * lists take long: one that hangs in the driver hangs them all. */
static void mind_asks(struct gm_monitor *s, uint64_t now)
{
	uint32_t running = 0;

	for (uint32_t i = 0; i < GM_MONITOR_CHILDREN; i++)
		running += s->children[i].role == GM_ROLE_DRIVER &&
			   s->children[i].index < GM_PROBE_CARDS;
	for (uint32_t i = 0; i < GM_PROBE_CARDS; i++) {
		struct gm_card *card = &s->cards[i];
		struct gm_probe_options o = *s->options;

		if (!gm_card_is_askable(card) ||
		    child_of(s, GM_ROLE_DRIVER, i) ||
		    (!gm_monitor_has_orders(s) &&
		     !gm_monitor_due(s, card->since + limit_of(s), now)) ||
		    !gm_monitor_due(s, card->ask_at, now))
			continue;
		if (running++ >= GM_MONITOR_ASKS)
			return; /* one that ends makes room */
		o.role = GM_ROLE_DRIVER;
		o.order = "PCI_BUS_ID";
		o.device = card->facts.device.id;
		if (!start(s, &o, i, now))
			card->ask_at = gm_monitor_later(s, 1, now);
	}
}

static bool has_path(const struct gm_monitor *s,
		     const struct gm_probe_slot *slot)
{
	return slot->is_used && !slot->is_released &&
	       slot->card != GM_NO_CARD && !s->cards[slot->card].is_released &&
	       gm_card_is_well(&s->cards[slot->card]);
}

static void mind_peers(struct gm_monitor *s, uint64_t now)
{
	struct gm_probe_options o = *s->options;
	uint32_t n = 0;
	int used = 0;

	if (!s->want_peers || !s->is_listed || child_of(s, GM_ROLE_PEERS, 0))
		return;
	s->want_peers = false;
	for (uint32_t i = 0; i < s->n_slots; i++)
		if (has_path(s, &s->slots[i]))
			used += snprintf(s->peers_list + used,
					 sizeof(s->peers_list) - (size_t)used,
					 "%s%u", n++ ? "," : "", i);
	o.role = GM_ROLE_PEERS;
	o.list = s->peers_list;
	if (n > 1 && !start(s, &o, 0, now))
		s->want_peers = true;
}

/* ---- giving up ---------------------------------------------------------- */

static void mind_census(struct gm_monitor *s, struct gm_probe_child *child,
			uint64_t now)
{
	char text[128];

	if (!gm_monitor_due(s, child->began + limit_of(s), now))
		return;
	if (!s->has_census) {
		snprintf(text, sizeof(text), "NVML hangs: over %u ms in %s",
			 s->options->limit_ms, child->call);
		gm_monitor_end(s, GM_PROBE_BROKEN, text);
	}
	gm_role_kill(child);
}

/* We may be late ourselves, after a SIGSTOP say. */
static bool has_spoken(const struct gm_probe_child *child)
{
	struct pollfd unread = { .fd = child->socket, .events = POLLIN };

	return poll(&unread, 1, 0) > 0;
}

static void mind_silence(struct gm_monitor *s, struct gm_probe_child *child,
			 uint64_t now)
{
	struct gm_probe_verdict silent = { .health = GM_PROBE_FAILED };
	/* Between two refreshes it has nothing to say. */
	uint64_t pause =
		child->has_said ? gm_probe_ms(s->options->refresh_ms) : 0;
	uint64_t limit = limit_of(s);

	if (!gm_monitor_due(s, child->heard + pause + limit, now) ||
	    has_spoken(child))
		return;
	s->slots[child->index].is_settled = true;
	snprintf(silent.text, sizeof(silent.text),
		 "NVML hangs: over %u ms in %s", s->options->limit_ms,
		 child->has_said ? "a look at the card" : child->call);
	gm_monitor_check_slot(s, child->index, GM_VOICE_SILENCE, &silent);
	/* The child may be slow only; a new one would be no faster. */
	if (gm_monitor_due(s, child->heard + pause + PATIENCE * limit, now))
		gm_role_kill(child);
}

static void mind_children(struct gm_monitor *s, uint64_t now)
{
	for (uint32_t i = 0; i < GM_MONITOR_CHILDREN; i++) {
		struct gm_probe_child *child = &s->children[i];
		uint64_t long_limit = gm_probe_ms(s->options->driver_limit_ms);

		if (!child->role || child->is_killed)
			continue;
		if (child->role == GM_ROLE_CENSUS)
			mind_census(s, child, now);
		else if (child->role == GM_ROLE_WATCH)
			mind_silence(s, child, now);
		/* The others open every card, or begin with cuInit. */
		else if (gm_monitor_due(s, child->began + long_limit, now))
			gm_role_kill(child);
	}
}

/* ---- naming who does not answer ----------------------------------------- */

static bool is_claimed(const struct gm_monitor *s, const struct gm_note *place)
{
	for (uint32_t i = 0; i < GM_PROBE_CARDS; i++) {
		const struct gm_row_image *row =
			&s->cards[i].facts.device.facts;

		if (s->cards[i].used && s->cards[i].has_facts &&
		    row->known & GPUMAP_KNOWN_PCI &&
		    row->pci_domain == place->place.domain &&
		    row->pci_bus == place->place.bus)
			return true;
	}
	return false;
}

/* NVML lists cards by their addresses: the first who is missing there is the
 * first who does not answer. */
static const struct gm_note *next_place(const struct gm_monitor *s)
{
	for (uint32_t i = 0; i < s->n_places; i++)
		if (!is_claimed(s, &s->places[i]))
			return &s->places[i];
	return NULL;
}

static void name_slot(struct gm_monitor *s, uint32_t index)
{
	struct gm_probe_slot *slot = &s->slots[index];
	const struct gm_note *place = next_place(s);
	struct gm_card *card;
	uint8_t uuid[16];

	if (place && place->place.named)
		memcpy(uuid, place->uuid, sizeof(uuid));
	else if (place)
		gm_parse_made_uuid(place->place.domain, place->place.bus, uuid);
	else
		gm_parse_made_uuid(index, UINT32_MAX, uuid);
	card = gm_monitor_card(s, uuid, true);
	if (!card)
		return;
	card->slot = index;
	slot->card = (uint32_t)(card - s->cards);
	if (!card->has_facts)
		gm_card_made(card, place, index);
	gm_card_check(card, slot->voice, &slot->trouble);
}

static bool are_slots_settled(const struct gm_monitor *s)
{
	for (uint32_t i = 0; i < s->n_slots; i++)
		if (!s->slots[i].is_settled)
			return false;
	return true;
}

/* Once all other cards can be told from them. */
static void mind_names(struct gm_monitor *s, uint64_t now)
{
	if (!s->has_census || !((are_slots_settled(s) && s->is_census_over) ||
				gm_monitor_due(s, s->list_at, now)))
		return;
	for (uint32_t i = 0; i < s->n_slots; i++)
		if (s->slots[i].is_settled && s->slots[i].card == GM_NO_CARD &&
		    s->slots[i].trouble.health != GM_PROBE_USABLE)
			name_slot(s, i);
}

/* ---- letting go --------------------------------------------------------- */

/* Has this process something of the card open, for all that we know? */
static bool holds(const struct gm_monitor *s,
		  const struct gm_probe_child *child,
		  const struct gm_card *card)
{
	switch (child->role) {
	case GM_ROLE_WATCH:
		return child->index == card->slot;
	case GM_ROLE_DRIVER:
		return child->index >= GM_PROBE_CARDS ||
		       s->cards[child->index].slot == card->slot;
	case GM_ROLE_PEERS:
		return true;
	default: /* a census takes no handles */
		return false;
	}
}

static bool may_hold(const struct gm_monitor *s,
		     const struct gm_probe_child *child,
		     const struct gm_card *card)
{
	/* The card of this index is not known yet: it may be this one. */
	if (child->role == GM_ROLE_WATCH && card->slot == GM_NO_CARD)
		return s->slots[child->index].card == GM_NO_CARD;
	return holds(s, child, card) && child->began <= card->released_at;
}

static void mind_released(struct gm_monitor *s)
{
	for (uint32_t i = 0; i < GM_PROBE_CARDS; i++) {
		struct gm_card *card = &s->cards[i];
		bool is_held = !s->has_watched;

		if (!card->used || !card->is_released || card->released_at == 0)
			continue;
		for (uint32_t k = 0; k < GM_MONITOR_CHILDREN; k++)
			is_held |= may_hold(s, &s->children[k], card);
		if (is_held)
			continue;
		card->want_released = true;
		card->released_at = 0;
	}
}

void gm_monitor_release(struct gm_monitor *s, const uint8_t uuid[16],
			uint32_t serial)
{
	struct gm_pending unknown = { .type = GM_PROBE_RELEASED,
				      .serial = serial };
	struct gm_card *card = gm_monitor_card(s, uuid, true);

	if (!card) {
		/* A card that is not known is open in none of our processes. */
		memcpy(unknown.uuid, uuid, sizeof(unknown.uuid));
		gm_monitor_queue(s, &unknown);
		return;
	}
	card->release = serial;
	card->is_released = true;
	card->released_at = gm_role_now();
	if (!card->is_instance && card->slot != GM_NO_CARD)
		s->slots[card->slot].is_released = true;
	for (uint32_t i = 0; i < GM_MONITOR_CHILDREN; i++) {
		struct gm_probe_child *child = &s->children[i];

		if (!child->role || !holds(s, child, card))
			continue;
		gm_role_kill(child);
		if (child->role == GM_ROLE_PEERS)
			s->want_peers = true;
	}
}

void gm_monitor_resume(struct gm_monitor *s, const uint8_t uuid[16])
{
	struct gm_card *card = gm_monitor_card(s, uuid, false);
	struct gm_probe_child *child;
	struct gm_probe_slot *slot;

	if (!card || !card->is_released)
		return;
	card->is_released = false;
	card->want_released = false;
	card->released_at = 0;
	/* Only now could it be reset, so what it had is over. */
	gm_card_check(card, GM_VOICE_EVENT, NULL);
	gm_card_check(card, GM_VOICE_DRIVER, NULL);
	card->is_asked = false;
	card->ask_at = 0;
	s->orders[0].is_due = true;
	s->orders[1].is_due = true;
	if (card->slot == GM_NO_CARD) {
		/* Only gpumapd has ever named this card. */
		card->used = card->has_facts || card->has_driver;
		return;
	}
	slot = &s->slots[card->slot];
	slot->start_at = 0;
	slot->failures = 0;
	if (!card->is_instance) {
		slot->is_released = false;
		return;
	}
	/* The running watcher ignores the instance; its successor watches it
	 * again. */
	child = child_of(s, GM_ROLE_WATCH, card->slot);
	if (child)
		gm_role_kill(child);
}

void gm_monitor_schedule(struct gm_monitor *s, uint64_t now)
{
	s->next = UINT64_MAX;
	if (!s->has_census && !s->is_census_over &&
	    !child_of(s, GM_ROLE_CENSUS, 0))
		start_census(s, now);
	mind_children(s, now);
	mind_names(s, now);
	mind_released(s);
	if (s->has_census && !s->is_over) {
		mind_watches(s, now);
		mind_orders(s, now);
		mind_asks(s, now);
		mind_peers(s, now);
	}
}
