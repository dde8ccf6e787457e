/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/health/reports.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/cuda/nvml.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"

#define MS              UINT64_C(1000000)
#define BACK_OFF_NS     (100 * MS) /* after the second fault, times 4 */
#define BACK_OFF_MAX    (30000 * MS)

#define TERMINATE(text) ((text)[sizeof(text) - 1] = '\0')

/* The records of each role.  Every role sends CALL. */
#define OF(role) (1u << (role))
static const uint32_t speakers[] = {
	[GM_PROBE_PLACE] = OF(GM_ROLE_CENSUS),
	[GM_PROBE_CENSUS] = OF(GM_ROLE_CENSUS),
	[GM_PROBE_DEVICE] = OF(GM_ROLE_WATCH) | OF(GM_ROLE_LIST),
	[GM_PROBE_PROCESS] = OF(GM_ROLE_WATCH),
	[GM_PROBE_MOVING] = OF(GM_ROLE_WATCH),
	[GM_PROBE_EVENT] = OF(GM_ROLE_WATCH),
	[GM_PROBE_GONE] = OF(GM_ROLE_WATCH),
	[GM_PROBE_PEERS] = OF(GM_ROLE_PEERS),
	[GM_PROBE_DRIVER] = OF(GM_ROLE_DRIVER),
	[GM_PROBE_DONE] =
		OF(GM_ROLE_WATCH) | OF(GM_ROLE_DRIVER) | OF(GM_ROLE_LIST),
};

bool gm_reports_check(struct gm_probe_wire *wire, enum gm_probe_role role)
{
	struct gm_probe_device *device = &wire->device;

	TERMINATE(wire->text);
	if (wire->health > GM_PROBE_ABSENT ||
	    (wire->health == GM_PROBE_ABSENT && role != GM_ROLE_CENSUS))
		return false;
	if (wire->type == GM_PROBE_CALL)
		return true;
	if (wire->type >= sizeof(speakers) / sizeof(speakers[0]) ||
	    (speakers[wire->type] & OF(role)) == 0)
		return false;
	switch (wire->type) {
	case GM_PROBE_CENSUS:
		return wire->n_cards <= GM_PROBE_GPUS;
	case GM_PROBE_PLACE:
		TERMINATE(wire->place.id);
		return true;
	case GM_PROBE_DEVICE:
	case GM_PROBE_DRIVER:
		TERMINATE(device->name);
		TERMINATE(device->id);
		TERMINATE(device->facts.cpus);
		TERMINATE(device->facts.mig_profile);
		return true;
	case GM_PROBE_PROCESS:
		return wire->process.index < GM_PROBE_PROCESSES &&
		       wire->process.n <= GM_PROBE_LINE;
	default:
		return true;
	}
}

/* ---- the tables ---------------------------------------------------------- */

uint64_t gm_reports_later(const struct gm_watchers *w, uint32_t failures)
{
	uint32_t shift = failures < 6 ? failures : 6;

	return gm_loop_now() + (w->d->config->refresh_ns << shift);
}

void gm_reports_end(struct gm_prober *prober)
{
	if (prober->child.state != GM_CHILD_RUNNING)
		return;
	prober->is_unwanted = true;
	gm_child_kill(&prober->child, "it is not wanted any more");
}

struct gm_prober *gm_reports_prober(struct gm_watchers *w,
				    enum gm_probe_role role, uint32_t index)
{
	for (uint32_t i = 0; i < GM_PROBERS; i++)
		if (w->probers[i].role == role && w->probers[i].index == index)
			return &w->probers[i];
	return NULL;
}

/* The place of an instance that is gone, as the reader knows; or NULL. */
static struct gm_watched *free_place(struct gm_watchers *w)
{
	for (uint32_t i = 0; i < w->n_cards; i++) {
		struct gm_watched *card = w->cards[i];

		if (card->is_instance && card->slot == GM_NO_CARD &&
		    !(card->is_named && card->verdict_is_due) &&
		    !gm_reports_prober(w, GM_ROLE_DRIVER, i))
			return card;
	}
	return NULL;
}

