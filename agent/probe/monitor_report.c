/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/probe/monitor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/common/log.h"

#define COMMANDS_AT_ONCE 64u

/* Returns whether it was taken. */
static bool say(struct gm_monitor *s, const struct gm_probe_wire *wire)
{
	ssize_t n;

	if (s->is_blocked || s->is_over)
		return false;
	do {
		n = send(GM_PROBE_FD, wire, sizeof(*wire),
			 MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n == (ssize_t)sizeof(*wire))
		return true;
	if (n < 0 && (errno == EAGAIN || errno == ENOBUFS)) {
		s->is_blocked = true;
		return false;
	}
	s->is_over = true;
	return false;
}

void gm_monitor_end(struct gm_monitor *s, uint32_t type, const char *text)
{
	struct gm_probe_wire wire = { .type = type };

	if (s->is_over)
		return;
	snprintf(wire.text, sizeof(wire.text), "%s", text);
	/* The last of all, so it may wait.  gpumapd tells the log. */
	while (send(GM_PROBE_FD, &wire, sizeof(wire), MSG_NOSIGNAL) < 0 &&
	       errno == EINTR)
		;
	s->is_over = true;
	s->status = type == GM_PROBE_ABSENT ? EXIT_SUCCESS : EXIT_FAILURE;
}

void gm_monitor_queue(struct gm_monitor *s, const struct gm_pending *what)
{
	if (s->n_pending == GM_MONITOR_PENDING) {
		s->first_pending = (s->first_pending + 1) % GM_MONITOR_PENDING;
		s->n_pending--;
		if (s->n_dropped++ == 0)
			gm_log(GM_LOG_WARNING, "events_dropped", "max=%u",
			       GM_MONITOR_PENDING);
	}
	s->pending[(s->first_pending + s->n_pending++) % GM_MONITOR_PENDING] =
		*what;
}

/* Is all known of it that will soon be, or was there time enough? */
static bool is_ready(struct gm_monitor *s, const struct gm_card *card,
		     uint64_t now)
{
	uint64_t until = card->since + gm_probe_ms(s->options->limit_ms);
	uint32_t health = gm_card_verdict(card).health;

	if (!card->has_facts || card->is_released)
		return false;
	/* Every card that is known when the first list ends is on it. */
	if (!s->is_listed && s->list_at < until)
		until = s->list_at;
	if (gm_monitor_due(s, until, now))
		return true;
	if (health == GM_PROBE_LOST || health == GM_PROBE_FAILED)
		return true;
	return card->has_moving && gm_monitor_has_orders(s) &&
	       (card->is_asked || health == GM_PROBE_SPLIT);
}

static void log_card(const struct gm_card *card)
{
	static const char *const words[] = {
		[GM_PROBE_USABLE] = "usable", [GM_PROBE_FAILED] = "failed",
		[GM_PROBE_LOST] = "lost",     [GM_PROBE_SPLIT] = "split",
		[GM_PROBE_TAKEN] = "taken",
	};
	struct gm_probe_verdict verdict = gm_card_verdict(card);
	bool is_bad = verdict.health == GM_PROBE_FAILED ||
		      verdict.health == GM_PROBE_LOST;

	gm_log(is_bad ? GM_LOG_WARNING : GM_LOG_INFO, "card",
	       "device=%s name=%s health=%s why=%s", card->facts.device.id,
	       gm_quote(card->facts.device.name).text, words[verdict.health],
	       gm_quote(verdict.text).text);
}

static void tell_devices(struct gm_monitor *s, uint64_t now)
{
	struct gm_probe_wire wire;

	for (uint32_t i = 0; i < GM_PROBE_CARDS; i++) {
		struct gm_card *card = &s->cards[i];

		if (!card->used || !card->want_device ||
		    (!card->is_said && !is_ready(s, card, now)))
			continue;
		gm_card_device(card, s->options->sysfs, &wire);
		if (!say(s, &wire))
			return;
		if (!card->is_said)
			log_card(card);
		card->is_said = true;
		card->want_device = false;
		card->want_moving = true;
	}
}

/* Every card has had its DEVICE, or its time. */
static bool is_list_whole(struct gm_monitor *s, uint64_t now)
{
	if (!s->has_census)
		return false;
	if (gm_monitor_due(s, s->list_at, now))
		return true;
	for (uint32_t i = 0; i < s->n_slots; i++)
		if (!s->slots[i].is_settled || s->slots[i].card == GM_NO_CARD)
			return false;
	for (uint32_t i = 0; i < GM_PROBE_CARDS; i++)
		if (s->cards[i].used && s->cards[i].has_facts &&
		    !s->cards[i].is_said && !s->cards[i].is_released)
			return false;
	return true;
}

static void tell_listed(struct gm_monitor *s, uint64_t now)
{
	const struct gm_probe_wire wire = { .type = GM_PROBE_LISTED };

	if (s->is_listed || !is_list_whole(s, now) || !say(s, &wire))
		return;
	s->is_listed = true;
	s->want_peers = true;
	/* The paths between them are worth a look now. */
	s->next = now;
}

static void tell_pending(struct gm_monitor *s)
{
	while (s->n_pending) {
		const struct gm_pending *p = &s->pending[s->first_pending];
		struct gm_probe_wire wire = { .type = p->type,
					      .serial = p->serial };

		/* An initializer of a member leaves the rest of the union. */
		wire.event = p->event;
		memcpy(wire.uuid, p->uuid, sizeof(wire.uuid));
		if (!say(s, &wire))
			return;
		s->first_pending = (s->first_pending + 1) % GM_MONITOR_PENDING;
		s->n_pending--;
	}
}

static void tell_released(struct gm_monitor *s)
{
	for (uint32_t i = 0; i < GM_PROBE_CARDS; i++) {
		struct gm_card *card = &s->cards[i];
		struct gm_probe_wire wire = { .type = GM_PROBE_RELEASED,
					      .serial = card->release };

		if (!card->used || !card->want_released)
			continue;
		memcpy(wire.uuid, card->uuid, sizeof(wire.uuid));
		if (!say(s, &wire))
			return;
		card->want_released = false;
		gm_log(GM_LOG_INFO, "card_released", "device=%s",
		       card->facts.device.id);
	}
}

/* All of a look, or the whole look again when there is room. */
static bool tell_processes(struct gm_monitor *s, const struct gm_card *card)
{
	struct gm_probe_wire wire;

	for (uint32_t i = 0; i < gm_card_n_processes(card); i++) {
		gm_card_wire_process(card, i, &wire);
		if (!say(s, &wire))
			return false;
	}
	return true;
}

static void tell_moving(struct gm_monitor *s)
{
	struct gm_probe_wire wire;

	for (uint32_t i = 0; i < GM_PROBE_CARDS; i++) {
		struct gm_card *card = &s->cards[i];

		if (!card->used || !card->is_said || !card->want_moving)
			continue;
		if (!tell_processes(s, card))
			return;
		gm_card_wire_moving(card, &wire);
		if (!say(s, &wire))
			return;
		card->want_moving = false;
	}
}

static void tell_peers(struct gm_monitor *s)
{
	for (uint32_t i = 0; i < s->n_slots; i++) {
		for (uint32_t k = 0; k < s->n_slots; k++) {
			struct gm_probe_pair *pair = &s->pairs[i][k];
			struct gm_probe_wire wire = { .type = GM_PROBE_PEERS };

			if (!pair->is_dirty || s->slots[i].card == GM_NO_CARD)
				continue;
			memcpy(wire.uuid, s->cards[s->slots[i].card].uuid,
			       sizeof(wire.uuid));
			wire.peers = pair->peers;
			if (!say(s, &wire))
				return;
			pair->is_dirty = false;
		}
	}
}

void gm_monitor_send(struct gm_monitor *s, uint64_t now)
{
	tell_devices(s, now);
	tell_listed(s, now);
	tell_pending(s);
	tell_released(s);
	tell_moving(s);
	tell_peers(s);
}

void gm_monitor_listen(struct gm_monitor *s)
{
	struct gm_probe_wire wire;

	for (uint32_t i = 0; i < COMMANDS_AT_ONCE && !s->is_over; i++) {
		ssize_t n = recv(GM_PROBE_FD, &wire, sizeof(wire),
				 MSG_DONTWAIT | MSG_TRUNC);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			s->is_over = true;
			return;
		}
		if (n == (ssize_t)sizeof(wire) && wire.type == GM_PROBE_RELEASE)
			gm_monitor_release(s, wire.uuid, wire.serial);
		else if (n == (ssize_t)sizeof(wire) &&
			 wire.type == GM_PROBE_RESUME)
			gm_monitor_resume(s, wire.uuid);
		else
			gm_log(GM_LOG_WARNING, "strange_record", "bytes=%zd",
			       n);
	}
}
