/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/probe/monitor.h"

#include <stdio.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/cuda/nvml.h"

struct gm_card *gm_monitor_card(struct gm_monitor *s, const uint8_t uuid[16],
				bool make)
{
	struct gm_card *room = NULL;

	for (uint32_t i = 0; i < GM_PROBE_CARDS; i++) {
		struct gm_card *card = &s->cards[i];

		if (card->used && memcmp(card->uuid, uuid, 16) == 0)
			return card;
		if (!card->used && !room)
			room = card;
	}
	if (!make)
		return NULL;
	if (!room) {
		gm_log(GM_LOG_WARNING, "too_many_cards", "max=%u",
		       GM_PROBE_CARDS);
		return NULL;
	}
	gm_card_begin(room, uuid, GM_NO_CARD, gm_role_now());
	/* A card that both lists lack has no ordinal, and that is known. */
	room->has_ordinals = s->orders[0].is_good && s->orders[1].is_good;
	return room;
}

void gm_monitor_check_slot(struct gm_monitor *s, uint32_t slot,
			   enum gm_card_voice voice,
			   const struct gm_probe_verdict *verdict)
{
	if (s->slots[slot].card == GM_NO_CARD && verdict) {
		s->slots[slot].trouble = *verdict;
		s->slots[slot].voice = voice;
	}
	for (uint32_t i = 0; i < GM_PROBE_CARDS; i++)
		if (s->cards[i].used && s->cards[i].slot == slot)
			gm_card_check(&s->cards[i], voice, verdict);
}

static void hear_census(struct gm_monitor *s, const struct gm_note *note)
{
	uint64_t now = gm_role_now();

	if (s->has_census)
		return;
	if (note->census.outcome) {
		gm_monitor_end(s, note->census.outcome, note->text);
		return;
	}
	s->has_census = true;
	s->n_slots = note->census.n_cards;
	s->list_at = now + gm_probe_ms(s->options->limit_ms);
	for (uint32_t i = 0; i < s->n_slots; i++) {
		s->slots[i].is_used = true;
		s->slots[i].card = GM_NO_CARD;
	}
	s->orders[0].is_due = true;
	s->orders[1].is_due = true;
}

/* Another card answers at this index: the card that was here before is
 * somewhere else, or it was always the one that answers now. */
static void evict(struct gm_monitor *s, uint32_t slot, const char *by)
{
	struct gm_probe_verdict gone = { .health = GM_PROBE_LOST };

	snprintf(gone.text, sizeof(gone.text),
		 "NVML index %u answers as %.64s now", slot, by);
	for (uint32_t i = 0; i < GM_PROBE_CARDS; i++) {
		struct gm_card *card = &s->cards[i];

		if (!card->used || card->slot != slot)
			continue;
		card->slot = GM_NO_CARD;
		gm_card_check(card, GM_VOICE_SILENCE, NULL);
		gm_card_check(card, GM_VOICE_NVML, &gone);
	}
	s->slots[slot].card = GM_NO_CARD;
}

/* The card that this slot had is elsewhere: see who is here. */
static void vacate(struct gm_probe_slot *slot)
{
	slot->card = GM_NO_CARD;
	slot->is_released = false;
	slot->is_settled = false;
}

/* An instance that a new watcher does not meet is gone. */
static void expect_instances(struct gm_monitor *s, uint32_t slot)
{
	for (uint32_t i = 0; i < GM_PROBE_CARDS; i++)
		if (s->cards[i].used && s->cards[i].slot == slot)
			s->cards[i].is_met = false;
}

static void drop_instance(struct gm_card *card, const char *why)
{
	struct gm_probe_verdict gone = { .health = GM_PROBE_LOST };

	snprintf(gone.text, sizeof(gone.text), "%s", why);
	gm_card_check(card, GM_VOICE_NVML, &gone);
	card->slot = GM_NO_CARD;
}

static void miss_instances(struct gm_monitor *s, uint32_t slot)
{
	for (uint32_t i = 0; i < GM_PROBE_CARDS; i++) {
		struct gm_card *card = &s->cards[i];

		if (card->used && card->slot == slot && card->is_instance &&
		    !card->is_met && !card->is_released)
			drop_instance(card, "the instance was taken down");
	}
}

