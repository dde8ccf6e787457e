/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* What there is: status, devices, sessions. */

#include "agent/ctl/ctl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t count_maps(const struct gm_ctl *ctl)
{
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t cursor = 0, n = 0;

	while (gpumap_layers_next(ctl->map, &cursor, name) == 1)
		n++;
	return n;
}

static int status_of(const struct gpumap_health *health)
{
	return health->state == GPUMAP_READY && !health->stale ? GM_EXIT_OK
							       : GM_EXIT_UNWELL;
}

int gm_ctl_status(struct gm_ctl *ctl)
{
	struct gpumap_health health = { .size = sizeof(health) };
	uint32_t rows = gpumap_device_count(ctl->map);
	uint32_t maps = count_maps(ctl);
	char size[32];
	int ret;

	ret = gpumap_health(ctl->map, &health);
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "status");
	if (ctl->json) {
		ret = gm_ctl_print(json_pack(
			"{s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
			"s:I}",
			"instance", ctl->instance, "state",
			gm_ctl_state(health.state), "stale", (int)health.stale,
			"age_ns", (json_int_t)health.age_ns, "epoch",
			(json_int_t)health.epoch, "generation",
			(json_int_t)health.generation, "tick",
			(json_int_t)health.tick, "agent_pid",
			(json_int_t)health.agent_pid, "bytes",
			(json_int_t)health.bytes, "rows", (json_int_t)rows,
			"maps", (json_int_t)maps));
		return ret != GM_EXIT_OK ? ret : status_of(&health);
	}
	printf("instance    %s\n", ctl->instance);
	printf("state       %s%s\n", gm_ctl_state(health.state),
	       health.stale ? ", STALE: the agent has not been seen" : "");
	printf("heartbeat   %.1f s ago\n", (double)health.age_ns / 1e9);
	printf("agent       pid %u, epoch %llu\n", health.agent_pid,
	       (unsigned long long)health.epoch);
	printf("generation  %u\n", health.generation);
	printf("segment     %s\n", gm_ctl_size(health.bytes, size));
	printf("devices     %u\n", rows);
	printf("layer maps  %u\n", maps);
	return status_of(&health);
}

static void uuid_text(const uint8_t uuid[16], char ret_text[37])
{
	static const uint8_t dashes[] = { 4, 6, 8, 10 };
	size_t at = 0, dash = 0;

	for (size_t i = 0; i < 16; i++) {
		if (dash < sizeof(dashes) && i == dashes[dash]) {
			ret_text[at++] = '-';
			dash++;
		}
		snprintf(ret_text + at, 3, "%02x", uuid[i]);
		at += 2;
	}
}

/* A fact, or null where it is not known. */
static json_t *known(const struct gpumap_device *device, uint32_t bit,
		     int64_t value)
{
	return (device->known & bit) != 0 ? json_integer(value) : json_null();
}

/* "9.0", or null. */
static json_t *compute_capability(const struct gpumap_device *d)
{
	if ((d->known & GPUMAP_KNOWN_CC) == 0)
		return json_null();
	return json_sprintf("%u.%u", d->cc_major, d->cc_minor);
}

static json_t *device_json(const struct gpumap_device *d)
{
	char uuid[37];
	json_t *object;

	uuid_text(d->uuid, uuid);
	object = json_pack(
		"{s:I, s:I, s:s, s:s, s:s, s:s, s:o, s:s, s:o, s:o, s:b, s:b, "
		"s:I, s:I, s:I, s:I, s:f, s:s, s:i, s:I, s:I, s:I}",
		"row", (json_int_t)d->row, "row_generation",
		(json_int_t)d->generation, "uuid", uuid, "name", d->name,
		"kind", gm_ctl_device_kind(d->kind), "state",
		gm_ctl_device_state(d->state), "numa_node",
		known(d, GPUMAP_KNOWN_NUMA, d->numa_node), "cpus", d->cpus,
		"units", known(d, GPUMAP_KNOWN_UNITS, d->units),
		"compute_capability", compute_capability(d), "main_memory",
		(d->flags & GPUMAP_DEVICE_MAIN_MEMORY) != 0, "integrated",
		(d->flags & GPUMAP_DEVICE_INTEGRATED) != 0, "total_bytes",
		(json_int_t)d->total_bytes, "free_bytes",
		(json_int_t)d->free_bytes, "reserved_bytes",
		(json_int_t)d->reserved_bytes, "budget_bytes",
		(json_int_t)d->budget_bytes, "score", d->score, "reason",
		d->reason, "error", (int)d->error, "since_ns",
		(json_int_t)d->since_ns, "worker_pid",
		(json_int_t)d->worker_pid, "restarts", (json_int_t)d->restarts);
	return object;
}

