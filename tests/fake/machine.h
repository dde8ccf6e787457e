/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * machine - the cards of a node file, as a stand-in machine has them.
 *
 * Its rows of kind cuda, instances of split cards among them, are what the
 * machine's file and a plan of faults count.  CPUs are those of the host rows,
 * node after node.
 *
 * The order of the file is the order of no enumeration: bus ids, device nodes'
 * minor numbers and NVML's indices each go their own way.  UUIDs follow from
 * the node's name and the place in the file, so they are the same every time.
 */
#ifndef FAKE_MACHINE_H
#define FAKE_MACHINE_H

#include "tests/fake/hardware.h"

/*
 * fake_machine_make - write the machine of a node file
 *
 * fd		an empty file
 * node		path of the node file
 * plan		faults, as in plan.h, or NULL
 * dev		folder for device nodes, or NULL: there are none
 *
 * Returns	0 or a negative errno, after a line on stderr
 */
int fake_machine_make(int fd, const char *node, const char *plan,
		      const char *dev);

#endif
