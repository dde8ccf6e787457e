/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Records of the processes of gpumap-probe, which load NVIDIA's libraries.
 *
 *	byte 0	the process that sends it, or a request of gpumapd, or an end
 *	byte 1	its slot or card
 *	byte 2	type of the record
 *	byte 3	how many bytes of it follow, times four; the rest are zeros
 *	byte 4	which card's uuid it has, or, with 255, its own
 *	then	the record from its health on
 *
 * and again from byte 0, as long as there are bytes.
 */

#include "tests/fuzz/fuzz.h"

#include <stddef.h>
#include <string.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/health/reports.h"

#define HEAD 5

static struct gm_loop loop;
static struct gm_config config;
static struct gm_watchers w;
static struct gm_daemon d = { .loop = &loop,
			      .config = &config,
			      .watchers = &w };

static void on_device(struct gm_daemon *of, const uint8_t uuid[16],
		      const struct gm_probe_device *device,
		      const struct gm_verdict *verdict)
{
	(void)of;
	(void)uuid;
	(void)device;
	(void)verdict;
}

static void on_verdict(struct gm_daemon *of, const uint8_t uuid[16],
		       const struct gm_verdict *verdict)
{
	(void)of;
	(void)uuid;
	(void)verdict;
}

static void on_record(struct gm_daemon *of, const struct gm_probe_wire *wire)
{
	(void)of;
	(void)wire;
}

static void on_why(struct gm_daemon *of, const char *why)
{
	(void)of;
	MUST(strlen(why) < 256);
}

static const struct gm_watchers_reader reader = { .device = on_device,
						  .verdict = on_verdict,
						  .record = on_record,
						  .absent = on_why,
						  .broken = on_why };

static void check_card(const struct gm_watched *card)
{
	struct gm_probe_device device = gm_watched_device(card);
	const struct gm_verdict *verdict = gm_watched_verdict(card);

	MUST(card->slot == GM_NO_CARD || card->slot < GM_PROBE_GPUS);
	MUST(verdict->health <= GM_PROBE_TAKEN);
	MUST(memchr(verdict->text, 0, sizeof(verdict->text)));
	MUST(memchr(device.name, 0, sizeof(device.name)));
	MUST(memchr(device.id, 0, sizeof(device.id)));
	MUST(memchr(device.facts.cpus, 0, sizeof(device.facts.cpus)));
}

static void check(void)
{
	MUST(w.n_slots <= GM_PROBE_GPUS && w.n_places <= GM_PROBE_GPUS);
	MUST(w.n_cards <= GM_PROBE_CARDS);
	for (uint32_t i = 0; i < w.n_slots; i++)
		MUST(w.slots[i].card == GM_NO_CARD ||
		     w.slots[i].card < w.n_cards);
	for (uint32_t i = 0; i < w.n_cards; i++)
		check_card(w.cards[i]);
}

/* A process as it would have been started.  Returns false for none. */
static bool make_prober(uint8_t role, uint8_t index,
			struct gm_prober *ret_prober)
{
	*ret_prober = (struct gm_prober){ .role = 1 + role % 4, .w = &w };
	if (ret_prober->role == GM_ROLE_WATCH) {
		ret_prober->index = w.n_slots ? index % w.n_slots : 0;
		return w.n_slots > 0;
	}
	if (ret_prober->role != GM_ROLE_DRIVER)
		return true;
	ret_prober->index =
		index < 128 ? GM_ORDER_PCI + index % 2 : index - 128u;
	return index < 128 || ret_prober->index < w.n_cards;
}

static void act(const uint8_t *head, struct gm_probe_wire *wire)
{
	struct gm_prober prober;

	if (head[0] % 8 == 4) {
		gm_watchers_release(&d, wire->uuid);
		return;
	}
	if (head[0] % 8 == 5) {
		gm_watchers_resume(&d, wire->uuid);
		return;
	}
	if (!make_prober(head[0], head[1], &prober))
		return;
	if (head[0] % 8 == 6)
		gm_reports_ended(&prober, "killed by SIGKILL", -1);
	else if (gm_reports_check(wire, prober.role))
		gm_reports_hear(&prober, wire);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t from = offsetof(struct gm_probe_wire, health);

	memset(&w, 0, sizeof(w));
	TAILQ_INIT(&loop.timers);
	config.refresh_ns = 10000000;
	w.d = &d;
	w.reader = &reader;
	w.limit_ns = w.driver_limit_ns = 100000000;
	while (size >= HEAD) {
		struct gm_probe_wire wire = { 0 };
		size_t n = 4u * data[3];

		n = n < size - HEAD ? n : size - HEAD;
		n = n < sizeof(wire) - from ? n : sizeof(wire) - from;
		memcpy((char *)&wire + from, data + HEAD, n);
		wire.type = data[2] % 13;
		if (data[4] != 255)
			memset(wire.uuid, data[4] % 8, sizeof(wire.uuid));
		act(data, &wire);
		data += HEAD + n;
		size -= HEAD + n;
	}
	check();
	gm_watchers_exit(&d);
	return 0;
}
