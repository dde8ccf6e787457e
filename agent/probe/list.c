/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The role --list: the devices of one vendor's library, or for HIP those of the
 * kernel.
 *
 * gpumapd starts one process for each library, and ends one that hangs.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/device/opencl.h"
#ifdef HAVE_VULKAN
#include "agent/device/vulkan.h"
#endif
#include "agent/probe/kfd.h"
#include "agent/probe/probe.h"
#include "agent/probe/say.h"
#include "agent/probe/sysfs.h"
#include "gpumap.h"

static bool is_wanted(const struct gm_gpu_facts *facts, const char *devices)
{
	return strcmp(devices, "all") == 0 ||
	       facts->is_cpu == (strcmp(devices, "cpu") == 0);
}

static void write_place(const struct gm_probe_options *o,
			const struct gm_gpu_facts *facts,
			struct gm_row_image *row)
{
	if (!facts->has_pci)
		return;
	row->known |= GPUMAP_KNOWN_PCI;
	row->pci_domain = facts->pci_domain;
	row->pci_bus = facts->pci_bus;
	row->numa_node = gm_sysfs_near(o->sysfs, row->pci_domain, row->pci_bus,
				       row->cpus, sizeof(row->cpus));
	if (row->numa_node >= 0)
		row->known |= GPUMAP_KNOWN_NUMA;
	if (row->cpus[0])
		row->known |= GPUMAP_KNOWN_CPUS;
}

/* A device on a processor has its memory, and some others have it, too. */
static uint32_t flags_of(const struct gm_gpu_facts *facts)
{
	uint32_t flags = facts->has_f16 ? GPUMAP_DEVICE_FP16 : 0;

	if (facts->exports)
		flags |= GPUMAP_DEVICE_EXPORTS;
	if (facts->is_cpu)
		return flags | GPUMAP_DEVICE_MAIN_MEMORY;
	if (facts->is_unified)
		flags |= GPUMAP_DEVICE_INTEGRATED | GPUMAP_DEVICE_MAIN_MEMORY;
	return flags;
}

static void tell(const struct gm_probe_options *o, uint32_t kind,
		 const struct gm_gpu_facts *facts)
{
	struct gm_probe_wire wire = { .type = GM_PROBE_DEVICE };
	struct gm_row_image *row = &wire.device.facts;

	memcpy(wire.device.id, facts->id, sizeof(wire.device.id));
	memcpy(wire.device.name, facts->name, sizeof(facts->name));
	snprintf(wire.text, sizeof(wire.text), "%s", facts->version);
	row->kind = kind;
	row->flags = flags_of(facts);
	row->known =
		GPUMAP_KNOWN_MEMORY | (facts->units ? GPUMAP_KNOWN_UNITS : 0);
	row->numa_node = row->nvml_index = row->minor_number = -1;
	row->ordinal_pci = row->ordinal_fastest = -1;
	row->mig_gi = row->mig_ci = -1;
	row->units = facts->units;
	row->threads_per_unit = facts->group;
	row->shared_bytes = (uint32_t)facts->local_bytes;
	row->total_bytes = facts->bytes;
	write_place(o, facts, row);
	gm_say_record(&wire);
}

static int list(const struct gm_probe_options *o, uint32_t *ret_kind,
		struct gm_gpu_facts facts[GM_GPU_DEVICES], char *ret_why)
{
	if (strcmp(o->driver, "hip") == 0) {
		*ret_kind = GPUMAP_DEVICE_HIP;
		return gm_kfd_list(o->sysfs, facts);
	}
	if (strcmp(o->driver, "opencl") == 0) {
		gm_cl devices[GM_GPU_DEVICES];

		*ret_kind = GPUMAP_DEVICE_OPENCL;
		return gm_opencl_list(o->library, facts, devices, ret_why);
	}
#ifdef HAVE_VULKAN
	if (strcmp(o->driver, "vulkan") == 0) {
		VkPhysicalDevice devices[GM_GPU_DEVICES];

		*ret_kind = GPUMAP_DEVICE_VULKAN;
		return gm_vulkan_list(o->library, facts, devices, ret_why);
	}
#endif
	snprintf(ret_why, GM_GPU_WHY_BYTES,
		 "gpumap was built without rows of this driver");
	return -EOPNOTSUPP;
}

int gm_list_run(const struct gm_probe_options *o)
{
	static struct gm_gpu_facts facts[GM_GPU_DEVICES];
	struct gm_probe_wire end = { 0 };
	char why[GM_GPU_WHY_BYTES];
	uint32_t kind = 0;
	int n = list(o, &kind, facts, why);

	for (int i = 0; i < n; i++) {
		/* CUDA's rows have them, or would. */
		if (facts[i].vendor == GM_PROBE_NVIDIA && !o->with_nvidia)
			continue;
		if (is_wanted(&facts[i], o->devices))
			tell(o, kind, &facts[i]);
	}
	if (n < 0) {
		end.health = GM_PROBE_FAILED;
		gm_say_text(&end, "%s", why);
	}
	gm_say_done(&end);
}
