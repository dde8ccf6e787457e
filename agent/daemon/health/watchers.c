/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/health/watchers.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/daemon/base/environment.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/uuid.h"
#include "agent/daemon/health/reports.h"
#include "gpumap.h"

#define MS              UINT64_C(1000000)
#define SECOND          (1000 * MS)

#define LIMIT_NS        (4 * SECOND)  /* of NVML, for one card */
#define DRIVER_LIMIT_NS (20 * SECOND) /* of the driver, for its start */
#define PATIENCE        8u /* limits of silence until a watcher is ended */
#define LAST_WAIT_NS    (1 * SECOND) /* for all exits at our end */

/* Whether @at has come; if not, we shall look again then. */
static bool is_due(struct gm_watchers *w, uint64_t at, uint64_t now)
{
	if (now >= at)
		return true;
	if (at < w->next_ns)
		w->next_ns = at;
	return false;
}

/* In this turn of the loop, behind all that is heard in it. */
static void look_soon(struct gm_watchers *w)
{
	gm_timer_set(w->d->loop, &w->look, gm_loop_now());
}

/* ---- processes ----------------------------------------------------------- */

static bool on_record(struct gm_child *child, void *record)
{
	struct gm_prober *prober = gm_owner(child, struct gm_prober, child);

	if (!gm_reports_check(record, prober->role))
		return false;
	gm_reports_hear(prober, record);
	look_soon(prober->w);
	return true;
}

static void on_ended(struct gm_child *child, const char *how, int status)
{
	struct gm_prober *prober = gm_owner(child, struct gm_prober, child);

	gm_reports_ended(prober, how, status);
	prober->role = 0;
	prober->index = 0;
	look_soon(prober->w);
}

static void on_stuck(struct gm_child *child)
{
	struct gm_prober *prober = gm_owner(child, struct gm_prober, child);

	gm_log(GM_LOG_ERROR, "probe_stuck", "pid=%d", (int)child->process.pid);
	if (prober->role != GM_ROLE_CENSUS || prober->is_done)
		return;
	prober->is_done = true;
	gm_reports_broken(prober->w, "NVML hangs, and SIGKILL does not end it");
}

static const struct gm_child_kind kind = {
	.record_bytes = sizeof(struct gm_probe_wire),
	.said = on_record,
	.ended = on_ended,
	.stuck = on_stuck,
};

/* ---- starting ------------------------------------------------------------ */

/* Variables that would change which cards a driver shows, or their order. */
static bool is_misleading(const struct gm_daemon *d, const char *variable)
{
	static const char pipes[] = "CUDA_MPS_PIPE_DIRECTORY=";

	if (strncmp(variable, pipes, strlen(pipes)) == 0)
		return !d->config->cuda_mps;
	return strncmp(variable, "CUDA_CACHE_PATH=", 16) != 0 &&
	       (strncmp(variable, "CUDA_", 5) == 0 ||
		strncmp(variable, "NVIDIA_", 7) == 0 ||
		strncmp(variable, "NCCL_", 5) == 0);
}

/* cuInit would join any MPS daemon that listens. */
static int make_environment(const struct gm_daemon *d, const char *order,
			    const char *device, struct gm_environment *env)
{
	char none[256];
	uint32_t n = 0;
	int error;

	gm_environment_init(env);
	error = gm_environment_pass(env, d->config->cuda_pass);
	for (uint32_t i = 0; i < env->n; i++)
		if (!is_misleading(d, env->of[i]))
			env->of[n++] = env->of[i];
	env->n = n;
	env->of[n] = NULL;
	snprintf(none, sizeof(none), "%s/%s.no-mps", d->runtime_dir,
		 d->instance);
	/* Where it was passed on, the first one counts. */
	if (error == 0)
		error = gm_environment_set(env, "CUDA_MPS_PIPE_DIRECTORY",
					   none);
	if (error == 0 && order)
		error = gm_environment_set(env, "CUDA_DEVICE_ORDER", order);
	if (error == 0 && device)
		error = gm_environment_set(env, "CUDA_VISIBLE_DEVICES", device);
	return error;
}

struct command {
	enum gm_probe_role role;
	uint32_t index;
	const char *option, *value; /* of the role; value: NULL for none */
	const char *device;         /* NULL: all */
};

