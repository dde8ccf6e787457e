/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/health/cards.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/common/numa_bind.h"
#include "agent/common/text.h"
#include "agent/cuda/nvml.h"
#include "agent/daemon/account/credit.h"
#include "agent/daemon/base/events.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/cards.h"
#include "agent/daemon/devices/p2p.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/health/drain.h"
#include "agent/daemon/health/vendors.h"
#include "agent/daemon/health/watchers.h"
#include "agent/daemon/workers/supervisor.h"
#include "gpumap.h"
#include "shm/device_kinds.h"
#include "shm/point.h"
#include "shm/score.h"

#define MS UINT64_C(1000000)

/* From the first of some changes to the facts until all are published: one of
 * each thousand Xids is as good as each. */
#define FLUSH_NS (50 * MS)

/* Moving facts that only the probe knows. */
#define PROBED                                                 \
	(GPUMAP_KNOWN_UTILISATION | GPUMAP_KNOWN_TEMPERATURE | \
	 GPUMAP_KNOWN_POWER)

/* ---- what a device is like --------------------------------------------- */

static const char *default_reason(uint32_t health)
{
	switch (health) {
	case GM_PROBE_LOST:
		return "it is gone, or has fallen off the bus";
	case GM_PROBE_SPLIT:
		return "split: its MIG instances are used";
	case GM_PROBE_TAKEN:
		return "its compute mode lets no worker in";
	default:
		return "the driver cannot use it";
	}
}

/* Where its worker runs: beside it, or anywhere. */
static void find_cpus(const struct gm_daemon *d, struct gm_device *device)
{
	const struct gm_row_image *facts = &device->facts;
	int n = 0;

	if ((facts->known & GPUMAP_KNOWN_CPUS) != 0)
		n = gm_idset_parse(facts->cpus, &device->cpus);
	else if ((facts->known & GPUMAP_KNOWN_NUMA) != 0)
		n = gm_numa_bind_node_cpus(NULL, facts->numa_node,
					   &device->cpus);
	if (n <= 0 || gm_idset_and(&device->cpus, &d->allowed->cpus) == 0)
		device->cpus = d->allowed->cpus;
}

/* Everything but the row, its state, and what we count ourselves. */
static void describe(const struct gm_daemon *d, struct gm_device *device,
		     const uint8_t uuid[16], const struct gm_probe_device *from)
{
	struct gm_row_image *facts = &device->facts, old = *facts;

	*facts = from->facts;
	facts->object = old.object;
	memset(facts->object.name, 0, sizeof(facts->object.name));
	snprintf(facts->object.name, sizeof(facts->object.name), "%s",
		 from->name[0] != '\0' ? from->name : "GPU");
	memcpy(facts->uuid, uuid, sizeof(facts->uuid));
	facts->row = old.row;
	facts->generation = old.generation;
	facts->flags |= (old.flags & GPUMAP_DEVICE_CORDONED) |
			gm_device_kind(facts->kind)->flags;
	/* Parts have no way to other cards. */
	if (facts->mig_gi >= 0)
		facts->flags &= ~GPUMAP_DEVICE_CLIQUES;
	facts->recovery = old.recovery;
	facts->last_xid = old.last_xid;
	facts->xids = old.xids;
	memset(facts->reserved, 0, sizeof(facts->reserved));
	if ((facts->known & GPUMAP_KNOWN_NUMA) == 0)
		facts->numa_node = -1;
	memcpy(device->id, from->id, sizeof(device->id));
	memcpy(device->parent, from->parent, sizeof(device->parent));
	find_cpus(d, device);
}

/* ---- its health -------------------------------------------------------- */

static uint32_t state_of(uint32_t health)
{
	switch (health) {
	case GM_PROBE_USABLE:
		return GPUMAP_DEVICE_PROBING; /* until the supervisor has it */
	case GM_PROBE_LOST:
		return GPUMAP_DEVICE_LOST;
	default:
		return GPUMAP_DEVICE_FAILED;
	}
}

/* Before there is a row. */
static void set_state(struct gm_device *device, const char *text, int code)
{
	struct gm_moving_image *moving = &device->moving;

	device->present = device->health == GM_PROBE_USABLE;
	moving->state = state_of(device->health);
	moving->error = device->present ? 0 : code;
	memset(moving->reason, 0, sizeof(moving->reason));
	if (!device->present)
		gm_text_shorten(moving->reason, sizeof(moving->reason), text);
}

static void show_usable(struct gm_daemon *d, struct gm_device *device)
{
	uint32_t row = device->facts.row;

	if (!device->present) {
		device->present = true;
		gm_devices_state(d, row, GPUMAP_DEVICE_PROBING, NULL, 0);
		gm_supervisor_admit(d, row);
		gm_events_row_came(d);
	}
	gm_supervisor_unbar(d, row, GM_BAR_HEALTH | GM_BAR_LOST);
}

