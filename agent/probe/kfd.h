/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * kfd - AMD's cards, as amdgpu shows them in sysfs.
 *
 * The kernel's compute driver numbers nodes, which are processors and cards,
 * and lets a process read no card that its device cgroup forbids.  No library
 * of ROCm is loaded, and no card is opened.
 */
#ifndef GM_PROBE_KFD_H
#define GM_PROBE_KFD_H

#include "agent/device/gpu.h"

/*
 * gm_kfd_list - the cards that this process may use
 *
 * A card's id is its instruction set, a colon, and "GPU-" with the 16 digits of
 * its number, or where it has none its address: gfx90a:GPU-00112233aabbccdd,
 * gfx1036:0000:0d:00.0.  A kernel before 5.14 does not tell the set, and the id
 * is what is behind the colon.  Parts of a card that is split have a number
 * each, or the first alone is listed, and its version says so.
 *
 * root		before /sys, NULL: this machine's
 *
 * Returns	how many there are
 */
int gm_kfd_list(const char *root,
		struct gm_gpu_facts ret_facts[GM_GPU_DEVICES]);

#endif
