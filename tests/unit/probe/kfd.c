/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* kfd: AMD's cards, from files as Linux 6.1 and later write them. */

#include "agent/probe/kfd.h"
#include "tests/support/sysfs_tree.h"
#include "tests/support/tap.h"

#define NODES              "/sys/class/kfd/kfd/topology/nodes/"
#define NODE(n, file)      NODES #n "/" file
#define PCI(address, file) "/sys/bus/pci/devices/" address "/" file

static struct gm_gpu_facts facts[GM_GPU_DEVICES];

static void write_processor(void)
{
	tree_file(NODE(0, "gpu_id"), "0\n");
	tree_file(NODE(0, "name"), "\n");
	tree_file(NODE(0, "properties"),
		  "cpu_cores_count 64\nsimd_count 0\nmem_banks_count 1\n"
		  "simd_per_cu 0\ngfx_target_version 0\nlocation_id 0\n"
		  "domain 0\nunique_id 0\n");
}

/* 104 units and 64 GiB, of which a process may reach half, as a card with a
 * small window has them. */
static void write_card(void)
{
	tree_file(NODE(1, "gpu_id"), "51594\n");
	tree_file(NODE(1, "name"), "aldebaran\n");
	tree_file(
		NODE(1, "properties"),
		"cpu_cores_count 0\nsimd_count 416\nmem_banks_count 2\n"
		"caches_count 222\nmax_waves_per_simd 8\nlds_size_in_kb 64\n"
		"wave_front_size 64\nsimd_per_cu 4\ngfx_target_version 90010\n"
		"vendor_id 4098\ndevice_id 29711\nlocation_id 49408\ndomain 1\n"
		"drm_render_minor 128\nlocal_mem_size 0\n"
		"unique_id 4822678189205111\nnum_xcc 1\n");
	tree_file(NODE(1, "mem_banks/0/properties"),
		  "heap_type 1\nsize_in_bytes 34359738368\nflags 0\n"
		  "width 4096\nmem_clk_max 1600\n");
	tree_file(NODE(1, "mem_banks/1/properties"),
		  "heap_type 2\nsize_in_bytes 34359738368\nflags 0\n");
	tree_file(PCI("0001:c1:00.0", "mem_info_vram_total"), "68719476736\n");
	tree_file(PCI("0001:c1:00.0", "product_name"), "\n");
}

/* Its memory is the machine's, and the firmware set aside 512 MiB. */
static void write_processors_card(void)
{
	tree_file(NODE(2, "name"), "raphael\n");
	tree_file(NODE(2, "properties"),
		  "cpu_cores_count 0\nsimd_count 4\nmem_banks_count 1\n"
		  "max_waves_per_simd 16\nlds_size_in_kb 64\n"
		  "wave_front_size 32\nsimd_per_cu 2\n"
		  "gfx_target_version 100306\nvendor_id 4098\n"
		  "location_id 3328\ndomain 0\nunique_id 0\n");
	tree_file(NODE(2, "mem_banks/0/properties"),
		  "heap_type 1\nsize_in_bytes 16000000000\n");
	tree_file(PCI("0000:0d:00.0", "mem_info_vram_total"), "536870912\n");
	tree_file(PCI("0000:0d:00.0", "product_name"), "Granite Ridge 9\n");
}

static void cards_are_read(void)
{
	if (!tree_begin())
		return;
	write_processor();
	write_card();
	write_processors_card();
	if (!EQ(gm_kfd_list(tree.root, facts), 2))
		return;
	STR(facts[0].id, "gfx90a:GPU-0011223344556677");
	STR(facts[0].name, "AMD aldebaran");
	EQ(facts[0].units, 104);
	EQ(facts[0].group, 2048);
	EQ(facts[0].local_bytes, 65536);
	EQ(facts[0].bytes, INT64_C(64) << 30);
	EQ(facts[0].vendor, 0x1002);
	EQ(facts[0].pci_domain, 1);
	EQ(facts[0].pci_bus, 0xc100);
	OK(facts[0].has_pci && facts[0].has_f16);
	OK(!facts[0].is_unified && !facts[0].is_cpu);
	STR(facts[1].id, "gfx1036:0000:0d:00.0");
	STR(facts[1].name, "Granite Ridge 9");
	EQ(facts[1].units, 2);
	EQ(facts[1].bytes, 16000000000);
	OK(facts[1].is_unified);
	tree_end();
}

/* A kernel that tells neither the set nor banks, and one whose files may not be
 * read. */
static void a_kernel_may_tell_less(void)
{
	if (!tree_begin())
		return;
	EQ(gm_kfd_list(tree.root, facts), 0);
	tree_file(NODE(3, "properties"),
		  "simd_count 256\nsimd_per_cu 4\nlocation_id 768\n");
	EQ(gm_kfd_list(tree.root, facts), 0);
	tree_file(PCI("0000:03:00.0", "mem_info_vram_total"), "17163091968\n");
	if (EQ(gm_kfd_list(tree.root, facts), 1)) {
		STR(facts[0].id, "0000:03:00.0");
		STR(facts[0].name, "AMD card");
		EQ(facts[0].bytes, 17163091968);
		OK(!facts[0].has_f16);
	}
	tree_end();
}

static void write_part(uint32_t node, uint32_t number)
{
	char name[96], text[256];

	snprintf(name, sizeof(name), NODES "%u/properties", node);
	snprintf(text, sizeof(text),
		 "simd_count 152\nsimd_per_cu 4\ngfx_target_version 90402\n"
		 "unique_id %u\nlocation_id %u\n",
		 number, node << 28 | 0x0700);
	tree_file(name, text);
	snprintf(name, sizeof(name), NODES "%u/mem_banks/0/properties", node);
	tree_file(name, "heap_type 1\nsize_in_bytes 25769803776\n");
}

/* Parts have an address in common, and their place in the card above it.  Those
 * without a number of their own are the first one. */
static void parts_have_their_cards_address(void)
{
	if (!tree_begin())
		return;
	write_part(1, 1);
	write_part(2, 2);
	if (EQ(gm_kfd_list(tree.root, facts), 2)) {
		STR(facts[0].id, "gfx942:GPU-0000000000000001");
		STR(facts[1].id, "gfx942:GPU-0000000000000002");
		EQ(facts[0].pci_bus, 0x0700);
		EQ(facts[1].pci_bus, 0x0700);
		STR(facts[1].version, "");
	}
	write_part(2, 1);
	write_part(3, 3);
	if (EQ(gm_kfd_list(tree.root, facts), 2)) {
		STR(facts[0].id, "gfx942:GPU-0000000000000001");
		OK(strstr(facts[0].version, "a part of its card"));
		STR(facts[1].id, "gfx942:GPU-0000000000000003");
	}
	tree_end();
}

TAP_CASE()
{
	cards_are_read();
	a_kernel_may_tell_less();
	parts_have_their_cards_address();
	return tap_done();
}
