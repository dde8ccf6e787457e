/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/internal.h"

#include <errno.h>
#include <string.h>

#include "shm/rows.h"

_Static_assert(GPUMAP_ROWS_MAX == GM_ROWS, "one table");
_Static_assert(GPUMAP_NAME_MAX + 1 == GM_NAME_BYTES, "one name");
_Static_assert(GPUMAP_JOB_TIMES == GM_JOB_TIMES, "one list of spans");

uint32_t gpumap_device_count(const struct gpumap *map)
{
	return gm_rows_used(&map->map);
}

int gpumap_device_read(const struct gpumap *map, uint32_t row,
		       struct gpumap_device *ret_device)
{
	struct gpumap_device device = { 0 };
	struct gm_moving_image moving;
	struct gm_row_image facts;
	int ret =
		gm_size_out(ret_device, offsetof(struct gpumap_device, known));

	if (ret != 0)
		return ret;
	ret = gm_rows_read(&map->map, row, &facts, &moving);
	if (ret != 0)
		return ret;
	device.row = facts.row;
	device.generation = facts.generation;
	device.kind = facts.kind;
	device.known = facts.known;
	device.flags = facts.flags;
	device.numa_node = facts.numa_node;
	memcpy(device.uuid, facts.uuid, sizeof(device.uuid));
	memcpy(device.name, facts.object.name, sizeof(device.name));
	memcpy(device.cpus, facts.cpus, sizeof(device.cpus));
	device.pci_domain = facts.pci_domain;
	device.pci_bus = facts.pci_bus;
	device.nvml_index = facts.nvml_index;
	device.minor_number = facts.minor_number;
	device.ordinal_pci = facts.ordinal_pci;
	device.ordinal_fastest = facts.ordinal_fastest;
	device.mig_gi = facts.mig_gi;
	device.mig_ci = facts.mig_ci;
	memcpy(device.mig_profile, facts.mig_profile,
	       sizeof(device.mig_profile));
	device.cc_major = facts.cc_major;
	device.cc_minor = facts.cc_minor;
	device.units = facts.units;
	device.threads_per_unit = facts.threads_per_unit;
	device.shared_bytes = facts.shared_bytes;
	device.l2_bytes = facts.l2_bytes;
	device.total_bytes = facts.total_bytes;
	device.driver_version = facts.driver_version;
	device.cuda_version = facts.cuda_version;
	device.recovery = facts.recovery;
	device.last_xid = facts.last_xid;
	device.xids = facts.xids;
	device.state = moving.state;
	device.known |= moving.known;
	device.error = moving.error;
	memcpy(device.reason, moving.reason, sizeof(device.reason));
	device.since_ns = moving.since;
	device.free_bytes = moving.free_bytes;
	device.reserved_bytes = moving.reserved_bytes;
	device.budget_bytes = moving.budget_bytes;
	device.score = moving.score;
	device.utilisation = moving.utilisation;
	device.temperature = moving.temperature;
	device.power = moving.power;
	device.worker_pid = moving.worker_pid;
	device.restarts = moving.restarts;
	device.used_by_holders = moving.used_by_holders;
	device.figures = moving.figures;
	device.since_ns += gm_get(&map->clock_offset);
	gm_size_put(ret_device, &device, sizeof(device));
	return 0;
}

int gpumap_device_path_read(const struct gpumap *map, uint32_t to,
			    uint32_t from, struct gpumap_device_path *ret_path)
{
	struct gpumap_device_path path = { .to = to, .from = from };
	int ret = gm_size_out(ret_path,
			      offsetof(struct gpumap_device_path, nvlinks));
	uint32_t n = gm_rows_used(&map->map);
	uint8_t byte;

	if (ret != 0)
		return ret;
	if (to >= n || from >= n)
		return -ENODEV;
	byte = gm_path_get(&map->map.rows[to], from);
	path.nvlinks = byte & 63;
	path.peer = byte >> 6;
	gm_size_put(ret_path, &path, sizeof(path));
	return 0;
}

int gpumap_device_jobs_read(const struct gpumap *map, uint32_t row,
			    struct gpumap_device_jobs *ret_jobs)
{
	struct gpumap_device_jobs jobs = { .row = row };
	struct gm_row_image facts;
	const struct gm_row *slot;
	int ret =
		gm_size_out(ret_jobs, offsetof(struct gpumap_device_jobs, ns));

	if (ret == 0)
		ret = gm_rows_facts(&map->map, row, &facts);
	if (ret != 0)
		return ret;
	slot = &map->map.rows[row];
	jobs.generation = facts.generation;
	jobs.ended = gm_get(&slot->jobs);
	jobs.failed = gm_get(&slot->jobs_failed);
	jobs.ns = gm_get(&slot->job_ns);
	jobs.loaded_bytes = gm_get(&slot->loaded_bytes);
	for (uint32_t i = 0; i < GM_JOB_TIMES; i++)
		jobs.times[i] = gm_get(&slot->job_times[i]);
	gm_size_put(ret_jobs, &jobs, sizeof(jobs));
	return 0;
}

int gpumap_device_find(const struct gpumap *map, const uint8_t uuid[16])
{
	uint32_t n = gm_rows_used(&map->map);
	int ret = -ENODEV;

	for (uint32_t row = 0; row < n; row++) {
		struct gm_row_image facts;
		int error = gm_rows_facts(&map->map, row, &facts);

		if (error == 0 && memcmp(facts.uuid, uuid, 16) == 0)
			return (int)row;
		/* The row that could not be read may be the one. */
		if (error != 0 && error != -ENODEV)
			ret = error;
	}
	return ret;
}
