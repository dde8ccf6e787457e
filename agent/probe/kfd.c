/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/probe/kfd.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/read_file.h"

#define NODES       "/sys/class/kfd/kfd/topology/nodes"
#define NODES_MAX   512u
#define BANKS_MAX   16u
#define TEXT_BYTES  4096u /* of sysfs: a page */
#define HEAP_PUBLIC 1u    /* a card's memory that processors reach */
#define HEAP_REST   2u    /* and what they do not */

/* Returns whether the file could be read. */
static bool read_text(char ret_text[TEXT_BYTES], const char *root,
		      const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static bool read_text(char ret_text[TEXT_BYTES], const char *root,
		      const char *format, ...)
{
	char name[PATH_MAX / 2], path[PATH_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(name, sizeof(name), format, args);
	va_end(args);
	return gm_read_file_path(path, sizeof(path), root, "%s", name) == 0 &&
	       gm_read_file(path, ret_text, TEXT_BYTES) >= 0;
}

/* The number in the line of this name; 0: there is none. */
static uint64_t property(const char *text, const char *name)
{
	size_t n = strlen(name);

	for (; text; text = strchr(text, '\n')) {
		text += *text == '\n';
		if (strncmp(text, name, n) == 0 && text[n] == ' ')
			return strtoull(text + n, NULL, 10);
	}
	return 0;
}

/* A card's own memory; 0: not told. */
static uint64_t bank_bytes(const char *root, uint32_t node)
{
	char text[TEXT_BYTES];
	uint64_t bytes = 0, heap;

	for (uint32_t i = 0; i < BANKS_MAX; i++) {
		if (!read_text(text, root, NODES "/%u/mem_banks/%u/properties",
			       node, i))
			break;
		heap = property(text, "heap_type");
		if (heap == HEAP_PUBLIC || heap == HEAP_REST)
			bytes += property(text, "size_in_bytes");
	}
	return bytes;
}

/* A card that shares main memory has more of it than the firmware set aside, or
 * is the processor's node. */
static void read_memory(const char *root, uint32_t node, const char *address,
			const char *properties, struct gm_gpu_facts *facts)
{
	char text[TEXT_BYTES];
	uint64_t aside = 0;

	if (read_text(text, root, "/sys/bus/pci/devices/%s/mem_info_vram_total",
		      address))
		aside = strtoull(text, NULL, 10);
	facts->bytes = bank_bytes(root, node);
	facts->is_unified = property(properties, "cpu_cores_count") > 0 ||
			    (aside > 0 && facts->bytes > aside);
	if (facts->bytes == 0)
		facts->bytes = aside;
}

/* 90010 is gfx90a. */
static void name_card(const char *root, uint32_t node, const char *address,
		      const char *properties, struct gm_gpu_facts *facts)
{
	uint64_t set = property(properties, "gfx_target_version");
	uint64_t number = property(properties, "unique_id");
	char text[TEXT_BYTES], gfx[16] = "";

	if (set > 0 && set < 1000000)
		snprintf(gfx, sizeof(gfx),
			 "gfx%u%x%x:", (unsigned int)set / 10000,
			 (unsigned int)set / 100 % 100,
			 (unsigned int)set % 100);
	if (number)
		snprintf(facts->id, sizeof(facts->id), "%sGPU-%016llx", gfx,
			 (unsigned long long)number);
	else
		snprintf(facts->id, sizeof(facts->id), "%s%s", gfx, address);
	if (read_text(text, root, "/sys/bus/pci/devices/%s/product_name",
		      address) &&
	    text[0] > ' ')
		snprintf(facts->name, sizeof(facts->name), "%.63s", text);
	else if (read_text(text, root, NODES "/%u/name", node) && text[0] > ' ')
		snprintf(facts->name, sizeof(facts->name), "AMD %.59s", text);
	else
		snprintf(facts->name, sizeof(facts->name), "AMD card");
	facts->name[strcspn(facts->name, "\n")] = '\0';
}

static bool read_node(const char *root, uint32_t node, const char *properties,
		      struct gm_gpu_facts *facts)
{
	uint64_t simds = property(properties, "simd_count");
	uint64_t of_a_unit = property(properties, "simd_per_cu");
	/* Where a card is split, parts have its address and, above or in the
	 * lowest bits, their place in it. */
	uint32_t location = (uint32_t)property(properties, "location_id");
	char address[32];

	if (!simds || !of_a_unit)
		return false; /* a processor */
	*facts = (struct gm_gpu_facts){
		.has_f16 = property(properties, "gfx_target_version") >= 80000,
		.has_pci = true,
		.pci_domain = (uint32_t)property(properties, "domain"),
		.pci_bus = location & 0xffff,
		.vendor = (uint32_t)property(properties, "vendor_id"),
		.units = (uint32_t)(simds / of_a_unit),
		.group = (uint32_t)(property(properties, "max_waves_per_simd") *
				    property(properties, "wave_front_size") *
				    of_a_unit),
		.local_bytes = property(properties, "lds_size_in_kb") << 10,
	};
	snprintf(address, sizeof(address), "%04x:%02x:%02x.%x",
		 facts->pci_domain, facts->pci_bus >> 8,
		 facts->pci_bus >> 3 & 31, facts->pci_bus & 7);
	name_card(root, node, address, properties, facts);
	read_memory(root, node, address, properties, facts);
	return facts->bytes > 0;
}

/* Before Linux 6.18 (3a75edf93aae) parts of a card have its number, and a
 * worker could not tell which of them is its own. */
static bool is_part(struct gm_gpu_facts *facts, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (strcmp(facts[i].id, facts[n].id) != 0)
			continue;
		snprintf(facts[i].version, sizeof(facts[i].version),
			 "a part of its card; others have no number of their "
			 "own");
		return true;
	}
	return false;
}

int gm_kfd_list(const char *root, struct gm_gpu_facts ret_facts[GM_GPU_DEVICES])
{
	char text[TEXT_BYTES];
	uint32_t n = 0;

	for (uint32_t node = 0; node < NODES_MAX && n < GM_GPU_DEVICES; node++)
		if (read_text(text, root, NODES "/%u/properties", node) &&
		    read_node(root, node, text, &ret_facts[n]))
			n += !is_part(ret_facts, n);
	return (int)n;
}