static void show_unusable(struct gm_daemon *d, struct gm_device *device,
			  const char *text, int code)
{
	const struct gm_moving_image *moving = &device->moving;
	uint32_t row = device->facts.row, state = state_of(device->health);
	char reason[sizeof(moving->reason)];

	gm_text_shorten(reason, sizeof(reason), text);
	if (moving->state == state && moving->error == code &&
	    strcmp(moving->reason, reason) == 0)
		return;
	device->present = false;
	gm_devices_state(d, row, state, reason, code);
	GM_POINT("cuda_row_out");
	gm_supervisor_bar(d, row, GM_BAR_HEALTH, false, reason, NULL);
}

static void show_health(struct gm_daemon *d, struct gm_device *device,
			const char *text, int code)
{
	if (text[0] == '\0')
		text = default_reason(device->health);
	if (!d->cards->is_open)
		set_state(device, text, code);
	else if (gm_drains_has(d, device->facts.row))
		return; /* it is shown when the row is back */
	else if (device->health == GM_PROBE_USABLE)
		show_usable(d, device);
	else
		show_unusable(d, device, text, code);
}

static void set_health(struct gm_daemon *d, struct gm_device *device,
		       const struct gm_verdict *verdict)
{
	bool is_back =
		d->cards->is_open && gm_drains_seen(d, device->facts.row);

	device->named = true;
	device->health = verdict->health;
	show_health(d, device, verdict->text, verdict->code);
	if (is_back)
		gm_supervisor_unbar(d, device->facts.row, GM_BAR_DRAIN);
}

/* ---- records ----------------------------------------------------------- */

static struct gm_device *find(const struct gm_daemon *d, const uint8_t uuid[16])
{
	const struct gm_cards *cards = d->cards;

	if (cards->is_open)
		return gm_devices_find(d, uuid);
	for (uint32_t i = 0; i < cards->n_found; i++) {
		if (memcmp(cards->found[i]->facts.uuid, uuid, 16) == 0)
			return cards->found[i];
	}
	return NULL;
}

static void facts_changed(struct gm_daemon *d, struct gm_device *device)
{
	if (!d->cards->is_open)
		return;
	device->facts_are_due = true;
	if (d->cards->flush.due_ns == 0)
		gm_timer_set(d->loop, &d->cards->flush,
			     gm_loop_now() + FLUSH_NS);
}

static void flush(struct gm_timer *timer)
{
	struct gm_daemon *d = gm_owner(timer, struct gm_cards, flush)->d;

	for (uint32_t row = 0; row < d->devices->n; row++) {
		struct gm_device *device = d->devices->of[row];

		if (!device->facts_are_due)
			continue;
		device->facts_are_due = false;
		gm_devices_describe(d, row);
	}
}

static void add_late(struct gm_daemon *d, const struct gm_device *found)
{
	int ret = gm_devices_add(d, found);

	if (ret < 0) {
		gm_log(GM_LOG_ERROR, "row_refused", "device=%s why=%s",
		       gm_quote(found->id).text,
		       gm_quote(ret == -ENOSPC
					? "the device table is full: stop, "
					  "gpumapd --remove, start"
					: strerror(-ret))
			       .text);
		return;
	}
	gm_log(GM_LOG_INFO, "row_added", "row=%d device=%s name=%s", ret,
	       gm_quote(found->id).text,
	       gm_quote(found->facts.object.name).text);
	gm_drains_came(d, (uint32_t)ret);
	/* One that is of no use now is served when the probe says otherwise. */
	if (d->devices->of[ret]->present)
		gm_supervisor_admit(d, (uint32_t)ret);
	gm_events_row_came(d);
}

/* @library, @memory: as gm_vendors_reader has them. */
static void add(struct gm_daemon *d, const uint8_t uuid[16],
		const struct gm_probe_device *from,
		const struct gm_verdict *verdict, const char *library,
		const struct gm_meminfo *memory)
{
	static const uint8_t none[16];
	struct gm_cards *cards = d->cards;
	struct gm_device *device;

	if (!cards->is_open && cards->n_found == GM_ROWS)
		return;
	/* The device may have had a row that is another device's now. */
	if (cards->is_open && verdict->health == GM_PROBE_LOST &&
	    memcmp(from->parent, none, sizeof(none)) != 0)
		return;
	device = calloc(1, sizeof(*device));
	if (device == NULL)
		return; /* until more of it becomes known */
	device->facts.recovery = UINT32_MAX;
	device->named = from->facts.kind == GPUMAP_DEVICE_CUDA;
	device->health = verdict->health;
	device->library = library;
	if (memory != NULL)
		device->memory = *memory;
	describe(d, device, uuid, from);
	set_state(device,
		  verdict->text[0] != '\0' ? verdict->text
					   : default_reason(device->health),
		  verdict->code);
	if (!cards->is_open) {
		cards->found[cards->n_found++] = device;
		return;
	}
	add_late(d, device);
	free(device);
}