struct gm_watched *gm_reports_card(struct gm_watchers *w,
				   const uint8_t uuid[16], bool make)
{
	struct gm_watched *card;

	for (uint32_t i = 0; i < w->n_cards; i++)
		if (memcmp(w->cards[i]->uuid, uuid, 16) == 0)
			return w->cards[i];
	if (!make)
		return NULL;
	card = free_place(w);
	if (!card && w->n_cards < GM_PROBE_CARDS) {
		card = malloc(sizeof(*card));
		if (card)
			w->cards[w->n_cards++] = card;
	}
	if (!card) {
		gm_log(GM_LOG_WARNING, "too_many_cards", "max=%u",
		       GM_PROBE_CARDS);
		return NULL;
	}
	gm_watched_begin(card, uuid, gm_loop_now());
	/* A card that both lists lack has no ordinal, and that is known. */
	card->has_ordinals = w->orders[0].is_good && w->orders[1].is_good;
	return card;
}

/* ---- the census ---------------------------------------------------------- */

void gm_reports_broken(struct gm_watchers *w, const char *why)
{
	if (strcmp(w->said, why) != 0)
		gm_log(GM_LOG_WARNING, "probe_died", "reason=%s",
		       gm_quote(why).text);
	snprintf(w->said, sizeof(w->said), "%s", why);
	w->faults++;
	w->reader->broken(w->d, why);
}

void gm_reports_rest(struct gm_watchers *w)
{
	uint64_t rest = w->faults < 2
				? 0
				: gm_child_rest(BACK_OFF_NS, 4, w->faults - 1,
						BACK_OFF_MAX);

	w->census_ns = gm_loop_now() + rest;
	gm_log(GM_LOG_INFO, "probe_rests", "deaths=%u wait_ms=%" PRIu64,
	       w->faults, rest / MS);
}

static void begin_slots(struct gm_watchers *w, uint32_t n)
{
	w->has_census = true;
	w->said[0] = '\0';
	w->n_slots = n;
	w->list_ns = gm_loop_now() + w->limit_ns;
	for (uint32_t i = 0; i < n; i++)
		w->slots[i].card = GM_NO_CARD;
	w->orders[0].is_due = w->orders[1].is_due = true;
}

static void hear_census(struct gm_prober *prober,
			const struct gm_probe_wire *wire)
{
	struct gm_watchers *w = prober->w;
	bool is_absent = wire->health == GM_PROBE_ABSENT;

	if (w->has_census || prober->is_done)
		return;
	prober->is_done = true;
	if (w->found_none && !is_absent)
		gm_log(GM_LOG_INFO, "driver_came", "pid=%d",
		       (int)prober->child.process.pid);
	else if (is_absent && !w->found_none)
		w->reader->absent(w->d, wire->text);
	w->found_none = is_absent;
	if (wire->health == GM_PROBE_USABLE)
		begin_slots(w, wire->n_cards);
	else if (!is_absent)
		gm_reports_broken(w, wire->text);
}

static void end_census(struct gm_prober *prober, const char *how)
{
	struct gm_watchers *w = prober->w;
	char text[160];

	w->is_census_over = w->has_census;
	if (w->has_census)
		return;
	if (prober->child.why[0])
		snprintf(text, sizeof(text), "NVML hangs: over %u ms in %s",
			 (unsigned int)(w->limit_ns / MS), prober->call);
	else
		snprintf(text, sizeof(text),
			 "NVML ended the process that asked: %s", how);
	if (!prober->is_done)
		gm_reports_broken(w, text);
	if (w->found_none) {
		w->census_ns = gm_loop_now();
		if (!w->looks_again)
			w->census_ns += w->d->config->cuda_look_again_ns;
		w->looks_again = false;
		return;
	}
	gm_reports_rest(w);
}

/* ---- watchers ------------------------------------------------------------ */

void gm_reports_set_slot(struct gm_watchers *w, uint32_t slot,
			 enum gm_verdict_source source,
			 const struct gm_verdict *verdict)
{
	if (w->slots[slot].card == GM_NO_CARD && verdict) {
		w->slots[slot].trouble = *verdict;
		w->slots[slot].source = source;
	}
	for (uint32_t i = 0; i < w->n_cards; i++) {
		if (w->cards[i]->slot != slot)
			continue;
		gm_watched_set(w->cards[i], source, verdict);
		w->cards[i]->is_awaited &= verdict == NULL;
	}
}

/* Another card answers at this index: the card that was here before is
 * somewhere else, or it was always the one that answers now. */
static void evict(struct gm_watchers *w, uint32_t slot,
		  const struct gm_watched *by)
{
	struct gm_verdict gone = { .health = GM_PROBE_LOST };

	snprintf(gone.text, sizeof(gone.text),
		 "NVML index %u answers as %.64s now", slot, by->device.id);
	for (uint32_t i = 0; i < w->n_cards; i++) {
		struct gm_watched *card = w->cards[i];

		if (card == by || card->slot != slot ||
		    card->device.facts.nvml_index !=
			    by->device.facts.nvml_index)
			continue;
		card->slot = GM_NO_CARD;
		gm_watched_set(card, GM_VERDICT_SILENCE, NULL);
		gm_watched_set(card, GM_VERDICT_NVML, &gone);
	}
}

