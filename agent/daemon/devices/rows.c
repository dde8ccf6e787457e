/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/devices/rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/common/node_clock.h"
#include "agent/common/text.h"
#include "agent/daemon/base/events.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/cards.h"
#include "agent/daemon/devices/dummy.h"
#include "agent/daemon/devices/host.h"
#include "agent/daemon/devices/p2p.h"
#include "agent/daemon/devices/reuse.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/segment/segment.h"
#include "gpumap.h"
#include "shm/point.h"
#include "shm/rows.h"

struct gm_device *gm_devices_find(const struct gm_daemon *d,
				  const uint8_t uuid[16])
{
	for (uint32_t row = 0; row < d->devices->n; row++) {
		struct gm_device *device = d->devices->of[row];

		if (memcmp(device->facts.uuid, uuid, 16) == 0)
			return device;
	}
	return NULL;
}

/* Would publishing @new tell readers anything? */
static bool same_facts(const struct gm_row_image *old,
		       const struct gm_row_image *new)
{
	struct gm_row_image a = *old, b = *new;

	memcpy(b.object.name, a.object.name, sizeof(b.object.name));
	a.object = b.object;
	return strcmp(old->object.name, new->object.name) == 0 &&
	       memcmp(&a, &b, sizeof(a)) == 0;
}

static void move(struct gm_daemon *d, const struct gm_device *device)
{
	gm_rows_move(&d->segment->map.rows[device->facts.row], &device->moving);
}

static void enter(struct gm_device *device, uint32_t state, const char *reason,
		  int error)
{
	struct gm_moving_image *moving = &device->moving;

	moving->state = state;
	moving->error = error;
	moving->since = gm_node_clock_now();
	memset(moving->reason, 0, sizeof(moving->reason));
	if (reason != NULL)
		gm_text_shorten(moving->reason, sizeof(moving->reason), reason);
}

/* There again, or for the first time: who has a worker waits for it.  A card
 * may be of no use although it is there. */
static void enter_found(struct gm_device *device, const struct gm_device *found)
{
	const struct gm_moving_image *moving = &found->moving;

	if (!gm_device_can(device, GPUMAP_DEVICE_CARD)) {
		device->present = true;
		enter(device,
		      gm_device_can(device, GPUMAP_DEVICE_SERVES)
			      ? GPUMAP_DEVICE_PROBING
			      : GPUMAP_DEVICE_READY,
		      NULL, 0);
		return;
	}
	device->present = found->present;
	enter(device, moving->state,
	      moving->reason[0] != '\0' ? moving->reason : NULL, moving->error);
}

static void drop_first(struct gm_device *device)
{
	memmove(device->back, device->back + 1,
		--device->n_back * sizeof(device->back[0]));
}

/* Where there is no room the oldest two become one, which counts as long as the
 * older of them: too short, rather than too long. */
void gm_devices_memory_freed(struct gm_device *device,
			     const struct gm_recent_free *freed)
{
	struct gm_recent_free *back = device->back;

	if (device->n_back == GM_RECENT_FREES) {
		back[1].bytes += back[0].bytes;
		back[1].sure_bytes += back[0].sure_bytes;
		back[1].at_ns = back[0].at_ns;
		drop_first(device);
	}
	back[device->n_back++] = *freed;
}

void gm_devices_memory_read(struct gm_device *device, uint64_t at_ns)
{
	while (device->n_back > 0 && device->back[0].at_ns < at_ns)
		drop_first(device);
}

static void refresh(struct gm_daemon *d, struct gm_device *device)
{
	switch (device->facts.kind) {
	case GPUMAP_DEVICE_HOST:
		gm_hostrows_refresh(d, device);
		gm_devices_memory_read(device, gm_node_clock_now());
		break;
	case GPUMAP_DEVICE_CUDA:
		gm_cards_refresh(d, device);
		break;
	case GPUMAP_DEVICE_HIP:
	case GPUMAP_DEVICE_OPENCL:
	case GPUMAP_DEVICE_VULKAN:
		gm_cards_refresh(d, device);
		gm_devices_memory_read(device, gm_node_clock_now());
		break;
	default:
		gm_dummyrows_refresh(device);
	}
}