static void device_line(const struct gpumap_device *d)
{
	char total[32], free_text[32], reserved[32];

	printf("%3u  %-5s %-10s %4d  %-12s %10s %10s %10s %8.1f %8u %4u  "
	       "%s%s%s\n",
	       d->row, gm_ctl_device_kind(d->kind),
	       gm_ctl_device_state(d->state), d->numa_node, d->cpus,
	       gm_ctl_size(d->total_bytes, total),
	       gm_ctl_size(d->free_bytes, free_text),
	       gm_ctl_size(d->reserved_bytes, reserved), d->score,
	       d->worker_pid, d->restarts, d->name,
	       d->reason[0] != '\0' ? ": " : "", d->reason);
}

int gm_ctl_devices(struct gm_ctl *ctl)
{
	uint32_t n = gpumap_device_count(ctl->map);
	json_t *list = ctl->json ? json_array() : NULL;

	if (!ctl->json)
		printf("row  kind  state      node  %-12s %10s %10s %10s %8s "
		       "%8s %4s  name\n",
		       "cpus", "total", "free", "reserved", "score", "worker",
		       "died");
	for (uint32_t row = 0; row < n; row++) {
		struct gpumap_device device = { .size = sizeof(device) };
		int ret = gpumap_device_read(ctl->map, row, &device);

		if (ret != 0) {
			json_decref(list);
			return gm_ctl_fail(ctl, ret, "row %u", row);
		}
		if (ctl->json)
			json_array_append_new(list, device_json(&device));
		else
			device_line(&device);
	}
	if (!ctl->json)
		return GM_EXIT_OK;
	return gm_ctl_print(json_pack("{s:o}", "devices", list));
}

static json_t *session_json(const struct gpumap_session_info *info)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "id",
			 (json_int_t)info->id, "pid", (json_int_t)info->pid,
			 "uid", (json_int_t)info->uid, "queues",
			 (json_int_t)info->n_queues, "depth",
			 (json_int_t)info->depth, "arena_bytes",
			 (json_int_t)info->arena_bytes, "age_ns",
			 (json_int_t)info->age_ns);
}

int gm_ctl_sessions(struct gm_ctl *ctl)
{
	struct gpumap_session_info *info;
	const size_t room = 4096;
	json_t *list = NULL;
	char size[32];
	int n;

	info = calloc(room, sizeof(*info));
	if (info == NULL)
		return gm_ctl_fail(ctl, -ENOMEM, "sessions");
	n = gpumap_sessions(ctl->map, info, room);
	if (n < 0) {
		free(info);
		return gm_ctl_fail(ctl, n, "sessions");
	}
	if (n > (int)room)
		n = (int)room;
	if (ctl->json)
		list = json_array();
	else
		printf("%8s %8s %8s %6s %6s %10s %9s\n", "session", "pid",
		       "uid", "queues", "depth", "arena", "age");
	for (int i = 0; i < n; i++) {
		if (ctl->json) {
			json_array_append_new(list, session_json(&info[i]));
			continue;
		}
		printf("%8llu %8u %8u %6u %6u %10s %7.1f s\n",
		       (unsigned long long)info[i].id, info[i].pid, info[i].uid,
		       info[i].n_queues, info[i].depth,
		       gm_ctl_size(info[i].arena_bytes, size),
		       (double)info[i].age_ns / 1e9);
	}
	free(info);
	if (!ctl->json)
		return GM_EXIT_OK;
	return gm_ctl_print(json_pack("{s:o}", "sessions", list));
}