static void drop_instance(struct gm_watched *card, const char *why)
{
	struct gm_verdict gone = { .health = GM_PROBE_LOST };

	snprintf(gone.text, sizeof(gone.text), "%s", why);
	gm_watched_set(card, GM_VERDICT_NVML, &gone);
	card->slot = GM_NO_CARD;
	card->is_awaited = false;
}

/* An instance that a new watcher does not meet is gone. */
static void expect_instances(struct gm_watchers *w, uint32_t slot)
{
	for (uint32_t i = 0; i < w->n_cards; i++)
		if (w->cards[i]->slot == slot)
			w->cards[i]->is_met = false;
}

static void miss_instances(struct gm_watchers *w, uint32_t slot)
{
	for (uint32_t i = 0; i < w->n_cards; i++) {
		struct gm_watched *card = w->cards[i];

		if (card->slot == slot && card->is_instance && !card->is_met)
			drop_instance(card, "the instance was taken down");
	}
}

static uint32_t number_of(const struct gm_watchers *w,
			  const struct gm_watched *card)
{
	uint32_t i = 0;

	while (w->cards[i] != card)
		i++;
	return i;
}

static void hear_device(struct gm_prober *prober,
			const struct gm_probe_wire *wire)
{
	struct gm_watchers *w = prober->w;
	struct gm_watch_slot *slot = &w->slots[prober->index];
	struct gm_watched *card = gm_reports_card(w, wire->uuid, true);
	bool was_asked, is_new;

	if (!card)
		return;
	was_asked = card->is_asked;
	is_new = !card->has_facts;
	gm_watched_facts(card, wire);
	if (!card->is_instance) {
		expect_instances(w, prober->index);
		/* Its old slot has another card, which is to be seen. */
		if (card->slot != GM_NO_CARD && card->slot != prober->index)
			w->slots[card->slot] =
				(struct gm_watch_slot){ .card = GM_NO_CARD };
		if (slot->card != number_of(w, card))
			evict(w, prober->index, card);
		slot->card = number_of(w, card);
	}
	card->slot = prober->index;
	card->is_met = true;
	/* The card was released before its index was known, or its index has
	 * changed. */
	if (card->is_released && !card->is_instance) {
		card->released_ns = gm_loop_now();
		slot->is_released = true;
		slot->is_settled = true;
		gm_reports_end(prober);
	}
	/* A card that comes, or comes back, may change every order. */
	if ((was_asked && !card->is_asked) || (is_new && w->is_listed))
		w->orders[0].is_due = w->orders[1].is_due = true;
}

static void hear_moving(struct gm_prober *prober, struct gm_watched *card,
			const struct gm_probe_wire *wire)
{
	struct gm_watchers *w = prober->w;
	bool was_well = gm_watched_is_well(card);

	gm_watched_moving(card, wire);
	card->moving_is_due = !card->is_named;
	card->verdict_is_due = true; /* the card was seen */
	if (card->is_named)
		w->reader->record(w->d, wire);
	if (card->is_instance)
		return;
	/* Its instances were introduced before. */
	w->slots[prober->index].is_settled = true;
	miss_instances(w, prober->index);
	if (!was_well && gm_watched_is_well(card))
		w->wants_peers |= w->is_listed;
}

static void hear_event(struct gm_prober *prober, struct gm_watched *card,
		       const struct gm_probe_wire *wire)
{
	struct gm_watchers *w = prober->w;
	struct gm_verdict verdict;

	if (wire->event.kind != GM_NVML_EVENT_XID)
		gm_log(GM_LOG_INFO, "card_event", "device=%s kind=0x%llx",
		       gm_quote(card->device.id).text,
		       (unsigned long long)wire->event.kind);
	if (card->is_named)
		w->reader->record(w->d, wire);
	if (wire->event.kind != GM_NVML_EVENT_XID ||
	    !gm_watched_is_grave(wire->event.xid, &verdict))
		return;
	/* Faults of a whole card are those of its instances.  Lost stays
	 * lost. */
	for (uint32_t i = 0; i < w->n_cards; i++) {
		struct gm_watched *part = w->cards[i];
		bool is_of_card =
			part == card ||
			(!card->is_instance && part->slot == prober->index &&
			 memcmp(part->device.parent, card->uuid, 16) == 0);

		if (is_of_card &&
		    part->verdicts[GM_VERDICT_XID].health != GM_PROBE_LOST)
			gm_watched_set(part, GM_VERDICT_XID, &verdict);
	}
	/* Its handle is worth nothing any more; another watcher will see. */
	if (verdict.health == GM_PROBE_LOST && !card->is_instance)
		gm_reports_end(prober);
}

