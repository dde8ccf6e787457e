/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/devices/home_node.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>

#include "agent/common/read_file.h"

#define PCI           "/sys/bus/pci/devices"
#define VENDOR        0x10del
#define CLASS_DISPLAY 0x03l /* the first of a class's three bytes */

/* A number of a PCI device; -1 where there is none. */
static long read_number(const char *root, const char *device, const char *file)
{
	char path[PATH_MAX], text[64];

	if (gm_read_file_path(path, sizeof(path), root, PCI "/%s/%s", device,
			      file) < 0 ||
	    gm_read_file(path, text, sizeof(text)) < 0)
		return -1;
	return strtol(text, NULL, 0);
}

static bool is_card(const char *root, const char *device)
{
	return read_number(root, device, "vendor") == VENDOR &&
	       read_number(root, device, "class") >> 16 == CLASS_DISPLAY;
}

/* Count the cards of each node. */
static void count_cards(const char *root, uint32_t n[GM_PIN_NODES_MAX])
{
	char path[PATH_MAX];
	const struct dirent *entry;
	DIR *dir;

	if (gm_read_file_path(path, sizeof(path), root, PCI) < 0)
		return;
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		long node;

		if (!is_card(root, entry->d_name))
			continue;
		node = read_number(root, entry->d_name, "numa_node");
		if (node >= 0 && node < GM_PIN_NODES_MAX)
			n[node]++;
	}
	if (dir)
		closedir(dir);
}

static bool has_host_rows(const struct gm_config *config,
			  const struct gm_node *node)
{
	struct gm_idset cpus = node->cpus;

	return config->host_enabled &&
	       (!config->host_cpus_set ||
		gm_idset_and(&cpus, &config->host_cpus) > 0);
}

int gm_home_node(const char *root, const struct gm_config *config,
		 const struct gm_numa_allowed *allowed,
		 struct gm_idset *ret_cpus)
{
	struct gm_node *nodes = calloc(GM_PIN_NODES_MAX, sizeof(*nodes));
	uint32_t n_devices[GM_PIN_NODES_MAX] = { 0 }, most = 0, hosts = 0;
	int n, home = -1;

	if (!nodes)
		return -1;
	n = gm_numa_bind_nodes(root, allowed, nodes, GM_PIN_NODES_MAX);
	if (n > 1 && config->cuda_enabled != GM_CONFIG_CUDA_OFF)
		count_cards(config->cuda_sysfs ? config->cuda_sysfs : root,
			    n_devices);
	for (int i = 0; i < n; i++) {
		uint32_t count;

		if (!gm_node_hosts(&nodes[i]) ||
		    nodes[i].id >= GM_PIN_NODES_MAX)
			continue;
		count = n_devices[nodes[i].id];
		if (has_host_rows(config, &nodes[i]))
			count += config->host_rows;
		hosts++;
		if (home >= 0 && count <= most)
			continue;
		home = nodes[i].id;
		most = count;
		*ret_cpus = nodes[i].cpus;
	}
	free(nodes);
	return hosts > 1 ? home : -1;
}
