/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Notes of the processes of gpumap-probe, which load NVIDIA's libraries.
 *
 *	byte 0	the process that sends it, or a request of gpumapd, or an end
 *	byte 1	its slot or card
 *	byte 2	type of the note
 *	byte 3	how many bytes of it follow, times four; the rest are zeros
 *	byte 4	which card's uuid it has, or, with 255, its own
 *	then	the note from its health on
 *
 * and again from byte 0, as long as there are bytes.
 */

#include "tests/fuzz/fuzz.h"

#include <stddef.h>
#include <string.h>

#include "agent/probe/monitor.h"

#define HEAD 5

static struct gm_monitor s;

static void check_card(const struct gm_card *card)
{
	struct gm_probe_wire wire;

	MUST(card->slot == GM_NO_CARD || card->slot < GM_PROBE_GPUS);
	MUST(gm_card_verdict(card).health <= GM_PROBE_TAKEN);
	gm_card_device(card, "/nonexistent", &wire);
	MUST(memcmp(wire.uuid, card->uuid, 16) == 0);
	MUST(memchr(wire.text, 0, sizeof(wire.text)));
	MUST(memchr(wire.device.name, 0, sizeof(wire.device.name)));
	MUST(memchr(wire.device.id, 0, sizeof(wire.device.id)));
	MUST(memchr(wire.device.facts.cpus, 0, sizeof(wire.device.facts.cpus)));
	gm_card_wire_moving(card, &wire);
	MUST(wire.moving.health <= GM_PROBE_TAKEN);
}

static void check(void)
{
	MUST(s.n_slots <= GM_PROBE_GPUS && s.n_places <= GM_PROBE_GPUS);
	MUST(s.n_pending <= GM_MONITOR_PENDING);
	for (uint32_t i = 0; i < s.n_slots; i++)
		MUST(s.slots[i].card == GM_NO_CARD ||
		     s.slots[i].card < GM_PROBE_CARDS);
	for (uint32_t i = 0; i < GM_PROBE_CARDS; i++)
		if (s.cards[i].used)
			check_card(&s.cards[i]);
}

/* A child as the monitor would have started it.  Returns false for none. */
static bool make_child(uint8_t role, uint8_t index,
		       struct gm_probe_child *ret_child)
{
	*ret_child = (struct gm_probe_child){ .role = 1 + role % 4,
					      .pidfd = -1,
					      .socket = -1 };
	if (ret_child->role == GM_ROLE_WATCH) {
		ret_child->index = s.n_slots ? index % s.n_slots : 0;
		return s.n_slots > 0;
	}
	if (ret_child->role != GM_ROLE_DRIVER)
		return true;
	ret_child->index =
		index < 128 ? GM_ORDER_PCI + index % 2 : index - 128u;
	return index < 128 || s.cards[ret_child->index].used;
}

static void act(const uint8_t *head, struct gm_note *note)
{
	struct gm_probe_child child;

	if (head[0] % 8 == 4) {
		gm_monitor_release(&s, note->uuid, 1);
		return;
	}
	if (head[0] % 8 == 5) {
		gm_monitor_resume(&s, note->uuid);
		return;
	}
	if (!make_child(head[0], head[1], &child))
		return;
	if (head[0] % 8 == 6)
		gm_monitor_child_ended(&s, &child, "signal 9");
	else if (gm_protocol_check(note, child.role) == 0)
		gm_monitor_on_message(&s, &child, note);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct gm_probe_options options = { .limit_ms = 100,
							 .driver_limit_ms = 100,
							 .refresh_ms = 10 };
	const size_t from = offsetof(struct gm_note, health);

	memset(&s, 0, sizeof(s));
	s.options = &options;
	while (size >= HEAD) {
		struct gm_note note = { 0 };
		size_t n = 4u * data[3];

		n = n < size - HEAD ? n : size - HEAD;
		n = n < sizeof(note) - from ? n : sizeof(note) - from;
		memcpy((char *)&note + from, data + HEAD, n);
		note.type = data[2] % 13;
		if (data[4] != 255)
			memset(note.uuid, data[4] % 8, sizeof(note.uuid));
		act(data, &note);
		data += HEAD + n;
		size -= HEAD + n;
	}
	check();
	return 0;
}