static int spawn(struct gm_watchers *w, const struct command *c,
		 struct gm_prober *prober)
{
	const struct gm_daemon *d = w->d;
	const struct gm_config *config = d->config;
	bool is_driver = c->role == GM_ROLE_DRIVER;
	struct gm_environment *env = malloc(sizeof(*env));
	char refresh[32], uid[16], gid[16];
	const char *argv[20] = {
		d->probe_path, "--refresh", refresh, "--uid",
		uid,           "--gid",     gid,     c->option
	};
	const char *const pairs[][2] = {
		{ "--device", c->device },
		{ "--library", config->cuda_library },
		{ "--sysfs", config->cuda_sysfs },
	};
	uint32_t n = 8;
	int error;

	if (!env)
		return -ENOMEM;
	snprintf(refresh, sizeof(refresh), "%" PRIu64, config->refresh_ns / MS);
	snprintf(uid, sizeof(uid), "%u", (unsigned int)config->worker_uid);
	snprintf(gid, sizeof(gid), "%u", (unsigned int)config->worker_gid);
	if (c->value)
		argv[n++] = c->value;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		if (!pairs[i][1])
			continue;
		argv[n++] = pairs[i][0];
		argv[n++] = pairs[i][1];
	}
	error = make_environment(d, is_driver ? c->value : NULL, c->device,
				 env);
	if (error == 0)
		error = gm_child_start(&prober->child, d->loop, &kind, argv,
				       env->of);
	free(env);
	return error;
}

/* Returns 0, or a negative errno: it may be tried again later. */
static int start(struct gm_watchers *w, const struct command *c)
{
	struct gm_prober *prober = gm_reports_prober(w, 0, 0);
	int error = prober ? 0 : -EAGAIN;

	if (error == 0)
		error = spawn(w, c, prober);
	if (error != 0) {
		gm_log(GM_LOG_WARNING, "no_process",
		       "role=%u index=%u error=%d", c->role, c->index, -error);
		is_due(w, gm_reports_later(w, 1), gm_loop_now());
		return error;
	}
	prober->w = w;
	prober->role = c->role;
	prober->index = c->index;
	prober->heard_ns = prober->child.began_ns;
	prober->has_said = prober->is_done = prober->is_unwanted = false;
	snprintf(prober->call, sizeof(prober->call), "its start");
	if (c->role == GM_ROLE_CENSUS)
		gm_child_limit(&prober->child, w->limit_ns, "NVML hangs");
	/* The others open every card, or begin with cuInit. */
	else if (c->role != GM_ROLE_WATCH)
		gm_child_limit(&prober->child, w->driver_limit_ns,
			       "the driver hangs");
	return 0;
}

/* ---- what is due --------------------------------------------------------- */

static void mind_census(struct gm_watchers *w, uint64_t now)
{
	static const struct command census = { .role = GM_ROLE_CENSUS,
					       .option = "--census" };
	char why[GM_WHY_BYTES];
	int error;

	if (w->has_census || gm_reports_prober(w, GM_ROLE_CENSUS, 0) ||
	    !is_due(w, w->census_ns, now))
		return;
	error = start(w, &census);
	if (error == 0) {
		if (!w->found_none)
			gm_log(GM_LOG_INFO, "probe_started",
			       "pid=%d restarts=%u",
			       (int)gm_reports_prober(w, GM_ROLE_CENSUS, 0)
				       ->child.process.pid,
			       w->faults);
		return;
	}
	gm_why(why, error, "cannot start %.128s: %s", w->d->probe_path,
	       strerror(-error));
	gm_reports_broken(w, why);
	gm_reports_rest(w);
	is_due(w, w->census_ns, now);
}

static void mind_watchers(struct gm_watchers *w, uint64_t now)
{
	char index[16];

	for (uint32_t i = 0; i < w->n_slots; i++) {
		struct gm_watch_slot *slot = &w->slots[i];
		const struct command watch = { .role = GM_ROLE_WATCH,
					       .index = i,
					       .option = "--watch",
					       .value = index };

		if (slot->is_released ||
		    gm_reports_prober(w, GM_ROLE_WATCH, i) ||
		    !is_due(w, slot->start_ns, now))
			continue;
		snprintf(index, sizeof(index), "%u", i);
		if (start(w, &watch) != 0)
			slot->start_ns = gm_reports_later(w, slot->failures++);
	}
}

