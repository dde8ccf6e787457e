/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The role --watch: one card and its instances, for as long as it answers.
 *
 * An event set that fails returns at once and for ever, so after a failure the
 * wait is a sleep, and another set is tried with the next refresh.
 */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/node_clock.h"
#include "agent/probe/facts.h"
#include "agent/probe/nvml_session.h"
#include "gpumap.h"

#define INSTANCES 16u /* of a card; NVML's own most is 7 */
#define BURST     64u /* events between two looks at the card */

/* Before the look that will say so, should the set be wrong. */
#define LOST_PAUSE_MS 50u

/* Corrected errors are many and harmless. */
#define EVENTS_WANTED                                       \
	(GM_NVML_EVENT_DOUBLE_BIT_ECC | GM_NVML_EVENT_XID | \
	 GM_NVML_EVENT_UNAVAILABLE | GM_NVML_EVENT_RECOVERY)

struct instance {
	struct nvmlDevice_st *mig;
	uint8_t uuid[16];
	uint32_t gi, ci;
	bool met; /* in this round */
	struct gm_processes processes;
};

struct watch {
	const struct gm_probe_options *options;
	struct gm_nvml nvml;
	struct gm_facts facts;
	struct nvmlDevice_st *dev;
	struct nvmlEventSet_st *set; /* NULL: none, sleep instead */
	bool is_set_logged;
	bool is_split;
	struct gm_probe_wire card; /* as it was said */
	struct gm_processes processes;
	struct instance instances[INSTANCES];
	uint32_t n_instances;
};

static void open_card(struct watch *w)
{
	struct gm_probe_wire note = { 0 };
	gm_nvml_result result;

	if (gm_nvml_session_open(w->options, &w->nvml, &note) < 0)
		gm_say_done(&note);
	w->facts = (struct gm_facts){ .nvml = &w->nvml,
				      .sysfs = w->options->sysfs };
	gm_facts_system(&w->facts);
	gm_say_call("nvmlDeviceGetHandleByIndex");
	result = w->nvml.nvmlDeviceGetHandleByIndex_v2(w->options->index,
						       &w->dev);
	if (result != GM_NVML_SUCCESS) {
		gm_nvml_session_refused(&note, "nvmlDeviceGetHandleByIndex",
					result);
		/* An index that the list ended before. */
		if (result == GM_NVML_INVALID_ARGUMENT ||
		    result == GM_NVML_NOT_FOUND)
			note.health = GM_PROBE_LOST;
		gm_say_done(&note);
	}
}

/* Once: it is tried again and again. */
static void log_no_events(struct watch *w, gm_nvml_result result)
{
	if (!w->is_set_logged)
		gm_log(GM_LOG_WARNING, "no_events", "device=%s code=%u why=%s",
		       w->card.device.id, result, gm_nvml_error_name(result));
	w->is_set_logged = true;
}

/* The set goes with the process. */
static void listen(struct watch *w)
{
	struct gm_nvml *nvml = &w->nvml;
	unsigned long long types = 0;
	gm_nvml_result result;

	result = nvml->nvmlDeviceGetSupportedEventTypes(w->dev, &types);
	types &= EVENTS_WANTED;
	if (result == GM_NVML_SUCCESS && !types)
		result = GM_NVML_NOT_SUPPORTED;
	if (result == GM_NVML_SUCCESS)
		result = nvml->nvmlEventSetCreate(&w->set);
	if (result == GM_NVML_SUCCESS) {
		result = nvml->nvmlDeviceRegisterEvents(w->dev, types, w->set);
		if (result != GM_NVML_SUCCESS)
			nvml->nvmlEventSetFree(w->set);
	}
	if (result == GM_NVML_SUCCESS)
		return;
	w->set = NULL;
	log_no_events(w, result);
}

static void drop_set(struct watch *w, gm_nvml_result result)
{
	log_no_events(w, result);
	w->nvml.nvmlEventSetFree(w->set);
	w->set = NULL;
}

/* Whose event it is: an instance's, where one is named. */
static const uint8_t *owner_of(const struct watch *w,
			       const struct gm_nvml_event *event)
{
	for (uint32_t i = 0; i < w->n_instances; i++) {
		const struct instance *in = &w->instances[i];

		if (event->gpu_instance == in->gi &&
		    (event->compute_instance == in->ci ||
		     event->compute_instance == UINT32_MAX))
			return in->uuid;
	}
	return w->card.uuid;
}

static void say_event(const struct watch *w, const struct gm_nvml_event *event)
{
	struct gm_probe_wire note = { .type = GM_PROBE_EVENT };

	memcpy(note.uuid, owner_of(w, event), sizeof(note.uuid));
	note.event.kind = event->type;
	note.event.xid = event->type == GM_NVML_EVENT_XID ? event->data : 0;
	gm_say_record(&note);
}

/* Wait for @ms or for an event.  Returns whether there was one. */
static bool wait_for_event(struct watch *w, uint32_t ms)
{
	struct gm_nvml_event event = { .gpu_instance = UINT32_MAX,
				       .compute_instance = UINT32_MAX };
	gm_nvml_result result;

	if (!w->set) {
		usleep(1000 * ms);
		return false;
	}
	result = w->nvml.nvmlEventSetWait_v2(w->set, &event, ms);
	if (result == GM_NVML_SUCCESS) {
		say_event(w, &event);
		return true;
	}
	if (result == GM_NVML_TIMEOUT)
		return false;
	drop_set(w, result);
	if (result == GM_NVML_GPU_IS_LOST)
		ms = ms < LOST_PAUSE_MS ? ms : LOST_PAUSE_MS;
	usleep(1000 * ms);
	return result == GM_NVML_GPU_IS_LOST;
}

