/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/probe/facts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/common/idset.h"
#include "agent/common/meminfo.h"
#include "agent/common/node_clock.h"
#include "agent/probe/nvml_session.h"
#include "agent/probe/parse.h"
#include "agent/probe/probe.h"
#include "agent/probe/sysfs.h"
#include "gpumap.h"

#define OK(call) ((call) == GM_NVML_SUCCESS)

uint32_t gm_facts_types(uint32_t major, uint32_t minor)
{
	uint32_t cc = 10 * major + minor, flags = 0;

	if (cc >= 53)
		flags |= GPUMAP_DEVICE_FP16;
	if (cc >= 61)
		flags |= GPUMAP_DEVICE_INT8;
	if (cc >= 80)
		flags |= GPUMAP_DEVICE_BF16;
	return flags;
}

void gm_facts_system(struct gm_facts *facts)
{
	char text[80] = "";
	int version = 0;

	if (OK(facts->nvml->nvmlSystemGetDriverVersion(text, sizeof(text) - 1)))
		facts->driver_version = gm_parse_driver(text);
	if (OK(facts->nvml->nvmlSystemGetCudaDriverVersion_v2(&version)) &&
	    version > 0)
		facts->cuda_version = (uint32_t)version;
}

bool gm_facts_split(const struct gm_facts *facts, struct nvmlDevice_st *dev)
{
	unsigned int now = 0, pending;

	return OK(facts->nvml->nvmlDeviceGetMigMode(dev, &now, &pending)) &&
	       now == GM_NVML_FEATURE_ENABLED;
}

/* The name, and the UUID without which there is no card. */
static int read_identity(const struct gm_nvml *nvml, struct nvmlDevice_st *dev,
			 struct gm_probe_wire *note)
{
	struct gm_probe_device *device = &note->device;
	char text[GM_NVML_UUID_BYTES + 1] = "", name[GM_NVML_NAME_BYTES] = "";
	gm_nvml_result result;

	result = nvml->nvmlDeviceGetUUID(dev, text, GM_NVML_UUID_BYTES);
	if (result != GM_NVML_SUCCESS) {
		gm_nvml_session_refused(note, "nvmlDeviceGetUUID", result);
		return -EIO;
	}
	gm_parse_copy(device->id, sizeof(device->id), text, sizeof(text));
	if (gm_parse_uuid(device->id, note->uuid) < 0) {
		note->health = GM_PROBE_FAILED;
		gm_say_text(note, "NVML gives \"%s\", which is no UUID",
			    device->id);
		return -EIO;
	}
	memcpy(device->facts.uuid, note->uuid, sizeof(device->facts.uuid));
	if (OK(nvml->nvmlDeviceGetName(dev, name, sizeof(name))))
		gm_parse_copy(device->name, sizeof(device->name), name,
			      sizeof(name));
	return 0;
}

static void read_place(const struct gm_facts *f, struct nvmlDevice_st *dev,
		       struct gm_row_image *row)
{
	struct gm_nvml_pci pci = { 0 };
	unsigned int minor;

	if (OK(f->nvml->nvmlDeviceGetPciInfo_v3(dev, &pci))) {
		row->pci_domain = pci.domain;
		row->pci_bus = (pci.bus & 0xff) << 8 | (pci.device & 31) << 3;
		row->known |= GPUMAP_KNOWN_PCI;
	}
	if (OK(f->nvml->nvmlDeviceGetMinorNumber(dev, &minor)) &&
	    minor <= INT32_MAX)
		row->minor_number = (int32_t)minor;
}

/* sysfs, else NVML.  (The driver's answer stands between the two; gpumapd puts
 * it there.) nvmlDeviceGetNumaNodeId() is not asked: it names the node
 * that a card's own memory is. */
static void read_affinity(const struct gm_facts *f, struct nvmlDevice_st *dev,
			  struct gm_probe_device *card)
{
	struct gm_row_image *row = &card->facts;
	unsigned long words[GM_IDSET_MAX / GM_IDSET_WORD_BITS] = { 0 };
	const unsigned int n = sizeof(words) / sizeof(words[0]);

