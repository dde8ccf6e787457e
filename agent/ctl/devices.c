/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Show the device table, or the rows of a node file as one. */

#include "agent/ctl/ctl.h"
#include "agent/ctl/plan.h"
#include "agent/plan/nodefile.h"
#include "agent/reader/device_text.h"
#include "shm/device_kinds.h"

#include <stdio.h>
#include <string.h>

/* A fact, or null if it is not known. */
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

/* "0000:17:00.0", or null. */
static json_t *pci_address(const struct gpumap_device *d)
{
	char text[GM_DEVICE_PCI];

	return gm_device_pci(d, text) ? json_string(text) : json_null();
}

/* "550.163", or null.  A minor number is a step of 10 in CUDA's, and of 1 in
 * the driver's. */
static json_t *version(uint32_t number, uint32_t step)
{
	if (number == 0)
		return json_null();
	return json_sprintf("%u.%u", number / 1000, number % 1000 / step);
}

static const char *recovery_name(uint32_t recovery)
{
	static const char *const names[] = {
		[GPUMAP_RECOVERY_NONE] = "none",
		[GPUMAP_RECOVERY_GPU_RESET] = "gpu reset",
		[GPUMAP_RECOVERY_NODE_REBOOT] = "node reboot",
		[GPUMAP_RECOVERY_DRAIN_P2P] = "drain p2p",
		[GPUMAP_RECOVERY_DRAIN_AND_RESET] = "drain and reset",
	};

	return recovery < sizeof(names) / sizeof(names[0]) ? names[recovery]
							   : NULL;
}

/* Any index less than 0 means none. */
static json_t *index_of(int32_t index)
{
	return index >= 0 ? json_integer(index) : json_null();
}

static json_t *flag(const struct gpumap_device *d, uint32_t bit)
{
	return json_boolean((d->flags & bit) != 0);
}

/* The facts that only GPUs have. */
static json_t *gpu_json(const struct gpumap_device *d)
{
	return json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, "
		"s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s?, s:I, s:o}",
		"pci", pci_address(d), "nvml_index", index_of(d->nvml_index),
		"minor_number", index_of(d->minor_number), "ordinal_pci",
		index_of(d->ordinal_pci), "ordinal_fastest",
		index_of(d->ordinal_fastest), "mig_gi", index_of(d->mig_gi),
		"mig_ci", index_of(d->mig_ci), "mig_profile", d->mig_profile,
		"split", flag(d, GPUMAP_DEVICE_MIG), "ecc",
		flag(d, GPUMAP_DEVICE_ECC), "fp16", flag(d, GPUMAP_DEVICE_FP16),
		"bf16", flag(d, GPUMAP_DEVICE_BF16), "int8",
		flag(d, GPUMAP_DEVICE_INT8), "pageable",
		flag(d, GPUMAP_DEVICE_PAGEABLE), "l2_bytes",
		json_integer(d->l2_bytes), "driver_version",
		version(d->driver_version, 1), "cuda_version",
		version(d->cuda_version, 10), "utilisation",
		known(d, GPUMAP_KNOWN_UTILISATION, d->utilisation),
		"temperature",
		known(d, GPUMAP_KNOWN_TEMPERATURE, d->temperature), "power",
		known(d, GPUMAP_KNOWN_POWER, d->power), "recovery",
		recovery_name(d->recovery), "xids", (json_int_t)d->xids,
		"last_xid",
		d->last_xid != 0 ? json_integer(d->last_xid) : json_null());
}