static bool releases_any(const struct gm_watchers *w)
{
	for (uint32_t i = 0; i < w->n_cards; i++)
		if (w->cards[i]->is_released)
			return true;
	return false;
}

/* Both lists open every card, so neither begins while one is released. */
static void mind_orders(struct gm_watchers *w, uint64_t now)
{
	static const char *const names[] = { "PCI_BUS_ID", "FASTEST_FIRST" };

	if (releases_any(w))
		return;
	for (uint32_t k = 0; k < 2; k++) {
		struct gm_card_order *order = &w->orders[k];
		const struct command list = { .role = GM_ROLE_DRIVER,
					      .index = GM_ORDER_PCI + k,
					      .option = "--driver",
					      .value = names[k] };

		if (!order->is_due ||
		    gm_reports_prober(w, GM_ROLE_DRIVER, GM_ORDER_PCI + k) ||
		    !is_due(w, order->start_ns, now))
			continue;
		for (uint32_t i = 0; i < w->n_cards; i++)
			w->cards[i]->counting[k] = -1;
		if (start(w, &list) == 0)
			order->is_due = false;
		else
			order->start_ns = gm_reports_later(w, 1);
	}
}

/* Are the ordinals known, or not to be known soon? */
static bool has_orders(const struct gm_watchers *w)
{
	return (w->orders[0].is_over && w->orders[1].is_over) ||
	       releases_any(w);
}

/* A card that no list had is asked for alone, and so is every card where the
 * lists take long: one that hangs in the driver hangs them all. */
static void mind_asks(struct gm_watchers *w, uint64_t now)
{
	uint32_t running = 0;

	for (uint32_t i = 0; i < GM_PROBERS; i++)
		running += w->probers[i].role == GM_ROLE_DRIVER &&
			   w->probers[i].index < GM_PROBE_CARDS;
	for (uint32_t i = 0; i < w->n_cards; i++) {
		struct gm_watched *card = w->cards[i];
		const struct command ask = { .role = GM_ROLE_DRIVER,
					     .index = i,
					     .option = "--driver",
					     .value = "PCI_BUS_ID",
					     .device = card->device.id };

		if (!gm_watched_is_askable(card) ||
		    gm_reports_prober(w, GM_ROLE_DRIVER, i) ||
		    (!has_orders(w) &&
		     !is_due(w, card->since_ns + w->limit_ns, now)) ||
		    !is_due(w, card->ask_ns, now))
			continue;
		if (running++ >= GM_DRIVER_ASKS)
			return; /* one that ends makes room */
		if (start(w, &ask) != 0)
			card->ask_ns = gm_reports_later(w, 1);
	}
}

static bool has_path(const struct gm_watchers *w,
		     const struct gm_watch_slot *slot)
{
	return !slot->is_released && slot->card != GM_NO_CARD &&
	       !w->cards[slot->card]->is_released &&
	       gm_watched_is_well(w->cards[slot->card]);
}

static void mind_peers(struct gm_watchers *w)
{
	char list[4 * GM_PROBE_GPUS] = "";
	const struct command peers = { .role = GM_ROLE_PEERS,
				       .option = "--peers",
				       .value = list };
	size_t used = 0;
	uint32_t n = 0;

	if (!w->wants_peers || !w->is_listed ||
	    gm_reports_prober(w, GM_ROLE_PEERS, 0))
		return;
	w->wants_peers = false;
	for (uint32_t i = 0; i < w->n_slots; i++)
		if (has_path(w, &w->slots[i]))
			used += (size_t)snprintf(list + used,
						 sizeof(list) - used, "%s%u",
						 n++ ? "," : "", i);
	if (n > 1 && start(w, &peers) != 0)
		w->wants_peers = true;
}

/* ---- giving up ----------------------------------------------------------- */