	if (row->known & GPUMAP_KNOWN_PCI) {
		row->numa_node =
			gm_sysfs_near(f->sysfs, row->pci_domain, row->pci_bus,
				      row->cpus, sizeof(row->cpus));
		card->affinity = row->numa_node < 0 ? GM_AFFINITY_NONE
						    : GM_AFFINITY_SYSFS;
	}
	if (card->affinity == GM_AFFINITY_NONE &&
	    OK(f->nvml->nvmlDeviceGetCpuAffinity(dev, n, words))) {
		row->numa_node = gm_sysfs_mask(f->sysfs, words, n, row->cpus,
					       sizeof(row->cpus));
		if (row->numa_node >= 0)
			card->affinity = GM_AFFINITY_NVML;
	}
	if (row->numa_node >= 0)
		row->known |= GPUMAP_KNOWN_NUMA;
	if (row->cpus[0])
		row->known |= GPUMAP_KNOWN_CPUS;
}

/* Bytes that programs may have of it. */
static gm_nvml_result read_memory(const struct gm_nvml *nvml,
				  struct nvmlDevice_st *dev,
				  uint64_t *ret_total, uint64_t *ret_free)
{
	struct gm_nvml_memory_v2 v2 = { .version = GM_NVML_MEMORY_V2 };
	struct gm_nvml_memory v1 = { 0 };
	gm_nvml_result result = nvml->nvmlDeviceGetMemoryInfo_v2(dev, &v2);

	if (result == GM_NVML_SUCCESS) {
		*ret_total =
			v2.total - (v2.reserved < v2.total ? v2.reserved : 0);
		*ret_free = v2.free;
		return result;
	}
	if (result == GM_NVML_GPU_IS_LOST)
		return result;
	result = nvml->nvmlDeviceGetMemoryInfo(dev, &v1);
	if (result == GM_NVML_SUCCESS) {
		*ret_total = v1.total;
		*ret_free = v1.free;
	}
	return result;
}

/* A card that has no memory of its own has the machine's. */
static bool read_main_memory(const char *sysfs, uint64_t *ret_total,
			     uint64_t *ret_free)
{
	const struct gm_meminfo machine = { .root = sysfs, .whole = true };

	return gm_meminfo_read(&machine, ret_total, ret_free) == 0;
}

static void read_size(const struct gm_facts *f, struct nvmlDevice_st *dev,
		      struct gm_row_image *row)
{
	uint64_t total = 0, left;
	gm_nvml_result result = read_memory(f->nvml, dev, &total, &left);

	if (result == GM_NVML_NOT_SUPPORTED &&
	    read_main_memory(f->sysfs, &total, &left))
		row->flags |= GPUMAP_DEVICE_MAIN_MEMORY;
	row->total_bytes = total;
	if (total)
		row->known |= GPUMAP_KNOWN_MEMORY;
}

static void read_kind(const struct gm_facts *f, struct nvmlDevice_st *dev,
		      struct gm_row_image *row)
{
	unsigned int ecc, pending;
	int major, minor;

	if (OK(f->nvml->nvmlDeviceGetCudaComputeCapability(dev, &major,
							   &minor)) &&
	    major > 0 && minor >= 0) {
		row->cc_major = (uint32_t)major;
		row->cc_minor = (uint32_t)minor;
		row->flags |= gm_facts_types(row->cc_major, row->cc_minor);
		row->known |= GPUMAP_KNOWN_CC;
	}
	if (OK(f->nvml->nvmlDeviceGetEccMode(dev, &ecc, &pending)) &&
	    ecc == GM_NVML_FEATURE_ENABLED)
		row->flags |= GPUMAP_DEVICE_ECC;
}

static void begin(const struct gm_facts *f, struct gm_probe_wire *note)
{
	struct gm_row_image *row = &note->device.facts;

	*note = (struct gm_probe_wire){ .type = GM_PROBE_DEVICE };
	row->kind = GPUMAP_DEVICE_CUDA;
	row->numa_node = -1;
	row->nvml_index = -1;
	row->minor_number = -1;
	row->ordinal_pci = -1;
	row->ordinal_fastest = -1;
	row->mig_gi = -1;
	row->mig_ci = -1;
	row->driver_version = f->driver_version;
	row->cuda_version = f->cuda_version;
}

