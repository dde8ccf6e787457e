/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/devices/host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/numa_bind.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/devices/uuid.h"
#include "gpumap.h"
#include "shm/device_kinds.h"
#include "shm/score.h"

/* From the first CPU; nodes of one machine do not differ in it. */
static void read_model(char *ret_model, size_t bytes)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[256];

	snprintf(ret_model, bytes, "CPU");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
		const char *value = strchr(line, ':');

		if (strncmp(line, "model name", 10) != 0 || value == NULL)
			continue;
		value += 1 + strspn(value + 1, " \t");
		snprintf(ret_model, bytes, "%.*s", (int)strcspn(value, "\n"),
			 value);
		break;
	}
	if (file != NULL)
		fclose(file);
}

/* The part that tells rows apart comes last and is never cut. */
static void write_name(char name[GM_NAME_BYTES], const char *model, int node,
		       uint32_t part, uint32_t parts)
{
	char place[32];
	int room;

	if (parts > 1)
		snprintf(place, sizeof(place), " node%d/%uof%u", node, part,
			 parts);
	else
		snprintf(place, sizeof(place), " node%d", node);
	room = (int)(GM_NAME_BYTES - 1 - strlen("host ") - strlen(place));
	snprintf(name, GM_NAME_BYTES, "host %.*s%s", room, model, place);
}

/* Facts about the machine that all host rows share. */
struct machine {
	uint8_t key[16]; /* of uuids */
	char model[128]; /* of its CPUs */
};

static void write_facts(struct gm_device *device, const struct gm_node *node,
			uint32_t part, uint32_t parts,
			const struct machine *machine)
{
	struct gm_row_image *facts = &device->facts;

	write_name(facts->object.name, machine->model, node->id, part, parts);
	gm_uuid_host(machine->key, node->id, part, parts, facts->uuid);
	facts->kind = GPUMAP_DEVICE_HOST;
	facts->flags = gm_device_kind(facts->kind)->flags;
	facts->known =
		GPUMAP_KNOWN_NUMA | GPUMAP_KNOWN_MEMORY | GPUMAP_KNOWN_UNITS;
	facts->numa_node = node->id;
	facts->nvml_index = facts->minor_number = -1;
	facts->ordinal_pci = facts->ordinal_fastest = -1;
	facts->mig_gi = facts->mig_ci = -1;
	facts->recovery = UINT32_MAX;
	facts->units = (uint32_t)gm_idset_count(&device->cpus);
	facts->threads_per_unit = 1;
	facts->total_bytes = node->mem_bytes / parts;
	/* A list that is too long for the table is known to the worker only. */
	if (gm_idset_format(&device->cpus, facts->cpus, sizeof(facts->cpus)) >=
	    0)
		facts->known |= GPUMAP_KNOWN_CPUS;
}

/* Returns the number of devices, @parts, or an error. */
static int split_node(const struct gm_node *node, uint32_t parts,
		      const struct machine *machine,
		      struct gm_device *ret_devices, size_t max, char *ret_why)
{
	if (parts > max) {
		snprintf(ret_why, GM_WHY_BYTES,
			 "the device table has %u rows: lower host.rows",
			 GM_ROWS);
		return -ENOSPC;
	}
	for (uint32_t part = 0; part < parts; part++) {
		struct gm_device *device = &ret_devices[part];
		int ret;

		memset(device, 0, sizeof(*device));
		ret = gm_numa_bind_split(NULL, &node->cpus, parts, part,
					 &device->cpus);
		if (ret >= 0)
			ret = gm_meminfo_open(NULL, node->id, &device->memory);
		if (ret < 0) {
			snprintf(ret_why, GM_WHY_BYTES, "node %d: %s", node->id,
				 strerror(-ret));
			return ret;
		}
		device->present = true;
		device->parts = parts;
		write_facts(device, node, part, parts, machine);
	}
	return (int)parts;
}