static void on_device(struct gm_daemon *d, const uint8_t uuid[16],
		      const struct gm_probe_device *from,
		      const struct gm_verdict *verdict)
{
	static const uint8_t none[16];
	struct gm_device *device;
	struct gm_row_image old;

	/* Another kind, no uuid, or a part of itself: no probe of ours says
	 * that. */
	if (from->facts.kind != GPUMAP_DEVICE_CUDA ||
	    memcmp(uuid, none, sizeof(none)) == 0 ||
	    memcmp(uuid, from->parent, sizeof(none)) == 0)
		return;
	device = find(d, uuid);
	if (device == NULL) {
		add(d, uuid, from, verdict, NULL, NULL);
		return;
	}
	if (device->facts.kind != GPUMAP_DEVICE_CUDA)
		return;
	old = device->facts;
	describe(d, device, uuid, from);
	if (memcmp(&old, &device->facts, sizeof(old)) != 0)
		facts_changed(d, device);
	set_health(d, device, verdict);
}

static void on_verdict(struct gm_daemon *d, const uint8_t uuid[16],
		       const struct gm_verdict *verdict)
{
	struct gm_device *device = find(d, uuid);

	if (device != NULL)
		set_health(d, device, verdict);
}

/* A device of another driver.  One that was lost may be tried again. */
static void found(struct gm_daemon *d, const struct gm_probe_wire *wire,
		  const char *library, const struct gm_meminfo *memory)
{
	static const struct gm_verdict usable;
	struct gm_device *device = find(d, wire->uuid);

	if (device == NULL) {
		add(d, wire->uuid, &wire->device, &usable, library, memory);
		return;
	}
	if (!d->cards->is_open || (device->present && !device->bars))
		return;
	describe(d, device, wire->uuid, &wire->device);
	device->library = library;
	if (memory != NULL)
		device->memory = *memory;
	facts_changed(d, device);
	device->health = GM_PROBE_USABLE;
	show_health(d, device, "", 0);
}

static void hear_moving(struct gm_daemon *d, struct gm_device *device,
			const struct gm_probe_moving *from)
{
	const uint32_t ours = PROBED | GPUMAP_KNOWN_MEMORY;
	struct gm_moving_image *moving = &device->moving;

	moving->known = (moving->known & ~ours) | (from->known & ours);
	moving->utilisation = from->utilisation;
	moving->temperature = from->temperature;
	moving->power = from->power;
	if ((from->known & GPUMAP_KNOWN_MEMORY) != 0) {
		moving->free_bytes = from->free_bytes;
		gm_devices_memory_read(device, from->looked_ns);
		/* A device that is named before the list has no row yet. */
		if (d->cards->is_open) {
			gm_credit_look(d, device->facts.row, from);
			gm_events_row_memory_read(d, device->facts.row);
		}
	}
	gm_cards_refresh(d, device);
	if (from->recovery != device->facts.recovery) {
		device->facts.recovery = from->recovery;
		facts_changed(d, device);
	}
	if (d->cards->is_open)
		gm_devices_move(d, device->facts.row);
}

static void hear_event(struct gm_daemon *d, struct gm_device *device,
		       const struct gm_probe_event *event)
{
	struct gm_verdict verdict;
	bool is_grave;

	/* Xids and the next look say more about ECC errors and recovery. */
	if (event->kind != GM_NVML_EVENT_XID)
		return;
	device->facts.xids++;
	device->facts.last_xid = (uint32_t)event->xid;
	facts_changed(d, device);
	is_grave = gm_watched_is_grave(event->xid, &verdict);
	gm_log(is_grave ? GM_LOG_WARNING : GM_LOG_INFO, "xid",
	       "device=%s xid=%u count=%" PRIu64, gm_quote(device->id).text,
	       device->facts.last_xid, device->facts.xids);
}

static void on_record(struct gm_daemon *d, const struct gm_probe_wire *wire)
{
	struct gm_device *device = find(d, wire->uuid);

	if (wire->type == GM_PROBE_PEERS)
		gm_p2p_paths_on_report(d, wire->uuid, &wire->peers);
	if (device == NULL)
		return;
	if (wire->type == GM_PROBE_PROCESS && d->cards->is_open)
		gm_credit_process(d, device->facts.row, &wire->process);
	else if (wire->type == GM_PROBE_MOVING)
		hear_moving(d, device, &wire->moving);
	else if (wire->type == GM_PROBE_EVENT)
		hear_event(d, device, &wire->event);
}