/* Rows that an agent before us gave out, as it left them. */
static int load(struct gm_daemon *d)
{
	const struct gm_map *map = &d->segment->map;
	uint32_t n = gm_rows_used(map);

	for (uint32_t row = 0; row < n; row++) {
		struct gm_device *device = calloc(1, sizeof(*device));

		if (device == NULL)
			return -ENOMEM;
		d->devices->of[row] = device;
		d->devices->n = row + 1;
		if (gm_rows_facts(map, row, &device->facts) != 0 ||
		    gm_rows_moving(map, row, &device->moving) != 0)
			return -EPROTO; /* validated, so this cannot be */
		device->moving.worker_pid = 0;
		/* The probe reports paths anew. */
		for (uint32_t i = 0; i < GM_ROWS / 8; i++)
			gm_put(&map->rows[row].paths[i], 0);
	}
	return 0;
}

static struct gm_device *make(struct gm_daemon *d,
			      const struct gm_device *found, uint32_t row,
			      uint32_t generation)
{
	struct gm_device *device = malloc(sizeof(*device));

	if (device == NULL)
		return NULL;
	*device = *found;
	device->facts.row = row;
	device->facts.generation = generation;
	device->given_ns = gm_loop_now();
	enter_found(device, found);
	refresh(d, device);
	return device;
}

/* Moving facts that are true of both devices, while a row changes from one to
 * the other: a reader, or the next agent, sees neither device's under the
 * other's name. */
static void move_neither(struct gm_daemon *d, uint32_t row)
{
	const struct gm_moving_image neither = { .state = GPUMAP_DEVICE_PROBING,
						 .since = gm_node_clock_now() };
	struct gm_row *slot = &d->segment->map.rows[row];

	gm_rows_move(slot, &neither);
	gm_put(&slot->jobs, 0);
	gm_put(&slot->jobs_failed, 0);
	gm_put(&slot->job_ns, 0);
	gm_put(&slot->loaded_bytes, 0);
	for (uint32_t i = 0; i < GM_JOB_TIMES; i++)
		gm_put(&slot->job_times[i], 0);
}

static int give_anew(struct gm_daemon *d, uint32_t row,
		     const struct gm_device *found)
{
	struct gm_device *old = d->devices->of[row];
	struct gm_device *device =
		make(d, found, row, old->facts.generation + 1);
	int ret;

	if (device == NULL)
		return -ENOMEM;
	move_neither(d, row);
	ret = gm_directory_row(d, &device->facts);
	if (ret != 0) {
		move(d, old);
		free(device);
		return ret;
	}
	GM_POINT("row_renamed");
	move(d, device);
	gm_events_row_reused(d, row);
	d->devices->of[row] = device;
	d->devices->n_reused++;
	gm_log(GM_LOG_INFO, "row_reused",
	       "row=%u row_generation=%u name=%s was=%s", row,
	       device->facts.generation,
	       gm_quote(device->facts.object.name).text,
	       gm_quote(old->facts.object.name).text);
	free(old);
	return (int)row;
}

/* A row is given out last of all, when it can be read.  Returns it. */
static int give_out(struct gm_daemon *d, const struct gm_device *found)
{
	gm_a32 *used = &d->segment->map.header->rows_used;
	struct gm_device *device;
	uint32_t row;
	int ret;

	if (gm_reuse_find(d, &row))
		return give_anew(d, row, found);
	if (d->devices->n == GM_ROWS)
		return -ENOSPC;
	row = d->devices->n;
	device = make(d, found, row, 1);
	if (device == NULL)
		return -ENOMEM;
	move(d, device);
	GM_POINT("row_moving");
	ret = gm_directory_row(d, &device->facts);
	if (ret != 0) {
		free(device);
		return ret;
	}
	d->devices->of[d->devices->n++] = device;
	gm_put_release(used, d->devices->n); /* SEQ.publish */
	GM_POINT("row_visible");
	return (int)row;
}

