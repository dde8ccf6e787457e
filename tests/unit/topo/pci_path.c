/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Checks how far apart cards are on a bus that a tree of files describes. */

#include "agent/topo/topo.h"
#include "tests/support/sysfs_tree.h"

/* Two switches below one port, a switch of its own, and another socket. */
static const struct {
	const char *address;
	const char *folder;
	int32_t node;
} devices[] = {
	{ "0000:19:00.0",
	  "pci0000:16/0000:16:02.0/0000:17:00.0/0000:18:00.0/0000:19:00.0", 0 },
	{ "0000:1a:00.0",
	  "pci0000:16/0000:16:02.0/0000:17:00.0/0000:18:01.0/0000:1a:00.0", 0 },
	{ "0000:1d:00.0",
	  "pci0000:16/0000:16:02.0/0000:17:00.0/0000:18:02.0/0000:1b:00.0/"
	  "0000:1c:00.0/0000:1d:00.0",
	  0 },
	{ "0000:20:00.0", "pci0000:16/0000:16:03.0/0000:20:00.0", 0 },
	{ "0000:40:00.0", "pci0000:3f/0000:3f:01.0/0000:40:00.0", 0 },
	{ "0000:90:00.0", "pci0000:8f/0000:8f:01.0/0000:90:00.0", 1 },
};

#define N (sizeof(devices) / sizeof(devices[0]))

static const char *const paths[N][N] = {
	{ NULL, "PIX", "PXB", "PHB", "NODE", "SYS" },
	{ NULL, NULL, "PXB", "PHB", "NODE", "SYS" },
	{ NULL, NULL, NULL, "PHB", "NODE", "SYS" },
	{ NULL, NULL, NULL, NULL, "NODE", "SYS" },
	{ NULL, NULL, NULL, NULL, NULL, "SYS" },
};

static struct gpumap_device device(size_t i)
{
	struct gpumap_device d = { .known = GPUMAP_KNOWN_PCI,
				   .numa_node = devices[i].node };
	unsigned int bus = 0;

	if (i < N)
		sscanf(devices[i].address, "0000:%x", &bus);
	d.pci_bus = bus << 8;
	return d;
}

TAP_CASE()
{
	struct gpumap_device none = { .known = GPUMAP_KNOWN_PCI,
				      .pci_bus = 0x7700 };

	if (!tree_begin())
		return tap_done();
	for (size_t i = 0; i < N; i++) {
		char name[200], link[200], target[200];

		snprintf(name, sizeof(name), "sys/devices/%s/class",
			 devices[i].folder);
		tree_file(name, "0x030000\n");
		snprintf(link, sizeof(link), "sys/bus/pci/devices/%s",
			 devices[i].address);
		snprintf(target, sizeof(target), "../../../devices/%s",
			 devices[i].folder);
		tree_link(link, target);
	}
	for (size_t a = 0; a < N; a++)
		for (size_t b = a + 1; b < N; b++) {
			struct gpumap_device one = device(a), two = device(b);

			STR(gm_pci_path(tree.root, &one, &two), paths[a][b]);
			STR(gm_pci_path(tree.root, &two, &one), paths[a][b]);
		}
	{
		struct gpumap_device one = device(0);

		STR(gm_pci_path(tree.root, &one, &none), NULL);
		STR(gm_pci_path("/no/such/root", &one, &one), NULL);
		none.known = 0;
		STR(gm_pci_path(tree.root, &none, &one), NULL);
	}
	tree_end();
	return tap_done();
}