int gm_facts_card(const struct gm_facts *f, struct nvmlDevice_st *dev,
		  uint32_t index, struct gm_probe_wire *ret_note)
{
	struct gm_row_image *row = &ret_note->device.facts;
	int rc;

	begin(f, ret_note);
	rc = read_identity(f->nvml, dev, ret_note);
	if (rc < 0)
		return rc;
	row->nvml_index = (int32_t)index;
	row->known |= GPUMAP_KNOWN_NVML;
	read_place(f, dev, row);
	read_affinity(f, dev, &ret_note->device);
	read_size(f, dev, row);
	read_kind(f, dev, row);
	if (gm_nvml_has(f->nvml, GM_NVML_MIG))
		row->known |= GPUMAP_KNOWN_MIG;
	if (gm_facts_split(f, dev))
		row->flags |= GPUMAP_DEVICE_MIG;
	return 0;
}

int gm_facts_instance(const struct gm_facts *f, struct nvmlDevice_st *mig,
		      const struct gm_probe_device *card,
		      struct gm_probe_wire *ret_note)
{
	struct gm_probe_device *device = &ret_note->device;
	const struct gm_row_image *whole = &card->facts;
	struct gm_row_image *row = &device->facts;
	struct gm_nvml_attributes has = { 0 };
	unsigned int gi, ci;
	int rc;

	begin(f, ret_note);
	rc = read_identity(f->nvml, mig, ret_note);
	if (rc < 0)
		return rc;
	memcpy(device->parent, whole->uuid, sizeof(device->parent));
	*row = *whole;
	memcpy(row->uuid, ret_note->uuid, sizeof(row->uuid));
	row->flags &= ~(GPUMAP_DEVICE_MIG | GPUMAP_DEVICE_MAIN_MEMORY);
	row->known &= ~(GPUMAP_KNOWN_MEMORY | GPUMAP_KNOWN_MIG);
	row->total_bytes = 0;
	ret_note->device.affinity = card->affinity;
	read_size(f, mig, row);
	if (OK(f->nvml->nvmlDeviceGetGpuInstanceId(mig, &gi)) &&
	    OK(f->nvml->nvmlDeviceGetComputeInstanceId(mig, &ci)) &&
	    gi <= INT32_MAX && ci <= INT32_MAX) {
		row->mig_gi = (int32_t)gi;
		row->mig_ci = (int32_t)ci;
		row->known |= GPUMAP_KNOWN_MIG;
	}
	gm_parse_profile(device->name, row->mig_profile,
			 sizeof(row->mig_profile));
	if (OK(f->nvml->nvmlDeviceGetAttributes_v2(mig, &has))) {
		row->units = has.multiprocessors;
		row->known |= has.multiprocessors ? GPUMAP_KNOWN_UNITS : 0;
		if (!row->mig_profile[0] && has.gpu_slices)
			snprintf(row->mig_profile, sizeof(row->mig_profile),
				 "%ug.%llugb", has.gpu_slices,
				 (has.memory_mib + 512) / 1024);
	}
	return 0;
}

/*
 * The worst health that any call has reported so far.  NVML's reports of a
 * card's memory always count; a gauge that fails in a way of its own has little
 * to do with what the card can compute.
 */
static void note_result(struct gm_probe_wire *note, const char *call,
			gm_nvml_result result, bool is_gauge)
{
	uint32_t health = gm_nvml_session_health(result);

	if (health == GM_PROBE_USABLE || note->health == GM_PROBE_LOST)
		return;
	if (is_gauge && health != GM_PROBE_LOST &&
	    result != GM_NVML_RESET_REQUIRED)
		return;
	if (note->health == GM_PROBE_USABLE || health == GM_PROBE_LOST)
		gm_nvml_session_refused(note, call, result);
}

static void move_memory(const struct gm_facts *f, struct nvmlDevice_st *dev,
			struct gm_probe_wire *note)
{
	struct gm_probe_moving *m = &note->moving;
	uint64_t total = 0;
	gm_nvml_result result =
		read_memory(f->nvml, dev, &total, &m->free_bytes);

	note_result(note, "nvmlDeviceGetMemoryInfo", result, false);
	if (result == GM_NVML_SUCCESS && total > m->free_bytes)
		m->used_bytes = total - m->free_bytes;
	if (result == GM_NVML_SUCCESS ||
	    (result == GM_NVML_NOT_SUPPORTED &&
	     read_main_memory(f->sysfs, &total, &m->free_bytes)))
		m->known |= GPUMAP_KNOWN_MEMORY;
}