static void hear_trouble(struct gm_prober *prober,
			 const struct gm_probe_wire *wire)
{
	struct gm_watchers *w = prober->w;
	struct gm_verdict verdict = { wire->health, wire->code, "" };

	memcpy(verdict.text, wire->text, sizeof(verdict.text));
	gm_log(GM_LOG_WARNING, "card_trouble", "nvml=%u code=%d why=%s",
	       prober->index, wire->code, gm_quote(wire->text).text);
	prober->is_done = true;
	w->slots[prober->index].is_settled = true;
	gm_reports_set_slot(w, prober->index, GM_VERDICT_SILENCE, NULL);
	gm_reports_set_slot(w, prober->index, GM_VERDICT_NVML, &verdict);
}

static void hear_watcher(struct gm_prober *prober,
			 const struct gm_probe_wire *wire)
{
	struct gm_watchers *w = prober->w;
	struct gm_watched *card = gm_reports_card(w, wire->uuid, false);

	if (wire->type == GM_PROBE_DEVICE)
		hear_device(prober, wire);
	else if (wire->type == GM_PROBE_DONE)
		hear_trouble(prober, wire);
	if (!card || card->slot != prober->index)
		return;
	if (wire->type == GM_PROBE_PROCESS && card->is_named)
		w->reader->record(w->d, wire);
	else if (wire->type == GM_PROBE_MOVING)
		hear_moving(prober, card, wire);
	else if (wire->type == GM_PROBE_EVENT)
		hear_event(prober, card, wire);
	else if (wire->type == GM_PROBE_GONE && card->is_instance)
		drop_instance(card, wire->text);
}

static void end_watch(struct gm_prober *prober, const char *how)
{
	struct gm_watchers *w = prober->w;
	struct gm_verdict verdict = { .health = GM_PROBE_FAILED };
	struct gm_watch_slot *slot = &w->slots[prober->index];
	uint64_t lived = gm_loop_now() - prober->child.began_ns;

	if (!prober->is_unwanted && !prober->is_done) {
		if (prober->child.why[0])
			how = prober->child.why;
		snprintf(verdict.text, sizeof(verdict.text),
			 "NVML ended the process that watches: %.100s", how);
		gm_log(GM_LOG_WARNING, "watcher_died", "nvml=%u how=%s",
		       prober->index, gm_quote(how).text);
		gm_reports_set_slot(w, prober->index, GM_VERDICT_NVML,
				    &verdict);
		slot->is_settled = true;
	}
	/* One that has served long had bad luck, not a bad card. */
	if (lived > 64 * w->d->config->refresh_ns)
		slot->failures = 0;
	slot->start_ns = gm_reports_later(w, slot->failures++);
}

/* ---- the driver ---------------------------------------------------------- */

static bool is_of_order(const struct gm_prober *prober)
{
	return prober->index >= GM_ORDER_PCI;
}

static void hear_driver(struct gm_prober *prober,
			const struct gm_probe_wire *wire)
{
	/* The driver may be quicker than NVML, and is of no use alone. */
	struct gm_watched *card =
		gm_reports_card(prober->w, wire->uuid, is_of_order(prober));

	if (!card)
		return;
	gm_watched_driver(card, wire);
	if (is_of_order(prober))
		card->counting[prober->index - GM_ORDER_PCI] =
			wire->device.facts.ordinal_pci;
}

/* A list of ordinals is whole: a card that is not on it has none. */
static void take_ordinals(struct gm_watchers *w, uint32_t which)
{
	bool both = w->orders[0].is_good && w->orders[1].is_good;

	for (uint32_t i = 0; i < w->n_cards; i++) {
		struct gm_watched *card = w->cards[i];

		if (card->ordinals[which] != card->counting[which] ||
		    card->has_ordinals != both)
			card->facts_are_due = true;
		card->ordinals[which] = card->counting[which];
		card->has_ordinals = both;
	}
}

