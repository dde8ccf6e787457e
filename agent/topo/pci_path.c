/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/read_file.h"
#include "agent/reader/device_text.h"
#include "agent/topo/topo.h"

/* The bridges between the root of the bus and a device, one behind the other:
 * "pci0000:16/0000:16:02.0/0000:17:00.0". */
static bool find_bridges(const char *root, const struct gpumap_device *d,
			 char ret_path[PATH_MAX])
{
	char link[PATH_MAX], address[GM_DEVICE_PCI], full[PATH_MAX];
	const char *at;

	if (!gm_device_pci(d, address) ||
	    gm_read_file_path(link, sizeof(link), root,
			      "/sys/bus/pci/devices/%s", address) != 0 ||
	    realpath(link, full) == NULL)
		return false;
	at = strstr(full, "/pci");
	while (at != NULL && strncmp(at, "/pci/", 5) == 0)
		at = strstr(at + 1, "/pci");
	if (at == NULL)
		return false;
	memcpy(ret_path, at + 1, strlen(at + 1) + 1);
	return true;
}

/* How many folders at their beginning two paths have in common. */
static unsigned int count_common(const char *a, const char *b)
{
	for (unsigned int n = 0;; n++) {
		size_t i = strcspn(a, "/"), k = strcspn(b, "/");

		if (i != k || strncmp(a, b, i) != 0)
			return n;
		if (a[i] == '\0' || b[k] == '\0')
			return n + 1;
		a += i + 1;
		b += k + 1;
	}
}

static unsigned int count_folders(const char *path)
{
	unsigned int n = 1;

	for (; *path != '\0'; path++)
		n += *path == '/';
	return n;
}

const char *gm_pci_path(const char *root, const struct gpumap_device *a,
			const struct gpumap_device *b)
{
	char one[PATH_MAX], two[PATH_MAX];
	unsigned int common;

	if (!find_bridges(root, a, one) || !find_bridges(root, b, two))
		return NULL;
	common = count_common(one, two);
	/* Below one switch a port of it is between the last bridge that both
	 * have and each device. */
	if (common >= 2)
		return common + 2 >= count_folders(one) &&
				       common + 2 >= count_folders(two)
			       ? "PIX"
			       : "PXB";
	if (common == 1)
		return "PHB";
	return a->numa_node >= 0 && a->numa_node == b->numa_node ? "NODE"
								 : "SYS";
}