static struct instance *instance_of(struct watch *w, const uint8_t uuid[16])
{
	for (uint32_t i = 0; i < w->n_instances; i++)
		if (memcmp(w->instances[i].uuid, uuid, 16) == 0)
			return &w->instances[i];
	return NULL;
}

/* Handles are the library's to reuse, so each round asks who they are. */
static void meet_instance(struct watch *w, struct nvmlDevice_st *mig)
{
	struct instance *in;
	struct gm_probe_wire note;

	if (gm_facts_instance(&w->facts, mig, &w->card.device, &note) < 0)
		return;
	in = instance_of(w, note.uuid);
	if (!in) {
		if (w->n_instances == INSTANCES)
			return;
		in = &w->instances[w->n_instances++];
		*in = (struct instance){ .mig = mig };
		memcpy(in->uuid, note.uuid, sizeof(in->uuid));
		in->gi = (uint32_t)note.device.facts.mig_gi;
		in->ci = (uint32_t)note.device.facts.mig_ci;
		gm_say_record(&note);
	}
	in->mig = mig;
	in->met = true;
}

static void forget_instances(struct watch *w)
{
	for (uint32_t i = w->n_instances; i-- > 0;) {
		struct gm_probe_wire note = { .type = GM_PROBE_GONE };

		if (w->instances[i].met)
			continue;
		memcpy(note.uuid, w->instances[i].uuid, sizeof(note.uuid));
		gm_say_text(&note, "the instance was taken down");
		gm_say_record(&note);
		w->instances[i] = w->instances[--w->n_instances];
	}
}

static void list_instances(struct watch *w)
{
	unsigned int max = 0;

	for (uint32_t i = 0; i < w->n_instances; i++)
		w->instances[i].met = false;
	if (w->is_split && w->nvml.nvmlDeviceGetMaxMigDeviceCount(
				   w->dev, &max) != GM_NVML_SUCCESS)
		max = 0;
	/* Indices have holes where an instance was taken down. */
	for (unsigned int i = 0; i < max; i++) {
		struct nvmlDevice_st *mig;

		if (w->nvml.nvmlDeviceGetMigDeviceHandleByIndex(
			    w->dev, i, &mig) == GM_NVML_SUCCESS)
			meet_instance(w, mig);
	}
	forget_instances(w);
}

static void say_card(struct watch *w)
{
	if (gm_facts_card(&w->facts, w->dev, w->options->index, &w->card) < 0)
		gm_say_done(&w->card);
	w->is_split = w->card.device.facts.flags & GPUMAP_DEVICE_MIG;
	gm_say_record(&w->card);
}

/* The moving facts of one device, behind the processes that use it. */
static void say_look(const struct gm_processes *processes,
		     const struct gm_probe_wire *moving)
{
	struct gm_probe_wire note;

	for (uint32_t i = 0; i < moving->moving.n_processes; i++) {
		gm_processes_note(processes, i, &note);
		memcpy(note.uuid, moving->uuid, sizeof(note.uuid));
		gm_say_record(&note);
	}
	gm_say_record(moving);
}

/* Everything once.  A card that is gone ends this process. */
static void refresh(struct watch *w)
{
	struct gm_probe_wire note = { 0 };

	if (gm_facts_split(&w->facts, w->dev) != w->is_split)
		say_card(w);
	memcpy(note.uuid, w->card.uuid, sizeof(note.uuid));
	gm_facts_move(&w->facts, w->dev, &w->processes, &note);
	if (note.health == GM_PROBE_LOST)
		gm_say_done(&note);
	if (note.health == GM_PROBE_USABLE && w->is_split) {
		note.health = GM_PROBE_SPLIT;
		gm_say_text(&note, "in MIG mode: its instances are used");
	}
	/* A report of the card's state is one of its instances, too. */
	list_instances(w);
	say_look(&w->processes, &note);
	for (uint32_t i = 0; i < w->n_instances; i++) {
		struct instance *in = &w->instances[i];

		memcpy(note.uuid, in->uuid, sizeof(note.uuid));
		gm_facts_move(&w->facts, in->mig, &in->processes, &note);
		say_look(&in->processes, &note);
	}
}

int gm_watch_run(const struct gm_probe_options *o)
{
	static struct watch w;
	uint64_t due;

	w.options = o;
	open_card(&w);
	gm_say_call("a first look at the card");
	say_card(&w);
	for (;;) {
		/* First, so that nothing is missed of a card that is known. */
		if (!w.set)
			listen(&w);
		refresh(&w);
		due = gm_node_clock_now() + (uint64_t)o->refresh_ms * 1000000u;
		while (gm_node_clock_now() < due) {
			uint64_t left = due - gm_node_clock_now();
			uint32_t burst = 0;

			if (!wait_for_event(&w, (uint32_t)(left / 1000000) + 1))
				continue;
			while (++burst < BURST && wait_for_event(&w, 0))
				;
			break;
		}
	}
}