/* The card was released before its index was known, or its index has
 * changed. */
static void leave_alone(struct gm_monitor *s, struct gm_probe_child *child,
			struct gm_card *card)
{
	card->released_at = gm_role_now();
	gm_role_kill(child);
	if (card->is_instance)
		return; /* the next watcher passes it over */
	s->slots[child->index].is_released = true;
	s->slots[child->index].is_settled = true;
}

static void hear_card(struct gm_monitor *s, struct gm_probe_child *child,
		      const struct gm_note *note)
{
	struct gm_probe_slot *slot = &s->slots[child->index];
	struct gm_card *card = gm_monitor_card(s, note->uuid, true);
	bool was_asked, is_new;

	if (!card)
		return;
	was_asked = card->is_asked;
	is_new = !card->has_facts;
	gm_card_facts(card, note);
	if (!card->is_instance) {
		expect_instances(s, child->index);
		if (card->slot != GM_NO_CARD && card->slot != child->index)
			vacate(&s->slots[card->slot]);
		if (slot->card != (uint32_t)(card - s->cards))
			evict(s, child->index, note->card.device.id);
		slot->card = (uint32_t)(card - s->cards);
	}
	card->slot = child->index;
	card->is_met = true;
	if (card->is_released)
		leave_alone(s, child, card);
	/* A card that comes, or comes back, may change every order. */
	if ((was_asked && !card->is_asked) || (is_new && s->is_listed)) {
		s->orders[0].is_due = true;
		s->orders[1].is_due = true;
	}
}

static void hear_process(struct gm_monitor *s, struct gm_probe_child *child,
			 const struct gm_note *note)
{
	struct gm_card *card = gm_monitor_card(s, note->uuid, false);

	if (card && card->slot == child->index)
		gm_card_process(card, note);
}

static void hear_moving(struct gm_monitor *s, struct gm_probe_child *child,
			const struct gm_note *note)
{
	struct gm_card *card = gm_monitor_card(s, note->uuid, false);
	bool was_well;

	if (!card || card->slot != child->index)
		return;
	was_well = gm_card_is_well(card);
	gm_card_moving(card, note);
	if (card->is_instance)
		return;
	/* Its instances were introduced before. */
	s->slots[child->index].is_settled = true;
	miss_instances(s, child->index);
	if (!was_well && gm_card_is_well(card))
		s->want_peers = s->is_listed;
}

static void hear_event(struct gm_monitor *s, struct gm_probe_child *child,
		       const struct gm_note *note)
{
	struct gm_card *card = gm_monitor_card(s, note->uuid, false);
	struct gm_pending heard = { .type = GM_PROBE_EVENT,
				    .event = note->event };
	bool is_lost;

	if (!card || card->slot != child->index)
		return;
	/* gpumapd counts Xids, and logs them. */
	if (note->event.kind != GM_NVML_EVENT_XID)
		gm_log(GM_LOG_INFO, "card_event", "device=%s kind=0x%llx",
		       card->facts.device.id,
		       (unsigned long long)note->event.kind);
	memcpy(heard.uuid, note->uuid, sizeof(heard.uuid));
	gm_monitor_queue(s, &heard);
	if (!gm_card_event(card, &note->event) || card->is_instance)
		return;
	/* Facts of a whole card hold for its instances. */
	for (uint32_t i = 0; i < GM_PROBE_CARDS; i++)
		if (s->cards[i].used && s->cards[i].slot == child->index)
			gm_card_event(&s->cards[i], &note->event);
	/* Its handle is worth nothing any more; another watcher will see. */
	is_lost = card->verdicts[GM_VOICE_EVENT].health == GM_PROBE_LOST;
	if (is_lost)
		gm_role_kill(child);
}

static void hear_gone(struct gm_monitor *s, const struct gm_note *note)
{
	struct gm_card *card = gm_monitor_card(s, note->uuid, false);

	if (card && card->is_instance)
		drop_instance(card, note->text);
}