static void mind_silence(struct gm_prober *prober, uint64_t now)
{
	struct gm_watchers *w = prober->w;
	struct gm_verdict silent = { .health = GM_PROBE_FAILED };
	/* Between two refreshes it has nothing to say. */
	uint64_t pause = prober->has_said ? w->d->config->refresh_ns : 0;

	if (prober->role != GM_ROLE_WATCH ||
	    prober->child.state != GM_CHILD_RUNNING ||
	    !is_due(w, prober->heard_ns + pause + w->limit_ns, now) ||
	    gm_child_is_unheard(&prober->child))
		return;
	w->slots[prober->index].is_settled = true;
	snprintf(silent.text, sizeof(silent.text),
		 "NVML hangs: over %u ms in %s",
		 (unsigned int)(w->limit_ns / MS),
		 prober->has_said ? "a look at the card" : prober->call);
	gm_reports_set_slot(w, prober->index, GM_VERDICT_SILENCE, &silent);
	/* The process may be slow only; a new one would be no faster. */
	if (is_due(w, prober->heard_ns + pause + PATIENCE * w->limit_ns, now))
		gm_reports_end(prober);
}

/* ---- naming a card that does not answer ---------------------------------- */

static bool is_claimed(const struct gm_watchers *w,
		       const struct gm_probe_wire *place)
{
	for (uint32_t i = 0; i < w->n_cards; i++) {
		const struct gm_row_image *row = &w->cards[i]->device.facts;

		if (w->cards[i]->has_facts && row->known & GPUMAP_KNOWN_PCI &&
		    row->pci_domain == place->place.domain &&
		    row->pci_bus == place->place.bus)
			return true;
	}
	return false;
}

/* NVML lists cards by their addresses: the first that is missing there is the
 * first that does not answer. */
static const struct gm_probe_wire *next_place(const struct gm_watchers *w)
{
	for (uint32_t i = 0; i < w->n_places; i++)
		if (!is_claimed(w, &w->places[i]))
			return &w->places[i];
	return NULL;
}

static void name_slot(struct gm_watchers *w, uint32_t index)
{
	struct gm_watch_slot *slot = &w->slots[index];
	const struct gm_probe_wire *place = next_place(w);
	struct gm_watched *card;
	uint8_t uuid[16];

	if (place)
		memcpy(uuid, place->uuid, sizeof(uuid));
	else
		gm_uuid_nameless(index, uuid);
	card = gm_reports_card(w, uuid, true);
	if (!card)
		return;
	card->slot = index;
	for (slot->card = 0; w->cards[slot->card] != card; slot->card++)
		;
	if (!card->has_facts)
		gm_watched_made(card, place, index);
	gm_watched_set(card, slot->source, &slot->trouble);
}

static bool are_slots_settled(const struct gm_watchers *w)
{
	for (uint32_t i = 0; i < w->n_slots; i++)
		if (!w->slots[i].is_settled)
			return false;
	return true;
}

/* Once all other cards can be told from them. */
static void mind_names(struct gm_watchers *w, uint64_t now)
{
	if (!(are_slots_settled(w) && w->is_census_over) &&
	    !is_due(w, w->list_ns, now))
		return;
	for (uint32_t i = 0; i < w->n_slots; i++)
		if (w->slots[i].is_settled && w->slots[i].card == GM_NO_CARD &&
		    w->slots[i].trouble.health != GM_PROBE_USABLE)
			name_slot(w, i);
}

/* ---- releasing ----------------------------------------------------------- */

/* Has this process something of the card open, for all that we know? */
static bool may_hold(const struct gm_watchers *w,
		     const struct gm_prober *prober,
		     const struct gm_watched *card)
{
	bool is_older = prober->child.began_ns <= card->released_ns;

	switch (prober->role) {
	case GM_ROLE_WATCH:
		/* The card of this index is not known yet: it may be this. */
		if (card->slot == GM_NO_CARD)
			return w->slots[prober->index].card == GM_NO_CARD;
		return prober->index == card->slot && is_older;
	case GM_ROLE_DRIVER:
		return is_older &&
		       (prober->index >= GM_PROBE_CARDS ||
			w->cards[prober->index]->slot == card->slot);
	case GM_ROLE_PEERS:
		return is_older;
	default: /* a census takes no handles */
		return false;
	}
}

static void mind_released(struct gm_watchers *w)
{
	for (uint32_t i = 0; i < w->n_cards; i++) {
		struct gm_watched *card = w->cards[i];
		bool is_held = false;

		if (!card->is_released || card->released_ns == 0)
			continue;
		for (uint32_t k = 0; k < GM_PROBERS; k++)
			is_held |= may_hold(w, &w->probers[k], card);
		if (is_held)
			continue;
		card->released_ns = 0;
		gm_log(GM_LOG_INFO, "card_released", "device=%s",
		       gm_quote(card->device.id).text);
		w->reader->released(w->d, card->uuid);
	}
}

