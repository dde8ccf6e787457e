/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/probe/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/numa_bind.h"
#include "agent/common/read_file.h"
#include "agent/probe/parse.h"

#define VENDOR        0x10deul
#define CLASS_DISPLAY 0x03ul /* the first of a class's three bytes */

static DIR *open_folder(const char *root, const char *folder)
{
	char path[PATH_MAX];

	if (gm_read_file_path(path, sizeof(path), root, "%s", folder) < 0)
		return NULL;
	return opendir(path);
}

static void read_information(const char *root, const char *name,
			     struct gm_probe_wire *note)
{
	struct gm_parse_information info;
	char path[PATH_MAX], text[4096];

	if (gm_read_file_path(path, sizeof(path), root,
			      "/proc/driver/nvidia/gpus/%s/information",
			      name) < 0 ||
	    gm_read_file(path, text, sizeof(text)) < 0)
		return;
	gm_parse_information(text, &info);
	note->place.minor = info.minor;
	if (!info.id[0])
		return;
	note->place.named = 1;
	memcpy(note->uuid, info.uuid, sizeof(note->uuid));
	memcpy(note->place.id, info.id, sizeof(note->place.id));
}

/* A number of sysfs, such as "0x10de"; 0 for what is none. */
static unsigned long read_hex(const char *root, const char *device,
			      const char *file)
{
	char path[PATH_MAX], text[64];

	if (gm_read_file_path(path, sizeof(path), root,
			      "/sys/bus/pci/devices/%s/%s", device, file) < 0 ||
	    gm_read_file(path, text, sizeof(text)) < 0)
		return 0;
	return strtoul(text, NULL, 16);
}

static bool is_card(const char *root, const char *device)
{
	return read_hex(root, device, "vendor") == VENDOR &&
	       read_hex(root, device, "class") >> 16 == CLASS_DISPLAY;
}

static bool is_driven(const char *root, const char *device)
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *name;
	ssize_t n;

	if (gm_read_file_path(path, sizeof(path), root,
			      "/sys/bus/pci/devices/%s/driver", device) < 0)
		return false;
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return false;
	target[n] = '\0';
	name = strrchr(target, '/');
	return strcmp(name ? name + 1 : target, "nvidia") == 0;
}

static int compare_places(const void *a, const void *b)
{
	const struct gm_probe_place *x =
		&((const struct gm_probe_wire *)a)->place;
	const struct gm_probe_place *y =
		&((const struct gm_probe_wire *)b)->place;

	if (x->domain != y->domain)
		return x->domain < y->domain ? -1 : 1;
	return x->bus < y->bus ? -1 : x->bus > y->bus;
}

size_t gm_sysfs_list(const char *root, struct gm_probe_wire *ret_notes,
		     size_t max)
{
	bool by_module = true;
	DIR *folder = open_folder(root, "/proc/driver/nvidia/gpus");
	struct dirent *entry;
	size_t n = 0;

	if (!folder) {
		by_module = false;
		folder = open_folder(root, "/sys/bus/pci/devices");
	}
	while (folder && n < max && (entry = readdir(folder))) {
		struct gm_probe_wire *note = &ret_notes[n];

		*note = (struct gm_probe_wire){ .type = GM_PROBE_PLACE };
		note->place.minor = -1;
		if (gm_parse_pci(entry->d_name, &note->place.domain,
				 &note->place.bus) < 0)
			continue;
		gm_parse_made_uuid(note->place.domain, note->place.bus,
				   note->uuid);
		if (by_module)
			read_information(root, entry->d_name, note);
		else if (!is_card(root, entry->d_name) ||
			 !is_driven(root, entry->d_name))
			continue;
		n++;
	}
	if (folder)
		closedir(folder);
	qsort(ret_notes, n, sizeof(*ret_notes), compare_places);
	return n;
}

size_t gm_sysfs_count(const char *root)
{
	DIR *folder = open_folder(root, "/sys/bus/pci/devices");
	struct dirent *entry;
	size_t n = 0;

	while (folder && (entry = readdir(folder)))
		n += entry->d_name[0] != '.' && is_card(root, entry->d_name);
	if (folder)
		closedir(folder);
	return n;
}

static void print_cpus(const struct gm_idset *cpus, char *ret_cpus,
		       size_t bytes)
{
	if (gm_idset_format(cpus, ret_cpus, bytes) < 0)
		ret_cpus[0] = '\0';
}

int gm_sysfs_near(const char *root, uint32_t domain, uint32_t bus,
		  char *ret_cpus, size_t bytes)
{
	char path[PATH_MAX], text[32], name[32];
	struct gm_idset cpus;
	char *end;
	long node;

	ret_cpus[0] = '\0';
	snprintf(name, sizeof(name), "%04x:%02x:%02x.%x", domain,
		 bus >> 8 & 0xff, bus >> 3 & 31, bus & 7);
	if (gm_read_file_path(path, sizeof(path), root,
			      "/sys/bus/pci/devices/%s/numa_node", name) < 0 ||
	    gm_read_file(path, text, sizeof(text)) < 0)
		return -1;
	node = strtol(text, &end, 10);
	/* Where the node is -1, the list is every CPU, and says nothing. */
	if (end == text || node < 0 || node >= GM_IDSET_MAX)
		return -1;
	if (gm_read_file_path(path, sizeof(path), root,
			      "/sys/bus/pci/devices/%s/local_cpulist",
			      name) == 0 &&
	    gm_read_file_list(path, &cpus) > 0)
		print_cpus(&cpus, ret_cpus, bytes);
	return (int)node;
}

int gm_sysfs_node(const char *root, int node, char *ret_cpus, size_t bytes)
{
	struct gm_idset cpus;
	int n = gm_numa_bind_node_cpus(root, node, &cpus);

	ret_cpus[0] = '\0';
	if (n < 0)
		return -ENODEV;
	if (n > 0)
		print_cpus(&cpus, ret_cpus, bytes);
	return 0;
}

int gm_sysfs_mask(const char *root, const unsigned long *words, size_t n,
		  char *ret_cpus, size_t bytes)
{
	struct gm_idset cpus = { 0 };
	int node = -1;

	ret_cpus[0] = '\0';
	for (size_t i = 0; i < n * GM_IDSET_WORD_BITS; i++)
		if (words[i / GM_IDSET_WORD_BITS] >> i % GM_IDSET_WORD_BITS & 1)
			gm_idset_add(&cpus, (int)i);
	for (int cpu = -1; (cpu = gm_idset_next(&cpus, cpu)) >= 0;) {
		int here = gm_numa_bind_node_of_cpu(root, cpu);

		if (here < 0 || (node >= 0 && here != node))
			return -1;
		node = here;
	}
	if (node >= 0)
		print_cpus(&cpus, ret_cpus, bytes);
	return node;
}

/* The inode that every kernel gives the initial pid namespace. */
#define INITIAL_PIDS "pid:[4026531836]"

bool gm_sysfs_sees_all_pids(const char *root)
{
	char path[PATH_MAX], text[64];
	ssize_t n;

	if (gm_read_file_path(path, sizeof(path), root, "/proc/self/ns/pid") <
	    0)
		return false;
	n = readlink(path, text, sizeof(text) - 1);
	if (n < 0)
		return false;
	text[n] = '\0';
	return strcmp(text, INITIAL_PIDS) == 0;
}