static void on_released(struct gm_daemon *d, const uint8_t uuid[16])
{
	const struct gm_device *device = find(d, uuid);

	if (device != NULL && d->cards->is_open)
		gm_drains_released(d, device->facts.row);
}

/* ---- the list ---------------------------------------------------------- */

/* The start continues from the loop, whichever message completed the list. */
static void complete(struct gm_daemon *d, const char *why)
{
	struct gm_cards *cards = d->cards;

	if (cards->is_open || cards->is_complete)
		return;
	cards->is_complete = true;
	snprintf(cards->why, sizeof(cards->why), "%s", why);
	gm_timer_set(d->loop, &cards->limit, gm_loop_now());
}

static void lose_unnamed(struct gm_daemon *d)
{
	for (uint32_t row = 0; row < d->devices->n; row++) {
		struct gm_device *device = d->devices->of[row];

		if (device->facts.kind != GPUMAP_DEVICE_CUDA || device->named ||
		    gm_drains_has(d, row))
			continue;
		if (device->health == GM_PROBE_LOST)
			continue;
		device->health = GM_PROBE_LOST;
		show_health(d, device, "no longer there", -ENODEV);
	}
}

static void on_listed(struct gm_daemon *d)
{
	struct gm_cards *cards = d->cards;

	if (cards->is_open) {
		lose_unnamed(d);
		return;
	}
	gm_log(GM_LOG_INFO, "cuda_listed", "devices=%u after_ms=%" PRIu64,
	       cards->n_found, (gm_loop_now() - cards->since_ns) / MS);
	complete(d, "the driver names no GPU");
}

static void on_absent(struct gm_daemon *d, const char *text)
{
	gm_log(GM_LOG_INFO, "cuda_absent", "why=%s", gm_quote(text).text);
	if (d->cards->is_open)
		lose_unnamed(d);
	else
		complete(d, text);
}

static void on_broken(struct gm_daemon *d, const char *why)
{
	struct gm_cards *cards = d->cards;

	if (strcmp(cards->broken, why) != 0)
		gm_log(GM_LOG_ERROR, "cuda_broken", "why=%s",
		       gm_quote(why).text);
	snprintf(cards->broken, sizeof(cards->broken), "%s", why);
	complete(d, why);
}

static void all_listed(struct gm_daemon *d)
{
	d->cards->is_listed = true;
}

static const struct gm_vendors_reader vendors_reader = { .found = found,
							 .listed = all_listed };

static void list_limit(struct gm_timer *timer)
{
	struct gm_cards *cards = gm_owner(timer, struct gm_cards, limit);
	struct gm_daemon *d = cards->d;

	if (!cards->is_complete) {
		gm_log(GM_LOG_WARNING, "cuda_slow",
		       "devices=%u limit_ms=%" PRIu64, cards->n_found,
		       d->config->cuda_list_limit_ns / MS);
		snprintf(cards->why, sizeof(cards->why),
			 "none was named within cuda.list-limit");
		cards->is_complete = true;
	}
	gm_vendors_start(d, &vendors_reader);
}

/* ---- the start and the end ----------------------------------------------- */

static const struct gm_watchers_reader reader = {
	.device = on_device,
	.verdict = on_verdict,
	.record = on_record,
	.listed = on_listed,
	.absent = on_absent,
	.broken = on_broken,
	.released = on_released,
};

void gm_cards_start(struct gm_daemon *d)
{
	struct gm_cards *cards = d->cards;

	cards->since_ns = gm_loop_now();
	cards->d = d;
	cards->limit.fired = list_limit;
	cards->flush.fired = flush;
	if (d->config->cuda_enabled == GM_CONFIG_CUDA_OFF) {
		complete(d, "cuda.enabled = off");
		return;
	}
	gm_timer_set(d->loop, &cards->limit,
		     cards->since_ns + d->config->cuda_list_limit_ns);
	gm_watchers_start(d, &reader);
}

void gm_cards_exit(struct gm_daemon *d)
{
	struct gm_cards *cards = d->cards;

	gm_watchers_exit(d);
	gm_vendors_exit(d);
	gm_timer_stop(d->loop, &cards->limit);
	gm_timer_stop(d->loop, &cards->flush);
	while (cards->n_found > 0)
		free(cards->found[--cards->n_found]);
}

void gm_cards_unseen(struct gm_daemon *d, uint32_t row)
{
	struct gm_device *device = d->devices->of[row];

	device->health = GM_PROBE_LOST;
	show_health(d, device, "not seen since it was brought back", -ENODEV);
}