bool gm_watchers_release(struct gm_daemon *d, const uint8_t uuid[16])
{
	struct gm_watchers *w = d->watchers;
	struct gm_watched *card = w->d ? gm_reports_card(w, uuid, true) : NULL;

	if (!card)
		return false;
	card->is_released = true;
	card->released_ns = gm_loop_now();
	if (card->slot != GM_NO_CARD)
		w->slots[card->slot].is_released = true;
	for (uint32_t i = 0; i < GM_PROBERS; i++) {
		struct gm_prober *prober = &w->probers[i];

		if (prober->role == 0 || !may_hold(w, prober, card) ||
		    (prober->role == GM_ROLE_WATCH && card->slot == GM_NO_CARD))
			continue;
		gm_reports_end(prober);
		w->wants_peers |= prober->role == GM_ROLE_PEERS;
	}
	look_soon(w);
	return true;
}

void gm_watchers_resume(struct gm_daemon *d, const uint8_t uuid[16])
{
	struct gm_watchers *w = d->watchers;
	struct gm_watched *card = gm_reports_card(w, uuid, false);

	if (!card)
		return;
	for (uint32_t i = 0; i < w->n_cards; i++) {
		struct gm_watched *part = w->cards[i];

		if (part != card &&
		    memcmp(part->device.parent, card->uuid, 16) != 0)
			continue;
		/* Whatever it suffered from has been seen to. */
		gm_watched_set(part, GM_VERDICT_XID, NULL);
		gm_watched_set(part, GM_VERDICT_DRIVER, NULL);
		part->is_asked = false;
		part->ask_ns = 0;
		part->is_awaited |= card->is_released;
	}
	if (card->is_released && card->slot != GM_NO_CARD) {
		w->slots[card->slot].start_ns = 0;
		w->slots[card->slot].failures = 0;
		w->slots[card->slot].is_released = false;
	}
	card->is_released = false;
	card->released_ns = 0;
	w->orders[0].is_due = w->orders[1].is_due = true;
	look_soon(w);
}

/* ---- telling the reader -------------------------------------------------- */

/* Is all known of it that will soon be, or was there time enough? */
static bool is_ready(struct gm_watchers *w, const struct gm_watched *card,
		     uint64_t now)
{
	uint64_t until = card->since_ns + w->limit_ns;
	uint32_t health = gm_watched_verdict(card)->health;

	if (!card->has_facts || card->is_released)
		return false;
	/* Every card that is known when the first list ends is on it. */
	if (!w->is_listed && w->list_ns < until)
		until = w->list_ns;
	if (is_due(w, until, now))
		return true;
	if (health == GM_PROBE_LOST || health == GM_PROBE_FAILED)
		return true;
	return card->has_moving && has_orders(w) &&
	       (card->is_asked || health == GM_PROBE_SPLIT);
}

static void log_card(const struct gm_watched *card)
{
	static const char *const words[] = {
		[GM_PROBE_USABLE] = "usable", [GM_PROBE_FAILED] = "failed",
		[GM_PROBE_LOST] = "lost",     [GM_PROBE_SPLIT] = "split",
		[GM_PROBE_TAKEN] = "taken",
	};
	const struct gm_verdict *verdict = gm_watched_verdict(card);
	bool is_bad = verdict->health == GM_PROBE_FAILED ||
		      verdict->health == GM_PROBE_LOST;

	gm_log(is_bad ? GM_LOG_WARNING : GM_LOG_INFO, "card",
	       "device=%s name=%s health=%s why=%s",
	       gm_quote(card->device.id).text, gm_quote(card->device.name).text,
	       words[verdict->health], gm_quote(verdict->text).text);
}

static void tell_moving(struct gm_watchers *w, struct gm_watched *card)
{
	const struct gm_verdict *nvml = &card->verdicts[GM_VERDICT_NVML];
	struct gm_probe_wire wire = { .type = GM_PROBE_MOVING,
				      .health = nvml->health,
				      .code = nvml->code };

	/* Its processes came before the name. */
	memcpy(wire.uuid, card->uuid, sizeof(wire.uuid));
	wire.moving = card->moving;
	wire.moving.figures = GM_FIGURES_PARTLY;
	wire.moving.n_processes = 0;
	card->moving_is_due = false;
	w->reader->record(w->d, &wire);
}

