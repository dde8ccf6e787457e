/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Show the device table, or the rows of a node file; and choose of it. */

#include "agent/ctl/fields.h"
#include "agent/ctl/plan.h"
#include "agent/files/nodefile.h"
#include "agent/reader/device_text.h"
#include "shm/device_kinds.h"

#include <stdio.h>
#include <string.h>

#define DEVICE(name, member, ...) \
	GM_FIELD(gpumap_device, name, member, __VA_ARGS__)
#define FLAG(name, bits) DEVICE(name, flags, GM_SET(bits))
#define KNOWN(member, bits) \
	GM_FIELD_KNOWN(gpumap_device, #member, member, known, bits)
#define INDEX(member) DEVICE(#member, member, .as = GM_AS_OR_NULL)

static void uuid(const struct gm_ctl *ctl, const void *device,
		 char ret_text[GM_CTL_CELL])
{
	gm_device_uuid(device, ret_text);
}

/* "9.0" */
static void compute_capability(const struct gm_ctl *ctl, const void *device,
			       char ret_text[GM_CTL_CELL])
{
	const struct gpumap_device *d = device;

	if ((d->known & GPUMAP_KNOWN_CC) != 0)
		sprintf(ret_text, "%u.%u", d->cc_major, d->cc_minor);
}

static const char *kind_name(uint32_t kind)
{
	return gm_device_kind(kind)->name;
}

static void kind_and_state(const struct gm_ctl *ctl, const void *device,
			   char ret_text[GM_CTL_CELL])
{
	const struct gpumap_device *d = device;

	snprintf(ret_text, GM_CTL_CELL, "%-5s %s", kind_name(d->kind),
		 gm_device_state(d->state));
}

static void name_and_reason(const struct gm_ctl *ctl, const void *device,
			    char ret_text[GM_CTL_CELL])
{
	const struct gpumap_device *d = device;

	snprintf(ret_text, GM_CTL_CELL, "%s%s%s%s", d->name,
		 (d->flags & GPUMAP_DEVICE_CORDONED) != 0 ? ", cordoned" : "",
		 d->reason[0] != '\0' ? ": " : "", d->reason);
}

static const struct gm_ctl_field device_fields[] = {
	DEVICE("row", row, GM_COLUMN("row", 3)),
	DEVICE("row_generation", generation),
	DEVICE("uuid", uuid, .text = uuid),
	DEVICE("name", name),
	DEVICE("kind", kind, .word = kind_name),
	DEVICE(NULL, kind, GM_COLUMN(" kind  state", -16),
	       .text = kind_and_state),
	DEVICE("state", state, .word = gm_device_state),
	KNOWN(numa_node, GPUMAP_KNOWN_NUMA),
	DEVICE(NULL, numa_node, GM_COLUMN("node", 4)),
	DEVICE("cpus", cpus, GM_COLUMN(" cpus", -12)),
	KNOWN(units, GPUMAP_KNOWN_UNITS),
	DEVICE("compute_capability", known, .text = compute_capability),
	FLAG("main_memory", GPUMAP_DEVICE_MAIN_MEMORY),
	FLAG("integrated", GPUMAP_DEVICE_INTEGRATED),
	DEVICE("total_bytes", total_bytes, GM_COLUMN("total", 10),
	       .as = GM_AS_SIZE),
	DEVICE("free_bytes", free_bytes, GM_COLUMN("free", 10),
	       .as = GM_AS_SIZE),
	DEVICE("reserved_bytes", reserved_bytes, GM_COLUMN("reserved", 10),
	       .as = GM_AS_SIZE),
	DEVICE("budget_bytes", budget_bytes),
	DEVICE(NULL, used_by_holders, GM_COLUMN("in use", 10),
	       .as = GM_AS_SIZE),
	DEVICE("score", score, GM_COLUMN("score", 8)),
	GM_MEMBERS(gpumap_device, reason, error, since_ns),
	DEVICE("worker_pid", worker_pid, GM_COLUMN("worker", 8)),
	DEVICE("restarts", restarts, GM_COLUMN("died", 4)),
	FLAG("cordoned", GPUMAP_DEVICE_CORDONED),
	DEVICE("used_by_holders", used_by_holders),
	DEVICE("no_figures", figures, .word = gm_ctl_no_figures),
	DEVICE(NULL, name, GM_COLUMN(" name", 0), .text = name_and_reason),
	{ 0 },
};

/* ---- the facts that only GPUs have --------------------------------------- */

/* "0000:17:00.0" */
static void pci_address(const struct gm_ctl *ctl, const void *device,
			char ret_text[GM_CTL_CELL])
{
	gm_device_pci(device, ret_text);
}

/* "550.163" */
static void driver_version(const struct gm_ctl *ctl, const void *device,
			   char ret_text[GM_CTL_CELL])
{
	uint32_t n = ((const struct gpumap_device *)device)->driver_version;

	if (n != 0)
		sprintf(ret_text, "%u.%u", n / 1000, n % 1000);
}

/* "12.4": a minor number is a step of 10. */
static void cuda_version(const struct gm_ctl *ctl, const void *device,
			 char ret_text[GM_CTL_CELL])
{
	uint32_t n = ((const struct gpumap_device *)device)->cuda_version;

	if (n != 0)
		sprintf(ret_text, "%u.%u", n / 1000, n % 1000 / 10);
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

static const struct gm_ctl_field card_fields[] = {
	DEVICE("pci", pci_bus, .text = pci_address),
	INDEX(nvml_index),
	INDEX(minor_number),
	INDEX(ordinal_pci),
	INDEX(ordinal_fastest),
	INDEX(mig_gi),
	INDEX(mig_ci),
	DEVICE("mig_profile", mig_profile),
	FLAG("split", GPUMAP_DEVICE_MIG),
	FLAG("ecc", GPUMAP_DEVICE_ECC),
	FLAG("fp16", GPUMAP_DEVICE_FP16),
	FLAG("bf16", GPUMAP_DEVICE_BF16),
	FLAG("int8", GPUMAP_DEVICE_INT8),
	FLAG("pageable", GPUMAP_DEVICE_PAGEABLE),
	DEVICE("l2_bytes", l2_bytes),
	DEVICE("driver_version", driver_version, .text = driver_version),
	DEVICE("cuda_version", cuda_version, .text = cuda_version),
	KNOWN(utilisation, GPUMAP_KNOWN_UTILISATION),
	KNOWN(temperature, GPUMAP_KNOWN_TEMPERATURE),
	KNOWN(power, GPUMAP_KNOWN_POWER),
	DEVICE("recovery", recovery, .word = recovery_name),
	DEVICE("xids", xids),
	DEVICE("last_xid", last_xid, .as = GM_AS_OR_NULL),
	{ 0 },
};

static void show_device(const struct gm_ctl_list *list,
			const struct gpumap_device *d)
{
	gm_ctl_list_add(list, d);
	if (list->items != NULL && (d->flags & GPUMAP_DEVICE_CARD) != 0)
		gm_ctl_fields_json(
			list->ctl, card_fields, d,
			json_array_get(list->items,
				       json_array_size(list->items) - 1));
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

/* ---- the rows of a node file, or of the agent ---------------------------- */

/* Those of @rows, or where that is NULL all. */
static void list_rows(const struct gm_ctl *ctl, const uint32_t *rows,
		      uint32_t n, struct gm_ctl_list *list)
{
	*list = gm_ctl_list_begin(ctl, device_fields);
	for (uint32_t i = 0; i < n; i++) {
		struct gpumap_device device = { .size = sizeof(device) };
		uint32_t row = rows != NULL ? rows[i] : i;
		int ret = gpumap_device_read(ctl->map, row, &device);

		if (ret != 0)
			gm_ctl_fail(ctl, ret, "row %u", row);
		show_device(list, &device);
	}
}

void gm_ctl_devices(struct gm_ctl *ctl)
{
	struct gm_nodefile file = { .n_rows = 0 };
	struct gm_plan_error error = { .code = 0 };
	struct gm_ctl_list list;

	if (GM_TEXT(ctl, NODE) == NULL) {
		gm_ctl_attach(ctl);
		list_rows(ctl, NULL, gpumap_device_count(ctl->map), &list);
	} else if (gm_nodefile_read(GM_TEXT(ctl, NODE), &file, &error) != 0) {
		gm_ctl_plan_error(&error);
	} else {
		list = gm_ctl_list_begin(ctl, device_fields);
	}
	for (uint32_t row = 0; row < file.n_rows; row++) {
		struct gpumap_device device = device_of(&file.rows[row], row);

		show_device(&list, &device);
	}
	if (ctl->json)
		gm_ctl_print(json_pack(
			"{s:s, s:o}", "name",
			GM_TEXT(ctl, NODE) == NULL ? ctl->instance : file.name,
			"devices", list.items));
	gm_nodefile_free(&file);
}

/* ---- choose -------------------------------------------------------------- */

void gm_ctl_choose(struct gm_ctl *ctl)
{
	static const char *const orders[] = {
		[GPUMAP_CHOOSE_BEST] = "best",
		[GPUMAP_CHOOSE_FREE_MEMORY] = "free-memory",
		[GPUMAP_CHOOSE_FREE_COMPUTE] = "free-compute",
	};
	static const struct gm_ctl_choice by = GM_CHOICE("--by", orders);
	struct gpumap_choice choice = {
		.size = sizeof(choice),
		.prefer = GM_TEXT(ctl, PREFER),
		.compute_capability = GM_TEXT(ctl, CAPABILITY),
		.cuda_version = GM_TEXT(ctl, CUDA_VERSION),
		.total_bytes = GM_NUMBER(ctl, MEMORY),
		.free_bytes = GM_NUMBER(ctl, FREE),
		.rows = ctl->n_rows > 0 ? ctl->rows : NULL,
		.n_rows = ctl->n_rows,
	};
	struct gm_ctl_list list = { .items = NULL };
	uint32_t rows[GPUMAP_ROWS_MAX];
	int n;

	if (GM_TEXT(ctl, BY) != NULL)
		choice.by = gm_ctl_choose_word(&by, GM_TEXT(ctl, BY));
	gm_ctl_attach(ctl);
	n = gpumap_device_choose(ctl->map, &choice, rows, GPUMAP_ROWS_MAX);
	if (n < 0)
		gm_ctl_fail(ctl, n, "choose");
	list_rows(ctl, rows, (uint32_t)n, &list);
	gm_ctl_list_end(&list, "devices");
}