/* The driver refuses a card, or a list. */
static void refuse(struct gm_prober *prober, int32_t code, const char *text)
{
	struct gm_watchers *w = prober->w;
	struct gm_verdict verdict = { GM_PROBE_FAILED, code, "" };
	struct gm_watched *card;

	if (is_of_order(prober)) {
		uint32_t which = prober->index - GM_ORDER_PCI;
		struct gm_card_order *order = &w->orders[which];

		gm_log(GM_LOG_WARNING, "no_ordinals", "order=%s code=%d why=%s",
		       which ? "FASTEST_FIRST" : "PCI_BUS_ID", code,
		       gm_quote(text).text);
		order->is_over = order->is_due = true;
		order->start_ns = gm_reports_later(w, order->failures++);
		return;
	}
	card = w->cards[prober->index];
	snprintf(verdict.text, sizeof(verdict.text), "%s", text);
	gm_log(GM_LOG_WARNING, "driver_refuses", "device=%s code=%d why=%s",
	       gm_quote(card->device.id).text, code, gm_quote(text).text);
	gm_watched_set(card, GM_VERDICT_DRIVER, &verdict);
	card->ask_ns = gm_reports_later(w, card->refusals++);
}

static void hear_driver_done(struct gm_prober *prober,
			     const struct gm_probe_wire *wire)
{
	struct gm_watchers *w = prober->w;
	uint32_t which = prober->index - GM_ORDER_PCI;

	prober->is_done = true;
	if (wire->health != GM_PROBE_USABLE) {
		refuse(prober, wire->code, wire->text);
		return;
	}
	if (!is_of_order(prober))
		return;
	w->orders[which].is_over = true;
	w->orders[which].is_good = true;
	w->orders[which].failures = 0;
	take_ordinals(w, which);
}

static void end_driver(struct gm_prober *prober, const char *how)
{
	struct gm_watchers *w = prober->w;
	char text[160];

	if (prober->is_done)
		return;
	if (prober->is_unwanted) {
		/* For a release; it will be asked again. */
		if (is_of_order(prober))
			w->orders[prober->index - GM_ORDER_PCI].is_due = true;
		return;
	}
	if (prober->child.why[0])
		snprintf(text, sizeof(text), "CUDA hangs: over %u ms in %s",
			 (unsigned int)(w->driver_limit_ns / MS), prober->call);
	else
		snprintf(text, sizeof(text),
			 "CUDA ended the process that asked: %s in %s", how,
			 prober->call);
	refuse(prober, 0, text);
}

/* ---- all of them --------------------------------------------------------- */

static void hear_peers(struct gm_watchers *w, const struct gm_probe_wire *wire)
{
	const struct gm_watched *a = gm_reports_card(w, wire->uuid, false);
	const struct gm_watched *b =
		gm_reports_card(w, wire->peers.other, false);

	if (a && b && a->slot != GM_NO_CARD && b->slot != GM_NO_CARD)
		w->reader->record(w->d, wire);
}

void gm_reports_hear(struct gm_prober *prober, const struct gm_probe_wire *wire)
{
	struct gm_watchers *w = prober->w;

	prober->heard_ns = gm_loop_now();
	if (wire->type == GM_PROBE_CALL) {
		snprintf(prober->call, sizeof(prober->call), "%.*s",
			 (int)sizeof(prober->call) - 1, wire->text);
		return;
	}
	prober->has_said = true;
	switch (prober->role) {
	case GM_ROLE_CENSUS:
		if (wire->type == GM_PROBE_CENSUS)
			hear_census(prober, wire);
		else if (w->n_places < GM_PROBE_GPUS)
			w->places[w->n_places++] = *wire;
		break;
	case GM_ROLE_WATCH:
		hear_watcher(prober, wire);
		break;
	case GM_ROLE_PEERS:
		hear_peers(w, wire);
		break;
	case GM_ROLE_DRIVER:
		if (wire->type == GM_PROBE_DRIVER)
			hear_driver(prober, wire);
		else
			hear_driver_done(prober, wire);
		break;
	case GM_ROLE_LIST:
		break;
	}
}

void gm_reports_ended(struct gm_prober *prober, const char *how, int status)
{
	switch (prober->role) {
	case GM_ROLE_CENSUS:
		end_census(prober, how);
		break;
	case GM_ROLE_WATCH:
		end_watch(prober, how);
		break;
	case GM_ROLE_PEERS:
		/* No worker copies where nothing is known of the path. */
		if (status != 0 && !prober->w->wants_peers)
			gm_log(GM_LOG_WARNING, "no_peers", "how=%s",
			       gm_quote(how).text);
		break;
	case GM_ROLE_DRIVER:
		end_driver(prober, how);
		break;
	case GM_ROLE_LIST:
		break;
	}
}