/* @bytes of @of, out of @all, without an overflow. */
static uint64_t scale(uint64_t bytes, uint64_t of, uint64_t all)
{
	return (uint64_t)((double)bytes / (double)of * (double)all);
}

/* Memory of host rows counts for the control group that gpumapd is in.  A limit
 * of the group is split between the rows as the machine's memory is. */
static void share_limit(struct gm_host_limit *limit, struct gm_device *rows,
			int n)
{
	uint64_t all = 0;

	for (int i = 0; i < n; i++)
		all += rows[i].facts.total_bytes;
	gm_cgroup_find(&limit->group, NULL, "memory");
	limit->bytes = gm_cgroup_memory(&limit->group, NULL);
	if (limit->bytes >= all) {
		limit->bytes = UINT64_MAX;
		return;
	}
	for (int i = 0; i < n; i++)
		rows[i].facts.total_bytes =
			scale(rows[i].facts.total_bytes, all, limit->bytes);
}

/* The row's part of what the group has left, where it has a limit. */
static uint64_t free_of_limit(const struct gm_host_limit *limit,
			      const struct gm_device *device)
{
	uint64_t left;

	if (limit->bytes == UINT64_MAX)
		return UINT64_MAX;
	gm_cgroup_memory(&limit->group, &left);
	return left == UINT64_MAX
		       ? left
		       : scale(device->facts.total_bytes, limit->bytes, left);
}

int gm_hostrows_list(const struct gm_daemon *d, struct gm_device *ret_devices,
		     size_t max, char ret_why[GM_WHY_BYTES])
{
	struct gm_numa_allowed allow = *d->allowed;
	struct gm_node *nodes;
	struct machine machine;
	int n_nodes, n = 0;

	if (!d->config->host_enabled)
		return 0;
	if (d->config->host_cpus_set &&
	    gm_idset_and(&allow.cpus, &d->config->host_cpus) == 0) {
		snprintf(ret_why, GM_WHY_BYTES,
			 "host.cpus names no CPU that gpumapd may use");
		return -EINVAL;
	}
	nodes = calloc(GM_PIN_NODES_MAX, sizeof(*nodes));
	if (nodes == NULL)
		return -ENOMEM;
	n_nodes = gm_numa_bind_nodes(NULL, &allow, nodes, GM_PIN_NODES_MAX);
	if (n_nodes < 0) {
		snprintf(ret_why, GM_WHY_BYTES, "NUMA nodes: %s",
			 strerror(-n_nodes));
		n = n_nodes;
	}
	gm_uuid_key(machine.key);
	read_model(machine.model, sizeof(machine.model));
	for (int i = 0; i < n_nodes && n >= 0; i++) {
		int ret;

		if (!gm_node_hosts(&nodes[i]))
			continue;
		ret = split_node(&nodes[i], d->config->host_rows, &machine,
				 ret_devices + n, max - (size_t)n, ret_why);
		n = ret < 0 ? ret : n + ret;
	}
	share_limit(&d->devices->host_limit, ret_devices, n);
	free(nodes);
	return n;
}

void gm_hostrows_refresh(const struct gm_daemon *d, struct gm_device *device)
{
	struct gm_moving_image *moving = &device->moving;
	uint64_t total, available, of_limit;

	if (gm_meminfo_read(&device->memory, &total, &available) != 0) {
		moving->known &= ~GPUMAP_KNOWN_MEMORY;
		return;
	}
	moving->known |= GPUMAP_KNOWN_MEMORY;
	moving->free_bytes = available / device->parts;
	of_limit = free_of_limit(&d->devices->host_limit, device);
	if (moving->free_bytes > of_limit)
		moving->free_bytes = of_limit;
	if (moving->free_bytes > device->facts.total_bytes)
		moving->free_bytes = device->facts.total_bytes;
	moving->budget_bytes =
		gm_budget(moving->free_bytes, device->facts.total_bytes);
	/* Free memory would put a large host before every card, as no speed of
	 * its own would. */
	moving->score = gm_score((int32_t)device->facts.units, 0, 0);
}
