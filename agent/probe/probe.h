/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * probe - the processes of gpumap-probe, and what each of them may do.
 *
 * A call of NVML or of the driver can block for ever, and a process that holds
 * a card open keeps it from being reset.  So gpumapd calls neither, and starts
 * this program in one of these roles; each process is believed for a time
 * only, and may be ended:
 *
 *	--census	how many cards NVML lists, and what the kernel knows of
 *			them; then it exits
 *	--watch N	the card with NVML index N: one thread, one event set,
 *			no other card's handle, for as long as it answers
 *	--peers LIST	what NVML says of each pair of cards; then it exits
 *	--driver ORDER	what CUDA alone knows of all cards, and their ordinals
 *			in this order; or, with --device ID, of the one card;
 *			then it exits
 *	--list DRIVER	the devices that a vendor's library of OpenCL or Vulkan
 *			shows, or for HIP the kernel; then it exits
 *
 * The death of a process is what closes its descriptors, so that nothing of a
 * card is open there is known from the kernel, not from a library's word.
 */
#ifndef GM_PROBE_H
#define GM_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/probe_wire.h"

#define GM_PROBE_NVIDIA 0x10deu /* as a PCI device names its vendor */

struct gm_probe_options {
	uint32_t role;       /* enum gm_probe_role */
	const char *library; /* folder to take both libraries from, or NULL;
			      * --list: the vendor's */
	const char *sysfs;   /* before /sys and /proc, or NULL */
	uint32_t refresh_ms; /* between two looks at what moves */
	/* of the roles */
	uint32_t index;      /* --watch */
	const char *list;    /* --peers: "0,2,3" */
	const char *order;   /* --driver: for CUDA_DEVICE_ORDER */
	const char *device;  /* --driver: the one card */
	const char *driver;  /* --list: "opencl", ... */
	const char *devices; /* --list: "gpu", "cpu", "all" */
	bool with_nvidia;    /* --list: NVIDIA's, too */
};

/* Each returns an exit status. */
int gm_enumerate_run(const struct gm_probe_options *options);
int gm_watch_run(const struct gm_probe_options *options);
int gm_peers_run(const struct gm_probe_options *options);
int gm_driver_query_run(const struct gm_probe_options *options);
int gm_list_run(const struct gm_probe_options *options);

#endif