static void tell(struct gm_watchers *w, struct gm_watched *card, uint64_t now)
{
	const struct gm_verdict *verdict = gm_watched_verdict(card);
	struct gm_probe_device device;

	if (card->is_awaited || (!card->is_named && !is_ready(w, card, now)))
		return;
	if (card->facts_are_due) {
		device = gm_watched_device(card);
		if (!card->is_named)
			log_card(card);
		card->is_named = true;
		card->facts_are_due = card->verdict_is_due = false;
		w->reader->device(w->d, card->uuid, &device, verdict);
	} else if (card->verdict_is_due) {
		card->verdict_is_due = false;
		w->reader->verdict(w->d, card->uuid, verdict);
	}
	if (card->moving_is_due)
		tell_moving(w, card);
}

/* Every card was named, or has had its time. */
static bool is_list_whole(struct gm_watchers *w, uint64_t now)
{
	if (is_due(w, w->list_ns, now))
		return true;
	for (uint32_t i = 0; i < w->n_slots; i++)
		if (!w->slots[i].is_settled || w->slots[i].card == GM_NO_CARD)
			return false;
	for (uint32_t i = 0; i < w->n_cards; i++)
		if (w->cards[i]->has_facts && !w->cards[i]->is_named &&
		    !w->cards[i]->is_released)
			return false;
	return true;
}

static void tell_all(struct gm_watchers *w, uint64_t now)
{
	for (uint32_t i = 0; i < w->n_cards; i++)
		tell(w, w->cards[i], now);
	if (w->is_listed || !is_list_whole(w, now))
		return;
	w->is_listed = w->wants_peers = true;
	w->reader->listed(w->d);
}

static void look(struct gm_timer *timer)
{
	struct gm_watchers *w = gm_owner(timer, struct gm_watchers, look);
	uint64_t now = gm_loop_now();

	w->next_ns = UINT64_MAX;
	mind_census(w, now);
	for (uint32_t i = 0; i < GM_PROBERS; i++)
		mind_silence(&w->probers[i], now);
	if (w->has_census) {
		mind_names(w, now);
		mind_watchers(w, now);
		mind_orders(w, now);
		mind_asks(w, now);
		tell_all(w, now);
		mind_peers(w);
	}
	/* A process that was just started may find a card that is released. */
	mind_released(w);
	if (w->look.due_ns == 0 && w->next_ns != UINT64_MAX)
		gm_timer_set(w->d->loop, &w->look, w->next_ns);
}

/* ---- their life ---------------------------------------------------------- */

void gm_watchers_start(struct gm_daemon *d,
		       const struct gm_watchers_reader *reader)
{
	struct gm_watchers *w = d->watchers;

	w->d = d;
	w->reader = reader;
	w->look.fired = look;
	w->limit_ns = w->limit_ns ? w->limit_ns : LIMIT_NS;
	w->driver_limit_ns =
		w->driver_limit_ns ? w->driver_limit_ns : DRIVER_LIMIT_NS;
	look_soon(w);
}

void gm_watchers_look_again(struct gm_daemon *d)
{
	struct gm_watchers *w = d->watchers;

	if (w->d == NULL || !d->is_open || !w->found_none)
		return;
	w->looks_again = gm_reports_prober(w, GM_ROLE_CENSUS, 0) != NULL;
	w->census_ns = 0;
	look_soon(w);
}

void gm_watchers_exit(struct gm_daemon *d)
{
	struct gm_watchers *w = d->watchers;
	uint64_t until = gm_loop_now() + LAST_WAIT_NS;

	if (w->d == NULL)
		return;
	gm_timer_stop(d->loop, &w->look);
	for (uint32_t i = 0; i < GM_PROBERS; i++)
		if (gm_child_exists(&w->probers[i].child))
			kill(w->probers[i].child.process.pid, SIGKILL);
	for (uint32_t i = 0; i < GM_PROBERS; i++)
		gm_child_exit(&w->probers[i].child, until);
	while (w->n_cards > 0)
		free(w->cards[--w->n_cards]);
	w->d = NULL;
}