/* Counters of the previous agent go on. */
static int take_back(struct gm_daemon *d, struct gm_device *device,
		     const struct gm_device *found)
{
	struct gm_row_image facts = found->facts, old = device->facts;
	uint32_t restarts = device->moving.restarts;
	uint64_t reserved_bytes = device->moving.reserved_bytes;
	bool is_same;

	facts.row = old.row;
	facts.generation = old.generation;
	facts.xids += old.xids;
	if (facts.last_xid == 0)
		facts.last_xid = old.last_xid;
	is_same = same_facts(&old, &facts);
	*device = *found;
	device->facts = is_same ? old : facts;
	device->moving.restarts = restarts;
	device->moving.reserved_bytes = reserved_bytes;
	enter_found(device, found);
	refresh(d, device);
	move(d, device);
	return is_same ? 0 : gm_directory_row(d, &device->facts);
}

static int no_room(const struct gm_device *found, int ret, char *ret_why)
{
	snprintf(ret_why, GM_WHY_BYTES, "no room for row %s: %s",
		 found->facts.object.name, strerror(-ret));
	return ret;
}

/* Those that have a row take it back before others get one: what is left then
 * is lost. */
static int match(struct gm_daemon *d, const struct gm_device *found, size_t n,
		 char *ret_why)
{
	bool has_row[GM_ROWS] = { false };
	int ret;

	for (size_t i = 0; i < n; i++) {
		struct gm_device *device =
			gm_devices_find(d, found[i].facts.uuid);

		has_row[i] = device != NULL;
		ret = has_row[i] ? take_back(d, device, &found[i]) : 0;
		if (ret != 0)
			return no_room(&found[i], ret, ret_why);
	}
	for (uint32_t row = 0; row < d->devices->n; row++) {
		const struct gm_device *device = d->devices->of[row];

		if (!device->present && !device->named &&
		    device->moving.state != GPUMAP_DEVICE_LOST)
			gm_devices_state(
				d, row, GPUMAP_DEVICE_LOST,
				gm_device_can(device, GPUMAP_DEVICE_MAPPED)
					? "no longer configured: see gpumapd "
					  "--remove"
					: "no longer there or not configured",
				-ENODEV);
	}
	for (size_t i = 0; i < n; i++) {
		ret = has_row[i] ? 0 : give_out(d, &found[i]);
		if (ret < 0)
			return no_room(&found[i], ret, ret_why);
	}
	return 0;
}

/* In the order of a new table.  Returns how many, or a negative errno. */
static int list(struct gm_daemon *d, struct gm_device *found, char *ret_why)
{
	int n = gm_cards_list(d, found, GM_ROWS, ret_why);
	int ret = n;

	if (ret >= 0)
		ret = gm_hostrows_list(d, found + n, GM_ROWS - (size_t)n,
				       ret_why);
	if (ret >= 0) {
		n += ret;
		ret = gm_dummyrows_list(d, found + n, GM_ROWS - (size_t)n,
					ret_why);
	}
	return ret < 0 ? ret : n + ret;
}

int gm_devices_start(struct gm_daemon *d, char ret_why[GM_WHY_BYTES])
{
	struct gm_device *found = calloc(GM_ROWS, sizeof(*found));
	int n, ret;

	if (found == NULL)
		return -ENOMEM;
	n = list(d, found, ret_why);
	ret = n < 0 ? n : load(d);
	if (ret == 0 && n == 0)
		ret = gm_why(ret_why, -ENODEV,
			     "no device: set host.enabled = yes, or name a "
			     "node file as dummy.file");
	if (ret == 0)
		ret = match(d, found, (size_t)n, ret_why);
	free(found);
	gm_p2p_paths_show(d);
	gm_segment_changed(d->segment);
	return ret;
}