/* Memory of processes is missing in the free bytes of the same look. */
static void move_processes(const struct gm_facts *f, struct nvmlDevice_st *dev,
			   struct gm_processes *processes,
			   struct gm_probe_wire *note)
{
	struct gm_probe_moving *m = &note->moving;

	gm_processes_begin(processes, f->nvml, dev, f->sysfs);
	move_memory(f, dev, note);
	gm_processes_end(processes, f->nvml, dev);
	m->figures = processes->figures;
	m->n_processes = processes->n;
}

static void move_gauges(const struct gm_nvml *nvml, struct nvmlDevice_st *dev,
			struct gm_probe_wire *note)
{
	struct gm_probe_moving *m = &note->moving;
	struct gm_nvml_utilisation used;
	unsigned int value;
	gm_nvml_result result;

	result = nvml->nvmlDeviceGetUtilizationRates(dev, &used);
	note_result(note, "nvmlDeviceGetUtilizationRates", result, true);
	if (result == GM_NVML_SUCCESS && used.gpu <= 100) {
		m->utilisation = 10 * used.gpu;
		m->known |= GPUMAP_KNOWN_UTILISATION;
	}
	result = nvml->nvmlDeviceGetTemperature(dev, GM_NVML_TEMPERATURE_GPU,
						&value);
	note_result(note, "nvmlDeviceGetTemperature", result, true);
	if (result == GM_NVML_SUCCESS && value < 1000) {
		m->temperature = 1000 * (int32_t)value;
		m->known |= GPUMAP_KNOWN_TEMPERATURE;
	}
	result = nvml->nvmlDeviceGetPowerUsage(dev, &value);
	note_result(note, "nvmlDeviceGetPowerUsage", result, true);
	if (result == GM_NVML_SUCCESS) {
		m->power = value;
		m->known |= GPUMAP_KNOWN_POWER;
	}
}

static void move_recovery(const struct gm_nvml *nvml, struct nvmlDevice_st *dev,
			  struct gm_probe_wire *note)
{
	struct gm_nvml_field field = { .field = GM_NVML_FIELD_RECOVERY_ACTION };
	gm_nvml_result result = nvml->nvmlDeviceGetFieldValues(dev, 1, &field);

	note->moving.recovery = UINT32_MAX;
	note_result(note, "nvmlDeviceGetFieldValues", result, true);
	if (result == GM_NVML_SUCCESS && field.result == GM_NVML_SUCCESS &&
	    field.type == GM_NVML_VALUE_UNSIGNED_INT)
		note->moving.recovery = field.value.u32;
}

/* Does another process's context fit in beside that of a worker? */
static void move_mode(const struct gm_nvml *nvml, struct nvmlDevice_st *dev,
		      struct gm_probe_wire *note)
{
	unsigned int mode = GM_NVML_COMPUTEMODE_DEFAULT;
	gm_nvml_result result = nvml->nvmlDeviceGetComputeMode(dev, &mode);

	note_result(note, "nvmlDeviceGetComputeMode", result, true);
	if (note->health != GM_PROBE_USABLE || result != GM_NVML_SUCCESS ||
	    (mode != GM_NVML_COMPUTEMODE_PROHIBITED &&
	     mode != GM_NVML_COMPUTEMODE_EXCLUSIVE_PROCESS))
		return;
	note->health = GM_PROBE_TAKEN;
	gm_say_text(note, "compute mode %s (nvidia-smi -c DEFAULT)",
		    mode == GM_NVML_COMPUTEMODE_PROHIBITED
			    ? "PROHIBITED"
			    : "EXCLUSIVE_PROCESS");
}

void gm_facts_move(const struct gm_facts *f, struct nvmlDevice_st *dev,
		   struct gm_processes *processes,
		   struct gm_probe_wire *ret_note)
{
	ret_note->type = GM_PROBE_MOVING;
	ret_note->health = GM_PROBE_USABLE;
	ret_note->code = 0;
	ret_note->text[0] = '\0';
	ret_note->moving =
		(struct gm_probe_moving){ .looked_ns = gm_node_clock_now() };
	move_processes(f, dev, processes, ret_note);
	move_gauges(f->nvml, dev, ret_note);
	move_recovery(f->nvml, dev, ret_note);
	move_mode(f->nvml, dev, ret_note);
}