static void hear_trouble(struct gm_monitor *s, struct gm_probe_child *child,
			 const struct gm_note *note)
{
	struct gm_probe_verdict verdict = { .health = note->health,
					    .code = note->code };

	memcpy(verdict.text, note->text, sizeof(verdict.text));
	gm_log(GM_LOG_WARNING, "card_trouble", "nvml=%u code=%d why=%s",
	       child->index, note->code, gm_quote(note->text).text);
	child->is_done = true;
	s->slots[child->index].is_settled = true;
	gm_monitor_check_slot(s, child->index, GM_VOICE_SILENCE, NULL);
	gm_monitor_check_slot(s, child->index, GM_VOICE_NVML, &verdict);
}

static void hear_driver(struct gm_monitor *s, struct gm_probe_child *child,
			const struct gm_note *note)
{
	bool is_order = child->index >= GM_PROBE_CARDS;
	/* The driver may be quicker than NVML, and is of no use alone. */
	struct gm_card *card = gm_monitor_card(s, note->uuid, is_order);

	if (!card)
		return;
	gm_card_driver(card, note);
	if (is_order)
		card->counting[child->index - GM_ORDER_PCI] =
			note->driver.ordinal;
}

/* A list of ordinals is whole: who is not on it has none. */
static void take_ordinals(struct gm_monitor *s, uint32_t which)
{
	bool both = s->orders[0].is_good && s->orders[1].is_good;

	for (uint32_t i = 0; i < GM_PROBE_CARDS; i++) {
		struct gm_card *card = &s->cards[i];

		if (!card->used)
			continue;
		if (card->ordinals[which] != card->counting[which] ||
		    card->has_ordinals != both)
			card->want_device = true;
		card->ordinals[which] = card->counting[which];
		card->has_ordinals = both;
	}
}

static void refuse_card(struct gm_monitor *s, struct gm_card *card,
			int32_t code, const char *text)
{
	struct gm_probe_verdict verdict = { .health = GM_PROBE_FAILED,
					    .code = code };

	snprintf(verdict.text, sizeof(verdict.text), "%s", text);
	gm_log(GM_LOG_WARNING, "driver_refuses", "device=%s code=%d why=%s",
	       card->facts.device.id, code, gm_quote(text).text);
	gm_card_check(card, GM_VOICE_DRIVER, &verdict);
	card->ask_at = gm_monitor_later(s, card->asked, gm_role_now());
	card->asked++;
}

static void refuse_order(struct gm_monitor *s, uint32_t which, int32_t code,
			 const char *text)
{
	struct gm_order *order = &s->orders[which];

	gm_log(GM_LOG_WARNING, "no_ordinals", "order=%s code=%d why=%s",
	       which ? "FASTEST_FIRST" : "PCI_BUS_ID", code,
	       gm_quote(text).text);
	order->is_over = true;
	order->is_due = true;
	order->start_at = gm_monitor_later(s, order->failures++, gm_role_now());
}

static void refuse(struct gm_monitor *s, uint32_t index, int32_t code,
		   const char *text)
{
	if (index >= GM_PROBE_CARDS)
		refuse_order(s, index - GM_ORDER_PCI, code, text);
	else
		refuse_card(s, &s->cards[index], code, text);
}

static void hear_driven(struct gm_monitor *s, struct gm_probe_child *child,
			const struct gm_note *note)
{
	struct gm_order *order;

	child->is_done = true;
	if (note->health != GM_PROBE_USABLE) {
		refuse(s, child->index, note->code, note->text);
		return;
	}
	if (child->index < GM_PROBE_CARDS)
		return;
	order = &s->orders[child->index - GM_ORDER_PCI];
	order->is_over = true;
	order->is_good = true;
	order->failures = 0;
	take_ordinals(s, child->index - GM_ORDER_PCI);
}

static void hear_peers(struct gm_monitor *s, const struct gm_note *note)
{
	struct gm_card *a = gm_monitor_card(s, note->uuid, false);
	struct gm_card *b = gm_monitor_card(s, note->peers.other, false);
	struct gm_probe_pair *pair;

	if (!a || !b || a->slot >= GM_PROBE_GPUS || b->slot >= GM_PROBE_GPUS)
		return;
	pair = &s->pairs[a->slot][b->slot];
	pair->peers = note->peers;
	pair->is_dirty = true;
}

