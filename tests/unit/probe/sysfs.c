/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* probe's sysfs: which cards there are, and what is near them. */

#include <errno.h>
#include <string.h>

#include "agent/probe/parse.h"
#include "agent/probe/sysfs.h"
#include "tests/support/sysfs_tree.h"

static void nodes_have_their_cpus(void)
{
	char cpus[64];

	tree_file("sys/devices/system/node/online", "0-1\n");
	tree_file("sys/devices/system/node/node0/cpulist", "0-3\n");
	tree_file("sys/devices/system/node/node1/cpulist", "4-7\n");
	EQ(gm_sysfs_node(tree.root, 1, cpus, sizeof(cpus)), 0);
	STR(cpus, "4-7");
	/* A node that this kernel does not have. */
	EQ(gm_sysfs_node(tree.root, 5, cpus, sizeof(cpus)), -ENODEV);
}

static void sysfs_says_what_is_near(void)
{
	char cpus[64];

	tree_file("sys/bus/pci/devices/0000:17:00.0/numa_node", "1\n");
	tree_file("sys/bus/pci/devices/0000:17:00.0/local_cpulist", "4-7\n");
	tree_file("sys/bus/pci/devices/0000:e1:00.0/numa_node", "-1\n");
	tree_file("sys/bus/pci/devices/0000:e1:00.0/local_cpulist", "0-7\n");
	tree_file("sys/bus/pci/devices/10000:01:00.0/numa_node", "0\n");
	EQ(gm_sysfs_near(tree.root, 0, 0x1700, cpus, sizeof(cpus)), 1);
	STR(cpus, "4-7");
	/* Every CPU is what a platform says that does not know. */
	EQ(gm_sysfs_near(tree.root, 0, 0xe100, cpus, sizeof(cpus)), -1);
	STR(cpus, "");
	EQ(gm_sysfs_near(tree.root, 0x10000, 0x0100, cpus, sizeof(cpus)), 0);
	STR(cpus, "");
	EQ(gm_sysfs_near(tree.root, 0, 0x0200, cpus, sizeof(cpus)), -1);
	/* The path does not fit. */
	EQ(gm_sysfs_near(tree.root, 0, 0x1700, cpus, 3), 1);
	STR(cpus, "");
	tree_file("sys/bus/pci/devices/0000:17:00.0/numa_node", "nonsense\n");
	EQ(gm_sysfs_near(tree.root, 0, 0x1700, cpus, sizeof(cpus)), -1);
	tree_file("sys/bus/pci/devices/0000:17:00.0/numa_node", "99999999\n");
	EQ(gm_sysfs_near(tree.root, 0, 0x1700, cpus, sizeof(cpus)), -1);
}

static void a_mask_is_of_one_node_or_of_none(void)
{
	unsigned long words[2] = { 0x30, 0 };
	char cpus[64];

	EQ(gm_sysfs_mask(tree.root, words, 2, cpus, sizeof(cpus)), 1);
	STR(cpus, "4-5");
	words[0] = 0x18;
	EQ(gm_sysfs_mask(tree.root, words, 2, cpus, sizeof(cpus)), -1);
	words[0] = 0;
	EQ(gm_sysfs_mask(tree.root, words, 2, cpus, sizeof(cpus)), -1);
	words[1] = 1; /* a CPU that is nowhere */
	EQ(gm_sysfs_mask(tree.root, words, 2, cpus, sizeof(cpus)), -1);
}

static void only_cards_of_the_module_are_listed(void)
{
	struct gm_probe_wire notes[4];
	uint8_t made[16];

	tree_file("sys/bus/pci/devices/0000:17:00.0/vendor", "0x10de\n");
	tree_file("sys/bus/pci/devices/0000:17:00.0/class", "0x030200\n");
	tree_link("sys/bus/pci/devices/0000:17:00.0/driver",
		  "../../../bus/pci/drivers/nvidia");
	/* The card's sound device, one that a virtual machine has, and a
	 * stranger's. */
	tree_file("sys/bus/pci/devices/0000:17:00.1/vendor", "0x10de\n");
	tree_file("sys/bus/pci/devices/0000:17:00.1/class", "0x040300\n");
	tree_file("sys/bus/pci/devices/0000:e1:00.0/vendor", "0x10de\n");
	tree_file("sys/bus/pci/devices/0000:e1:00.0/class", "0x030000\n");
	tree_link("sys/bus/pci/devices/0000:e1:00.0/driver",
		  "../../../bus/pci/drivers/vfio-pci");
	tree_file("sys/bus/pci/devices/0000:02:00.0/vendor", "0x1002\n");
	tree_file("sys/bus/pci/devices/0000:02:00.0/class", "0x030000\n");
	EQ(gm_sysfs_count(tree.root), 2);
	EQ(gm_sysfs_list(tree.root, notes, 4), 1);
	EQ(notes[0].place.bus, 0x1700);
	EQ(notes[0].place.minor, -1);
	EQ(notes[0].place.named, 0);
	gm_parse_made_uuid(0, 0x1700, made);
	EQ(memcmp(notes[0].uuid, made, 16), 0);
	/* The module's own word is better, and has names. */
	tree_file("proc/driver/nvidia/gpus/0000:e2:00.0/information",
		  "GPU UUID: GPU-8932f937-d72c-4106-c12f-20bd9faed9f6\n"
		  "Device Minor: 3\n");
	tree_file("proc/driver/nvidia/gpus/0000:17:00.0/information", "");
	EQ(gm_sysfs_list(tree.root, notes, 4), 2);
	EQ(notes[0].place.bus, 0x1700);
	EQ(notes[0].place.named, 0);
	EQ(notes[1].place.bus, 0xe200);
	EQ(notes[1].place.minor, 3);
	EQ(notes[1].place.named, 1);
	STR(notes[1].place.id, "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6");
	EQ(gm_sysfs_list(tree.root, notes, 1), 1);
	EQ(gm_sysfs_list("/nonexistent", notes, 4), 0);
}

TAP_CASE()
{
	if (tree_begin()) {
		nodes_have_their_cpus();
		sysfs_says_what_is_near();
		a_mask_is_of_one_node_or_of_none();
		only_cards_of_the_module_are_listed();
		tree_end();
	}
	return tap_done();
}