json_t *gm_ctl_device_json(const struct gpumap_device *d)
{
	char uuid[GM_DEVICE_UUID];
	json_t *object;

	gm_device_uuid(d, uuid);
	object = json_pack(
		"{s:I, s:I, s:s, s:s, s:s, s:s, s:o, s:s, s:o, s:o, s:b, s:b, "
		"s:I, s:I, s:I, s:I, s:f, s:s, s:i, s:I, s:I, s:I}",
		"row", (json_int_t)d->row, "row_generation",
		(json_int_t)d->generation, "uuid", uuid, "name", d->name,
		"kind", gm_device_kind(d->kind)->name, "state",
		gm_device_state(d->state), "numa_node",
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
	json_object_set_new(object, "cordoned",
			    flag(d, GPUMAP_DEVICE_CORDONED));
	json_object_set_new(object, "used_by_holders",
			    json_integer((json_int_t)d->used_by_holders));
	json_object_set_new(object, "no_figures",
			    gm_ctl_no_figures(d->figures) != NULL
				    ? json_string(gm_ctl_no_figures(d->figures))
				    : json_null());
	if (object != NULL && (d->flags & GPUMAP_DEVICE_CARD) != 0)
		json_object_update_new(object, gpu_json(d));
	return object;
}

void gm_ctl_device_heading(void)
{
	printf("row  kind  state      node  %-12s %10s %10s %10s %10s %8s %8s "
	       "%4s  name\n",
	       "cpus", "total", "free", "reserved", "in use", "score", "worker",
	       "died");
}

void gm_ctl_device_line(const struct gpumap_device *d)
{
	char total[32], free_text[32], reserved[32], used[32], state[32];

	snprintf(state, sizeof(state), "%-5s %s", gm_device_kind(d->kind)->name,
		 gm_device_state(d->state));
	printf("%3u  %-16s %4d  %-12s %10s %10s %10s %10s %8.1f %8u %4u  "
	       "%s%s%s%s\n",
	       d->row, state, d->numa_node, d->cpus,
	       gm_size_text(d->total_bytes, total),
	       gm_size_text(d->free_bytes, free_text),
	       gm_size_text(d->reserved_bytes, reserved),
	       gm_size_text(d->used_by_holders, used), d->score, d->worker_pid,
	       d->restarts, d->name,
	       (d->flags & GPUMAP_DEVICE_CORDONED) != 0 ? ", cordoned" : "",
	       d->reason[0] != '\0' ? ": " : "", d->reason);
}

static void show_device(json_t *list, const struct gpumap_device *device)
{
	if (list != NULL)
		json_array_append_new(list, gm_ctl_device_json(device));
	else
		gm_ctl_device_line(device);
}

/* A row of a node file as a device that no process uses. */
static struct gpumap_device device_of(const struct gm_nodefile_row *row,
				      uint32_t number)
{
	struct gpumap_device d = {
		.row = number,
		.kind = row->kind,
		.flags = gm_device_kind(row->kind)->flags,
		.state = GPUMAP_DEVICE_READY,
		.known = GPUMAP_KNOWN_MEMORY |
			 (row->numa_node >= 0 ? GPUMAP_KNOWN_NUMA : 0) |
			 (row->units > 0 ? GPUMAP_KNOWN_UNITS : 0) |
			 (row->has_cc ? GPUMAP_KNOWN_CC : 0),
		.numa_node = row->numa_node,
		.units = row->units,
		.cc_major = row->cc_major,
		.cc_minor = row->cc_minor,
		.total_bytes = row->total_bytes,
		.free_bytes = row->free_bytes,
		.nvml_index = -1,
		.minor_number = -1,
		.ordinal_pci = -1,
		.ordinal_fastest = -1,
		.mig_gi = -1,
		.mig_ci = -1,
	};

	if (row->is_split)
		d.flags |= GPUMAP_DEVICE_MIG;
	if (row->is_integrated)
		d.flags |= GPUMAP_DEVICE_INTEGRATED | GPUMAP_DEVICE_MAIN_MEMORY;
	snprintf(d.name, sizeof(d.name), "%s", row->name);
	snprintf(d.mig_profile, sizeof(d.mig_profile), "%s", row->mig);
	return d;
}

static int show_file(const char *path, json_t *list, char ret_name[])
{
	struct gm_plan_error error = { .code = 0 };
	struct gm_nodefile file;

	if (gm_nodefile_read(path, &file, &error) != 0)
		return gm_ctl_plan_error(&error);
	if (list == NULL)
		gm_ctl_device_heading();
	memcpy(ret_name, file.name, sizeof(file.name));
	for (uint32_t row = 0; row < file.n_rows; row++) {
		struct gpumap_device device = device_of(&file.rows[row], row);

		show_device(list, &device);
	}
	gm_nodefile_free(&file);
	return GM_EXIT_OK;
}

static int show_agent(struct gm_ctl *ctl, json_t *list, char ret_name[])
{
	int ret = gm_ctl_attach(ctl);

	if (ret != GM_EXIT_OK)
		return ret;
	if (list == NULL)
		gm_ctl_device_heading();
	snprintf(ret_name, GM_NODEFILE_NAME, "%s", ctl->instance);
	for (uint32_t row = 0; row < gpumap_device_count(ctl->map); row++) {
		struct gpumap_device device = { .size = sizeof(device) };

		ret = gpumap_device_read(ctl->map, row, &device);
		if (ret != 0)
			return gm_ctl_fail(ctl, ret, "row %u", row);
		show_device(list, &device);
	}
	return GM_EXIT_OK;
}

int gm_ctl_devices(struct gm_ctl *ctl)
{
	json_t *list = ctl->json ? json_array() : NULL;
	char name[GM_NODEFILE_NAME];
	int ret = ctl->plan.node != NULL ? show_file(ctl->plan.node, list, name)
					 : show_agent(ctl, list, name);

	if (ret == GM_EXIT_OK && ctl->json)
		return gm_ctl_print(
			json_pack("{s:s, s:o}", "name", name, "devices", list));
	json_decref(list);
	return ret;
}