void gm_monitor_on_message(struct gm_monitor *s, struct gm_probe_child *child,
			   const struct gm_note *note)
{
	switch (note->type) {
	case GM_NOTE_CENSUS:
		hear_census(s, note);
		break;
	case GM_NOTE_PLACE:
		if (s->n_places < GM_PROBE_GPUS)
			s->places[s->n_places++] = *note;
		break;
	case GM_NOTE_CARD:
		hear_card(s, child, note);
		break;
	case GM_NOTE_PROCESS:
		hear_process(s, child, note);
		break;
	case GM_NOTE_MOVING:
		hear_moving(s, child, note);
		break;
	case GM_NOTE_EVENT:
		hear_event(s, child, note);
		break;
	case GM_NOTE_GONE:
		hear_gone(s, note);
		break;
	case GM_NOTE_TROUBLE:
		hear_trouble(s, child, note);
		break;
	case GM_NOTE_PEERS:
		hear_peers(s, note);
		break;
	case GM_NOTE_DRIVER:
		hear_driver(s, child, note);
		break;
	case GM_NOTE_DRIVEN:
		hear_driven(s, child, note);
		break;
	}
}

static void census_ended(struct gm_monitor *s, const char *how)
{
	char text[96];

	s->is_census_over = true;
	if (s->has_census || s->is_over)
		return;
	snprintf(text, sizeof(text), "NVML ended the process that asked: %s",
		 how);
	gm_monitor_end(s, GM_PROBE_BROKEN, text);
}

static void watch_ended(struct gm_monitor *s, const struct gm_probe_child *was,
			const char *how)
{
	struct gm_probe_verdict verdict = { .health = GM_PROBE_FAILED };
	struct gm_probe_slot *slot = &s->slots[was->index];
	uint64_t now = gm_role_now();

	if (!was->is_killed && !was->is_done) {
		snprintf(verdict.text, sizeof(verdict.text),
			 "NVML ended the process that watches: %s", how);
		gm_log(GM_LOG_WARNING, "watcher_died", "nvml=%u how=%s",
		       was->index, gm_quote(how).text);
		gm_monitor_check_slot(s, was->index, GM_VOICE_NVML, &verdict);
		slot->is_settled = true;
	}
	/* One that has served long had bad luck, not a bad card. */
	if (now - was->began > 64 * gm_probe_ms(s->options->refresh_ms))
		slot->failures = 0;
	slot->start_at = gm_monitor_later(s, slot->failures++, now);
}

static void driver_ended(struct gm_monitor *s, const struct gm_probe_child *was,
			 const char *how)
{
	char text[160];

	if (was->is_done)
		return;
	if (was->is_killed &&
	    gm_role_now() - was->began <
		    gm_probe_ms(s->options->driver_limit_ms)) {
		/* For a release; it will be asked again. */
		if (was->index >= GM_PROBE_CARDS)
			s->orders[was->index - GM_ORDER_PCI].is_due = true;
		return;
	}
	if (was->is_killed)
		snprintf(text, sizeof(text), "CUDA hangs: over %u ms in %s",
			 s->options->driver_limit_ms, was->call);
	else
		snprintf(text, sizeof(text),
			 "CUDA ended the process that asked: %s in %s", how,
			 was->call);
	refuse(s, was->index, 0, text);
}

void gm_monitor_child_ended(struct gm_monitor *s,
			    const struct gm_probe_child *was, const char *how)
{
	switch (was->role) {
	case GM_ROLE_CENSUS:
		census_ended(s, how);
		break;
	case GM_ROLE_WATCH:
		watch_ended(s, was, how);
		break;
	case GM_ROLE_PEERS:
		/* No worker copies where nothing is known of the path. */
		if (strcmp(how, "exit status 0") != 0 && !s->want_peers)
			gm_log(GM_LOG_WARNING, "no_peers", "how=%s",
			       gm_quote(how).text);
		break;
	case GM_ROLE_DRIVER:
		driver_ended(s, was, how);
		break;
	}
}