int gm_devices_add(struct gm_daemon *d, const struct gm_device *found)
{
	int ret = give_out(d, found);

	if (ret < 0)
		return ret;
	gm_p2p_paths_show(d);
	gm_segment_changed(d->segment);
	return ret;
}

void gm_devices_describe(struct gm_daemon *d, uint32_t row)
{
	int ret = gm_directory_row(d, &d->devices->of[row]->facts);

	if (ret != 0)
		gm_log(GM_LOG_ERROR, "row_not_published", "row=%u error=%s",
		       row, gm_quote(strerror(-ret)).text);
}

void gm_devices_move(struct gm_daemon *d, uint32_t row)
{
	move(d, d->devices->of[row]);
}

void gm_devices_exit(struct gm_daemon *d)
{
	for (uint32_t row = 0; row < d->devices->n; row++)
		free(d->devices->of[row]);
	d->devices->n = 0;
}

static const char *state_name(uint32_t state)
{
	static const char *const names[] = { "NONE",       "PROBING",  "READY",
					     "RESTARTING", "DRAINING", "FAILED",
					     "LOST" };

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

void gm_devices_state(struct gm_daemon *d, uint32_t row, uint32_t state,
		      const char *reason, int error)
{
	struct gm_device *device = d->devices->of[row];
	bool was_ready = device->moving.state == GPUMAP_DEVICE_READY;

	enter(device, state, reason, error);
	if (state == GPUMAP_DEVICE_LOST) {
		device->present = false;
		device->moving.worker_pid = 0;
	}
	/* No reader sees a whole group beside a row of it that is not READY. */
	if (was_ready && state != GPUMAP_DEVICE_READY)
		gm_events_row_closing(d, row);
	move(d, device);
	GM_POINT("row_state_visible");
	if (!was_ready && state == GPUMAP_DEVICE_READY)
		gm_events_row_ready(d, row);
	gm_segment_changed(d->segment);
	gm_log(state == GPUMAP_DEVICE_FAILED || state == GPUMAP_DEVICE_LOST
		       ? GM_LOG_WARNING
		       : GM_LOG_INFO,
	       "row_state", "row=%u state=%s reason=%s", row, state_name(state),
	       gm_quote(reason != NULL ? reason : "").text);
}

void gm_devices_worker(struct gm_daemon *d, uint32_t row, pid_t pid,
		       uint32_t restarts)
{
	struct gm_device *device = d->devices->of[row];

	device->moving.worker_pid = (uint32_t)pid;
	device->moving.restarts = restarts;
	move(d, device);
}

void gm_devices_reserved(struct gm_daemon *d, uint32_t row, uint64_t bytes)
{
	struct gm_device *device = d->devices->of[row];

	if (device->moving.reserved_bytes == bytes)
		return;
	device->moving.reserved_bytes = bytes;
	move(d, device);
	GM_POINT("row_reserved_visible");
}

void gm_devices_used(struct gm_daemon *d, uint32_t row, uint64_t bytes)
{
	struct gm_device *device = d->devices->of[row];

	if (device->moving.used_by_holders == bytes)
		return;
	device->moving.used_by_holders = bytes;
	move(d, device);
}

void gm_devices_refresh(struct gm_daemon *d)
{
	gm_a64 *tick = &d->segment->map.header->tick;

	for (uint32_t row = 0; row < d->devices->n; row++) {
		struct gm_device *device = d->devices->of[row];

		if (!device->present)
			continue;
		refresh(d, device);
		if (gm_device_can(device, GPUMAP_DEVICE_SERVES) &&
		    !gm_device_is_watched(device))
			gm_events_row_memory_read(d, row);
		move(d, device);
	}
	gm_put_release(tick, gm_get(tick) + 1); /* SEGMENT.changed */
}

bool gm_devices_ready(const struct gm_daemon *d)
{
	for (uint32_t row = 0; row < d->devices->n; row++) {
		const struct gm_device *device = d->devices->of[row];

		if (device->present &&
		    device->moving.state != GPUMAP_DEVICE_READY)
			return false;
	}
	return true;
}
