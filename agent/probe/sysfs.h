/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * sysfs - what the kernel knows of cards: which there are, and what is near.
 *
 * @root is put before /sys and /proc in every path; NULL for this machine.
 */
#ifndef GM_PROBE_SYSFS_H
#define GM_PROBE_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/probe/say.h"

/*
 * gm_sysfs_list - the cards that the kernel's module drives, by PCI address
 *
 * From the module's own files, which know a card's UUID where it has been up
 * once, else from the PCI devices that are bound to the module.  A card that is
 * bound to another driver, to be passed through to a virtual machine for
 * instance, is not listed.
 *
 * Returns how many notes of PLACE were written, at most @max
 */
size_t gm_sysfs_list(const char *root, struct gm_probe_wire *ret_notes,
		     size_t max);

/* NVIDIA's cards that are no bridge or sound device, whichever driver has
 * them. */
size_t gm_sysfs_count(const char *root);

/*
 * gm_sysfs_near - the node and the CPUs beside a card
 *
 * ret_cpus	a list, "" where it is not known or does not fit into @bytes
 *
 * Returns	the node, or -1: the platform does not tell
 */
int gm_sysfs_near(const char *root, uint32_t domain, uint32_t bus,
		  char *ret_cpus, size_t bytes);

/*
 * gm_sysfs_node - the CPUs of a node that a driver named
 *
 * Returns	0, or -ENODEV: this kernel has no such node
 */
int gm_sysfs_node(const char *root, int node, char *ret_cpus, size_t bytes);

/* Is this process in the initial pid namespace, whose pids NVML tells? */
bool gm_sysfs_sees_all_pids(const char *root);

/*
 * gm_sysfs_mask - the node that all CPUs of a mask are on, as NVML has them
 *
 * Returns	the node, or -1: several, none, or an empty mask
 */
int gm_sysfs_mask(const char *root, const unsigned long *words, size_t n,
		  char *ret_cpus, size_t bytes);

#endif
